import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;

/** SASL with DIGEST-MD5; the JAAS file has a section per user. */
public final class SaslChecks {
    private static final byte[] X = {'x'};

    private SaslChecks() {}

    public static void main(String[] args) throws Exception {
        // One after another: ZooKeeper 3.8 keeps the name of the last login in one place for all connections,
        // so that logins at the same time get mixed up.
        Check.run("sasl-login", SaslChecks::login);
        Check.run("sasl-acl", SaslChecks::acl);
        Check.run("sasl-wrong-password", () -> refused("Wrong"));
        Check.run("sasl-unknown-user", () -> refused("Unknown"));
        Check.run("sasl-unknown-user-with-the-password-of-the-one-before", SaslChecks::anothersPassword);
        Check.run("sasl-after-a-cut", SaslChecks::afterACut);
        Check.run("sasl-user-super", SaslChecks::userSuper);
        Check.run("sasl-and-digest", SaslChecks::andDigest);
        Check.finish();
    }

    /** A handle that logs in with a section of the JAAS file, or with none. */
    private static ZooKeeper connect(String address, String section, Events events) throws Exception {
        ZKClientConfig c = new ZKClientConfig();
        if (section == null) {
            c.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, "false");
        } else {
            c.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, section);
        }
        ZooKeeper zk = new ZooKeeper(address, 30000, events, c);
        if (section == null) {
            events.await(KeeperState.SyncConnected);
        }
        return zk;
    }

    private static ZooKeeper login(String section, Events e) throws Exception {
        ZooKeeper zk = connect(Check.server(), section, e);
        e.await(KeeperState.SaslAuthenticated);
        return zk;
    }

    private static List<String> ids(ZooKeeper zk) throws Exception {
        List<String> ids = new ArrayList<>();
        for (ClientInfo c : zk.whoAmI()) {
            ids.add(c.getAuthScheme() + ":" + c.getUser());
        }
        Collections.sort(ids);
        return ids;
    }

    private static void login() throws Exception {
        ZooKeeper zk = login("Bob", new Events());
        Check.equal(List.of("ip:127.0.0.1", "sasl:bob"), ids(zk), "identities");
        zk.close();
    }

    private static void acl() throws Exception {
        ZooKeeper bob = login("Bob", new Events());
        ZooKeeper ann = login("Ann", new Events());
        ZooKeeper nobody = connect(Check.server(), null, new Events());
        bob.create("/sasl-bob", X, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Check.equal(Arrays.asList(new ACL(Perms.ALL, new Id("sasl", "bob"))), bob.getACL("/sasl-bob", null), "acl");
        Check.fails(Code.NOAUTH, () -> ann.getData("/sasl-bob", false, null));
        Check.fails(Code.NOAUTH, () -> nobody.getData("/sasl-bob", false, null));
        bob.setACL("/sasl-bob", Arrays.asList(new ACL(Perms.READ, new Id("sasl", "ann")), new ACL(Perms.ALL, new Id("sasl", "bob"))), -1);
        ann.getData("/sasl-bob", false, null);
        Check.fails(Code.INVALIDACL, () -> nobody.create("/sasl-no", X, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
        bob.close();
        ann.close();
        nobody.close();
    }

    private static void refused(String section) throws Exception {
        Events e = new Events();
        ZooKeeper zk = connect(Check.server(), section, e);
        KeeperState state = e.states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
        while (state != null && state != KeeperState.AuthFailed && state != KeeperState.SaslAuthenticated) {
            state = e.states.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS);
        }
        Check.equal(KeeperState.AuthFailed, state, "state");
        Check.fails(Code.AUTHFAILED, () -> zk.exists("/", false));
        zk.close();
    }

    private static void anothersPassword() throws Exception {
        login("Bob", new Events()).close();
        refused("Eve");
    }

    private static void afterACut() throws Exception {
        Proxy proxy = new Proxy();
        Events e = new Events();
        ZooKeeper zk = connect(proxy.address, "Bob", e);
        e.await(KeeperState.SaslAuthenticated);
        zk.create("/sasl-cut", X, Ids.CREATOR_ALL_ACL, CreateMode.EPHEMERAL);
        proxy.order("cut");
        e.await(KeeperState.Disconnected);
        e.await(KeeperState.SaslAuthenticated);
        zk.setData("/sasl-cut", X, 0);
        zk.close();
        proxy.close();
    }

    /** The SASL user super passes every sasl entry, and nothing else. */
    private static void userSuper() throws Exception {
        ZooKeeper bob = login("Bob", new Events());
        bob.create("/sasl-for-bob", X, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        bob.create("/sasl-for-nobody", X, Arrays.asList(new ACL(Perms.ALL, new Id("digest", "x:y"))), CreateMode.PERSISTENT);
        ZooKeeper root = login("Super", new Events());
        root.setData("/sasl-for-bob", X, -1);
        Check.fails(Code.NOAUTH, () -> root.setData("/sasl-for-nobody", X, -1));
        bob.close();
        root.close();
    }

    private static void andDigest() throws Exception {
        ZooKeeper zk = login("Bob", new Events());
        zk.addAuthInfo("digest", "bob:pw".getBytes());
        Check.equal(List.of("digest:bob", "ip:127.0.0.1", "sasl:bob"), ids(zk), "identities");
        zk.close();
    }
}
