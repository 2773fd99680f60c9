"""Asks for kazoo's leases as it is told on standard input, one answer per line: True or False.

<path> <id> <places> <hours>: for an hour, by a clock that is so many hours ahead; places 0 is a NonBlockingLease
"""
import datetime
import logging
import sys

from kazoo.client import KazooClient

logging.disable(logging.CRITICAL)
client = KazooClient(hosts=sys.argv[1], timeout=10)
client.start(timeout=120)
hour = datetime.timedelta(hours=1)
print("ready", flush=True)
for line in sys.stdin:
    path, ident, places, hours = line.split()
    now = lambda: datetime.datetime.utcnow() + int(hours) * hour
    if int(places):
        lease = client.MultiNonBlockingLease(int(places), path, hour, ident, utcnow=now)
    else:
        lease = client.NonBlockingLease(path, hour, ident, utcnow=now)
    print(bool(lease), flush=True)
client.stop()
