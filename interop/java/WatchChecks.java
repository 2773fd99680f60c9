import java.util.List;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/** Watches: one-shot, persistent, recursive; removal. */
final class WatchChecks {
    private static final byte[] X = {'x'};

    private final ZooKeeper writer;
    private final Events events = new Events();
    private final ZooKeeper zk;

    WatchChecks() throws Exception {
        writer = Events.connect(Check.server(), 30000, new Events());
        zk = Events.connect(Check.server(), 30000, events);
    }

    void runAll() throws Exception {
        Check.run("watch-data", this::data);
        Check.run("watch-exists", this::exists);
        Check.run("watch-children", this::children);
        Check.run("watch-default-and-own", this::defaultAndOwn);
        Check.run("watch-once-for-many", this::onceForMany);
        Check.run("watch-persistent", this::persistent);
        Check.run("watch-recursive", this::recursive);
        Check.run("watch-add-errors", this::addErrors);
        Check.run("watch-remove", this::remove);
        Check.run("watch-remove-local", this::removeLocal);
        Check.run("watch-multi-order", this::multiOrder);
        zk.close();
        writer.close();
    }

    private String parent(String name) throws Exception {
        return make("/watch-" + name);
    }

    private String make(String path) throws Exception {
        return writer.create(path, X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void data() throws Exception {
        String p = parent("data");
        Events w = new Events();
        zk.getData(p, w, null);
        writer.setData(p, X, -1);
        writer.setData(p, X, -1);
        w.next(EventType.NodeDataChanged, p);
        w.none(zk);
        zk.getData(p, w, null);
        writer.delete(p, -1);
        w.next(EventType.NodeDeleted, p);
        Check.fails(Code.NONODE, () -> zk.getData(p, w, null));
        make(p);
        w.none(zk);
    }

    private void exists() throws Exception {
        String p = parent("exists") + "/a";
        Events w = new Events();
        zk.exists(p, w);
        make(p);
        w.next(EventType.NodeCreated, p);
        zk.exists(p, w);
        writer.setData(p, X, -1);
        w.next(EventType.NodeDataChanged, p);
        zk.exists(p, w);
        writer.delete(p, -1);
        w.next(EventType.NodeDeleted, p);
        w.none(zk);
    }

    private void children() throws Exception {
        String p = parent("children");
        Events w = new Events();
        zk.getChildren(p, w);
        writer.setData(p, X, -1);
        make(p + "/a");
        make(p + "/b");
        w.next(EventType.NodeChildrenChanged, p);
        w.none(zk);
        zk.getChildren(p, w, null);
        writer.delete(p + "/a", -1);
        w.next(EventType.NodeChildrenChanged, p);
        writer.delete(p + "/b", -1);
        zk.getChildren(p, w);
        writer.delete(p, -1);
        w.next(EventType.NodeDeleted, p);
        w.none(zk);
    }

    private void defaultAndOwn() throws Exception {
        String p = parent("default");
        Events w = new Events();
        zk.getData(p, true, null);
        zk.getData(p, w, null);
        writer.setData(p, X, -1);
        w.next(EventType.NodeDataChanged, p);
        events.next(EventType.NodeDataChanged, p);
    }

    private void onceForMany() throws Exception {
        String p = parent("many");
        Events w = new Events();
        zk.getData(p, w, null);
        zk.exists(p, w);
        zk.getChildren(p, w);
        writer.delete(p, -1);
        w.next(EventType.NodeDeleted, p);
        w.none(zk);
    }

    private void persistent() throws Exception {
        String p = parent("persistent") + "/a";
        Events w = new Events();
        zk.addWatch(p, w, AddWatchMode.PERSISTENT);
        for (int i = 0; i < 2; i++) {
            make(p);
            writer.setData(p, X, -1);
            make(p + "/child");
            writer.setData(p + "/child", X, -1);
            writer.delete(p + "/child", -1);
            writer.delete(p, -1);
            w.next(EventType.NodeCreated, p);
            w.next(EventType.NodeDataChanged, p);
            w.next(EventType.NodeChildrenChanged, p);
            w.next(EventType.NodeChildrenChanged, p);
            w.next(EventType.NodeDeleted, p);
        }
        w.none(zk);
        zk.removeWatches(p, w, Watcher.WatcherType.Any, false);
    }

    private void recursive() throws Exception {
        String p = parent("recursive");
        Events w = new Events();
        zk.addWatch(p, w, AddWatchMode.PERSISTENT_RECURSIVE);
        make(p + "/a");
        make(p + "/a/b");
        writer.setData(p + "/a/b", X, -1);
        writer.setData(p, X, -1);
        writer.delete(p + "/a/b", -1);
        make("/watch-recursive-sibling");
        writer.delete(p + "/a", -1);
        w.next(EventType.NodeCreated, p + "/a");
        w.next(EventType.NodeCreated, p + "/a/b");
        w.next(EventType.NodeDataChanged, p + "/a/b");
        w.next(EventType.NodeDataChanged, p);
        w.next(EventType.NodeDeleted, p + "/a/b");
        w.next(EventType.NodeDeleted, p + "/a");
        w.none(zk);
        zk.removeWatches(p, w, Watcher.WatcherType.Any, false);
        writer.setData(p, X, -1);
        w.next(EventType.PersistentWatchRemoved, p);
        w.none(zk);
    }

    private void addErrors() throws Exception {
        zk.addWatch("/watch-missing", AddWatchMode.PERSISTENT);
        make("/watch-missing");
        events.next(EventType.NodeCreated, "/watch-missing");
        zk.removeAllWatches("/watch-missing", Watcher.WatcherType.Any, false);
        events.next(EventType.PersistentWatchRemoved, "/watch-missing");
    }

    private void remove() throws Exception {
        String p = parent("remove");
        Events w = new Events();
        Check.fails(Code.NOWATCHER, () -> zk.removeWatches(p, w, Watcher.WatcherType.Any, false));
        zk.getData(p, w, null);
        zk.getChildren(p, w);
        zk.removeWatches(p, w, Watcher.WatcherType.Data, false);
        w.next(EventType.DataWatchRemoved, p);
        writer.setData(p, X, -1);
        make(p + "/a");
        w.next(EventType.NodeChildrenChanged, p);
        zk.getChildren(p, w);
        zk.removeAllWatches(p, Watcher.WatcherType.Children, false);
        w.next(EventType.ChildWatchRemoved, p);
        make(p + "/b");
        w.none(zk);
        zk.exists(p + "/no", w);
        zk.removeWatches(p + "/no", w, Watcher.WatcherType.Data, false);
        w.next(EventType.DataWatchRemoved, p + "/no");
        make(p + "/no");
        w.none(zk);
    }

    /** One of two local watchers goes: the server keeps the watch for the other. */
    private void removeLocal() throws Exception {
        String p = parent("local");
        Events a = new Events();
        Events b = new Events();
        zk.getData(p, a, null);
        zk.getData(p, b, null);
        zk.removeWatches(p, a, Watcher.WatcherType.Data, false);
        a.next(EventType.DataWatchRemoved, p);
        writer.setData(p, X, -1);
        b.next(EventType.NodeDataChanged, p);
        a.none(zk);
    }

    private void multiOrder() throws Exception {
        String p = parent("multi");
        make(p + "/a");
        Events w = new Events();
        zk.getData(p + "/a", w, null);
        zk.exists(p + "/b", w);
        zk.getChildren(p, w);
        writer.multi(List.of(Op.setData(p + "/a", X, -1), Op.create(p + "/b", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT), Op.delete(p + "/a", -1)));
        w.next(EventType.NodeDataChanged, p + "/a");
        w.next(EventType.NodeCreated, p + "/b");
        w.next(EventType.NodeChildrenChanged, p);
        w.none(zk);
    }
}
