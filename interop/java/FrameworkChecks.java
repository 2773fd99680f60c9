import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.data.Stat;

/** The framework below the recipes. */
final class FrameworkChecks {
    private static final byte[] X = {'x'};

    private final CuratorFramework client;

    FrameworkChecks() throws Exception {
        client = Clients.connect(Check.server());
    }

    void startAll() {
        Check.start("framework-basics", this::basics);
        Check.start("framework-modes", this::modes);
        Check.start("framework-background", this::background);
        Check.start("framework-transaction", this::transaction);
        Check.start("framework-watchers", this::watchers);
        Check.start("framework-namespace", this::namespace);
        Check.start("framework-acl", this::acl);
        Check.start("framework-delete-children-and-set-or-create", this::guaranteedForms);
        Check.start("framework-connection-states", this::connectionStates);
        Check.start("framework-session-lost", this::sessionLost);
        Check.start("framework-protected-create", this::protectedCreate);
        Check.start("framework-ensemble-tracker", this::ensembleTracker);
    }

    private void basics() throws Exception {
        client.create().creatingParentsIfNeeded().forPath("/fw/basics/a", X);
        Stat s = new Stat();
        Check.that(Arrays.equals(X, client.getData().storingStatIn(s).forPath("/fw/basics/a")), "data");
        Check.equal(1, client.setData().withVersion(0).forPath("/fw/basics/a", X).getVersion(), "version");
        Check.fails(Code.BADVERSION, () -> client.setData().withVersion(0).forPath("/fw/basics/a", X));
        Check.equal(List.of("a"), client.getChildren().forPath("/fw/basics"), "children");
        Check.that(client.checkExists().forPath("/fw/basics/no") == null, "nothing there");
        client.sync().forPath("/fw/basics");
        client.delete().guaranteed().withVersion(1).forPath("/fw/basics/a");
        Check.fails(Code.NONODE, () -> client.delete().forPath("/fw/basics/a"));
    }

    private void modes() throws Exception {
        client.create().creatingParentContainersIfNeeded().withMode(CreateMode.EPHEMERAL).forPath("/fw-modes/e", X);
        Check.equal("/fw-modes/s0000000001", client.create().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/fw-modes/s", X), "path");
        Stat s = new Stat();
        client.create().storingStatIn(s).withMode(CreateMode.PERSISTENT).forPath("/fw-modes/p", X);
        Check.that(s.getCzxid() > 0, "stat of the new node");
        client.create().withTtl(600000).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/fw-modes/t", X);
        client.create().withMode(CreateMode.CONTAINER).forPath("/fw-modes/c", X);
        client.create().compressed().forPath("/fw-modes/z", new byte[10000]);
        Check.equal(10000, client.getData().decompressed().forPath("/fw-modes/z").length, "length");
        Check.that(client.checkExists().forPath("/fw-modes/z").getDataLength() < 1000, "stored compressed");
    }

    private void background() throws Exception {
        BlockingQueue<CuratorEvent> events = new LinkedBlockingQueue<>();
        client.create().inBackground((c, e) -> events.add(e)).forPath("/fw-background", X);
        Check.equal(0, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getResultCode(), "result of create");
        client.getData().inBackground((c, e) -> events.add(e)).forPath("/fw-background/no");
        Check.equal(Code.NONODE.intValue(), events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getResultCode(), "result of getData");
        client.sync().inBackground((c, e) -> events.add(e)).forPath("/fw-background");
        Check.equal(0, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getResultCode(), "result of sync");
    }

    private void transaction() throws Exception {
        client.create().forPath("/fw-tx", X);
        Collection<CuratorTransactionResult> r = client.transaction().forOperations(client.transactionOp().check().withVersion(0).forPath("/fw-tx"),
            client.transactionOp().create().forPath("/fw-tx/a", X), client.transactionOp().setData().forPath("/fw-tx/a", X), client.transactionOp().delete().forPath("/fw-tx/a"));
        Check.equal(4, r.size(), "results");
        Check.fails(Code.NODEEXISTS, () -> client.transaction().forOperations(client.transactionOp().setData().forPath("/fw-tx", X), client.transactionOp().create().forPath("/fw-tx", X)));
        Check.equal(0, client.checkExists().forPath("/fw-tx").getVersion(), "version");
    }

    private void watchers() throws Exception {
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        client.create().forPath("/fw-watch", X);
        client.getData().usingWatcher((org.apache.curator.framework.api.CuratorWatcher) events::add).forPath("/fw-watch");
        client.setData().forPath("/fw-watch", X);
        Check.equal(EventType.NodeDataChanged, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getType(), "event");
        client.watchers().add().withMode(AddWatchMode.PERSISTENT_RECURSIVE).usingWatcher((org.apache.curator.framework.api.CuratorWatcher) events::add).forPath("/fw-watch");
        client.create().forPath("/fw-watch/a", X);
        client.setData().forPath("/fw-watch/a", X);
        Check.equal(EventType.NodeCreated, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getType(), "event");
        Check.equal(EventType.NodeDataChanged, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getType(), "event");
        client.watchers().removeAll().forPath("/fw-watch");
        client.setData().forPath("/fw-watch", X);
        Check.equal(EventType.PersistentWatchRemoved, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS).getType(), "event");
        Check.equal(null, events.peek(), "event after removal");
    }

