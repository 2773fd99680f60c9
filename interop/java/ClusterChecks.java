import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Clients that know all members of a cluster, whose leader is killed while they work. */
public final class ClusterChecks {
    private static final byte[] X = {'x'};
    private static final int ROUNDS = 2;
    private static final int CLIENTS = 6;

    private final Killer killer = new Killer();

    private ClusterChecks() throws Exception {}

    public static void main(String[] args) throws Exception {
        ClusterChecks c = new ClusterChecks();
        Check.run("several-handles", c::handles);
        Check.run("several-curator", c::curator);
        Check.run("several-curator-lock", c::curatorLock);
        c.killer.close();
        Check.finish();
    }

    /** A handle that says which member it is connected to. */
    private static final class Handle extends ZooKeeper {
        Handle(String servers, int timeoutMs, Watcher watcher) throws Exception {
            super(servers, timeoutMs, watcher);
        }

        String member() throws Exception {
            Check.await("connected", () -> testableRemoteSocketAddress() != null);
            InetSocketAddress at = (InetSocketAddress) testableRemoteSocketAddress();
            return at.getAddress().getHostAddress() + ":" + at.getPort();
        }
    }

    /** Works without a pause, in a thread of its own, until it is told to stop. */
    private abstract static class Worker {
        final AtomicInteger done = new AtomicInteger();
        final Queue<Throwable> failures = new ConcurrentLinkedQueue<>();
        private volatile boolean stopped;
        private Thread thread;

        abstract void work() throws Exception;

