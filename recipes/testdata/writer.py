"""Writes with kazoo's recipes what interop_values_test.go reads, and reads what that writes."""
import datetime
import logging
import sys

from kazoo.client import KazooClient
from kazoo.recipe.barrier import DoubleBarrier
from kazoo.recipe.partitioner import SetPartitioner

logging.disable(logging.CRITICAL)
client = KazooClient(hosts=sys.argv[1], timeout=10)
client.start(timeout=120)

queue = client.Queue("/queue")
queue.put(b"last", priority=200)
queue.put(b"first", priority=5)
locking = client.LockingQueue("/locking")
locking.put(b"one")
counter = client.Counter("/counter")
counter += 40
party = client.Party("/party", "python")
party.join()
shallow = client.ShallowParty("/shallow", "python")
shallow.join()
hour = datetime.timedelta(hours=1)
if not client.NonBlockingLease("/lease", hour, "python"):
    sys.exit("the lease is not to be had")
print("ready", flush=True)
barrier = DoubleBarrier(client, "/barrier", 2)
barrier.enter()
print("entered", flush=True)
barrier.leave()
print("left", flush=True)
sys.stdin.readline()
item = locking.get(timeout=120)
locking.consume()
print(queue.get().decode(), item.decode(), client.Counter("/counter").value, sorted(party), sorted(shallow),
      bool(client.NonBlockingLease("/lease-of-go", hour, "python")), flush=True)
sys.stdin.readline()
partitioner = SetPartitioner(client, "/partition", ["a", "b", "c", "d"], identifier="z", time_boundary=0.3)
while not partitioner.acquired:
    if partitioner.failed:
        sys.exit("partitioner failed")
    if partitioner.release:
        partitioner.release_set()
    else:
        partitioner.wait_for_acquire(120)
print(sorted(partitioner), flush=True)
sys.stdin.readline()
partitioner.finish()
client.stop()
