"""Runs checks and prints one line for each; see program_test.go for the form of the lines."""

import os
import socket
import sys
import threading
import time
import traceback

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

PATIENCE = 120  # seconds that a check waits for what must happen
# EXPIRY is the timeout of a session that is to expire: short, but longer than a busy machine stands still.
EXPIRY = 5.0
SERVER = sys.argv[1]
CONTROL = sys.argv[2]

_done = 0
_print = threading.Lock()
_groups, _patient = [], []
_deadline = time.monotonic() + 2 * PATIENCE


def run(check):
    """Runs one check to its end; its name is the function's with dashes."""
    global _done
    name = check.__name__.replace("_", "-")
    start = time.monotonic()
    try:
        check()
        line = "ok %s %d ms" % (name, (time.monotonic() - start) * 1000)
    except BaseException as e:
        frames = traceback.extract_tb(e.__traceback__)
        where = " | ".join("at %s:%d in %s" % (os.path.basename(f.filename), f.lineno, f.name) for f in frames[1:])
        line = "FAIL %s %s | %s" % (name, " ".join(repr(e).split()), where)
    with _print:
        _done += 1
        print(line, flush=True)


def start(*checks):
    """Starts checks, one after another, beside the groups started before."""
    t = threading.Thread(target=lambda: [run(c) for c in checks], daemon=True)
    t.start()
    _groups.append((t, checks))


def start_patient(check):
    """Starts a check that waits for the end of a session, beside the others.

    A cluster whose leader is killed now and then is left in peace for it once the others are through: every new
    leader gives each session its whole time again.
    """
    start(check)
    _patient.append(_groups.pop())


def finish():
    """Waits for what was started, prints the last line and ends the program."""
    _await(_groups)
    if _patient:
        peace = Proxy()
        peace.order("peace")
        _await(_patient)
    print("done %d" % _done, flush=True)
    os._exit(0)


def _await(groups):
    global _done
    for t, checks in groups:
        t.join(max(0, _deadline - time.monotonic()))
        if t.is_alive():
            with _print:
                print("FAIL group one of %s hangs" % [c.__name__ for c in checks], flush=True)
                _done += 1


def connect(hosts=None, timeout=20.0, **kw):
    c = KazooClient(hosts=hosts or SERVER, timeout=timeout, connection_retry=KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2), **kw)
    c.start(PATIENCE)
    return c


def equal(want, got, what):
    if want != got:
        raise AssertionError("%s: got %r, want %r" % (what, got, want))


def true(condition, what):
    if not condition:
        raise AssertionError("not so: " + what)


def wait(what, condition):
    """Polls until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("never happened: " + what)
        time.sleep(0.01)


class fails:
    """with fails(Error): the body must raise it."""

    def __init__(self, error):
        self.error = error

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        if kind is None:
            raise AssertionError("succeeded instead of raising " + self.error.__name__)
        return issubclass(kind, self.error)


class Proxy:
    """One proxy in front of the server; see proxy_test.go for its orders."""

    def __init__(self):
        host, port = CONTROL.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.lines = self.socket.makefile("r")
        self.address = self.lines.readline().strip()

    def order(self, word):
        self.socket.sendall((word + "\n").encode())
        return int(self.lines.readline().split()[1])

    def close(self):
        self.lines.close()
        self.socket.close()
