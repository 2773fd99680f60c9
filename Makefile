# What can be done here; `make` alone lists it.
TOOL := go tool -modfile=tools/go.mod

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

build: ## the static binary ./zkd, as a release has it
	go run ./internal/release binary

release: ## archives, SBOMs and SHA256SUMS for all systems, in ./dist
	go run ./internal/release dist

release-check: ## the same bytes from another folder, SBOM, size, alone in a root directory
	go run ./internal/release check

size: ## what grew in the binary; UPDATE=1 writes the new baseline
	go run ./internal/release size $(if $(UPDATE),--update,)

docs: ## docs/configuration.md from the table of keys
	go generate ./config

check: ## vet, staticcheck, gofumpt, short tests: under a minute
	go vet ./...
	$(TOOL) staticcheck ./...
	test -z "$$($(TOOL) gofumpt -l .)"
	go test -short ./...

test: ## all tests; clients that are not installed are skipped
	go test ./...

race: ## the core under the race detector
	go test -race -short ./wire ./server/... ./zkdtest ./internal/...

sim: ## seeded histories through three machines, crashes on a simulated disk; SEED=n replays one
	go test ./internal/sim ./internal/sim/crash -count=1 $(if $(SEED),-seed=$(SEED),)

jepsen: ## every workload and fault on real processes; TIME=2h, default 10m
	go run ./jepsen all --time $(or $(TIME),10m)

cluster: ## simulated clusters under virtual time; SEEDS=n for more
	go test ./internal/sim/cluster -count=1 -timeout 2h -seeds=$(or $(SEEDS),100)

fuzz: ## every fuzz target for FUZZTIME (default 100000x) each
	@for p in $$(go list ./...); do for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
	  go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(or $(FUZZTIME),100000x) $$p || exit 1; done; done

interop: ## real ZooKeeper clients against zkd and Apache ZooKeeper, nothing skipped
	ZKD_INTEROP=require go test -count=1 -v ./interop

bench: ## micro-benchmarks beside the hot code
	go test -run '^$$' -bench . -benchmem ./wire ./server/...

compare: ## our Go client beside go-zookeeper on the same servers, for BENCHTIME (default 1s) each
	cd client/compare && go test -run '^$$' -bench . -benchtime $(or $(BENCHTIME),1s)

.PHONY: help build release release-check size docs check test race sim jepsen cluster fuzz interop bench compare
