import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** What watches and identities see of a connection that is cut and made again. */
final class CutChecks {
    private static final byte[] X = {'x'};

    private final ZooKeeper writer;

    CutChecks() throws Exception {
        writer = Events.connect(Check.server(), 30000, new Events());
    }

    void startAll() {
        start("watch-survives-a-cut", this::survivesACut);
        start("watch-missed-while-away", this::missedWhileAway);
        start("watch-persistent-survives-a-cut", this::persistentSurvivesACut);
        start("watch-many-survive-a-cut", this::manySurviveACut);
        start("auth-survives-a-cut", this::authSurvivesACut);
    }

    /** A handle behind a proxy of its own. */
    private static final class Link {
        final Proxy proxy = new Proxy();
        final Events events = new Events();
        final ZooKeeper zk = Events.connect(proxy.address, 30000, events);

        Link() throws Exception {}

        /** Cuts the connection and waits until the same session is connected again. */
        void cut() throws Exception {
            away(() -> { });
        }

        /** Keeps the connection down while body runs. */
        void away(Check.Body body) throws Exception {
            long session = zk.getSessionId();
            proxy.order("refuse");
            events.await(KeeperState.Disconnected);
            body.run();
            proxy.order("pass");
            events.await(KeeperState.SyncConnected);
            Check.equal(session, zk.getSessionId(), "session");
        }
    }

    private interface LinkBody {
        void run(Link link) throws Exception;
    }

    private static void start(String name, LinkBody body) {
        Check.start(name, () -> {
            Link link = new Link();
            body.run(link);
            link.zk.close();
            link.proxy.close();
        });
    }

    private String parent(String name) throws Exception {
        return make("/cut-" + name);
    }

    private String make(String path) throws Exception {
        return writer.create(path, X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void survivesACut(Link link) throws Exception {
        ZooKeeper zk = link.zk;
        String p = parent("cut");
        Events w = new Events();
        zk.getData(p, w, null);
        zk.exists(p + "/no", w);
        zk.getChildren(p, w);
        link.cut();
        w.none(zk);
        writer.setData(p, X, -1);
        make(p + "/no");
        w.next(EventType.NodeDataChanged, p);
        w.next(EventType.NodeCreated, p + "/no");
        w.next(EventType.NodeChildrenChanged, p);
        w.none(zk);
    }

    private void missedWhileAway(Link link) throws Exception {
        ZooKeeper zk = link.zk;
        String p = parent("away");
        for (String c : List.of("changed", "deleted", "recreated", "kept")) {
            make(p + "/" + c);
        }
        Events w = new Events();
        for (String c : List.of("changed", "deleted", "recreated", "kept")) {
            zk.getData(p + "/" + c, w, null);
        }
        zk.exists(p + "/created", w);
        zk.exists(p + "/never", w);
        zk.getChildren(p, w);
        zk.getChildren(p + "/kept", w);
        link.away(() -> {
            writer.setData(p + "/changed", X, -1);
            writer.delete(p + "/deleted", -1);
            writer.delete(p + "/recreated", -1);
            make(p + "/recreated");
            make(p + "/created");
        });
        List<String> got = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            var e = w.nodes.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
            got.add(e == null ? "nothing" : e.getType() + " " + e.getPath().substring(p.length()));
        }
        got.sort(null);
        Check.equal(List.of("NodeChildrenChanged ", "NodeCreated /created", "NodeDataChanged /changed", "NodeDataChanged /recreated", "NodeDeleted /deleted"), got, "events after the gap");
        w.none(zk);
        writer.setData(p + "/kept", X, -1);
        w.next(EventType.NodeDataChanged, p + "/kept");
        make(p + "/never");
        w.next(EventType.NodeCreated, p + "/never");
    }

    private void persistentSurvivesACut(Link link) throws Exception {
        ZooKeeper zk = link.zk;
        String p = parent("pcut");
        Events w = new Events();
        Events r = new Events();
        zk.addWatch(p, w, AddWatchMode.PERSISTENT);
        zk.addWatch(p, r, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.removeWatches(p, r, Watcher.WatcherType.Any, true);
        String q = parent("rcut");
        zk.addWatch(q, r, AddWatchMode.PERSISTENT_RECURSIVE);
        r.nodes.clear();
        link.away(() -> writer.setData(q, X, -1)); // what a persistent watch misses is lost
        r.none(zk);
        writer.setData(p, X, -1);
        writer.setData(p, X, -1);
        make(q + "/a");
        w.next(EventType.NodeDataChanged, p);
        w.next(EventType.NodeDataChanged, p);
        r.next(EventType.NodeCreated, q + "/a");
    }

    /** So many paths that the client sends them in several setWatches packets. */
    private void manySurviveACut(Link link) throws Exception {
        ZooKeeper zk = link.zk;
        String p = parent("several");
        String name = "/" + "n".repeat(180) + "-";
        Events w = new Events();
        int n = 1500; // more than 128 KiB of paths
        CountDownLatch set = new CountDownLatch(n);
        for (int i = 0; i < n; i++) {
            zk.exists(p + name + i, w, (rc, path, ctx, stat) -> set.countDown(), null);
        }
        Check.that(set.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "all watches are set");
        link.cut();
        w.none(zk);
        for (int i : new int[] {0, n / 2, n - 1}) {
            make(p + name + i);
            w.next(EventType.NodeCreated, p + name + i);
        }
        zk.removeAllWatches(p + name + 1, Watcher.WatcherType.Data, false);
    }

    private void authSurvivesACut(Link link) throws Exception {
        ZooKeeper zk = link.zk;
        zk.addAuthInfo("digest", "cut:pw".getBytes());
        String p = zk.create("/cut-auth", X, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Events w = new Events();
        zk.getData(p, w, null);
        link.cut();
        zk.setData(p, X, -1);
        w.next(EventType.NodeDataChanged, p);
    }
}