    private void namespace() throws Exception {
        CuratorFramework sub = client.usingNamespace("fw-namespace");
        sub.create().forPath("/a", X);
        Check.that(client.checkExists().forPath("/fw-namespace/a") != null, "the real path");
    }

    private void acl() throws Exception {
        CuratorFramework bob = Clients.builder(Check.server()).authorization("digest", "bob:pw".getBytes()).build();
        bob.start();
        bob.create().withACL(Ids.CREATOR_ALL_ACL).forPath("/fw-acl", X);
        Check.fails(Code.NOAUTH, () -> client.getData().forPath("/fw-acl"));
        Check.equal(1, bob.getACL().forPath("/fw-acl").size(), "entries");
        bob.setACL().withACL(Ids.OPEN_ACL_UNSAFE).forPath("/fw-acl");
        client.getData().forPath("/fw-acl");
        bob.close();
    }

    private void guaranteedForms() throws Exception {
        client.create().creatingParentsIfNeeded().forPath("/fw-del/a/b/c", X);
        client.delete().deletingChildrenIfNeeded().forPath("/fw-del");
        Check.that(client.checkExists().forPath("/fw-del") == null, "all gone");
        client.create().orSetData().forPath("/fw-or", X);
        client.create().orSetData().forPath("/fw-or", X);
        Check.equal(1, client.checkExists().forPath("/fw-or").getVersion(), "version");
        client.delete().idempotent().forPath("/fw-or");
        client.delete().quietly().forPath("/fw-or");
    }

    private void connectionStates() throws Exception {
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.builder(proxy.address).build();
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        c.getConnectionStateListenable().addListener((client, s) -> states.add(s));
        c.start();
        Check.equal(ConnectionState.CONNECTED, states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "state");
        c.create().withMode(CreateMode.EPHEMERAL).forPath("/fw-states", X);
        proxy.order("cut");
        Check.equal(ConnectionState.SUSPENDED, states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "state");
        Check.equal(ConnectionState.RECONNECTED, states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "state");
        Check.that(c.checkExists().forPath("/fw-states") != null, "the ephemeral lives on");
        c.close();
        proxy.close();
    }

    private void sessionLost() throws Exception {
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.builder(proxy.address).sessionTimeoutMs(Check.EXPIRY_MS).build();
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        c.getConnectionStateListenable().addListener((client, s) -> states.add(s));
        c.start();
        Check.equal(ConnectionState.CONNECTED, states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "state");
        long session = c.getZookeeperClient().getZooKeeper().getSessionId();
        proxy.order("refuse");
        Check.equal(ConnectionState.SUSPENDED, states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "state");
        Check.equal(ConnectionState.LOST, states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "state");
        proxy.order("pass");
        Check.equal(ConnectionState.RECONNECTED, states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "state");
        c.create().withMode(CreateMode.EPHEMERAL).forPath("/fw-lost", X);
        Check.that(session != c.getZookeeperClient().getZooKeeper().getSessionId(), "a new session");
        c.close();
        proxy.close();
    }

    /** The reply of a create is lost with the connection: the retry must find the node and not make a second. */
    private void protectedCreate() throws Exception {
        client.create().forPath("/fw-protected");
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.connect(proxy.address);
        for (CreateMode mode : List.of(CreateMode.EPHEMERAL_SEQUENTIAL, CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL)) {
            proxy.order("hold");
            BlockingQueue<String> made = new LinkedBlockingQueue<>();
            List<String> before = client.getChildren().forPath("/fw-protected");
            Thread t = new Thread(() -> {
                try {
                    made.add(c.create().withProtection().withMode(mode).forPath("/fw-protected/n-", X));
                } catch (Exception e) {
                    made.add("failed: " + e);
                }
            });
            t.start();
            Check.await("the create is applied", () -> {
                try {
                    return client.getChildren().forPath("/fw-protected").size() > before.size();
                } catch (Exception e) {
                    return false;
                }
            });
            proxy.order("cut");
            String path = made.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
            List<String> after = new ArrayList<>(client.getChildren().forPath("/fw-protected"));
            after.removeAll(before);
            Check.equal(1, after.size(), "nodes made in mode " + mode);
            Check.equal("/fw-protected/" + after.get(0), path, "path found again");
        }
        c.close();
        proxy.close();
    }

    /** Curator follows /zookeeper/config; what it finds there must not lead it away from a working address. */
    private void ensembleTracker() throws Exception {
        CuratorFramework c = Clients.connect(Check.server());
        Check.members(c.getConfig().forEnsemble());
        Check.equal(Check.server(), c.getZookeeperClient().getCurrentConnectionString(), "connection string");
        c.close();
    }
}
