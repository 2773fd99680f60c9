"""kazoo and a server without a quorum: readonly_checks.py SERVER CONTROL.

CONTROL takes one line and answers when the quorum is back.
"""

import logging
import socket

from kazoo.client import KazooState, KeeperState
from kazoo.exceptions import NotReadOnlyCallError

import harness
from harness import PATIENCE, connect, equal, finish, start, true, wait

logging.basicConfig(level=logging.CRITICAL)

states = []


def reads_and_comes_back():
    c = connect(read_only=True)
    c.add_listener(lambda state: states.append(c.client_state))
    wait("read-only", lambda: c.client_state == KeeperState.CONNECTED_RO)
    equal(b"/a", c.get("/a")[0], "the data")
    true(c.exists("/none") is None, "/none is not there")
    equal(["a", "zookeeper"], sorted(c.get_children("/")), "the children")
    for write in (lambda: c.create("/b", b""), lambda: c.set("/a", b"x"), lambda: c.delete("/a")):
        try:
            write()
        except NotReadOnlyCallError:
            continue
        raise AssertionError("a write was taken")
    equal(b"/a", c.get("/a")[0], "the data after refused writes")
    host, port = harness.CONTROL.split(":")
    with socket.create_connection((host, int(port))) as control:
        control.settimeout(PATIENCE)
        control.sendall(b"restore\n")
        equal(b"ok\n", control.makefile("rb").readline(), "the quorum")
    wait("read-write", lambda: c.client_state == KeeperState.CONNECTED and c.state == KazooState.CONNECTED)
    equal("/b", c.retry(c.create, "/b", b""), "the path of a write")
    c.stop()


start(reads_and_comes_back)
finish()