        void start() {
            stopped = false;
            thread = new Thread(() -> {
                while (!stopped) {
                    try {
                        work();
                        done.incrementAndGet();
                    } catch (Throwable e) {
                        failures.add(e);
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }

        /** Waits until so many pieces of work more are done. */
        void more(int n) throws Exception {
            int from = done.get();
            Check.await("work goes on", () -> done.get() >= from + n);
        }

        void stop() throws Exception {
            stopped = true;
            thread.join(Check.PATIENCE_MS);
            Check.that(!thread.isAlive(), "the worker ends");
        }
    }

    /** Lets the workers work, kills the leader, lets them work on; returns who was killed. */
    private String round(List<? extends Worker> workers, int n) throws Exception {
        for (Worker w : workers) {
            w.start();
        }
        for (Worker w : workers) {
            w.more(n);
        }
        String killed = killer.kill();
        for (Worker w : workers) {
            w.more(n);
        }
        killer.restart();
        for (Worker w : workers) {
            w.stop();
        }
        return killed;
    }

    private static final class HandleWorker extends Worker {
        final Events events = new Events();
        final Handle zk;
        final String path;
        int lost;

        HandleWorker(int i) throws Exception {
            zk = new Handle(Check.server(), 20000, events);
            events.await(KeeperState.SyncConnected);
            path = zk.create("/several-" + i, X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        }

        @Override
        void work() throws Exception {
            zk.setData(path, X, -1);
        }
    }

    private void handles() throws Exception {
        List<HandleWorker> all = new ArrayList<>();
        Set<String> members = new HashSet<>();
        while (all.size() < CLIENTS || members.size() < 3) {
            Check.that(all.size() < 100, "clients go to all members, not only to " + members);
            HandleWorker w = new HandleWorker(all.size());
            all.add(w);
            members.add(w.zk.member());
        }
        int cut = 0;
        for (int i = 0; i < ROUNDS; i++) {
            List<String> at = new ArrayList<>();
            List<Long> sessions = new ArrayList<>();
            for (HandleWorker w : all) {
                at.add(w.zk.member());
                sessions.add(w.zk.getSessionId());
                w.events.states.clear();
            }
            String killed = round(all, 50);
            for (int k = 0; k < all.size(); k++) {
                HandleWorker w = all.get(k);
                boolean ofKilled = at.get(k).equals(killed);
                String who = "client of " + at.get(k) + ", with " + killed + " killed: ";
                for (Throwable e : w.failures) {
                    Check.that(ofKilled && e instanceof KeeperException.ConnectionLossException, who + e);
                    w.lost++;
                }
                w.failures.clear();
                Check.equal(ofKilled ? "[Disconnected, SyncConnected]" : "[]", w.events.states.toString(), who + "states");
                Check.equal(sessions.get(k), w.zk.getSessionId(), who + "session");
                Check.equal(sessions.get(k), w.zk.exists(w.path, false).getEphemeralOwner(), who + "owner");
                cut += ofKilled ? 1 : 0;
            }
        }
        Check.that(cut > 0, "somebody was connected to a leader");
        for (HandleWorker w : all) {
            int version = w.zk.exists(w.path, false).getVersion();
            Check.that(version >= w.done.get() && version <= w.done.get() + w.lost, "version " + version + " after " + w.done + " writes and " + w.lost + " lost ones");
            w.zk.close();
        }
    }

    /** Curator retries what is lost: its user sees no error at all, and nothing is done twice. */
    private static final class CuratorWorker extends Worker {
        final Queue<ConnectionState> states = new ConcurrentLinkedQueue<>();
        final CuratorFramework client;
        final String path;

        CuratorWorker(int i) throws Exception {
            CountDownLatch connected = new CountDownLatch(1);
            client = Clients.builder(Check.server()).zookeeperFactory((servers, timeoutMs, watcher, readOnly) -> new Handle(servers, timeoutMs, watcher)).build();
            client.getConnectionStateListenable().addListener((c, state) -> {
                states.add(state);
                connected.countDown();
            });
            client.start();
            Check.that(connected.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "connected");
            path = client.create().forPath("/several-curator-" + i, X);
        }

        String member() throws Exception {
            return ((Handle) client.getZookeeperClient().getZooKeeper()).member();
        }

        @Override
        void work() throws Exception {
            client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(path + "/n-");
        }
    }

    private void curator() throws Exception {
        List<CuratorWorker> all = new ArrayList<>();
        for (int i = 0; i < CLIENTS; i++) {
            all.add(new CuratorWorker(i));
        }
        for (int i = 0; i < ROUNDS; i++) {
            List<String> at = new ArrayList<>();
            for (CuratorWorker w : all) {
                at.add(w.member());
                w.states.clear();
            }
            String killed = round(all, 20);
            for (int k = 0; k < all.size(); k++) {
                CuratorWorker w = all.get(k);
                String who = "client of " + at.get(k) + ", with " + killed + " killed: ";
                Check.equal(null, w.failures.peek(), who + "failure");
                Check.equal(at.get(k).equals(killed) ? "[SUSPENDED, RECONNECTED]" : "[]", w.states.toString(), who + "states");
            }
        }
        for (CuratorWorker w : all) {
            Check.equal(w.done.get(), w.client.getChildren().forPath(w.path).size(), "nodes made");
            w.client.close();
        }
    }

    /** A lock is held by one at a time, whoever leads. */
    private void curatorLock() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        List<CuratorFramework> clients = new ArrayList<>();
        List<Worker> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            CuratorFramework c = Clients.connect(Check.server());
            clients.add(c);
            InterProcessMutex lock = new InterProcessMutex(c, "/several-lock");
            all.add(new Worker() {
                @Override
                void work() throws Exception {
                    lock.acquire();
                    most.accumulateAndGet(inside.incrementAndGet(), Math::max);
                    inside.decrementAndGet();
                    lock.release();
                }
            });
        }
        for (int i = 0; i < ROUNDS; i++) {
            round(all, 10);
        }
        for (Worker w : all) {
            Check.equal(null, w.failures.peek(), "failure");
        }
        Check.equal(1, most.get(), "holders at once");
        for (CuratorFramework c : clients) {
            c.close();
        }
    }
}
