package cli

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

// settings are what stands before the command.
type settings struct {
	servers     string
	timeout     time.Duration // of the session
	readOnly    bool
	wait        bool // for a connection, as long as the session timeout
	greeting    bool // print what zkCli prints before the first answer
	format      format
	stopOnError bool
	auths       []Credential
	tls         *client.TLSFiles // nil: no TLS
	admin       string           // admin ports, "": those of the servers
	adminToken  string
	help        bool
	command     []string
}

// A Credential is an identity and what proves it, for example "digest" and "user:password".
type Credential struct{ Scheme, Auth string }

// A flag is one setting of the command line.
type flag struct {
	name, value, about string // value "": takes none
	set                func(s *settings, value string) error
}

// flags returns the settings. Those of zkCli have its names.
func flags() []flag {
	file := func(of func(*client.TLSFiles) *string) func(*settings, string) error {
		return func(s *settings, v string) error {
			if s.tls == nil {
				s.tls = &client.TLSFiles{}
			}
			*of(s.tls) = v
			return nil
		}
	}
	return []flag{
		{"server", "HOSTS", "host:port,host:port/chroot; default localhost:2181", func(s *settings, v string) error { s.servers = v; return nil }},
		{"timeout", "MS", "session timeout in milliseconds, also how long a command waits for a lost connection; default 30000", setTimeout},
		{"r", "", "also use servers without a quorum, which only read", func(s *settings, _ string) error { s.readOnly = true; return nil }},
		{"waitforconnection", "", "wait for a first connection for the session timeout", func(s *settings, _ string) error { s.wait = true; return nil }},
		{"client-configuration", "FILE", "properties of a ZooKeeper client; zookeeper.client.secure and PEM stores are used", readClientConfiguration},
		{"o", "FORMAT", "table (as zkCli; the default), json or raw", func(s *settings, v string) (err error) { s.format, err = parseFormat(v); return err }},
		{"e", "", "a script ends with the first command that fails", func(s *settings, _ string) error { s.stopOnError = true; return nil }},
		{"auth-file", "FILE", "lines \"scheme credentials\", one per identity, for example: digest user:password", readAuthFile},
		{"tls", "", "connect by TLS, with the system's authorities", func(s *settings, _ string) error {
			if s.tls == nil {
				s.tls = &client.TLSFiles{}
			}
			return nil
		}},
		{"tls-ca", "FILE", "TLS: authorities in PEM", file(func(f *client.TLSFiles) *string { return &f.CAFile })},
		{"tls-cert", "FILE", "TLS: our certificate in PEM", file(func(f *client.TLSFiles) *string { return &f.CertFile })},
		{"tls-key", "FILE", "TLS: its key in PEM", file(func(f *client.TLSFiles) *string { return &f.KeyFile })},
		{"tls-name", "NAME", "TLS: the server's name, where it differs from the host", file(func(f *client.TLSFiles) *string { return &f.ServerName })},
		{"admin", "URL", "admin ports for session, top and log-level; default http://HOST:8080 of every server", func(s *settings, v string) error { s.admin = v; return nil }},
		{"admin-token-file", "FILE", "the token of the admin ports (zkd.adminToken)", readAdminToken},
		{"greeting", "", "print what zkCli prints before the first answer", func(s *settings, _ string) error { s.greeting = true; return nil }},
		{"help", "", "this text", func(s *settings, _ string) error { s.help = true; return nil }},
	}
}

// parseSettings reads the arguments up to the command. One or two dashes are the same.
func parseSettings(args []string) (*settings, error) {
	s := &settings{servers: "localhost:2181", timeout: 30 * time.Second}
	known := flags()
	for len(args) > 0 {
		word := args[0]
		if word == "--" {
			s.command = args[1:]
			break
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			s.command = args
			break
		}
		args = args[1:]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
		if name == "h" || name == "?" {
			name = "help"
		}
		i := slices.IndexFunc(known, func(f flag) bool { return f.name == name })
		switch {
		case i < 0:
			return nil, usagef("unknown option %s before the command; zkd cli -help lists them", word)
		case known[i].value == "" && hasValue:
			return nil, usagef("-%s takes no value", name)
		case known[i].value != "" && !hasValue && len(args) == 0:
			return nil, usagef("-%s needs a value: -%s %s", name, name, known[i].value)
		case known[i].value != "" && !hasValue:
			value, args = args[0], args[1:]
		}
		if err := known[i].set(s, value); err != nil {
			return nil, err
		}
	}
	if s.tls != nil {
		if err := CheckKeyPair(s.tls, "-"); err != nil {
			return nil, usagef("%v", err)
		}
	}
	return s, nil
}

