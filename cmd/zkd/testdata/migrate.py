"""What an application does with kazoo before and after its server is exchanged.

    migrate.py fill HOST:PORT            makes nodes of all kinds; prints the session
    migrate.py resume HOST:PORT ID PASS  goes on with that session
"""

import os
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.security import make_acl, make_digest_acl, OPEN_ACL_UNSAFE


def expect(want, got):
    if want != got:
        raise SystemExit("expected %r, got %r" % (want, got))


def start(hosts, client_id=None):
    zk = KazooClient(hosts=hosts, timeout=120, client_id=client_id)
    zk.start(timeout=60)
    zk.add_auth("digest", "owner:secret")
    return zk


def nodes(zk):
    zk.create("/app", b"root of the application")
    zk.create("/app/empty", b"")
    zk.create("/app/text", "Zo\u00eb \u65e5\u672c".encode())
    zk.create("/app/Zo\u00eb-\u65e5\u672c", b"a name that is not ASCII")
    zk.create("/app/binary", bytes(range(256)) * 100)
    for i in range(5):
        zk.set("/app/empty", b"version %d" % i)
    zk.ensure_path("/app/deep/er/and/deeper")
    for i in range(7):
        zk.create("/app/deep/n-", b"%d" % i, sequence=True)
    zk.delete("/app/deep/n-0000000006")
    zk.delete("/app/deep/n-0000000002")
    zk.create("/app/gone", b"x")
    zk.delete("/app/gone")


def permissions(zk):
    mine = [make_digest_acl("owner", "secret", all=True)]
    zk.create("/app/private", b"p", acl=mine)
    zk.create("/app/private/below", b"", acl=mine + [make_acl("world", "anyone", read=True)])
    zk.create("/app/later", b"")
    zk.set_acls("/app/later", mine + [make_acl("ip", "127.0.0.0/8", read=True)])
    zk.create("/app/open-again", b"", acl=mine)
    zk.set_acls("/app/open-again", OPEN_ACL_UNSAFE)


def transactions(zk):
    t = zk.transaction()
    t.create("/app/multi", b"m")
    t.create("/app/multi/child", b"c")
    t.set_data("/app/text", b"set in a multi")
    t.check("/app/empty", 5)
    t.delete("/app/deep/n-0000000001")
    expect([], [r for r in t.commit() if isinstance(r, Exception)])
    t = zk.transaction()
    t.create("/app/never", b"")
    t.delete("/app/none")
    expect(True, isinstance(t.commit()[1], Exception))
    expect(None, zk.exists("/app/never"))
    try:
        zk.create("/app/text", b"")
    except NodeExistsError:
        pass


def quota(zk):
    zk.ensure_path("/zookeeper/quota/app")
    zk.create("/zookeeper/quota/app/zookeeper_limits", b"count=1000,bytes=-1=;byteHardLimit=1000000")
    zk.create("/zookeeper/quota/app/zookeeper_stats", b"count=0,bytes=0")
    zk.create("/app/counted", b"by the quota")


def sessions(zk):
    zk.create("/app/live", b"")
    zk.create("/app/live/mine", b"e", ephemeral=True)
    zk.create("/app/live/lock-", b"", ephemeral=True, sequence=True)
    t = zk.transaction()
    t.create("/app/live/in-a-multi", b"", ephemeral=True)
    t.commit()


def fill(hosts):
    short = start(hosts)
    zk = start(hosts)
    for make in (nodes, permissions, transactions, quota, sessions):
        make(zk)
    short.create("/app/live/ended", b"", ephemeral=True)
    short.stop()
    expect(None, zk.exists("/app/live/ended"))
    session, password = zk.client_id
    print(session, password.hex(), flush=True)
    os._exit(0)  # without a close: the session lives on


def resume(hosts, session, password):
    session = int(session)
    zk = start(hosts, (session, bytes.fromhex(password)))
    expect(session, zk.client_id[0])
    for path in ("/app/live/mine", "/app/live/in-a-multi", "/app/live/lock-0000000001"):
        _, stat = zk.get(path)
        expect(session, stat.ephemeralOwner)
    created = zk.create("/app/deep/n-", b"", sequence=True)
    count = int(created[-10:]) - 8
    expect("/app/deep/n-%010d" % (8 + count), created)
    expect(True, count in (0, 1))
    expect(b"p", zk.get("/app/private")[0])
    os._exit(0)


{"fill": fill, "resume": resume}[sys.argv[1]](*sys.argv[2:])
