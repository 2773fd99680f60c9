import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** A watcher that keeps node events and session states apart, in order. */
final class Events implements Watcher {
    final LinkedBlockingQueue<WatchedEvent> nodes = new LinkedBlockingQueue<>();
    final LinkedBlockingQueue<KeeperState> states = new LinkedBlockingQueue<>();

    @Override
    public void process(WatchedEvent e) {
        if (e.getType() == EventType.None) {
            states.add(e.getState());
        } else {
            nodes.add(e);
        }
    }

    /** Waits until the session reaches a state; others on the way are dropped. */
    void await(KeeperState want) throws Exception {
        List<KeeperState> seen = new ArrayList<>();
        while (true) {
            KeeperState s = states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
            if (s == want) {
                return;
            }
            if (s == null) {
                throw new Exception("state " + want + " never came, only " + seen);
            }
            seen.add(s);
        }
    }

    /** Expects the next node event. */
    void next(EventType type, String path) throws Exception {
        WatchedEvent e = nodes.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
        Check.that(e != null, type + " of " + path + " comes");
        Check.equal(type + " " + path, e.getType() + " " + e.getPath(), "event");
    }

    /** Expects that no event is left, given a handle whose earlier events have all arrived after a round trip. */
    void none(ZooKeeper zk) throws Exception {
        zk.exists("/", false);
        // Events are delivered by a thread of their own; an asynchronous reply runs behind them there.
        LinkedBlockingQueue<Integer> turn = new LinkedBlockingQueue<>();
        zk.exists("/", false, (rc, path, ctx, stat) -> turn.add(rc), null);
        Check.that(turn.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS) != null, "a reply comes");
        Check.equal(null, nodes.peek(), "event that should not be");
    }

    /** A connected handle with a new session. */
    static ZooKeeper connect(String address, int timeoutMs, Events events) throws Exception {
        ZooKeeper zk = new ZooKeeper(address, timeoutMs, events);
        events.await(KeeperState.SyncConnected);
        return zk;
    }
}
