import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;

/** Barriers, counters, nodes, groups and queues. */
@SuppressWarnings("deprecation")
final class RecipeChecks {
    private static final byte[] X = {'x'};

    private final CuratorFramework a;
    private final CuratorFramework b;

    RecipeChecks() throws Exception {
        a = Clients.connect(Check.server());
        b = Clients.connect(Check.server());
    }

    void startAll() {
        Check.start("barrier", this::barrier);
        Check.start("double-barrier", this::doubleBarrier);
        Check.start("atomic-long", this::atomicLong);
        Check.start("atomic-integer", this::atomicInteger);
        Check.start("shared-count", this::sharedCount);
        Check.start("shared-value", this::sharedValue);
        Check.start("persistent-node", this::persistentNode);
        Check.startPatient("persistent-node-over-expiry", this::persistentNodeOverExpiry);
        Check.start("persistent-ttl-node", this::persistentTtlNode);
        Check.start("group-member", this::groupMember);
        Check.start("persistent-watcher", this::persistentWatcher);
        Check.start("simple-queue", this::simpleQueue);
        Check.start("distributed-queue", this::distributedQueue);
    }

    private void barrier() throws Exception {
        DistributedBarrier first = new DistributedBarrier(a, "/barrier");
        DistributedBarrier second = new DistributedBarrier(b, "/barrier");
        first.setBarrier();
        Check.that(!second.waitOnBarrier(100, TimeUnit.MILLISECONDS), "the barrier holds");
        first.removeBarrier();
        Check.that(second.waitOnBarrier(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the barrier is gone");
    }

    private void doubleBarrier() throws Exception {
        CountDownLatch in = new CountDownLatch(3);
        CountDownLatch out = new CountDownLatch(3);
        for (int i = 0; i < 3; i++) {
            CuratorFramework c = i == 1 ? b : a;
            Thread t = new Thread(() -> {
                try {
                    DistributedDoubleBarrier d = new DistributedDoubleBarrier(c, "/double", 3);
                    if (d.enter(Check.PATIENCE_MS, TimeUnit.MILLISECONDS)) {
                        in.countDown();
                    }
                    if (d.leave(Check.PATIENCE_MS, TimeUnit.MILLISECONDS)) {
                        out.countDown();
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                }
            });
            t.start();
        }
        Check.that(in.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "all enter");
        Check.that(out.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "all leave");
    }

    private void atomicLong() throws Exception {
        List<Thread> threads = new ArrayList<>();
        List<String> wrong = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            CuratorFramework c = i % 2 == 0 ? a : b;
            Thread t = new Thread(() -> {
                DistributedAtomicLong n = new DistributedAtomicLong(c, "/atomic-long", new RetryNTimes(1000, 2));
                for (int k = 0; k < 25; k++) {
                    try {
                        AtomicValue<Long> v = n.increment();
                        if (!v.succeeded()) {
                            wrong.add("no success");
                        }
                    } catch (Exception e) {
                        wrong.add(e.toString());
                    }
                }
            });
            t.start();
            threads.add(t);
        }
        for (Thread t : threads) {
            t.join();
        }
        Check.equal(List.of(), wrong, "failures");
        Check.equal(100L, new DistributedAtomicLong(a, "/atomic-long", new RetryNTimes(10, 10)).get().postValue(), "sum");
    }

    private void atomicInteger() throws Exception {
        DistributedAtomicInteger n = new DistributedAtomicInteger(a, "/atomic-int", new RetryNTimes(10, 10));
        Check.that(n.initialize(5), "set once");
        Check.that(!n.initialize(6), "not twice");
        Check.equal(8, n.add(3).postValue(), "sum");
        Check.that(n.compareAndSet(8, 1).succeeded(), "compare and set");
        Check.that(!n.compareAndSet(8, 2).succeeded(), "compare fails");
    }

    private void sharedCount() throws Exception {
        SharedCount first = new SharedCount(a, "/shared-count", 1);
        SharedCount second = new SharedCount(b, "/shared-count", 1);
        BlockingQueue<Integer> seen = new LinkedBlockingQueue<>();
        first.start();
        second.start();
        second.addListener(new SharedCountListener() {
            @Override
            public void countHasChanged(SharedCountReader reader, int count) {
                seen.add(count);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        });
        first.setCount(7);
        Check.equal(7, seen.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "count seen");
        Check.that(second.trySetCount(second.getVersionedValue(), 8), "set by version");
        Check.await("the first sees it", () -> first.getCount() == 8);
        first.close();
        second.close();
    }

    private void sharedValue() throws Exception {
        SharedValue first = new SharedValue(a, "/shared-value", X);
        SharedValue second = new SharedValue(b, "/shared-value", X);
        first.start();
        second.start();
        for (int i = 0; i < 20; i++) {
            byte[] v = Integer.toString(i).getBytes();
            first.setValue(v);
            Check.await("the second sees value " + new String(v), () -> java.util.Arrays.equals(v, second.getValue()));
        }
        first.close();
        second.close();
    }

    private void persistentNode() throws Exception {
        PersistentNode n = new PersistentNode(a, CreateMode.EPHEMERAL, false, "/pnode", X);
        n.start();
        Check.that(n.waitForInitialCreate(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "made");
        long first = b.checkExists().forPath("/pnode").getCzxid();
        b.delete().forPath("/pnode");
        Check.await("made again", () -> {
            try {
                return b.checkExists().forPath("/pnode") != null && b.checkExists().forPath("/pnode").getCzxid() > first;
            } catch (Exception e) {
                return false;
            }
        });
        n.close();
        Check.that(b.checkExists().forPath("/pnode") == null, "gone with close");
    }

    private void persistentNodeOverExpiry() throws Exception {
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.builder(proxy.address).sessionTimeoutMs(Check.EXPIRY_MS).build();
        c.start();
        PersistentNode n = new PersistentNode(c, CreateMode.EPHEMERAL, false, "/pnode-expiry", X);
        n.start();
        Check.that(n.waitForInitialCreate(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "made");
        long owner = a.checkExists().forPath("/pnode-expiry").getEphemeralOwner();
        proxy.order("refuse");
        Check.await("gone with the session", () -> {
            try {
                return a.checkExists().forPath("/pnode-expiry") == null;
            } catch (Exception e) {
                return false;
            }
        });
        proxy.order("pass");
        Check.await("made again by a new session", () -> {
            try {
                return a.checkExists().forPath("/pnode-expiry") != null && a.checkExists().forPath("/pnode-expiry").getEphemeralOwner() != owner;
            } catch (Exception e) {
                return false;
            }
        });
        n.close();
        c.close();
        proxy.close();
    }

    /**
     * The recipe touches a child before each ttl is over: the node outlives several. Where the machine stands still for
     * longer than that, or there is no leader, the touch comes too late: then it is tried again.
     */
    private void persistentTtlNode() throws Exception {
        boolean kept = false;
        for (int i = 0; i < 10 && !kept; i++) {
            String path = "/ttlnode-" + i;
            PersistentTtlNode n = new PersistentTtlNode(a, path, 1500, X);
            n.start();
            Check.that(n.waitForInitialCreate(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "made");
            long until = System.nanoTime() + 4_000_000_000L;
            do {
                kept = b.checkExists().forPath(path) != null;
                Thread.sleep(100);
            } while (kept && System.nanoTime() < until);
            n.close();
            Check.await("removed by the server after close", () -> {
                try {
                    return b.checkExists().forPath(path) == null;
                } catch (Exception e) {
                    return false;
                }
            });
        }
        Check.that(kept, "kept alive");
    }

    private void groupMember() throws Exception {
        GroupMember first = new GroupMember(a, "/group", "first", X);
        GroupMember second = new GroupMember(b, "/group", "second", X);
        first.start();
        second.start();
        Check.await("both see both", () -> first.getCurrentMembers().size() == 2 && second.getCurrentMembers().size() == 2);
        first.close();
        Check.await("one is left", () -> second.getCurrentMembers().size() == 1);
        second.close();
    }

    private void persistentWatcher() throws Exception {
        PersistentWatcher w = new PersistentWatcher(a, "/pwatch", true);
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        CountDownLatch reset = new CountDownLatch(1);
        w.getListenable().addListener(events::add);
        w.getResetListenable().addListener(reset::countDown);
        w.start();
        Check.that(reset.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "the watch is set");
        b.create().creatingParentsIfNeeded().forPath("/pwatch/a", X);
        Check.equal(EventType.NodeCreated, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getType(), "event");
        Check.equal("/pwatch/a", events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getPath(), "path");
        w.close();
    }

    private void simpleQueue() throws Exception {
        SimpleDistributedQueue in = new SimpleDistributedQueue(a, "/queue-simple");
        SimpleDistributedQueue out = new SimpleDistributedQueue(b, "/queue-simple");
        for (int i = 0; i < 10; i++) {
            in.offer(Integer.toString(i).getBytes());
        }
        for (int i = 0; i < 10; i++) {
            Check.equal(Integer.toString(i), new String(out.take()), "item");
        }
        Check.equal(null, out.poll(), "item of an empty queue");
    }

    private void distributedQueue() throws Exception {
        BlockingQueue<String> got = new LinkedBlockingQueue<>();
        QueueSerializer<String> text = new QueueSerializer<>() {
            @Override
            public byte[] serialize(String s) {
                return s.getBytes();
            }

            @Override
            public String deserialize(byte[] p) {
                return new String(p);
            }
        };
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String s) {
                got.add(s);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        DistributedQueue<String> out = QueueBuilder.builder(b, consumer, text, "/queue-distributed").lockPath("/queue-locks").buildQueue();
        DistributedQueue<String> in = QueueBuilder.builder(a, null, text, "/queue-distributed").buildQueue();
        out.start();
        in.start();
        for (int i = 0; i < 20; i++) {
            in.put("item " + i);
        }
        List<String> all = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            all.add(got.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS));
        }
        for (int i = 0; i < 20; i++) {
            Check.that(all.contains("item " + i), "item " + i + " arrives");
        }
        in.close();
        out.close();
    }
}
