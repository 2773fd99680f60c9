"""kazoo's client: nodes, ACLs, transactions, states, sessions."""

import re
import threading

from kazoo.client import KazooState
from kazoo.exceptions import (
    AuthFailedError, BadVersionError, InvalidACLError, NoAuthError, NoChildrenForEphemeralsError, NoNodeError, NodeExistsError,
    NotEmptyError, RolledBackError, RuntimeInconsistency, SessionExpiredError,
)
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl

from harness import EXPIRY, PATIENCE, Proxy, connect, equal, fails, start, start_patient, true, wait

zk = connect()


def create_in_every_mode():
    zk.ensure_path("/kz/modes")
    equal("/kz/modes/a", zk.create("/kz/modes/a", b"x"), "path")
    equal("/kz/modes/e", zk.create("/kz/modes/e", b"x", ephemeral=True), "path")
    equal("/kz/modes/s0000000002", zk.create("/kz/modes/s", b"x", sequence=True), "path")
    path, stat = zk.create("/kz/modes/t", b"x", ephemeral=True, sequence=True, include_data=True)
    equal("/kz/modes/t0000000003", path, "path")
    equal(zk.client_id[0], stat.owner_session_id, "owner")
    equal("/kz/modes/deep/er/n", zk.create("/kz/modes/deep/er/n", makepath=True), "path")
    with fails(NodeExistsError):
        zk.create("/kz/modes/a")
    with fails(NoNodeError):
        zk.create("/kz/modes/no/n")
    with fails(NoChildrenForEphemeralsError):
        zk.create("/kz/modes/e/n")


def get_and_set():
    zk.create("/kz/data", b"one", makepath=True)
    stat = zk.set("/kz/data", b"two", version=0)
    equal(1, stat.version, "version")
    value, stat = zk.get("/kz/data")
    equal((b"two", 1, 3), (value, stat.version, stat.data_length), "data")
    true(abs(stat.last_modified - stat.created) < 60, "times")
    with fails(BadVersionError):
        zk.set("/kz/data", b"x", version=0)
    with fails(NoNodeError):
        zk.set("/kz/no", b"x")
    with fails(NoNodeError):
        zk.get("/kz/no")
    big = b"b" * 1_000_000
    zk.set("/kz/data", big)
    equal(big, zk.get("/kz/data")[0], "a megabyte")


def delete_and_exists():
    zk.create("/kz/del/a/b", makepath=True)
    with fails(NotEmptyError):
        zk.delete("/kz/del")
    with fails(BadVersionError):
        zk.delete("/kz/del/a/b", version=4)
    zk.delete("/kz/del", recursive=True)
    equal(None, zk.exists("/kz/del"), "stat")
    with fails(NoNodeError):
        zk.delete("/kz/del")


def children():
    for n in "bca":
        zk.create("/kz/children/" + n, makepath=True)
    equal(["a", "b", "c"], sorted(zk.get_children("/kz/children")), "names")
    names, stat = zk.get_children("/kz/children", include_data=True)
    equal((3, 3), (len(names), stat.children_count), "children")
    with fails(NoNodeError):
        zk.get_children("/kz/no")


def acls():
    zk.create("/kz/acl", makepath=True)
    equal(OPEN_ACL_UNSAFE, zk.get_acls("/kz/acl")[0], "acl")
    bob = make_digest_acl("bob", "pw", all=True)
    zk.set_acls("/kz/acl", [bob])
    with fails(NoAuthError):
        zk.get("/kz/acl")
    with fails(NoAuthError):
        zk.set("/kz/acl", b"x")
    c = connect(auth_data=[("digest", "bob:pw")])
    c.set("/kz/acl", b"x")
    equal([bob], c.get_acls("/kz/acl")[0], "acl")
    c.stop()
    with fails(InvalidACLError):
        zk.create("/kz/acl-bad", acl=[make_acl("nonsense", "x", all=True)])


def add_auth_on_a_live_connection():
    c = connect()
    c.create("/kz/auth", acl=[make_digest_acl("ann", "pw", all=True)], makepath=True)
    with fails(NoAuthError):
        c.get("/kz/auth")
    c.add_auth("digest", "ann:pw")
    equal(b"", c.get("/kz/auth")[0], "data")
    c.stop()
    c = connect()
    with fails(AuthFailedError):
        c.add_auth("nonsense", "x")
    c.stop()


def pipelined_sets_before_add_auth():
    """The reply to auth must come in its turn: kazoo gives it to the oldest request under way."""
    for i in range(4):
        c = connect()
        c.ensure_path("/kz/pipelined")
        big = b"x" * 300_000
        sets = [c.set_async("/kz/pipelined", big) for _ in range(3)]
        auth = c.add_auth_async("digest", "bob:pw")
        get = c.get_async("/kz/pipelined")
        for r in sets:
            true(r.get(timeout=PATIENCE).data_length == 300_000, "each set succeeds")
        true(auth.get(timeout=PATIENCE), "auth succeeds")
        equal(300_000, len(get.get(timeout=PATIENCE)[0]), "bytes read")
        c.stop()


