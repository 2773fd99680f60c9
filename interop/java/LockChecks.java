import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.zookeeper.KeeperException;

/** Locks and elections between two clients. */
final class LockChecks {
    private final CuratorFramework a;
    private final CuratorFramework b;

    LockChecks() throws Exception {
        a = Clients.connect(Check.server());
        b = Clients.connect(Check.server());
    }

    void startAll() {
        Check.start("mutex", this::mutex);
        Check.start("mutex-contended", this::mutexContended);
        Check.start("mutex-over-a-cut", this::mutexOverACut);
        Check.startPatient("mutex-freed-by-expiry", this::mutexFreedByExpiry);
        Check.start("semaphore-mutex", this::semaphoreMutex);
        Check.start("semaphore", this::semaphore);
        Check.start("read-write-lock", this::readWriteLock);
        Check.start("multi-lock", this::multiLock);
        Check.start("leader-latch", this::leaderLatch);
        Check.startPatient("leader-latch-handover-by-expiry", this::latchHandover);
        Check.start("leader-selector", this::leaderSelector);
    }

    private void mutex() throws Exception {
        InterProcessMutex first = new InterProcessMutex(a, "/lock/mutex");
        InterProcessMutex second = new InterProcessMutex(b, "/lock/mutex");
        first.acquire();
        first.acquire(); // reentrant
        Check.that(!second.acquire(100, TimeUnit.MILLISECONDS), "the other waits in vain");
        first.release();
        Check.that(first.isAcquiredInThisProcess(), "still held");
        first.release();
        Check.that(second.acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the other gets it");
        Check.equal(1, second.getParticipantNodes().size(), "participants");
        second.release();
    }

    private void mutexContended() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger worst = new AtomicInteger();
        AtomicInteger total = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            CuratorFramework c = i % 2 == 0 ? a : b;
            Thread t = new Thread(() -> {
                InterProcessMutex m = new InterProcessMutex(c, "/lock/contended");
                for (int k = 0; k < 15; k++) {
                    try {
                        m.acquire();
                        worst.accumulateAndGet(inside.incrementAndGet(), Math::max);
                        total.incrementAndGet();
                        inside.decrementAndGet();
                        m.release();
                    } catch (Exception e) {
                        worst.set(1000);
                    }
                }
            });
            t.start();
            threads.add(t);
        }
        for (Thread t : threads) {
            t.join();
        }
        Check.equal(120, total.get(), "holds");
        Check.equal(1, worst.get(), "holders at once");
    }

    /** The connection is cut between the create and its reply, again and again: never two nodes of one contender. */
    private void mutexOverACut() throws Exception {
        a.create().forPath("/lock-cut"); // a container would be reaped between two rounds
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.connect(proxy.address);
        InterProcessMutex m = new InterProcessMutex(c, "/lock-cut");
        InterProcessMutex other = new InterProcessMutex(a, "/lock-cut");
        for (int i = 0; i < 3; i++) {
            proxy.order("hold");
            CountDownLatch held = new CountDownLatch(1);
            CountDownLatch letGo = new CountDownLatch(1);
            CountDownLatch over = new CountDownLatch(1);
            Thread t = new Thread(() -> {
                try {
                    m.acquire();
                    held.countDown();
                    letGo.await();
                    m.release();
                    over.countDown();
                } catch (Exception e) {
                    e.printStackTrace();
                }
            });
            t.start();
            Check.await("the create is applied", () -> children("/lock-cut") == 1);
            proxy.order("cut");
            Check.that(held.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the lock is acquired after all");
            Check.equal(1, children("/lock-cut"), "nodes of the holder");
            Check.that(!other.acquire(50, TimeUnit.MILLISECONDS), "the other waits in vain");
            letGo.countDown();
            Check.that(over.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the lock is released");
            Check.await("the queue is empty", () -> children("/lock-cut") == 0);
        }
        c.close();
        proxy.close();
    }

    private int children(String path) {
        try {
            return a.getChildren().forPath(path).size();
        } catch (KeeperException.NoNodeException e) {
            return 0; // the recipes make containers, which the server removes when they are empty
        } catch (Exception e) {
            return -1;
        }
    }

    private void mutexFreedByExpiry() throws Exception {
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.builder(proxy.address).sessionTimeoutMs(Check.EXPIRY_MS).build();
        c.start();
        new InterProcessMutex(c, "/lock/expiry").acquire();
        proxy.order("refuse");
        InterProcessMutex other = new InterProcessMutex(a, "/lock/expiry");
        Check.that(other.acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "expiry frees the lock");
        other.release();
        c.close();
        proxy.close();
    }

    private void semaphoreMutex() throws Exception {
        InterProcessSemaphoreMutex first = new InterProcessSemaphoreMutex(a, "/lock/semmutex");
        InterProcessSemaphoreMutex second = new InterProcessSemaphoreMutex(b, "/lock/semmutex");
        first.acquire();
        Check.that(!second.acquire(100, TimeUnit.MILLISECONDS), "the other waits in vain");
        first.release();
        Check.that(second.acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the other gets it");
        second.release();
    }

    private void semaphore() throws Exception {
        InterProcessSemaphoreV2 s = new InterProcessSemaphoreV2(a, "/lock/semaphore", 3);
        InterProcessSemaphoreV2 t = new InterProcessSemaphoreV2(b, "/lock/semaphore", 3);
        Collection<Lease> two = s.acquire(2);
        Lease third = t.acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
        Check.that(third != null, "the third lease");
        Check.equal(null, t.acquire(100, TimeUnit.MILLISECONDS), "a fourth lease");
        s.returnAll(two);
        Collection<Lease> more = t.acquire(2, Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
        Check.equal(2, more.size(), "leases");
        t.returnAll(more);
        t.returnLease(third);
        try {
            Check.equal(0, s.getParticipantNodes().size(), "leases left");
        } catch (KeeperException.NoNodeException e) {
            return; // the server has removed the container, which is empty then
        }
    }

    private void readWriteLock() throws Exception {
        InterProcessReadWriteLock first = new InterProcessReadWriteLock(a, "/lock/rw");
        InterProcessReadWriteLock second = new InterProcessReadWriteLock(b, "/lock/rw");
        first.readLock().acquire();
        Check.that(second.readLock().acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "readers together");
        Check.that(!second.writeLock().acquire(100, TimeUnit.MILLISECONDS), "no writer beside readers");
        second.readLock().release();
        first.readLock().release();
        Check.that(second.writeLock().acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "a writer alone");
        Check.that(!first.readLock().acquire(100, TimeUnit.MILLISECONDS), "no reader beside a writer");
        Check.that(second.readLock().acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the writer may read");
        second.writeLock().release();
        Check.that(first.readLock().acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "readers again");
        first.readLock().release();
        second.readLock().release();
    }

    private void multiLock() throws Exception {
        InterProcessMultiLock many = new InterProcessMultiLock(a, List.of("/lock/m1", "/lock/m2"));
        InterProcessMutex one = new InterProcessMutex(b, "/lock/m2");
        one.acquire();
        Check.that(!many.acquire(100, TimeUnit.MILLISECONDS), "all or none");
        Check.equal(0, children("/lock/m1"), "nodes left behind");
        one.release();
        Check.that(many.acquire(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "both");
        many.release();
    }

    private void leaderLatch() throws Exception {
        LeaderLatch first = new LeaderLatch(a, "/leader/latch", "first");
        LeaderLatch second = new LeaderLatch(b, "/leader/latch", "second");
        first.start();
        Check.that(first.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the first leads");
        second.start();
        Check.await("both take part", () -> children("/leader/latch") == 2);
        Check.that(!second.hasLeadership(), "the second does not lead");
        Check.equal("first", second.getLeader().getId(), "leader");
        first.close();
        Check.that(second.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the second leads");
        second.close();
    }

    private void latchHandover() throws Exception {
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.builder(proxy.address).sessionTimeoutMs(Check.EXPIRY_MS).build();
        c.start();
        LeaderLatch first = new LeaderLatch(c, "/leader/handover", "first");
        first.start();
        Check.that(first.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the first leads");
        LeaderLatch second = new LeaderLatch(a, "/leader/handover", "second");
        second.start();
        proxy.order("refuse");
        Check.that(second.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the second leads");
        Check.that(!first.hasLeadership(), "the first knows that it does not");
        proxy.order("pass");
        Check.await("the first stands in line again", () -> children("/leader/handover") == 2);
        second.close();
        Check.that(first.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the first leads again");
        first.close();
        c.close();
        proxy.close();
    }

    private void leaderSelector() throws Exception {
        BlockingQueue<String> turns = new LinkedBlockingQueue<>();
        List<LeaderSelector> all = Collections.synchronizedList(new ArrayList<>());
        for (String name : List.of("x", "y", "z")) {
            LeaderSelector s = new LeaderSelector(name.equals("y") ? b : a, "/leader/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) {
                    turns.add(name);
                }
            });
            s.setId(name);
            s.autoRequeue();
            s.start();
            all.add(s);
        }
        List<String> seen = new ArrayList<>();
        while (!seen.containsAll(List.of("x", "y", "z"))) {
            String turn = turns.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
            Check.that(turn != null, "somebody leads");
            seen.add(turn);
        }
        for (LeaderSelector s : all) {
            s.close();
        }
    }
}
