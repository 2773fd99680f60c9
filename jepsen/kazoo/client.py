"""A kazoo client that does what it is told: one JSON object a line, and one as the answer.

usage: client.py SERVERS TIMEOUT-IN-SECONDS
"""

import json
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
    timeout=float(sys.argv[2]),
    connection_retry=KazooRetry(max_tries=-1, delay=0.02, max_delay=0.2),
    command_retry=KazooRetry(max_tries=-1, delay=0.02, max_delay=0.2, deadline=PATIENCE),
)
lock = None


def wait(result):
    return result.get(timeout=PATIENCE)


def stat(s):
    return {"version": s.version, "czxid": s.czxid, "mzxid": s.mzxid, "owner": s.ephemeralOwner}


def set_(q):
    return stat(wait(zk.set_async(q["path"], q["value"].encode(), q["version"])))


def create(q):
    path, s = wait(zk.create_async(q["path"], q["value"].encode(), include_data=True))
    return dict(stat(s), value=path)


def delete(q):
    wait(zk.delete_async(q["path"], q["version"]))
    return {}


def sync_get(q):
    def both():
        wait(zk.sync_async(q["path"]))
        return wait(zk.get_async(q["path"]))

    data, s = zk.retry(both)  # reads may be repeated: here it is the library that does so
    return dict(stat(s), value=data.decode())


def exists(q):
    s = zk.retry(lambda: wait(zk.exists_async(q["path"])))
    return stat(s) if s else {"code": -101}


def acquire(q):
    global lock
    lock = zk.Lock(q["path"], q["value"])
    if not lock.acquire(timeout=q["seconds"]):
        return {"lost": "not acquired"}
    return {"value": lock.node}


def release(_):
    lock.release()
    return {}


def answer(q):
    try:
        return DO[q["do"]](q)
    except KazooException as e:
        code = getattr(e, "code", None)
        return {"lost": repr(e)} if code is None or code in LOST else {"code": code}
    except zk.handler.timeout_exception as e:
        return {"lost": repr(e)}


DO = {"set": set_, "create": create, "delete": delete, "sync-get": sync_get, "exists": exists, "acquire": acquire, "release": release}

zk.start(timeout=1000)  # how long is up to who reads
print(json.dumps({"session": zk.client_id[0]}), flush=True)
for line in sys.stdin:
    reply = answer(json.loads(line))
    live = zk.client_id  # None while it has no connection
    print(json.dumps(dict(reply, session=live[0] if live else 0)), flush=True)
os._exit(0)  # whoever gave the orders is gone; the session is left to expire
