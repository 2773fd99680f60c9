package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/internal/cli"
	"github.com/zkd-project/zkd/server/ensemble"
)

const (
	configNode = "/zookeeper/config" // the members, as ZooKeeper's clients know them

	memberSession   = 30 * time.Second // of the session of one command
	memberDialLimit = 10 * time.Second
	memberCloseTime = 2 * time.Second // then the session is left to expire
	memberLookPause = 100 * time.Millisecond
)

func memberCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "member",
		Short: "List, add, remove and promote the servers of a running cluster, and choose who leads",
		Long: `List, add, remove and promote the servers of a running cluster, and choose who leads.

Changes need reconfigEnabled=true on the servers, and an identity that may write to
/zookeeper/config: that of the super user, unless its access control list was changed. A
server that joins is started first, with the server lines of the others and its own; it
becomes a member when it has caught up, and the command returns after that.`,
		Example: `  zkd member list
  zkd member add '4=zk4:2888:3888;2181' --auth-file super.auth
  zkd member add '5=zk5:2888:3888:observer;2181' --server zk1:2181,zk2:2181
  zkd member promote 5
  zkd member remove 2 3 --config-version 100000004
  zkd member transfer 3 --auth-file super.auth`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(memberListCommand(), memberAddCommand(), memberRemoveCommand(), memberPromoteCommand(), memberTransferCommand())
	return c
}

