"""kazoo's recipes, between two clients and over cut connections."""

import threading

from kazoo.exceptions import LockTimeout
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock
from kazoo.recipe.party import Party, ShallowParty
from kazoo.recipe.queue import LockingQueue, Queue

from harness import EXPIRY, PATIENCE, Proxy, connect, equal, fails, start, start_patient, true, wait

a = connect()
b = connect()


def lock():
    first, second = Lock(a, "/kr/lock", "first"), Lock(b, "/kr/lock", "second")
    true(first.acquire(), "the first gets it")
    true(not second.acquire(blocking=False), "the second does not")
    with fails(LockTimeout):
        second.acquire(timeout=0.1)
    equal(["first"], second.contenders(), "contenders")
    first.release()
    true(second.acquire(timeout=PATIENCE), "the second gets it")
    second.release()


def lock_contended():
    inside, worst, total = [0], [0], [0]

    def work(client):
        lock = Lock(client, "/kr/contended")
        for _ in range(10):
            with lock:
                inside[0] += 1
                worst[0] = max(worst[0], inside[0])
                total[0] += 1
                inside[0] -= 1

    threads = [threading.Thread(target=work, args=(c,)) for c in (a, b) * 3]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    equal((60, 1), (total[0], worst[0]), "holds, holders at once")


def lock_freed_by_expiry():
    proxy = Proxy()
    c = connect(proxy.address, timeout=EXPIRY)
    true(Lock(c, "/kr/expiry").acquire(), "the first gets it")
    proxy.order("refuse")
    other = Lock(a, "/kr/expiry")
    true(other.acquire(timeout=PATIENCE), "expiry frees the lock")
    other.release()
    proxy.order("pass")
    c.stop()
    proxy.close()


def lock_over_a_cut():
    """The reply to the create is lost: the retry must find the node and not make a second."""
    a.ensure_path("/kr/cut")
    proxy = Proxy()
    c = connect(proxy.address)
    lock = Lock(c, "/kr/cut")
    lock.assured_path = True  # so that the create is the first request
    proxy.order("hold")
    got = threading.Event()
    t = threading.Thread(target=lambda: lock.acquire() and got.set())
    t.start()
    wait("the create is applied", lambda: len(a.get_children("/kr/cut")) == 1)
    proxy.order("cut")
    true(got.wait(PATIENCE), "acquired after all")
    equal(1, len(a.get_children("/kr/cut")), "nodes of the holder")
    lock.release()
    c.stop()
    proxy.close()


def read_and_write_locks():
    r1, r2, w = ReadLock(a, "/kr/rw"), ReadLock(b, "/kr/rw"), WriteLock(b, "/kr/rw")
    true(r1.acquire(timeout=PATIENCE) and r2.acquire(timeout=PATIENCE), "readers together")
    true(not w.acquire(blocking=False), "no writer beside readers")
    r1.release()
    r2.release()
    true(w.acquire(timeout=PATIENCE), "a writer alone")
    true(not r1.acquire(blocking=False), "no reader beside a writer")
    w.release()


def semaphore():
    s1, s2, s3 = (Semaphore(c, "/kr/semaphore", max_leases=2) for c in (a, b, a))
    true(s1.acquire() and s2.acquire(), "two leases")
    true(not s3.acquire(blocking=False), "no third")
    s1.release()
    true(s3.acquire(timeout=PATIENCE), "a lease that was given back")
    s2.release()
    s3.release()


def election():
    order, release = [], threading.Event()

    def lead(name):
        order.append(name)
        release.wait(PATIENCE)

    first = threading.Thread(target=Election(a, "/kr/election", "first").run, args=(lead, "first"))
    first.start()
    wait("the first leads", lambda: order == ["first"])
    second_election = Election(b, "/kr/election", "second")
    second = threading.Thread(target=second_election.run, args=(lead, "second"))
    second.start()
    wait("both stand", lambda: second_election.contenders() == ["first", "second"])
    equal(["first"], order, "leaders")
    release.set()
    first.join(PATIENCE)
    second.join(PATIENCE)
    equal(["first", "second"], order, "leaders")


def party():
    p, q = Party(a, "/kr/party", "p"), Party(b, "/kr/party", "q")
    p.join()
    q.join()
    equal(["p", "q"], sorted(p), "members")
    q.leave()
    equal(["p"], list(p), "members")
    s = ShallowParty(a, "/kr/shallow", "s")
    s.join()
    equal((1, ["s"]), (len(s), list(s)), "members")


