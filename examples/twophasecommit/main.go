// Command twophasecommit has several sites do a thing all or not at all: the two-phase commit of
// ZooKeeper's recipes page, with the deaths handled that the page leaves open.
//
//	go run ./examples/twophasecommit -server 127.0.0.1:2181 -id a      (and b, and c)
//	go run ./examples/twophasecommit -submit "pay 10" -sites a,b,c
//
// Every site votes, and one of them, which is elected, looks at the votes and decides. Stop any of
// them at any moment: nobody ever does what another has not done or will not do. What is where:
//
//	/examples/twophasecommit
//	    sites/<site>           ephemeral: the site is there
//	    coordinator/...        the election of who decides
//	    tx/<id>                a transaction: what to do, and who takes part
//	    tx/<id>/vote-<site>    commit or abort; made once, and never changed
//	    tx/<id>/decision       commit or abort; made once: that is the moment at which it happens
//	    tx/<id>/done-<site>    the site has done what was decided
//
// Transactions stay as a record; a program would delete those that all sites have done.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/zkd-project/zkd/client"
)

const base = "/examples/twophasecommit"

// What a vote and a decision can be.
const (
	commit = "commit"
	abort  = "abort"
)

// A transaction is the data of its node.
type transaction struct {
	Sites []string `json:"sites"`
	Work  string   `json:"work"`
}

func main() {
	servers := flag.String("server", "127.0.0.1:2181", "the servers, host:port,host:port/chroot")
	id := flag.String("id", "", "the site that this process is")
	work := flag.String("submit", "", "what is to be done by all of -sites, or by none")
	sites := flag.String("sites", "", "those who take part, with commas between them")
	flag.Parse()
	if (*work == "") == (*id == "") || (*work == "") != (*sites == "") {
		fmt.Fprintln(os.Stderr, "twophasecommit: a site has its name, -id a; whoever submits has -submit WORK and -sites a,b,c")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, *servers, *id, *work, *sites)
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "twophasecommit:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, servers, id, work, sites string) error {
	c, err := client.Dial(ctx, servers)
	if err != nil {
		return err
	}
	defer goodbye(c)
	if work != "" {
		decision, err := submit(ctx, c, transaction{Sites: strings.Split(sites, ","), Work: work})
		if err == nil {
			fmt.Println(work+":", decision)
		}
		return err
	}
	s := &site{
		c: c, id: id,
		prepare: func(work string) bool { // a real one writes to its disk whatever it needs to keep its word
			fmt.Println(id, "can do", work)
			return true
		},
		apply: func(work, decision string) { fmt.Println(id, "does", decision, work) },
	}
	return s.run(ctx)
}

// submit makes a transaction and waits for the decision. It does not matter to the transaction
// whether anybody waits.
func submit(ctx context.Context, c *client.Client, t transaction) (decision string, err error) {
	data, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	tx := base + "/tx/" + client.NewUUID()
	if _, _, err := c.Create(ctx, tx, data, client.ModePersistent, nil, client.MakeParents(), client.Idempotent()); err != nil {
		return "", err
	}
	for {
		_, decided, w, err := c.ExistsW(ctx, tx+"/decision")
		if err != nil {
			return "", err
		}
		if decided {
			break
		}
		if _, err := w.Wait(ctx); err != nil {
			return "", err
		}
	}
	made, _, err := c.Get(ctx, tx+"/decision")
	return string(made), err
}

// goodbye ends the session, so that others need not wait for it to expire.
func goodbye(c *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "twophasecommit: close:", err)
	}
}