func memberListCommand() *cobra.Command {
	var f memberFlags
	c := &cobra.Command{
		Use: "list", Short: "Print the members and the version of the configuration", Args: cobra.NoArgs,
		Long: `Print the members and the version of the configuration. A participant that has lost its disk, or
is still getting the data of the others, is among them; it votes when it has caught up.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return f.run(c, func(_ context.Context, g *group) error { return g.print(c.OutOrStdout(), f.output) })
		},
	}
	f.register(c)
	return c
}

func memberAddCommand() *cobra.Command {
	var f memberFlags
	c := &cobra.Command{
		Use: "add N=HOST:PORT:PORT[:ROLE];[HOST:]PORT …", Short: "Make servers members; they run already",
		Long: `Make servers members; they run already. Each is written as in zoo.cfg, with the port for
clients behind the semicolon; ROLE is participant, which is meant without one, or observer.`,
		Args: someArgs("the server to add, for example: '4=zk4:2888:3888;2181'"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.change(c, func(g *group) (client.ReconfigRequest, error) { return g.adding(args) })
		},
	}
	f.register(c)
	f.registerVersion(c)
	return c
}

func memberRemoveCommand() *cobra.Command {
	var f memberFlags
	c := &cobra.Command{
		Use: "remove N …", Short: "End the membership of servers; stop them afterwards",
		Args: someArgs("the number of the server to remove, for example: 4"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.change(c, func(g *group) (client.ReconfigRequest, error) { return g.removing(args) })
		},
	}
	f.register(c)
	f.registerVersion(c)
	return c
}

func memberPromoteCommand() *cobra.Command {
	var f memberFlags
	c := &cobra.Command{
		Use: "promote N …", Short: "Give observers a vote",
		Args: someArgs("the number of the observer to promote, for example: 4"),
		RunE: func(c *cobra.Command, args []string) error {
			return f.change(c, func(g *group) (client.ReconfigRequest, error) { return g.promoting(args) })
		},
	}
	f.register(c)
	f.registerVersion(c)
	return c
}

// someArgs asks for at least one argument.
func someArgs(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("name " + what)
		}
		return nil
	}
}

// memberFlags are what the commands have in common.
type memberFlags struct {
	servers string
	auths   []string
	files   []string // with more of them
	output  string
	timeout time.Duration
	version string
	useTLS  bool
	tls     client.TLSFiles
}

func (f *memberFlags) register(c *cobra.Command) {
	l := c.Flags()
	l.StringVarP(&f.servers, "server", "s", "localhost:2181", "servers to ask, as host:port,host:port")
	l.StringArrayVar(&f.files, "auth-file", nil, "file with identities, one per line, for example: digest super:secret; may be repeated")
	l.StringArrayVar(&f.auths, "auth", nil, "identity as SCHEME:CREDENTIALS, which the list of processes shows to all; may be repeated")
	l.StringVarP(&f.output, "output", "o", "table", "table or json")
	l.DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for the answer once there is a connection")
	l.BoolVar(&f.useTLS, "tls", false, "connect by TLS, with the authorities of the system")
	l.StringVar(&f.tls.CAFile, "tls-ca", "", "TLS: file of authorities in PEM")
	l.StringVar(&f.tls.CertFile, "tls-cert", "", "TLS: file of the certificate of this client in PEM")
	l.StringVar(&f.tls.KeyFile, "tls-key", "", "TLS: file of its key in PEM")
	l.StringVar(&f.tls.ServerName, "tls-name", "", "TLS: the name of the server, where it differs from the host")
}

func (f *memberFlags) registerVersion(c *cobra.Command) {
	c.Flags().StringVar(&f.version, "config-version", "",
		"change only this version of the configuration, as list prints it; the version that is found when it is left out")
}

// options checks the flags and makes the options of the client of them. Errors do not repeat
// credentials.
func (f *memberFlags) options() ([]client.Option, error) {
	switch {
	case f.output != "table" && f.output != "json":
		return nil, fmt.Errorf("--output %s: allowed: table or json", f.output)
	case f.timeout <= 0:
		return nil, fmt.Errorf("--timeout %v: it must be more than 0", f.timeout)
	case strings.Contains(f.servers, "/"):
		return nil, fmt.Errorf("--server %s: host:port,host:port is meant, without a path", f.servers)
	}
	for host := range strings.SplitSeq(f.servers, ",") { // else it would be dialed until there is no time left
		if _, err := ensemble.ParseClientAddress(host); strings.Contains(host, ":") && err != nil {
			return nil, fmt.Errorf("--server %s: %w", f.servers, err)
		}
	}
	opts := []client.Option{client.WithTimeout(memberSession), client.WithConnectTimeout(memberDialLimit / 3)}
	for _, a := range f.auths {
		scheme, credentials, ok := strings.Cut(a, ":")
		if !ok || scheme == "" {
			return nil, errors.New("--auth: write it as SCHEME:CREDENTIALS, for example digest:super:secret")
		}
		opts = append(opts, client.WithAuth(scheme, []byte(credentials)))
	}
	for _, name := range f.files {
		auths, err := cli.ReadAuthFile(name)
		if err != nil {
			return nil, fmt.Errorf("--auth-file: %w", err)
		}
		for _, a := range auths {
			opts = append(opts, client.WithAuth(a.Scheme, []byte(a.Auth)))
		}
	}
	if t := &f.tls; f.useTLS || t.CAFile+t.CertFile+t.KeyFile+t.ServerName != "" {
		if err := cli.CheckKeyPair(t, "--"); err != nil {
			return nil, err
		}
		if _, err := f.tls.Config(); err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		opts = append(opts, client.WithTLSFrom(f.tls.Config))
	}
	return opts, nil
}

// wanted is the version that --config-version names; ok is false without the flag.
func (f *memberFlags) wanted() (version int64, ok bool, err error) {
	if f.version == "" {
		return 0, false, nil
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(f.version, "0x"), 16, 63)
	if err != nil {
		return 0, false, fmt.Errorf("--config-version %s: a hexadecimal number is meant, as zkd member list prints it", f.version)
	}
	return int64(v), true, nil
}

// A group is the configuration that a cluster has, and the session in which it was read.
type group struct {
	ensemble.Config
	client *client.Client
}

// run reads the configuration and gives it to do.
func (f *memberFlags) run(c *cobra.Command, do func(context.Context, *group) error) error {
	opts, err := f.options()
	if err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(c.Context(), memberDialLimit)
	defer cancel()
	conn, err := client.Dial(dialing, f.servers, opts...)
	if err != nil {
		return f.dialError(dialing, err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), memberCloseTime)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	ctx, cancel := context.WithTimeout(c.Context(), f.timeout)
	defer cancel()
	data, _, err := conn.Get(ctx, configNode, client.Fresh())
	if err != nil {
		return fmt.Errorf("cannot read the members: %w", err)
	}
	config, err := ensemble.Parse(string(data))
	if err != nil {
		return fmt.Errorf("%s holds what is no configuration: %w", configNode, err)
	}
	return do(ctx, &group{config, conn})
}

func (f *memberFlags) dialError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, client.ErrAuthFailed):
		return fmt.Errorf("%s refuses the credentials", f.servers)
	case ctx.Err() == nil:
		return fmt.Errorf("--server: %w", err)
	}
	reason := ""
	if _, last, ok := strings.Cut(err.Error(), "; the last attempt: "); ok {
		reason = "; the last attempt: " + last
	}
	return fmt.Errorf("no connection to %s within %v%s", f.servers, memberDialLimit, reason)
}

// change asks the cluster for what ask makes of its configuration, and prints the new one. It
// is bound to the version that was looked at, so that nothing comes between.
func (f *memberFlags) change(c *cobra.Command, ask func(*group) (client.ReconfigRequest, error)) error {
	wanted, given, err := f.wanted()
	if err != nil {
		return err
	}
	return f.run(c, func(ctx context.Context, g *group) error {
		if len(g.Members) == 0 {
			return errNoMembers
		}
		if given && wanted != g.Version {
			return fmt.Errorf("the configuration has version %x and not %x: look at it again with zkd member list", g.Version, wanted)
		}
		req, err := ask(g)
		if err != nil {
			return err
		}
		req.FromConfig = g.Version
		if err := g.reconfig(ctx, req); err != nil {
			return changeError(err)
		}
		return g.print(c.OutOrStdout(), f.output)
	})
}

// reconfig makes a change, and g the configuration after it.
func (g *group) reconfig(ctx context.Context, req client.ReconfigRequest) error {
	text, _, err := g.client.Reconfig(ctx, req)
	if errors.Is(err, client.ErrUncertain) {
		return g.settle(ctx, req, err)
	}
	if err != nil {
		return err
	}
	if g.Config, err = ensemble.Parse(string(text)); err != nil {
		return fmt.Errorf("the change was made, and the answer holds what is no configuration: %w", err)
	}
	return nil
}

// settle looks what became of a change whose answer was lost, as it is when the server that was
// asked is the one that leaves.
func (g *group) settle(ctx context.Context, req client.ReconfigRequest, uncertain error) error {
	want, err := g.outcome(req)
	if err != nil {
		return uncertain
	}
	for {
		data, _, err := g.client.Get(ctx, configNode, client.Fresh())
		if err != nil {
			return uncertain
		}
		now, err := ensemble.Parse(string(data))
		switch {
		case err != nil:
			return uncertain
		case now.SameMembers(want):
			g.Config = now
			return nil
		case now.Version != g.Version: // the change has failed on its way, or there was another one
			return uncertain
		}
		select {
		case <-ctx.Done():
			return uncertain
		case <-time.After(memberLookPause):
		}
	}
}

// outcome is the configuration that a request leads to.
func (g *group) outcome(req client.ReconfigRequest) (ensemble.Config, error) {
	if req.NewMembers != "" {
		return g.Replace(req.NewMembers, judge)
	}
	return g.Change(req.Joining, req.Leaving, judge)
}

var errNoMembers = errors.New("the server runs alone: members can be added where its zoo.cfg has its own server.N line and standaloneEnabled=false")

// changeError says what to do about a change that was not made.
func changeError(err error) error {
	switch {
	case errors.Is(err, client.ErrUncertain):
		return fmt.Errorf("it is not known whether the change was made: %w; look with zkd member list", err)
	case errors.Is(err, client.ErrReconfigDisabled):
		return errors.New("the servers do not allow changes: set reconfigEnabled=true on all of them and start them again, one by one")
	case errors.Is(err, client.ErrNoAuth):
		return errors.New("not allowed: give an identity that may write to " + configNode + ", for example --auth-file with a line: digest super:secret")
	case errors.Is(err, client.ErrBadVersion):
		return errors.New("the configuration has changed meanwhile: look at it again with zkd member list")
	case errors.Is(err, client.ErrReconfigInProgress):
		return errors.New("another change is under way: wait for its end")
	case errors.Is(err, client.ErrNewConfigNoQuorum):
		return errors.New("nothing was changed: a server that is to join does not run, cannot be reached or has not caught up; " +
			"start it, look at its log and try again")
	case errors.Is(err, client.ErrUnimplemented):
		return errNoMembers
	case errors.Is(err, client.ErrBadArguments):
		return errors.New("the servers refuse the change: fewer than two participants would be left and standaloneEnabled is not false, " +
			"or a server has several addresses and multiAddress.enabled is not true")
	}
	return err
}

// judge says with a reason what all servers would refuse, whatever their settings.
var judge = ensemble.Rules{SingleVoter: true, MultiAddress: true}

// adding is the request that makes servers members.
func (g *group) adding(lines []string) (client.ReconfigRequest, error) {
	var joining []string
	for _, line := range lines {
		line = strings.TrimPrefix(line, "server.")
		number, _, ok := strings.Cut(line, "=")
		if !ok {
			return client.ReconfigRequest{}, fmt.Errorf("%s: write a server as N=HOST:PORT:PORT[:ROLE];[HOST:]PORT, for example '4=zk4:2888:3888;2181'", line)
		}
		id, err := numberOf(number)
		if err != nil {
			return client.ReconfigRequest{}, err
		}
		if m := g.Member(id); m != nil {
			return client.ReconfigRequest{}, fmt.Errorf("server %d is a member already: %s", id, m)
		}
		joining = append(joining, "server."+line)
	}
	req := client.ReconfigRequest{Joining: strings.Join(joining, ",")}
	_, err := g.outcome(req)
	return req, err
}

// removing is the request that ends the membership of servers.
func (g *group) removing(numbers []string) (client.ReconfigRequest, error) {
	for _, number := range numbers {
		if _, err := g.member(number); err != nil {
			return client.ReconfigRequest{}, err
		}
	}
	req := client.ReconfigRequest{Leaving: strings.Join(numbers, ",")}
	_, err := g.outcome(req)
	return req, err
}

// promoting is the request that gives observers a vote. It names all members: a member that
// joins must have a client address, and those of zoo.cfg need not have one.
func (g *group) promoting(numbers []string) (client.ReconfigRequest, error) {
	next, err := ensemble.New(g.Members)
	if err != nil {
		return client.ReconfigRequest{}, err
	}
	for _, number := range numbers {
		m, err := g.member(number)
		if err != nil {
			return client.ReconfigRequest{}, err
		}
		if m.Role != ensemble.Observer {
			return client.ReconfigRequest{}, fmt.Errorf("server %d is no observer: it has a vote already", m.ID)
		}
		next.Member(m.ID).Role = ensemble.Participant
	}
	var lines []string
	for _, m := range next.Members {
		lines = append(lines, fmt.Sprintf("server.%d=%s", m.ID, m))
	}
	return client.ReconfigRequest{NewMembers: strings.Join(lines, ",")}, nil
}

func (g *group) member(number string) (*ensemble.Member, error) {
	id, err := numberOf(number)
	if err != nil {
		return nil, err
	}
	m := g.Member(id)
	if m == nil {
		return nil, fmt.Errorf("server %d is no member; zkd member list prints them", id)
	}
	return m, nil
}

func numberOf(text string) (int, error) {
	id, err := strconv.Atoi(text)
	if err != nil || id < 1 || id > ensemble.MaxID {
		return 0, fmt.Errorf("%q is not the number of a server; allowed: 1 to %d", text, ensemble.MaxID)
	}
	return id, nil
}

// print writes the members for people or for programs.
func (g *group) print(w io.Writer, format string) error {
	if format == "json" {
		return g.printJSON(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVER\tROLE\tPEERS\tCLIENTS\tTLS CLIENTS")
	for _, m := range g.Members {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", m.ID, m.Role, strings.Join(peersOf(&m), "|"), addressOf(m.Client, "-"), addressOf(m.SecureClient, "-"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "version %x\n", g.Version)
	return err
}

func (g *group) printJSON(w io.Writer) error {
	type member struct {
		ID           int           `json:"id"`
		Role         ensemble.Role `json:"role"`
		Peers        []string      `json:"peers"`
		Client       string        `json:"client,omitempty"`
		SecureClient string        `json:"secureClient,omitempty"`
	}
	out := struct {
		Version string   `json:"version"` // hexadecimal, as --config-version takes it
		Members []member `json:"members"`
	}{strconv.FormatInt(g.Version, 16), []member{}}
	for _, m := range g.Members {
		out.Members = append(out.Members, member{m.ID, m.Role, peersOf(&m), addressOf(m.Client, ""), addressOf(m.SecureClient, "")})
	}
	return json.NewEncoder(w).Encode(out)
}

func peersOf(m *ensemble.Member) []string {
	var list []string
	for _, p := range m.Peers {
		list = append(list, fmt.Sprintf("%s:%d", ensemble.HostPort{Host: p.Host, Port: p.Port}, p.ElectionPort))
	}
	return list
}

func addressOf(a ensemble.HostPort, none string) string {
	if a == (ensemble.HostPort{}) {
		return none
	}
	return a.String()
}
