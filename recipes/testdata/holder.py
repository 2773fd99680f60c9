"""Holds locks of kazoo as it is told on standard input, one answer per line.

acquire <milliseconds> [path]  -> ok | timeout; the path is that of the command line if it is not given
release                        -> ok
work <n>                -> ok, after n rounds of: lock, read /counter, write it plus one, unlock
"""
import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.lock import Lock, ReadLock, WriteLock

logging.disable(logging.CRITICAL)


class CuratorLock(Lock):
    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class LatchLock(Lock):
    _NODE_NAME = "-latch-"
    _EXCLUDE_NAMES = ["-latch-"]


def main(address, kind, path):
    client = KazooClient(hosts=address, timeout=10)
    client.start(timeout=120)
    if kind == "semaphore":
        make = lambda path: client.Semaphore(path, "kazoo", max_leases=1)
    elif kind == "extra":
        make = lambda path: Lock(client, path, "kazoo", extra_lock_patterns=["-lock-"])
    else:
        recipe = {"lock": Lock, "curator": CuratorLock, "latch": LatchLock, "read": ReadLock, "write": WriteLock}[kind]
        make = lambda path: recipe(client, path, "kazoo")
    lock = None
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        answer = "ok"
        if words[0] == "acquire":
            lock = make(words[2] if len(words) > 2 else path)
            try:
                if not lock.acquire(timeout=int(words[1]) / 1000):
                    answer = "timeout"
            except LockTimeout:
                answer = "timeout"
        elif words[0] == "release":
            lock.release()
        elif words[0] == "work":
            for _ in range(int(words[1])):
                with make(path):
                    data, _ = client.get("/counter")
                    client.set("/counter", str(int(data) + 1).encode())
        print(answer, flush=True)
    client.stop()


main(*sys.argv[1:])
