import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.AsyncCallback;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The asynchronous methods: each one once, and the order of callbacks. */
final class AsyncChecks {
    private final Events events = new Events();
    private final ZooKeeper zk;

    AsyncChecks() throws Exception {
        zk = Events.connect(Check.server(), 30000, events);
    }

    private static final byte[] X = {'x'};

    void runAll() throws Exception {
        Check.run("async-each-method", this::eachMethod);
        Check.run("async-errors", this::errors);
        Check.run("async-order", this::order);
        Check.run("async-watch-before-data", this::watchBeforeData);
        Check.run("sync-then-read", this::syncThenRead);
        zk.close();
    }

    /** Collects "method rc" in the order of the callbacks. */
    private final LinkedBlockingQueue<String> calls = new LinkedBlockingQueue<>();

    private void expect(String... want) throws Exception {
        for (String w : want) {
            Check.equal(w, calls.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "callback");
        }
    }

    private void eachMethod() throws Exception {
        String p = zk.create("/async-each", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, (rc, path, ctx, name) -> calls.add("create " + rc + " " + name + " " + ctx), "ctx");
        zk.create(p + "/b", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, (rc, path, ctx, name, stat) -> calls.add("create2 " + rc + " " + stat.getDataLength()), null);
        zk.create(p + "/t", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, (rc, path, ctx, name, stat) -> calls.add("createTTL " + rc), null, 600000);
        zk.create(p + "/c", X, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER, (rc, path, ctx, name, stat) -> calls.add("container " + rc), null);
        zk.exists(p + "/a", false, (rc, path, ctx, stat) -> calls.add("exists " + rc), null);
        zk.getData(p + "/a", false, (rc, path, ctx, data, stat) -> calls.add("getData " + rc + " " + data.length), null);
        zk.setData(p + "/a", X, 0, (rc, path, ctx, stat) -> calls.add("setData " + rc + " " + stat.getVersion()), null);
        zk.getACL(p + "/a", new Stat(), (rc, path, ctx, acl, stat) -> calls.add("getACL " + rc + " " + acl.size()), null);
        zk.setACL(p + "/a", Ids.OPEN_ACL_UNSAFE, 0, (rc, path, ctx, stat) -> calls.add("setACL " + rc + " " + stat.getAversion()), null);
        zk.getChildren(p, false, (AsyncCallback.ChildrenCallback) (rc, path, ctx, names) -> calls.add("getChildren " + rc + " " + names.size()), null);
        zk.getChildren(p, false, (AsyncCallback.Children2Callback) (rc, path, ctx, names, stat) -> calls.add("getChildren2 " + rc + " " + stat.getNumChildren()), null);
        zk.getAllChildrenNumber(p, (rc, path, ctx, number) -> calls.add("getAllChildrenNumber " + rc + " " + number), null);
        zk.getEphemerals(p, (rc, ctx, paths) -> calls.add("getEphemerals " + rc + " " + paths.size()), null);
        zk.sync(p, (rc, path, ctx) -> calls.add("sync " + rc + " " + path), null);
        zk.multi(List.of(Op.check(p, 0), Op.setData(p + "/a", X, 1)), (rc, path, ctx, results) -> calls.add("multi " + rc + " " + results.size()), null);
        zk.addWatch(p, events, AddWatchMode.PERSISTENT, (rc, path, ctx) -> calls.add("addWatch " + rc), null);
        zk.removeWatches(p, events, Watcher.WatcherType.Any, false, (rc, path, ctx) -> calls.add("removeWatches " + rc), null);
        zk.delete(p + "/a", 2, (rc, path, ctx) -> calls.add("delete " + rc), null);
        expect("create 0 " + p + "/a ctx", "create2 0 1", "createTTL 0", "container 0", "exists 0", "getData 0 1", "setData 0 1", "getACL 0 1", "setACL 0 1",
            "getChildren 0 4", "getChildren2 0 4", "getAllChildrenNumber 0 4", "getEphemerals 0 1", "sync 0 " + p, "multi 0 2", "addWatch 0", "removeWatches 0", "delete 0");
    }

    private void errors() throws Exception {
        String p = zk.create("/async-errors", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.create(p, X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, (rc, path, ctx, name) -> calls.add("create " + Code.get(rc)), null);
        zk.getData(p + "/no", false, (rc, path, ctx, data, stat) -> calls.add("getData " + Code.get(rc)), null);
        zk.setData(p, X, 9, (rc, path, ctx, stat) -> calls.add("setData " + Code.get(rc)), null);
        zk.multi(List.of(Op.check(p, 0), Op.check(p, 5)), (rc, path, ctx, results) -> calls.add("multi " + Code.get(rc)), null);
        zk.delete(p, -1, (rc, path, ctx) -> calls.add("delete " + Code.get(rc)), null);
        expect("create NODEEXISTS", "getData NONODE", "setData BADVERSION", "multi BADVERSION", "delete OK");
    }

    /** A thousand requests under way at once: callbacks come in the order of the requests. */
    private void order() throws Exception {
        String p = zk.create("/async-order", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        int n = 1000;
        List<Integer> order = new ArrayList<>();
        List<String> wrong = new ArrayList<>();
        CountDownLatch all = new CountDownLatch(n);
        for (int i = 0; i < n; i++) {
            int number = i;
            if (i % 2 == 0) {
                zk.create(p + "/n-", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL, (rc, path, ctx, name) -> {
                    order.add(number);
                    if (rc != 0 || !name.endsWith(String.format("%010d", number / 2))) {
                        wrong.add(rc + " " + name);
                    }
                    all.countDown();
                }, null);
            } else {
                zk.getChildren(p, false, (AsyncCallback.ChildrenCallback) (rc, path, ctx, names) -> {
                    order.add(number);
                    if (rc != 0 || names.size() != number / 2 + 1) {
                        wrong.add(rc + " " + (names == null ? -1 : names.size()));
                    }
                    all.countDown();
                }, null);
            }
        }
        Check.that(all.await(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "all callbacks come");
        for (int i = 0; i < n; i++) {
            Check.equal(i, order.get(i), "callback number");
        }
        Check.equal(List.of(), wrong, "results of pipelined requests");
    }

    /** The event of a change comes before the reply that shows it. */
    private void watchBeforeData() throws Exception {
        String p = zk.create("/async-watch", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        zk.getData(p, e -> calls.add("event " + e.getType()), null);
        zk.setData(p, X, -1, (rc, path, ctx, stat) -> calls.add("setData"), null);
        zk.getData(p, false, (rc, path, ctx, data, stat) -> calls.add("getData " + stat.getVersion()), null);
        expect("event NodeDataChanged", "setData", "getData 1");
    }

    private void syncThenRead() throws Exception {
        String p = zk.create("/async-sync", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Events e = new Events();
        ZooKeeper other = Events.connect(Check.server(), 30000, e);
        for (int i = 1; i <= 20; i++) {
            zk.setData(p, X, -1);
            int version = i;
            other.sync(p, (rc, path, ctx) -> { }, null);
            other.getData(p, false, (rc, path, ctx, data, stat) -> calls.add("version " + (stat.getVersion() >= version)), null);
            expect("version true");
        }
        other.close();
    }
}
