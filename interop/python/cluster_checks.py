"""kazoo with the addresses of all members of a cluster: cluster_checks.py SERVERS KILLER."""

import logging
import socket
import threading

from kazoo.client import KazooState
from kazoo.exceptions import ConnectionLoss
from kazoo.recipe.lock import Lock

import harness
from harness import PATIENCE, connect, equal, run, true, wait

ROUNDS = 3
CLIENTS = 6

logging.basicConfig(level=logging.CRITICAL)


class Killer:
    """Has the leader killed and started again; see several_test.go for the orders."""

    def __init__(self):
        host, port = harness.CONTROL.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.lines = self.socket.makefile("r")

    def order(self, word):
        self.socket.sendall((word + "\n").encode())
        answer = self.lines.readline().strip()
        true(answer and not answer.startswith("failed"), word + ": " + answer)
        return answer


killer = Killer()


class Worker:
    """Works without a pause until it is told to stop; one client, one thread."""

    def __init__(self, work):
        self.work = work
        self.done = 0
        self.failures = []
        self.states = []
        self.client = connect(randomize_hosts=True)
        self.client.add_listener(lambda state: self.states.append(state))

    def member(self):
        wait("connected", lambda: self.client.connected and self.client._connection._socket is not None)
        return "%s:%d" % self.client._connection._socket.getpeername()

    def start(self):
        self.stopped = False
        self.thread = threading.Thread(target=self._loop, daemon=True)
        self.thread.start()

    def _loop(self):
        while not self.stopped:
            try:
                self.work(self)
                self.done += 1
            except Exception as e:
                self.failures.append(e)

    def more(self, n):
        start = self.done
        wait("work goes on", lambda: self.done >= start + n)

    def stop(self):
        self.stopped = True
        self.thread.join(PATIENCE)
        true(not self.thread.is_alive(), "the worker ends")


def kill_round(workers, n):
    """Lets the workers work, kills the leader, lets them work on; returns who was killed."""
    for w in workers:
        w.start()
    for w in workers:
        w.more(n)
    killed = killer.order("kill")
    for w in workers:
        w.more(n)
    killer.order("restart")
    for w in workers:
        w.stop()
    return killed


def several_clients():
    workers = [Worker(lambda w: w.client.set(w.path, b"x")) for _ in range(CLIENTS)]
    for i, w in enumerate(workers):
        w.path = "/several-kazoo-%d" % i
        w.lost = 0
        w.client.create(w.path, ephemeral=True)
    for _ in range(ROUNDS):
        at = [w.member() for w in workers]
        sessions = [w.client.client_id for w in workers]
        for w in workers:
            w.states.clear()
        killed = kill_round(workers, 20)
        for w, member, session in zip(workers, at, sessions):
            who = "client of %s, with %s killed: " % (member, killed)
            for e in w.failures:
                true(member == killed and isinstance(e, ConnectionLoss), who + repr(e))
                w.lost += 1
            w.failures.clear()
            equal([KazooState.SUSPENDED, KazooState.CONNECTED] if member == killed else [], w.states, who + "states")
            equal(session, w.client.client_id, who + "session")
            equal(session[0], w.client.exists(w.path).owner_session_id, who + "owner")
    for w in workers:
        version = w.client.exists(w.path).version
        true(w.done <= version <= w.done + w.lost, "version %d after %d writes and %d lost ones" % (version, w.done, w.lost))
        w.client.stop()


def several_clients_lock():
    inside, most = [0], [0]

    def work(w):
        with Lock(w.client, "/several-kazoo-lock"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            inside[0] -= 1

    workers = [Worker(work) for _ in range(4)]
    for _ in range(ROUNDS):
        kill_round(workers, 5)
    for w in workers:
        for e in w.failures:
            true(isinstance(e, ConnectionLoss), repr(e))
        w.client.stop()
    equal(1, most[0], "holders at once")


run(several_clients)
run(several_clients_lock)
harness.finish()
