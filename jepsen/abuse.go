package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// An AbuseCase is something that strangers or clients try, and what shows that it comes to nothing.
type AbuseCase struct {
	Name, Expected string
	// Tests are PACKAGE.TEST, relative to the module.
	Tests []string
	// Run is a workload and nemeses on real processes; "" of none.
	Workload string
	Nemeses  []string
	// Not says what of the case nothing shows, and why.
	Not string
}

// AbuseCases are all of them.
func AbuseCases() []AbuseCase {
	return []AbuseCase{
		{
			Name: "lengths and foreign protocols", Expected: "closed at once; memory follows the bytes that came",
			Tests: []string{
				"interop.TestAbuseGarbage", "interop.TestAbuseLengths", "server.TestWordBehindTheHandshakeIsABadLength", "server.FuzzConversation",
				"server.TestUnfinishedFramesAreBoundedInAll", "server.TestPlainBytesOnTheTLSPortEndTheConnection",
			},
			Workload: "set", Nemeses: []string{"garbage"},
		},
		{
			Name: "silent and slow handshakes", Expected: "closed at an absolute deadline",
			Tests: []string{
				"server.TestSilentConnectionIsClosedAtTheHandshakeDeadline", "server.TestDribblingHandshakeIsClosedAtTheDeadline",
				"server.TestUnfinishedTLSHandshakeEndsAtTheDeadline", "interop.TestAbuseSilence", "interop.TestAbuseSlowHandshake",
				"server.TestWordOfASlowClientEndsInTime",
			},
		},
		{
			Name: "counts beyond the frame, strange paths, multis of many operations", Expected: "an error, nothing allocated ahead, a limit of operations and of the reply",
			Tests: []string{
				"wire.FuzzMulti", "wire.FuzzACLs", "wire.FuzzStrings", "wire.TestSetMaxLenLimitsStringsAndBuffers", "server/znode.FuzzCheckPath",
				"server.TestOperationsOfAMultiAreLimited", "server.TestLongMultiReadFailsWithoutItsReply", "server/state.TestMultiHasALimitOfOperations",
				"interop.TestAbuseMutatedFrames",
			},
		},
		{
			Name: "half-open connections and floods", Expected: "limits for each address and in all; others are served",
			Tests: []string{
				"interop.TestAbuseFlood", "interop.TestAbuseHalfOpen", "interop.TestAbuseManySessions",
				"server.TestConnectionsOfOneAddressAreLimited", "server.TestConnectionsInAllAreLimited",
			},
			Workload: "set", Nemeses: []string{"flood", "fds", "reconnects"},
		},
		{
			Name: "clients that do not read", Expected: "reading from them stops, then they are cut; others are served",
			Tests: []string{
				"server.TestNeverReadingClientIsCutAndOthersAreServed", "server.TestNeverReadingTLSClientIsCut", "server.TestWatchStormToANeverReadingClientCutsIt",
				"server.TestWatchStormToManyNeverReadingClientsIsBoundedInAll", "server.TestRepliesToSlowClientsAreBoundedInAll", "interop.TestAbuseUnreadEvents",
			},
			Workload: "set", Nemeses: []string{"never-read"},
			Not: "that the p99 of others stays below twice what it was: a figure of a calm machine, in latency.svg of the run",
		},
		{
			Name: "too much at once", Expected: "a limit of requests under way, quotas, a list that is too long fails alone",
			Tests: []string{
				"server.TestMostRequestsUnderWayIsAHardLimit", "server.TestClientWithTooMuchUnderWayIsServedInTime", "server.TestWatchesOfAConnectionAreLimited",
				"server.TestTooManyReadsBetweenPipelinedWritesCutTheConnection", "interop.TestAbusePipelining", "interop.TestAbuseLargeDirectory",
			},
		},
		{
			Name: "reading without permission, hashes of passwords", Expected: "refused where ZooKeeper refuses; events only for who may read; hashes for administrators",
			Tests:    []string{"server/state.TestHashesAreShownToAdministratorsOnly", "server/acl.TestRedactHidesHashesOnly", "server/acl.TestWhoAmIShowsNoSecrets"},
			Workload: "acl",
		},
		{
			Name: "wrong passwords of sessions, ids that were guessed", Expected: "refused as over; who has the session is not disturbed",
			Tests:    []string{"server.TestWrongPasswordLeavesTheRightfulConnectionAlone"},
			Workload: "session-order", Nemeses: []string{"steal"},
		},
		{
			Name: "guessing of passwords, the super user", Expected: "unknown users and wrong passwords look alike; identities count from their place on",
			Tests: []string{
				"server/sasl.TestUnknownUserAndWrongPasswordLookAlike", "server.TestFailedAuthIsAnsweredAndEndsTheConnection",
				"server.TestIdentityCountsForRequestsBehindIt", "server.TestEnforcedAuthenticationRefusesEverythingElse", "server/sasl.FuzzStep",
			},
			Not: "that comparisons take constant time: seen by reading (crypto/subtle), not measured",
		},
		{
			Name: "four-letter words, admin and metrics ports", Expected: "only what is listed; who is no operator changes nothing; no secrets; no profiles",
			Tests: []string{
				"server.TestWordsThatAreNotListedAreRefused", "server/fourletter.TestWhitelist", "server/fourletter.TestListingsStopWhenTheClientIsGone",
				"server/admin.TestWhoIsAnswered", "server/admin.TestPagesOfOthersChangeNothing", "server/admin.TestSecretsAreNotShown", "server/admin.TestPProfOnlyWhereAskedFor",
			},
		},
		{
			Name: "strangers on the peer port", Expected: "mutual TLS or nothing; no effect, a deadline, limits before decoding",
			Tests: []string{
				"server/replication/peer.TestStrangersHaveNoEffect", "server/replication/peer.TestAClusterUnderAttackKeepsItsLeader",
				"server/replication/peer.TestAHandshakeHasAnAbsoluteDeadline", "server/replication/peer.TestStrangersDoNotMakeMemoryGrow",
				"server/replication/peer.TestForeignAndLongFramesAreRefusedByTheirHead", "server/replication/peer.FuzzHello", "server/replication/peer.FuzzRequest",
			},
			Workload: "register", Nemeses: []string{"garbage", "flood"},
		},
		{
			Name: "TLS", Expected: "1.2 at least, names compared, reloaded, strangers refused",
			Tests: []string{
				"server.TestStrangersCertificateIsRefused", "server.TestReloadedCertificateIsShownToNewConnections",
				"server/replication/peer.TestOldTLSIsRefused", "server/replication/peer.TestCertificatesAreCompared",
			},
		},
		{
			Name: "damaged files and snapshots of peers", Expected: "checksums first, sizes limited, nothing changed by what is damaged",
			Tests: []string{
				"server/replication/peer.TestADamagedSnapshotIsNotInstalled", "server/znode.TestRestoreRefusesWhatIsDamaged", "server/znode.TestRestoreNeedsNoMoreMemoryThanItsInput",
				"cmd/zkd.TestImportOfDamageNamesFileAndOffsetAndWritesNothing", "server/snapshot.FuzzReader", "server/replication.FuzzSnapshotReader", "server/replication/segment.FuzzRecordDecoder",
			},
			Workload: "set", Nemeses: []string{"damage"},
		},
		{
			Name: "logs and audit", Expected: "what clients choose is escaped, time never falls",
			Tests: []string{"server/audit.TestWhatClientsChooseIsEscaped", "server/audit.TestTimeNeverFalls", "server/audit.FuzzEscape"},
		},
	}
}

