import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** The life of a session: close, resume, expiry, timeouts. */
final class SessionChecks {
    private static final byte[] X = {'x'};

    private final ZooKeeper observer;

    SessionChecks() throws Exception {
        observer = Events.connect(Check.server(), 30000, new Events());
    }

    void startAll() {
        Check.start("session-timeout-negotiated", this::timeoutNegotiated);
        Check.start("session-close", this::close);
        Check.start("session-resumed-by-id-and-password", this::resumed);
        Check.start("session-wrong-password", this::wrongPassword);
        Check.start("session-closed-elsewhere", this::closedElsewhere);
        Check.start("session-survives-a-cut", this::survivesACut);
        Check.startPatient("session-expires", this::expires);
        Check.start("session-kept-by-pings", this::keptByPings);
        Check.start("session-pending-requests-fail-on-a-cut", this::pendingFail);
        Check.start("session-read-only-handle-on-a-normal-server", this::readOnlyHandle);
        Check.start("session-server-list-updated", this::serverListUpdated);
    }

    private void timeoutNegotiated() throws Exception {
        for (int[] t : new int[][] {{12345, 12345}, {400, 500}, {10_000_000, 600_000}}) {
            int negotiated;
            do { // one of half a second may be over before it is looked at
                ZooKeeper zk = Events.connect(Check.server(), t[0], new Events());
                Check.equal(16, zk.getSessionPasswd().length, "password length");
                Check.that(zk.getSessionId() != 0, "there is a session id");
                negotiated = zk.getSessionTimeout();
                zk.close();
            } while (negotiated <= 0);
            Check.equal(t[1], negotiated, "timeout for " + t[0]);
        }
    }

