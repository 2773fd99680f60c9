package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/config"
	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/server/replication"
)

var errNotConfirmed = errors.New("not confirmed: nothing was changed")

func recoverCommand() *cobra.Command {
	var file, dataDir, logDir string
	var yes bool
	c := &cobra.Command{
		Use:   "recover --config FILE",
		Short: "After a majority was lost for good: make one survivor a new cluster",
		Long: `After a majority was lost for good: make one survivor a new cluster.

Only a majority knows all that was acknowledged. Where it is lost for good, the survivor whose
data are newest can go on with what it has: it becomes the only voter of a new cluster, and
the others join with empty data directories. What the survivor does not have is lost.

The server must not run. What would be lost is printed, and nothing is changed before that is
confirmed. With the input closed (< /dev/null) it only prints: compare the survivors so.`,
		Example: "  zkd recover --config /etc/zkd/zoo.cfg < /dev/null\n  zkd recover --config /etc/zkd/zoo.cfg\n" +
			"  zkd recover --data-dir /var/lib/zkd --log-dir /var/log/zkd --yes",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o, err := recoveryOptions(file, dataDir, logDir)
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			r, err := replication.Recover(o, func(r replication.Recovery) error {
				printRecovery(out, &r)
				if yes {
					return nil
				}
				return confirm(out, c.InOrStdin(), fmt.Sprintf("recover %d", r.MyID))
			})
			if err != nil {
				return startError(err)
			}
			fmt.Fprintf(out, "done: server %d is the only voter of the new cluster %s. Start it with the configuration that it has had;\n"+
				"start the others when their data directories are empty.\n", r.MyID, r.NewClusterID)
			return nil
		},
	}
	c.Flags().StringVarP(&file, "config", "c", "", "configuration file of the server, a zoo.cfg")
	c.Flags().StringVar(&dataDir, "data-dir", "", "its data directory, instead of --config")
	c.Flags().StringVar(&logDir, "log-dir", "", "folder of the log, where dataLogDir is set, with --data-dir")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}

// recoveryOptions says where the data are. Which server they belong to is compared with the
// configuration if there is one.
func recoveryOptions(file, dataDir, logDir string) (replication.Options, error) {
	switch {
	case file == "" && dataDir == "":
		return replication.Options{}, errors.New("name the server by its configuration, --config FILE, or by its data, --data-dir DIR")
	case file != "" && dataDir+logDir != "":
		return replication.Options{}, errors.New("--config says where the data are: leave --data-dir and --log-dir out")
	case file == "":
		return replication.Options{Dir: dataDir, LogDir: logDir}, nil
	}
	cfg, _, err := config.Load(config.Sources{File: file, Env: os.Environ()})
	if err != nil {
		return replication.Options{}, err
	}
	return replication.Options{Dir: cfg.DataDir, LogDir: cfg.DataLogDir, MyID: cfg.Cluster.ServerID}, nil
}

// confirm has somebody type the words. The end of the input is a no.
func confirm(out io.Writer, in io.Reader, words string) error {
	fmt.Fprintf(out, "Type \"%s\" to go on: ", words)
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%w)", errNotConfirmed, err)
	}
	if !strings.HasSuffix(line, "\n") {
		fmt.Fprintln(out)
	}
	if strings.TrimSpace(line) != words {
		return errNotConfirmed
	}
	return nil
}

// printRecovery says what there is and what is lost.
func printRecovery(w io.Writer, r *replication.Recovery) {
	others := slices.DeleteFunc(slices.Clone(r.Voters), func(n int) bool { return n == r.MyID })
	if e, err := ensemble.Parse(r.Ensemble); err == nil {
		for _, m := range e.Members {
			if m.ID != r.MyID && !slices.Contains(others, m.ID) {
				others = append(others, m.ID)
			}
		}
		slices.Sort(others)
	}
	if r.Quarantined {
		fmt.Fprint(w, "WRONG DATA: before they were lost, the other servers had found that these data differ from theirs. Take\n"+
			"another survivor if there is one: what is wrong here cannot be told, and would be the truth from now on.\n\n")
	}
	newest := fmt.Sprintf("entry %d of term %d", r.Index, r.Term)
	fmt.Fprintf(w, `FORCED RECOVERY of %s

Found here
  server      %d, as %s of cluster %s; voters %s
  reaches     zxid 0x%x, %s
  written     %s, by the clock of the leader of that time
  holds       %d znodes and %d sessions, digest %016x

Compare all survivors first, and recover the one with the highest term, and among these the
highest entry. If so many servers can still be repaired that they are a majority of %d, start
those instead: then nothing is lost.

Lost for sure
  - every write that is not in this directory, though a client was told that it was done
  - the data of %s: they cannot come back with them. Empty their data directories (but
    for the file myid) before they start. As long as they have their old data they must not run:
    a majority of them is still the old cluster, and would serve clients beside the new one.
  - all watches and connections. Clients come back by themselves; a session that is not here
    has expired.

May be lost
  - acknowledged writes behind zxid 0x%x: the other voters can have confirmed them alone, up to
    the moment at which the last of them ended
  - changes of the membership made in that time

May come to light
  - writes in the entries behind %d that were never acknowledged; their clients were told that
    the outcome is unknown

Then
  - server %d is %s, the only voter of the new cluster %s
  - zxids go on at 0x%x, so that none is used twice
  - /zookeeper/config keeps its members: they join when they start with empty directories

`,
		r.Dir, r.MyID, r.ServerID, r.ClusterID, numbers(r.Voters), r.Zxid, newest,
		r.Time.UTC().Format("2006-01-02 15:04:05.000 UTC"), r.Nodes, r.Sessions, r.Digest,
		max(len(r.Voters), 1), serversText(others), r.Zxid, r.SnapshotIndex,
		r.MyID, r.NewServerID, r.NewClusterID, r.NewZxid)
}

func serversText(list []int) string {
	switch len(list) {
	case 0:
		return "all other servers"
	case 1:
		return "server " + numbers(list)
	}
	return "servers " + numbers(list)
}

func numbers(list []int) string {
	var all []string
	for _, n := range list {
		all = append(all, strconv.Itoa(n))
	}
	return strings.Join(all, ", ")
}