// abuseCommand shows the table, and runs what is behind each of its rows.
func abuseCommand(ctx context.Context, args []string, out io.Writer) error {
	base := Options{}
	f := flags(&base)
	only := f.String("only", "", "a part of the names of cases; all without it")
	show := f.Bool("show", false, "the table alone")
	if err := f.Parse(args); err != nil {
		return err
	}
	if !isSet(f, "time") {
		base.Time = 10 * time.Second
	}
	var failed []string
	for _, c := range AbuseCases() {
		if !strings.Contains(c.Name, *only) {
			continue
		}
		fmt.Fprintf(out, "%s\n  expected: %s\n", c.Name, c.Expected)
		if c.Not != "" {
			fmt.Fprintf(out, "  not shown: %s\n", c.Not)
		}
		err := c.try(ctx, base, out, *show)
		if err != nil {
			failed = append(failed, c.Name)
			fmt.Fprintf(out, "  FAILED: %v\n", err)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w: %s", errViolated, strings.Join(failed, ", "))
	}
	return nil
}

// try runs tests and workload of a case, or only names them.
func (c *AbuseCase) try(ctx context.Context, base Options, out io.Writer, show bool) error {
	byPackage := map[string][]string{}
	for _, t := range c.Tests {
		at := strings.LastIndexByte(t, '.')
		byPackage[t[:at]] = append(byPackage[t[:at]], t[at+1:])
	}
	var all error
	for pkg, tests := range byPackage {
		fmt.Fprintf(out, "  %s: %s\n", pkg, strings.Join(tests, ", "))
		if !show {
			all = errors.Join(all, goTest(ctx, pkg, tests))
		}
	}
	if c.Workload == "" || show {
		if c.Workload != "" {
			fmt.Fprintf(out, "  run %s --nemesis %s\n", c.Workload, strings.Join(c.Nemeses, ","))
		}
		return all
	}
	o := base
	o.Workload, o.Nemeses = c.Workload, c.Nemeses
	return errors.Join(all, runOnce(ctx, o, out))
}

// noTests is what go test says of a package in which nothing matches.
var noTests = regexp.MustCompile(`no tests to run|no test files`)

func goTest(ctx context.Context, pkg string, tests []string) error {
	module, err := root()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-run", "^("+strings.Join(tests, "|")+")$", "./"+pkg)
	cmd.Dir = module
	out, err := cmd.CombinedOutput()
	if err == nil && noTests.Match(out) {
		err = errors.New("there are no such tests any more")
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", pkg, err, bytes.TrimSpace(out))
	}
	return nil
}