def transactions():
    zk.create("/kz/tx", b"x", makepath=True)
    t = zk.transaction()
    t.check("/kz/tx", 0)
    t.create("/kz/tx/a", b"1", ephemeral=True)
    t.create("/kz/tx/s", sequence=True)
    t.set_data("/kz/tx/a", b"2", version=0)
    t.delete("/kz/tx/a", version=1)
    r = t.commit()
    equal([True, "/kz/tx/a", "/kz/tx/s0000000001"], r[:3], "results")
    equal((1, True), (r[3].version, r[4]), "results")
    t = zk.transaction()
    t.set_data("/kz/tx", b"y")
    t.check("/kz/tx", 7)
    t.create("/kz/tx/b")
    r = t.commit()
    equal([RolledBackError, BadVersionError, RuntimeInconsistency], [type(x) for x in r], "failures")
    equal(b"x", zk.get("/kz/tx")[0], "data after a failed transaction")
    with zk.transaction() as t:
        t.create("/kz/tx/c")
    true(zk.exists("/kz/tx/c"), "committed by the with block")


def async_calls_keep_their_order():
    zk.create("/kz/async", makepath=True)
    order = []
    last = None
    for i in range(300):
        r = zk.create_async("/kz/async/n-", sequence=True)
        r.rawlink(lambda r, i=i: order.append((i, r.get())))
        last = zk.get_children_async("/kz/async")
    equal(300, len(last.get(timeout=PATIENCE)), "children")
    wait("all are called back", lambda: len(order) == 300)
    equal([(i, "/kz/async/n-%010d" % i) for i in range(300)], order, "order")


def sync_and_chroot():
    equal("/kz", zk.sync("/kz"), "path of sync")
    zk.ensure_path("/kz/chroot")
    from harness import SERVER
    c = connect(SERVER + "/kz/chroot")
    equal("/a", c.create("/a", b"x"), "path")
    true(zk.exists("/kz/chroot/a"), "the real path")
    c.stop()


def version_and_commands():
    true(zk.server_version() >= (3, 8, 0), "a version")
    equal("imok", zk.command(b"ruok"), "ruok")
    true(re.search("^Mode: (standalone|leader|follower)$", zk.command(b"srvr"), re.M), "srvr")
    true(zk.command(b"mntr").startswith("zk_version\t"), "mntr")


def watches_on_calls():
    events = []
    zk.create("/kz/watch", makepath=True)
    zk.get("/kz/watch", watch=events.append)
    zk.get_children("/kz/watch", watch=events.append)
    zk.exists("/kz/watch/a", watch=events.append)
    zk.set("/kz/watch", b"x")
    zk.create("/kz/watch/a")
    wait("three events", lambda: len(events) == 3)
    equal([("CHANGED", "/kz/watch"), ("CREATED", "/kz/watch/a"), ("CHILD", "/kz/watch")], [(e.type, e.path) for e in events], "events")


def states_over_a_cut():
    proxy = Proxy()
    c = connect(proxy.address)
    states = []
    c.add_listener(states.append)
    c.create("/kz/states", ephemeral=True, makepath=True)
    session = c.client_id
    proxy.order("refuse")
    wait("suspended", lambda: KazooState.SUSPENDED in states)
    proxy.order("pass")
    wait("connected again", lambda: states[-1:] == [KazooState.CONNECTED])
    equal(session, c.client_id, "session")
    equal(session[0], c.retry(c.exists, "/kz/states").owner_session_id, "owner")
    true(KazooState.LOST not in states, "the session was not lost")
    c.stop()
    proxy.close()


def states_over_expiry():
    proxy = Proxy()
    c = connect(proxy.address, timeout=EXPIRY)
    states = []
    c.add_listener(states.append)
    c.create("/kz/expiry", ephemeral=True, makepath=True)
    session = c.client_id
    gone = threading.Event()
    zk.exists("/kz/expiry", watch=lambda e: gone.set())
    proxy.order("refuse")
    true(gone.wait(PATIENCE), "the ephemeral goes with the session")
    proxy.order("pass")
    wait("lost and connected again", lambda: KazooState.LOST in states and states[-1] == KazooState.CONNECTED)
    true(session[0] != c.client_id[0], "a new session")
    c.stop()
    proxy.close()


def session_resumed():
    proxy = Proxy()
    c = connect(proxy.address)
    c.create("/kz/resumed", ephemeral=True, makepath=True)
    session = c.client_id
    proxy.order("refuse")
    d = connect(client_id=session)
    equal(session, d.client_id, "session")
    d.set("/kz/resumed", b"x")
    d.stop()
    equal(None, zk.exists("/kz/resumed"), "ephemeral after close")
    proxy.close()
    c.stop()


def retry_over_cuts():
    proxy = Proxy()
    c = connect(proxy.address, command_retry={"max_tries": -1, "delay": 0.02, "max_delay": 0.1})
    c.ensure_path("/kz/retry")
    for i in range(5):
        proxy.order("cut")
        c.retry(c.set, "/kz/retry", b"%d" % i)
    equal(b"4", zk.get("/kz/retry")[0], "data")
    c.stop()
    proxy.close()


def restart_and_close():
    c = connect()
    c.create("/kz/restart", ephemeral=True, makepath=True)
    first = c.client_id
    c.restart()
    true(first != c.client_id, "a new session after restart")
    equal(None, zk.exists("/kz/restart"), "ephemeral of the old session")
    c.stop()
    with fails(Exception):
        c.get("/kz")


def start_all():
    zk.ensure_path("/kz")
    start(create_in_every_mode, get_and_set, delete_and_exists, children, acls, add_auth_on_a_live_connection, transactions, async_calls_keep_their_order,
          sync_and_chroot, version_and_commands, watches_on_calls, session_resumed, restart_and_close)
    start(pipelined_sets_before_add_auth)
    start(states_over_a_cut)
    start_patient(states_over_expiry)
    start(retry_over_cuts)