    private void close() throws Exception {
        Events e = new Events();
        ZooKeeper zk = Events.connect(Check.server(), 30000, e);
        String p = zk.create("/session-close", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Events w = new Events();
        observer.exists(p, w);
        zk.close();
        w.next(EventType.NodeDeleted, p);
        Check.equal(null, observer.exists(p, false), "ephemeral of a closed session");
        Check.fails(Code.SESSIONEXPIRED, () -> zk.exists("/", false));
    }

    /** A second handle takes the session over; its ephemerals stay. */
    private void resumed() throws Exception {
        Proxy proxy = new Proxy();
        Events e = new Events();
        ZooKeeper zk = Events.connect(proxy.address, 30000, e);
        String p = zk.create("/session-resumed", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        proxy.order("refuse"); // the first handle is out of the game
        e.await(KeeperState.Disconnected);
        Events e2 = new Events();
        ZooKeeper second = new ZooKeeper(Check.server(), 20000, e2, zk.getSessionId(), zk.getSessionPasswd());
        e2.await(KeeperState.SyncConnected);
        Check.equal(zk.getSessionId(), second.getSessionId(), "session");
        Check.equal(20000, second.getSessionTimeout(), "timeout");
        Check.equal(zk.getSessionId(), second.exists(p, false).getEphemeralOwner(), "owner");
        second.setData(p, X, 0);
        second.close();
        Check.equal(null, observer.exists(p, false), "ephemeral after close");
        proxy.order("pass");
        e.await(KeeperState.Expired);
        zk.close();
        proxy.close();
    }

    private void wrongPassword() throws Exception {
        Events e = new Events();
        ZooKeeper zk = Events.connect(Check.server(), 30000, e);
        byte[] wrong = Arrays.copyOf(zk.getSessionPasswd(), 16);
        wrong[3] ^= 1;
        Events e2 = new Events();
        ZooKeeper thief = new ZooKeeper(Check.server(), 30000, e2, zk.getSessionId(), wrong);
        e2.await(KeeperState.Expired);
        thief.close();
        // ZooKeeper cuts the rightful handle for a moment, but its session lives.
        Check.await("reconnect", () -> zk.getState().isConnected());
        long session = zk.getSessionId();
        Check.await("the rightful handle works", () -> {
            try {
                zk.exists("/", false);
                return true;
            } catch (Exception lost) {
                return false;
            }
        });
        Check.equal(session, zk.getSessionId(), "session");
        zk.close();
    }

    private void closedElsewhere() throws Exception {
        Events e = new Events();
        ZooKeeper zk = Events.connect(Check.server(), 30000, e);
        Events e2 = new Events();
        ZooKeeper second = new ZooKeeper(Check.server(), 30000, e2, zk.getSessionId(), zk.getSessionPasswd());
        e2.await(KeeperState.SyncConnected);
        second.close();
        e.await(KeeperState.Expired);
        Check.fails(Code.SESSIONEXPIRED, () -> zk.exists("/", false));
        zk.close();
    }

    private void survivesACut() throws Exception {
        Proxy proxy = new Proxy();
        Events e = new Events();
        ZooKeeper zk = Events.connect(proxy.address, 30000, e);
        String p = zk.create("/session-cut", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        long session = zk.getSessionId();
        for (int i = 0; i < 3; i++) {
            e.states.clear();
            proxy.order("cut");
            e.await(KeeperState.Disconnected);
            e.await(KeeperState.SyncConnected);
        }
        Check.equal(session, zk.getSessionId(), "session");
        Check.equal(session, zk.exists(p, false).getEphemeralOwner(), "owner");
        zk.close();
        proxy.close();
    }

    private void expires() throws Exception {
        Proxy proxy = new Proxy();
        Events e = new Events();
        ZooKeeper zk = Events.connect(proxy.address, Check.EXPIRY_MS, e);
        String p = zk.create("/session-expires", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Events w = new Events();
        observer.exists(p, w);
        long start = System.nanoTime();
        zk.exists("/", false); // the server hears of the session after the start
        proxy.order("refuse");
        w.next(EventType.NodeDeleted, p);
        long ms = (System.nanoTime() - start) / 1_000_000;
        Check.that(ms >= Check.EXPIRY_MS, "not before its time: " + ms + " ms");
        proxy.order("pass");
        e.await(KeeperState.Expired);
        Check.fails(Code.SESSIONEXPIRED, () -> zk.exists("/", false));
        zk.close();
        proxy.close();
    }

    private void keptByPings() throws Exception {
        Events e = new Events();
        ZooKeeper zk = Events.connect(Check.server(), 6000, e);
        String p = zk.create("/session-pings", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Events w = new Events();
        observer.exists(p, w);
        // Idle for longer than the timeout: only pings can have kept it.
        Check.equal(null, w.nodes.poll(8000, TimeUnit.MILLISECONDS), "event");
        Check.equal(zk.getSessionId(), observer.exists(p, false).getEphemeralOwner(), "owner");
        zk.close();
    }

    private void pendingFail() throws Exception {
        Proxy proxy = new Proxy();
        Events e = new Events();
        ZooKeeper zk = Events.connect(proxy.address, 30000, e);
        String p = observer.create("/session-pending", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        proxy.order("hold"); // requests arrive, answers do not
        CountDownLatch lost = new CountDownLatch(10);
        for (int i = 0; i < 10; i++) {
            zk.setData(p, X, i, (rc, path, ctx, stat) -> {
                if (rc == Code.CONNECTIONLOSS.intValue()) {
                    lost.countDown();
                }
            }, null);
        }
        Check.await("the writes are applied", () -> {
            try {
                return observer.exists(p, false).getVersion() == 10;
            } catch (Exception x) {
                return false;
            }
        });
        proxy.order("cut");
        Check.that(lost.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "all fail with ConnectionLoss");
        e.await(KeeperState.SyncConnected);
        Check.equal(10, zk.exists(p, false).getVersion(), "each was applied once");
        zk.close();
        proxy.close();
    }

    private void readOnlyHandle() throws Exception {
        Events e = new Events();
        ZooKeeper zk = new ZooKeeper(Check.server(), 30000, e, true);
        e.await(KeeperState.SyncConnected);
        Check.equal(ZooKeeper.States.CONNECTED, zk.getState(), "state");
        zk.create("/session-read-only", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.close();
    }

    private void serverListUpdated() throws Exception {
        Proxy proxy = new Proxy();
        Events e = new Events();
        ZooKeeper zk = Events.connect(proxy.address, 30000, e);
        zk.create("/session-list", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        long session = zk.getSessionId();
        zk.updateServerList(Check.server());
        proxy.order("refuse");
        Check.await("reconnect elsewhere", () -> {
            try {
                return zk.exists("/session-list", false) != null;
            } catch (Exception x) {
                return false;
            }
        });
        Check.equal(session, zk.getSessionId(), "session");
        proxy.order("pass");
        zk.close();
        proxy.close();
    }
}