// CheckKeyPair refuses a certificate without its key, which cannot be used, and a key without its
// certificate, which would be left out in silence. dash is what options begin with.
func CheckKeyPair(f *client.TLSFiles, dash string) error {
	switch {
	case f.CertFile != "" && f.KeyFile == "":
		return fmt.Errorf("%[1]stls-cert needs %[1]stls-key: name the file of its key, the same one if both are in it", dash)
	case f.CertFile == "" && f.KeyFile != "":
		return fmt.Errorf("%[1]stls-key needs %[1]stls-cert: name the file of its certificate, the same one if both are in it", dash)
	}
	return nil
}

// checkServers refuses a list of servers with a port that there cannot be. Every attempt to connect
// would fail on it, until there is no time left. All else the client says itself.
func checkServers(hosts string) error {
	for h := range strings.SplitSeq(hosts, ",") {
		_, port, err := net.SplitHostPort(strings.TrimSpace(h))
		if err != nil || port == "" {
			continue
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%s: the port is a number from 1 to 65535", strings.TrimSpace(h))
		}
	}
	return nil
}

func setTimeout(s *settings, v string) error {
	ms, err := strconv.ParseInt(v, 10, 32)
	if err != nil || ms < 1 {
		return usagef("-timeout %s: it is a number of milliseconds, for example -timeout 30000", v)
	}
	s.timeout = time.Duration(ms) * time.Millisecond
	return nil
}

func readAuthFile(s *settings, name string) error {
	auths, err := ReadAuthFile(name)
	s.auths = append(s.auths, auths...)
	return err
}

// ReadAuthFile reads credentials from a file, so that they stand neither in a list of processes
// nor in a script: one per line, "scheme credentials"; # begins a comment. Errors tell the line and
// not what is in it.
func ReadAuthFile(name string) ([]Credential, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var auths []Credential
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		scheme, auth, ok := strings.Cut(line, " ")
		if !ok {
			return nil, usagef("%s:%d: write a scheme, a space and the credentials, for example: digest user:password", name, n)
		}
		auths = append(auths, Credential{scheme, strings.TrimSpace(auth)})
	}
	return auths, nil
}

// readClientConfiguration takes from a ZooKeeper client's properties what concerns TLS. Stores
// must be PEM files; zkd's server reads Java's key stores too, its client does not.
func readClientConfiguration(s *settings, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	keys := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		if k, v, ok := strings.Cut(line, "="); ok {
			keys[strings.TrimPrefix(strings.TrimSpace(k), "zookeeper.")] = strings.TrimSpace(v)
		}
	}
	if keys["client.secure"] != "true" {
		return nil
	}
	files := &client.TLSFiles{}
	for key, to := range map[string]*[2]*string{
		"ssl.keyStore.location":   {&files.CertFile, &files.KeyFile},
		"ssl.trustStore.location": {&files.CAFile},
	} {
		store := keys[key]
		if store == "" {
			continue
		}
		if !strings.HasSuffix(strings.ToLower(store), ".pem") {
			return usagef("%s: %s=%s: only PEM files can be read; convert it, or use -tls-ca, -tls-cert and -tls-key", name, key, store)
		}
		for _, p := range to {
			if p != nil {
				*p = store
			}
		}
	}
	s.tls = files
	return nil
}

// clientOptions are those for client.Dial.
func (s *settings) clientOptions() []client.Option {
	var opts []client.Option
	if s.readOnly {
		opts = append(opts, client.WithReadOnly())
	}
	if s.tls != nil {
		opts = append(opts, client.WithTLSFrom(s.tls.Config))
	}
	for _, a := range s.auths {
		opts = append(opts, client.WithAuth(a.Scheme, []byte(a.Auth)))
	}
	return opts
}

// printHelp explains the command line, the commands and the exit codes.
func (sh *shell) printHelp() {
	w := sh.out
	fmt.Fprint(w, "zkd cli [options] [command …]\n\nWithout a command it reads commands from the terminal or from standard input.\n\nOptions:\n")
	for _, f := range flags() {
		fmt.Fprintf(w, "  %-28s %s\n", strings.TrimRight("-"+f.name+" "+f.value, " "), f.about)
	}
	fmt.Fprint(w, "\nCommands:\n")
	for _, name := range sh.table.names() {
		fmt.Fprintf(w, "  %s\n        %s\n", sh.table[name].usage(), sh.table[name].about)
	}
	fmt.Fprint(w, "\nEvery command takes -o table, -o json or -o raw.\n\nExit codes:\n")
	for _, e := range exitHelp {
		fmt.Fprintf(w, "  %3d  %s\n", e.code, e.text)
	}
}
