package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/zkd-project/zkd/client"
)

// A told is an event as it is printed.
type told struct {
	State string `json:"state"`
	Type  string `json:"type"`
	Path  string `json:"path,omitempty"`
	Zxid  int64  `json:"zxid,omitempty"` // -1: the server does not say
}

func stateEvent(name string) told { return told{State: name, Type: "None", Zxid: -1} }

func nodeEvent(typ, path string, zxid int64) told {
	if zxid == 0 {
		zxid = -1
	}
	return told{State: "SyncConnected", Type: typ, Path: path, Zxid: zxid}
}

// eventText is the event as ZooKeeper 3.9's zkCli prints it.
func (sh *shell) eventText(ev told) string {
	if sh.settings.format == formatJSON {
		b, err := marshal(ev)
		if err == nil {
			return string(b) + "\n"
		}
	}
	path := ev.Path
	if path == "" {
		path = "null"
	}
	return fmt.Sprintf("\nWATCHER::\n\nWatchedEvent state:%s type:%s path:%s zxid: %d\n", ev.State, ev.Type, path, ev.Zxid)
}

func (sh *shell) tell(ev told) {
	if sh.printWatches.Load() {
		sh.out.printNow(sh.eventText(ev))
	}
}

// seenEvents is how many printed events are remembered.
const seenEvents = 256

// A watchBook knows what the shell watches. zkCli has one watcher for all, which a server's
// event reaches once; here several watches of a path are told of one event, and the book sees
// to it that it is printed once.
type watchBook struct {
	mu    sync.Mutex
	armed map[watchKey]int
	subs  []*client.Subscription
	seen  [seenEvents]told // the last ones with a zxid, as a ring
	next  int
}

type watchKey struct{ path, kind string }

// The kinds, as the event of a removal names them.
const (
	kindData       = "DataWatchRemoved"
	kindChild      = "ChildWatchRemoved"
	kindPersistent = "PersistentWatchRemoved"
)

// reset forgets everything: the session is new.
func (b *watchBook) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed, b.subs, b.seen, b.next = map[watchKey]int{}, nil, [seenEvents]told{}, 0
}

// first says that an event has not been printed yet.
func (b *watchBook) first(ev told) bool {
	if ev.Zxid <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.seen {
		if b.seen[i] == ev {
			return false
		}
	}
	b.seen[b.next] = ev
	b.next = (b.next + 1) % seenEvents
	return true
}

// arm and disarm count the watches of one kind on a path; disarm says that none is left.
func (b *watchBook) arm(key watchKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed[key]++
}

func (b *watchBook) disarm(key watchKey) (none bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.armed[key]--
	if b.armed[key] > 0 {
		return false
	}
	delete(b.armed, key)
	return true
}

// await prints the event of a one-shot watch when it comes.
func (sh *shell) await(w *client.Watch, kind string) {
	key := watchKey{w.Path(), kind}
	sh.watches.arm(key)
	go func() {
		ev := <-w.C()
		none := sh.watches.disarm(key)
		switch {
		case ev.Err == nil:
			sh.tellNode(ev)
		case errors.Is(ev.Err, client.ErrWatchRemoved) && none:
			sh.tell(nodeEvent(kind, key.path, 0))
		}
	}()
}

// follow prints the events of a lasting watch until it is removed.
func (sh *shell) follow(s *client.Subscription) {
	key := watchKey{s.Path(), s.Mode().String()}
	sh.watches.arm(key)
	sh.watches.mu.Lock()
	sh.watches.subs = append(sh.watches.subs, s)
	sh.watches.mu.Unlock()
	go func() {
		for {
			ev, err := s.Next(context.Background()) // ends with the client
			switch {
			case err == nil && ev.Type != client.EventReset:
				sh.tellNode(ev)
			case errors.Is(err, client.ErrLagged):
				fmt.Fprintln(sh.err, err)
			case err != nil:
				if sh.watches.disarm(key) && errors.Is(err, client.ErrWatchRemoved) {
					sh.tell(nodeEvent(kindPersistent, key.path, 0))
				}
				return
			}
		}
	}()
}

func (sh *shell) tellNode(ev client.Event) {
	t := nodeEvent(ev.Type.String(), ev.Path, ev.Zxid)
	if sh.watches.first(t) {
		sh.tell(t)
	}
}

// drop ends the lasting watches of a mode on a path and says how many there were.
func (b *watchBook) drop(path string, mode client.WatchMode) int {
	b.mu.Lock()
	var gone, kept []*client.Subscription
	for _, s := range b.subs {
		if s.Path() == path && s.Mode() == mode {
			gone = append(gone, s)
		} else {
			kept = append(kept, s)
		}
	}
	b.subs = kept
	b.mu.Unlock()
	for _, s := range gone {
		s.Close()
	}
	return len(gone)
}
