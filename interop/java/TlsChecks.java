import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;

/** The Java client over TLS (Netty), with certificates that the server trusts and ones that it does not. */
public final class TlsChecks {
    private static final byte[] X = {'x'};

    private TlsChecks() {}

    public static void main(String[] args) throws Exception {
        Check.start("tls-basics", TlsChecks::basics);
        Check.start("tls-identity", TlsChecks::identity);
        Check.start("tls-large-data", TlsChecks::largeData);
        Check.start("tls-watch-over-a-cut", TlsChecks::watchOverACut);
        Check.start("tls-plain-port-beside", TlsChecks::plainPortBeside);
        Check.start("tls-no-certificate", () -> refused(config(null), false));
        Check.start("tls-stranger", () -> refused(config(System.getProperty("interop.strangerStore")), false));
        Check.start("tls-plain-client-on-the-tls-port", () -> refused(new ZKClientConfig(), true));
        if (System.getProperty("interop.unified") != null) {
            Check.start("tls-on-the-plain-port", TlsChecks::unified);
        }
        Check.finish();
    }

    private static ZKClientConfig config(String keyStore) {
        ZKClientConfig c = new ZKClientConfig();
        c.setProperty("zookeeper.client.secure", "true");
        c.setProperty("zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty");
        c.setProperty("zookeeper.ssl.trustStore.location", System.getProperty("interop.trustStore"));
        c.setProperty("zookeeper.ssl.trustStore.password", System.getProperty("interop.storePassword"));
        if (keyStore != null) {
            c.setProperty("zookeeper.ssl.keyStore.location", keyStore);
            c.setProperty("zookeeper.ssl.keyStore.password", System.getProperty("interop.storePassword"));
        }
        return c;
    }

    private static ZooKeeper connect(String address, Events events) throws Exception {
        ZooKeeper zk = new ZooKeeper(address, 30000, events, config(System.getProperty("interop.keyStore")));
        events.await(KeeperState.SyncConnected);
        return zk;
    }

    private static String secure() {
        return System.getProperty("interop.secure");
    }

    private static void basics() throws Exception {
        ZooKeeper zk = connect(secure(), new Events());
        zk.create("/tls", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Check.that(Arrays.equals(X, zk.getData("/tls", false, null)), "data");
        for (int i = 0; i < 200; i++) {
            zk.setData("/tls", X, i);
        }
        zk.close();
    }

    private static void identity() throws Exception {
        ZooKeeper zk = connect(secure(), new Events());
        List<String> ids = new ArrayList<>();
        for (ClientInfo c : zk.whoAmI()) {
            ids.add(c.getAuthScheme() + ":" + c.getUser());
        }
        Collections.sort(ids);
        String dn = System.getProperty("interop.dn");
        Check.equal(List.of("ip:127.0.0.1", "x509:" + dn), ids, "identities");
        zk.create("/tls-mine", X, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Check.equal(Arrays.asList(new ACL(Perms.ALL, new Id("x509", dn))), zk.getACL("/tls-mine", null), "acl");
        ZooKeeper plain = Events.connect(Check.server(), 30000, new Events());
        Check.fails(Code.NOAUTH, () -> plain.getData("/tls-mine", false, null));
        plain.close();
        zk.close();
    }

    private static void largeData() throws Exception {
        ZooKeeper zk = connect(secure(), new Events());
        byte[] big = new byte[1_000_000];
        Arrays.fill(big, (byte) 7);
        zk.create("/tls-large", big, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        for (int i = 0; i < 5; i++) {
            Check.that(Arrays.equals(big, zk.getData("/tls-large", false, null)), "a megabyte comes back");
        }
        zk.close();
    }

    private static void watchOverACut() throws Exception {
        Proxy proxy = new Proxy(System.getProperty("interop.secureControl"));
        Events e = new Events();
        ZooKeeper zk = connect(proxy.address, e);
        zk.create("/tls-cut", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Events w = new Events();
        zk.getData("/tls-cut", w, null);
        long session = zk.getSessionId();
        proxy.order("cut");
        e.await(KeeperState.Disconnected);
        e.await(KeeperState.SyncConnected);
        Check.equal(session, zk.getSessionId(), "session");
        ZooKeeper other = connect(secure(), new Events());
        other.setData("/tls-cut", X, -1);
        w.next(EventType.NodeDataChanged, "/tls-cut");
        other.close();
        zk.close();
        proxy.close();
    }

    private static void plainPortBeside() throws Exception {
        ZooKeeper zk = Events.connect(Check.server(), 30000, new Events());
        zk.create("/tls-plain", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.close();
    }

    /** The client tries again and again, and never gets a session. */
    private static void refused(ZKClientConfig config, boolean plain) throws Exception {
        Proxy proxy = new Proxy(System.getProperty("interop.secureControl"));
        Events e = new Events();
        ZooKeeper zk = new ZooKeeper(proxy.address, 3000, e, config);
        Check.await("three attempts", () -> {
            try {
                return proxy.order("count") >= (plain ? 2 : 3);
            } catch (Exception x) {
                return false;
            }
        });
        Check.that(!e.states.contains(KeeperState.SyncConnected), "no session");
        zk.close();
        proxy.close();
    }

    private static void unified() throws Exception {
        ZooKeeper zk = connect(Check.server(), new Events());
        zk.create("/tls-unified", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.close();
    }
}
