package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/server/ensemble"
	"github.com/zkd-project/zkd/wire"
)

func memberTransferCommand() *cobra.Command {
	var f memberFlags
	c := &cobra.Command{
		Use: "transfer [N]", Short: "Hand the leadership over to server N, or to any that is fit",
		Long: `Hand the leadership over to server N, or to any that is fit.

The server must have a vote and must have caught up. Clients notice nothing but a moment's
pause in their writes. It needs the same permission as a change of the members, but not
reconfigEnabled. If N leads already nothing happens.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return f.run(c, func(ctx context.Context, g *group) error {
				leader, err := g.transfer(ctx, args)
				if err != nil {
					return err
				}
				if f.output == "json" {
					_, err = fmt.Fprintf(c.OutOrStdout(), "{\"leader\":%d}\n", leader)
				} else {
					_, err = fmt.Fprintf(c.OutOrStdout(), "server %d leads\n", leader)
				}
				return err
			})
		},
	}
	f.register(c)
	return c
}

// leaderPrefix begins the text of a reconfig that hands the leadership over, and that of its
// answer.
const leaderPrefix = "leader="

// transfer asks for the hand-over and returns who leads then.
func (g *group) transfer(ctx context.Context, args []string) (leader int, err error) {
	if len(g.Members) == 0 {
		return 0, errAlone
	}
	to := "any"
	if len(args) > 0 {
		m, err := g.member(args[0])
		if err != nil {
			return 0, err
		}
		if m.Role != ensemble.Participant {
			return 0, fmt.Errorf("server %d is an observer: it has no vote and cannot lead; zkd member promote %d gives it one", m.ID, m.ID)
		}
		to = strconv.Itoa(m.ID)
	}
	text, _, err := g.client.Reconfig(ctx, client.ReconfigRequest{Joining: leaderPrefix + to, FromConfig: -1})
	if err != nil {
		return 0, transferError(to, err)
	}
	number, ok := strings.CutPrefix(string(text), leaderPrefix)
	if leader, err = strconv.Atoi(number); !ok || err != nil {
		return 0, fmt.Errorf("the answer does not say who leads: %q", text)
	}
	return leader, nil
}

var errAlone = errors.New("the server runs alone: there is nobody to lead in its place")

// transferError says what to do about a leadership that was not handed over.
func transferError(to string, err error) error {
	who := "server " + to
	if to == "any" {
		who = "no other server"
	}
	switch {
	case errors.Is(err, client.ErrUncertain):
		return fmt.Errorf("it is not known whether the leadership was handed over: %w; srvr of each server says who leads", err)
	case errors.Is(err, client.ErrNoAuth):
		return errors.New("not allowed: give an identity that may write to " + configNode + ", for example --auth-file with a line: digest super:secret")
	case errors.Is(err, client.ErrNewConfigNoQuorum) && to == "any":
		return errors.New("nothing was changed: no other server with a vote is there and has caught up")
	case errors.Is(err, client.ErrNewConfigNoQuorum):
		return errors.New("nothing was changed: " + who + " is not there, is being repaired, or has not caught up; look at its log and try again")
	case errors.Is(err, client.ErrBadArguments):
		return errors.New("nothing was changed: " + who + " is no member with a vote, or these servers know no transfer: they are not zkd, or an older one")
	case errors.Is(err, client.ErrUnimplemented):
		return errAlone
	case errors.Is(err, wire.OperationTimeout):
		return errors.New("the cluster has no leader at the moment, or " + who + " was not elected in time: look who leads, and try again")
	}
	return err
}
