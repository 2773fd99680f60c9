package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/internal/cert"
)

const (
	day             = 24 * time.Hour
	defaultCADays   = 3650
	defaultNodeDays = 730
	maxDays         = 36500
)

func certCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cert",
		Short: "Make the certificates by which the servers of a cluster know each other",
		Long: `Make the certificates by which the servers of a cluster know each other.

"init" makes a CA for the cluster, once, on a machine of your choice; "node" has it sign the
certificate of one server. Give each server a folder with ca.pem and its own node-N.pem, and
set zkd.peerTLSDir to that folder in the configuration, which can be the same everywhere.
The key of the CA, ca-key.pem, stays where it was made: whoever has it can be any server.

To renew a certificate, run "node" with --force and replace node-N.pem on the server, which
notices by itself.`,
		Example: `  zkd cert init --dir ca --cluster orders
  zkd cert node --dir ca --id 1
  zkd cert node --dir ca --id 2
  zkd cert node --dir ca --id 3
  zkd cert show ca/node-3.pem`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(certInitCommand(), certNodeCommand(), certShowCommand())
	return c
}

func certInitCommand() *cobra.Command {
	var dir, cluster string
	var days int
	var force bool
	c := &cobra.Command{
		Use:   "init --dir DIR",
		Short: "Make the CA of a cluster: ca.pem, and ca-key.pem to sign with",
		Long: `Make the CA of a cluster: ca.pem, and ca-key.pem to sign with.

Servers trust every certificate that their CA has signed, so give each cluster one of its own.`,
		Example: "  zkd cert init --dir ca --cluster orders",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lifetime, err := lifetimeOf(days)
			if err != nil {
				return err
			}
			a, err := cert.NewAuthority(cluster, time.Now(), lifetime)
			if err != nil {
				return err
			}
			err = a.Save(dir, force)
			var exists *cert.ExistsError
			if errors.As(err, &exists) {
				return fmt.Errorf("%w; with --force it is replaced, and what it has signed is worth nothing any more", err)
			}
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s: the CA of cluster %q, good until %s\n", config.PeerCAFile(dir), a.Cluster(), dateOf(a.Certificate.NotAfter))
			fmt.Fprintf(out, "%s: its key; keep it, and keep it off the servers\n", cert.KeyFile(dir))
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the CA; made if it is missing (required)")
	c.Flags().StringVar(&cluster, "cluster", "zkd", "name of the cluster, for people to read")
	c.Flags().IntVar(&days, "days", defaultCADays, "days that the CA is good")
	c.Flags().BoolVar(&force, "force", false, "replace files that exist")
	mustRequire(c, "dir")
	return c
}

func certNodeCommand() *cobra.Command {
	var dir, out string
	var m cert.Member
	var days int
	var force bool
	c := &cobra.Command{
		Use:   "node --dir DIR --id N",
		Short: "Make key and certificate of one server, signed by the CA in DIR",
		Long: `Make key and certificate of one server, signed by the CA in DIR.

N is the number of the server: the N of its server.N line, and what is in its myid. Servers
compare that number and nothing else, so that a server may move to another host. --host adds
names or addresses for other programs that compare those.`,
		Example: "  zkd cert node --dir ca --id 2\n  zkd cert node --dir ca --id 2 --host zk2.example.com --host 10.0.0.2 --out /etc/zkd/tls/node-2.pem",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			lifetime, err := lifetimeOf(days)
			if err != nil {
				return err
			}
			a, err := cert.Load(dir)
			if err != nil {
				return err
			}
			file, certificate, err := a.Issue(m, time.Now(), lifetime)
			if err != nil {
				return err
			}
			if out == "" {
				out = config.PeerNodeFile(dir, m.ID)
			}
			err = cert.Write(out, file, force)
			var exists *cert.ExistsError
			if errors.As(err, &exists) {
				return fmt.Errorf("%w; --force replaces it", err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: key and certificate of server %d of cluster %q, good until %s\n",
				out, m.ID, a.Cluster(), dateOf(certificate.NotAfter))
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder of the CA (required)")
	c.Flags().IntVar(&m.ID, "id", 0, "number of the server, 1 to 255 (required)")
	c.Flags().StringArrayVar(&m.Hosts, "host", nil, "name or address of the server; may be repeated")
	c.Flags().StringVar(&out, "out", "", "file to write; node-N.pem in DIR without it")
	c.Flags().IntVar(&days, "days", defaultNodeDays, "days that the certificate is good, at most as long as the CA")
	c.Flags().BoolVar(&force, "force", false, "replace a file that exists")
	mustRequire(c, "dir", "id")
	return c
}

func certShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "show FILE",
		Short:   "Print what is in a file of certificates; of a key only its kind",
		Example: "  zkd cert show /etc/zkd/tls/node-2.pem",
		Args:    oneArg("the file, for example: zkd cert show ca/node-1.pem"),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := cert.ReadFile(args[0])
			if err != nil {
				return err
			}
			text, err := cert.Describe(file, time.Now())
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			fmt.Fprint(c.OutOrStdout(), text)
			return nil
		},
	}
}

func lifetimeOf(days int) (time.Duration, error) {
	if days < 1 || days > maxDays {
		return 0, fmt.Errorf("--days %d: allowed: 1 to %d", days, maxDays)
	}
	return time.Duration(days) * day, nil
}

func dateOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// mustRequire makes cobra ask for flags that there is no default for.
func mustRequire(c *cobra.Command, flags ...string) {
	for _, f := range flags {
		if err := c.MarkFlagRequired(f); err != nil {
			panic(err) // no such flag: a mistake in this file
		}
	}
}