def counter():
    a.ensure_path("/kr")

    def work(client):
        n = client.Counter("/kr/counter")
        for _ in range(10):
            n += 2

    threads = [threading.Thread(target=work, args=(c,)) for c in (a, b)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    equal(40, a.Counter("/kr/counter").value, "sum")
    f = a.Counter("/kr/float", default=1.0)
    f -= 0.5
    equal(0.5, b.Counter("/kr/float", default=1.0).value, "float")


def data_watch():
    seen = []
    a.ensure_path("/kr/dw")

    @a.DataWatch("/kr/dw/n")
    def changed(data, stat, event):
        seen.append((data, event.type if event else None))

    wait("called once", lambda: len(seen) == 1)
    b.create("/kr/dw/n", b"1")
    wait("created", lambda: len(seen) == 2)
    b.set("/kr/dw/n", b"2")
    wait("changed", lambda: len(seen) == 3)
    b.delete("/kr/dw/n")
    wait("deleted", lambda: len(seen) == 4)
    equal([(None, None), (b"1", "CREATED"), (b"2", "CHANGED"), (None, "DELETED")], seen, "calls")


def children_watch():
    seen = []
    a.ensure_path("/kr/cw")

    @a.ChildrenWatch("/kr/cw")
    def changed(names):
        seen.append(sorted(names))
        return len(seen) < 4

    for n in "xyz":
        wait("called", lambda: len(seen) == "xyz".index(n) + 1)
        b.create("/kr/cw/" + n)
    wait("called", lambda: len(seen) == 4)
    b.delete("/kr/cw/x")
    equal([[], ["x"], ["x", "y"], ["x", "y", "z"]], seen, "calls")


def watches_after_a_cut():
    proxy = Proxy()
    c = connect(proxy.address)
    a.ensure_path("/kr/cutwatch")
    data, names = [], []
    c.DataWatch("/kr/cutwatch", lambda d, s: data.append(d))
    c.ChildrenWatch("/kr/cutwatch", lambda n: names.append(sorted(n)))
    wait("both called", lambda: len(data) == 1 and len(names) == 1)
    proxy.order("refuse")
    a.set("/kr/cutwatch", b"meanwhile")
    a.create("/kr/cutwatch/child")
    proxy.order("pass")
    wait("the change of the gap is seen", lambda: data[-1] == b"meanwhile" and names[-1] == ["child"])
    a.set("/kr/cutwatch", b"later")
    wait("a later change is seen", lambda: data[-1] == b"later")
    c.stop()
    proxy.close()


def barrier():
    first, second = Barrier(a, "/kr/barrier"), Barrier(b, "/kr/barrier")
    first.create()
    true(not second.wait(0.1), "the barrier holds")
    true(first.remove(), "it is removed")
    true(second.wait(PATIENCE), "it is gone")


def double_barrier():
    log, mutex = [], threading.Lock()

    def work(client, name):
        d = DoubleBarrier(client, "/kr/double", 3, name)
        d.enter()
        with mutex:
            log.append("in")
        d.leave()
        with mutex:
            log.append("out")

    threads = [threading.Thread(target=work, args=(c, str(i))) for i, c in enumerate((a, b, a))]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    equal(["in"] * 3, sorted(log)[:3], "all enter")
    equal(6, len(log), "all leave")
    equal([], a.get_children("/kr/double"), "nodes left")


def queues():
    q, r = Queue(a, "/kr/queue"), Queue(b, "/kr/queue")
    for i in range(5):
        q.put(b"%d" % i, priority=90 if i == 4 else 100)
    equal([b"4", b"0", b"1", b"2", b"3", None], [r.get() for _ in range(6)], "items")
    l, m = LockingQueue(a, "/kr/lqueue"), LockingQueue(b, "/kr/lqueue")
    l.put_all([b"x", b"y"])
    equal(b"x", m.get(timeout=PATIENCE), "item")
    true(m.holds_lock(), "held")
    true(m.consume(), "consumed")
    equal(b"y", l.get(timeout=PATIENCE), "item")
    true(l.release(), "given back")
    equal(b"y", m.get(timeout=PATIENCE), "item")
    true(m.consume(), "consumed")


def partitioner():
    a.ensure_path("/kr/part")
    p, q = (c.SetPartitioner("/kr/part", set=("1", "2", "3"), partition_func=None, identifier=n, time_boundary=0.5) for c, n in ((a, "p"), (b, "q")))

    def settled(s):
        true(not s.failed, "partitioning goes on")
        if s.release:
            s.release_set()
        return s.acquired

    # Each time both are asked: one of them may wait for what the other has to release.
    wait("the parts are disjoint and complete", lambda: all([settled(p), settled(q)]) and sorted(list(p) + list(q)) == ["1", "2", "3"])
    p.finish()
    q.finish()


def lease():
    from datetime import timedelta
    first = a.NonBlockingLease("/kr/lease", timedelta(seconds=60), identifier="first")
    true(bool(first), "the first has it")
    true(not b.NonBlockingLease("/kr/lease", timedelta(seconds=60), identifier="second"), "the second has not")


def tree_cache():
    events = []
    a.ensure_path("/kr/tree")
    cache = TreeCache(a, "/kr/tree")
    cache.listen(lambda e: events.append((e.event_type, e.event_data and e.event_data.path)))
    cache.start()
    wait("initialized", lambda: (TreeEvent.INITIALIZED, None) in events)
    b.create("/kr/tree/n", b"1")
    wait("added", lambda: (TreeEvent.NODE_ADDED, "/kr/tree/n") in events)
    b.set("/kr/tree/n", b"2")
    wait("updated", lambda: (TreeEvent.NODE_UPDATED, "/kr/tree/n") in events)
    equal(b"2", cache.get_data("/kr/tree/n").data, "data")
    b.delete("/kr/tree/n")
    wait("removed", lambda: (TreeEvent.NODE_REMOVED, "/kr/tree/n") in events)
    cache.close()


def start_all():
    start(lock, read_and_write_locks, semaphore, election, party, counter)
    start(lock_contended, data_watch, children_watch, barrier, double_barrier, queues, lease, tree_cache)
    start(lock_over_a_cut)
    start_patient(lock_freed_by_expiry)
    start(watches_after_a_cut)
    start(partitioner)
