"""A kazoo client that does what it is told: a line of fields between tabs, and one as the answer.

usage: client.py SERVERS TIMEOUT-IN-MS
"""

import logging
import os
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.retry import KazooRetry

logging.disable(logging.CRITICAL)  # what it has to say of faults is expected

PATIENCE = 4  # seconds for an answer, as the other clients of these tests have

# Codes by which kazoo says that it does not know what became of a request.
LOST = (-4, -7, -112, -118)

zk = KazooClient(
    hosts=sys.argv[1],
    timeout=int(sys.argv[2]) / 1000,
    connection_retry=KazooRetry(max_tries=-1, delay=0.02, max_delay=0.2),
    command_retry=KazooRetry(max_tries=-1, delay=0.02, max_delay=0.2, deadline=PATIENCE),
)
lock = None


def wait(result):
    return result.get(timeout=PATIENCE)


def stat(s):
    return {"version": s.version, "czxid": s.czxid, "mzxid": s.mzxid, "owner": s.ephemeralOwner}


def set_(path, value, version, _):
    return stat(wait(zk.set_async(path, value.encode(), int(version))))


def create(path, value, *_):
    path, s = wait(zk.create_async(path, value.encode(), include_data=True))
    return dict(stat(s), value=path)


def delete(path, _, version, *__):
    wait(zk.delete_async(path, int(version)))
    return {}


def sync_get(path, *_):
    def both():
        wait(zk.sync_async(path))
        return wait(zk.get_async(path))

    data, s = zk.retry(both)  # reads may be repeated: here it is the library that does so
    return dict(stat(s), value=data.decode())


def exists(path, *_):
    s = zk.retry(lambda: wait(zk.exists_async(path)))
    return stat(s) if s else {"code": -101}


def acquire(path, name, _, seconds):
    global lock
    lock = zk.Lock(path, name)
    if not lock.acquire(timeout=int(seconds)):
        return {"lost": "not acquired"}
    return {"value": lock.node}


def release(*_):
    lock.release()
    return {}


def answer(do, *args):
    try:
        return DO[do](*args)
    except KazooException as e:
        code = getattr(e, "code", None)
        return {"lost": repr(e)} if code is None or code in LOST else {"code": code}
    except zk.handler.timeout_exception as e:
        return {"lost": repr(e)}


def say(reply):
    live = zk.client_id  # None while it has no connection
    fields = [live[0] if live else 0, *(reply.get(name, default) for name, default in FIELDS)]
    print(*(" ".join(str(f).split()) for f in fields), sep="\t", flush=True)


DO = {"set": set_, "create": create, "delete": delete, "sync-get": sync_get, "exists": exists, "acquire": acquire, "release": release}

FIELDS = (("lost", ""), ("code", 0), ("value", ""), ("version", 0), ("czxid", 0), ("mzxid", 0), ("owner", 0))

zk.start(timeout=1000)  # how long is up to who reads
say({})
for line in sys.stdin:
    say(answer(*line.rstrip("\n").split("\t")))
os._exit(0)  # whoever gave the orders is gone; the session is left to expire
