import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.TreeSet;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.StatsTrack;
import org.apache.zookeeper.ZKUtil;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.cli.DelQuotaCommand;
import org.apache.zookeeper.cli.SetQuotaCommand;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Nodes and ACLs through the synchronous methods. */
final class NodeChecks {
    private final Events events = new Events();
    private final ZooKeeper zk;

    NodeChecks() throws Exception {
        zk = Events.connect(Check.server(), 30000, events);
    }

    private static final byte[] X = {'x'};

    void runAll() throws Exception {
        Check.run("create-in-every-mode", this::createInEveryMode);
        Check.run("create-gives-the-stat", this::createGivesTheStat);
        Check.run("ttl-bounds", this::ttlBounds);
        Check.run("sequence-numbers", this::sequenceNumbers);
        Check.run("set-and-get", this::setAndGet);
        Check.run("null-data", this::nullData);
        Check.run("delete", this::delete);
        Check.run("exists", this::exists);
        Check.run("children", this::children);
        Check.run("ephemerals", this::ephemerals);
        Check.run("acl", this::acl);
        Check.run("auth", this::auth);
        Check.run("who-am-i", this::whoAmI);
        Check.run("create-errors", this::createErrors);
        Check.run("reserved-nodes", this::reservedNodes);
        Check.run("config-and-reconfig", this::configAndReconfig);
        Check.run("large-data", this::largeData);
        Check.run("chroot", this::chroot);
        Check.run("quota", this::quota);
        Check.run("delete-recursive", this::deleteRecursive);
        zk.close();
    }

    private String parent(String name) throws Exception {
        return zk.create("/node-" + name, null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private void createInEveryMode() throws Exception {
        String p = parent("modes");
        Check.equal(p + "/a", zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT), "path");
        Check.equal(p + "/b0000000001", zk.create(p + "/b", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL), "path");
        Check.equal(p + "/c", zk.create(p + "/c", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL), "path");
        Check.equal(p + "/d0000000003", zk.create(p + "/d", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL), "path");
        Check.equal(p + "/e", zk.create(p + "/e", X, Ids.OPEN_ACL_UNSAFE, CreateMode.CONTAINER), "path");
        Stat s = new Stat();
        Check.equal(p + "/f", zk.create(p + "/f", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, s, 600000), "path");
        Check.equal(0L, s.getEphemeralOwner(), "owner shown of a TTL node");
        Check.equal(p + "/g0000000006", zk.create(p + "/g", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, s, 600000), "path");
        Check.equal(0L, zk.exists(p + "/e", false).getEphemeralOwner(), "owner shown of a container");
        Check.equal(zk.getSessionId(), zk.exists(p + "/c", false).getEphemeralOwner(), "owner of an ephemeral");
        Check.equal(7, zk.exists(p, false).getNumChildren(), "children");
    }

    private void createGivesTheStat() throws Exception {
        String p = parent("stat");
        Stat s = new Stat();
        zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL, s);
        Check.equal(zk.exists(p + "/a", false), s, "stat of create");
        Check.that(s.getCzxid() == s.getMzxid() && s.getCzxid() == s.getPzxid() && s.getCzxid() > 0, "one zxid for a new node");
        Check.that(s.getCtime() == s.getMtime() && Math.abs(s.getCtime() - System.currentTimeMillis()) < 60000, "time of creation");
        Check.equal(s.getCzxid(), zk.exists(p, false).getPzxid(), "pzxid of the parent");
    }

    private void ttlBounds() throws Exception {
        String p = parent("ttl");
        for (long ttl : new long[] {0, -1, 0x10000000000L}) {
            boolean refused = false;
            try {
                zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, null, ttl);
            } catch (IllegalArgumentException e) {
                refused = true; // by the client itself
            }
            Check.that(refused, "ttl " + ttl + " is refused");
        }
        zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, null, 0xffffffffffL);
    }

    private void sequenceNumbers() throws Exception {
        String p = parent("sequence");
        for (int i = 0; i < 5; i++) {
            Check.equal(p + "/n-" + String.format("%010d", i), zk.create(p + "/n-", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL), "path");
        }
        zk.delete(p + "/n-0000000004", -1);
        Check.equal(p + "/m-0000000005", zk.create(p + "/m-", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL), "number after a delete");
    }

    private void setAndGet() throws Exception {
        String p = parent("data");
        Stat s = zk.setData(p, X, 0);
        Check.equal(1, s.getVersion(), "version");
        Stat got = new Stat();
        Check.that(Arrays.equals(X, zk.getData(p, false, got)), "data comes back");
        Check.equal(s, got, "stat of getData");
        Check.fails(Code.BADVERSION, () -> zk.setData(p, X, 0));
        Check.fails(Code.BADVERSION, () -> zk.setData(p, X, 7));
        Check.equal(2, zk.setData(p, X, -1).getVersion(), "version after an unconditional set");
        Check.fails(Code.NONODE, () -> zk.setData(p + "/no", X, -1));
        Check.fails(Code.NONODE, () -> zk.getData(p + "/no", false, null));
    }

    private void nullData() throws Exception {
        String p = parent("null");
        Check.equal(null, zk.getData(p, false, null), "data of a node made with null");
        zk.setData(p, new byte[0], -1);
        Check.equal(0, zk.getData(p, false, null).length, "length of empty data");
        zk.setData(p, null, -1);
        Check.equal(null, zk.getData(p, false, null), "data set to null");
    }

    private void delete() throws Exception {
        String p = parent("delete");
        zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Check.fails(Code.NOTEMPTY, () -> zk.delete(p, -1));
        Check.fails(Code.BADVERSION, () -> zk.delete(p + "/a", 3));
        zk.delete(p + "/a", 0);
        Check.fails(Code.NONODE, () -> zk.delete(p + "/a", -1));
        Check.equal(2, zk.exists(p, false).getCversion(), "cversion after a create and a delete");
    }

    private void exists() throws Exception {
        String p = parent("exists");
        Check.equal(null, zk.exists(p + "/no", false), "stat of a missing node");
        Check.equal(null, zk.exists(p + "/no/deeper", false), "stat below a missing node");
        Check.that(zk.exists(p, false) != null, "stat of a node");
    }

    private void children() throws Exception {
        String p = parent("children");
        for (String c : new String[] {"b", "a", "c"}) {
            zk.create(p + "/" + c, X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        zk.create(p + "/a/deep", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        Stat s = new Stat();
        Check.equal(new TreeSet<>(List.of("a", "b", "c")), new TreeSet<>(zk.getChildren(p, false)), "children");
        Check.equal(new TreeSet<>(List.of("a", "b", "c")), new TreeSet<>(zk.getChildren(p, false, s)), "children");
        Check.equal(zk.exists(p, false), s, "stat of getChildren");
        Check.equal(4, zk.getAllChildrenNumber(p), "descendants");
        Check.equal(List.of(), zk.getChildren(p + "/b", false), "children of a leaf");
        Check.fails(Code.NONODE, () -> zk.getChildren(p + "/no", false));
        Check.fails(Code.NONODE, () -> zk.getAllChildrenNumber(p + "/no"));
    }

    private void ephemerals() throws Exception {
        String p = parent("ephemerals");
        zk.create(p + "/b", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
        Check.equal(new TreeSet<>(List.of(p + "/a", p + "/b")), new TreeSet<>(zk.getEphemerals(p)), "ephemerals below");
        Check.that(zk.getEphemerals().containsAll(List.of(p + "/a", p + "/b")), "all ephemerals");
        Check.equal(List.of(), zk.getEphemerals("/elsewhere"), "ephemerals elsewhere");
        Check.fails(Code.NOCHILDRENFOREPHEMERALS, () -> zk.create(p + "/a/b", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
    }

    private void acl() throws Exception {
        String p = parent("acl");
        Stat s = new Stat();
        Check.equal(Ids.OPEN_ACL_UNSAFE, zk.getACL(p, s), "acl");
        List<ACL> two = Arrays.asList(new ACL(Perms.READ | Perms.ADMIN, Ids.ANYONE_ID_UNSAFE), new ACL(Perms.ALL, new Id("ip", "10.0.0.0/8")));
        s = zk.setACL(p, two, 0);
        Check.equal(1, s.getAversion(), "aversion");
        Check.equal(two, zk.getACL(p, new Stat()), "acl");
        Check.fails(Code.NOAUTH, () -> zk.setData(p, X, -1));
        Check.fails(Code.NOAUTH, () -> zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        Check.fails(Code.BADVERSION, () -> zk.setACL(p, two, 0));
        Check.fails(Code.INVALIDACL, () -> zk.setACL(p, Arrays.asList(new ACL(Perms.ALL, new Id("nonsense", "x"))), -1));
        Check.fails(Code.INVALIDACL, () -> zk.create(p + "/b", X, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
        zk.setACL(p, Ids.OPEN_ACL_UNSAFE, -1);
        zk.setData(p, X, -1);
    }

    private void auth() throws Exception {
        Events e = new Events();
        ZooKeeper bob = Events.connect(Check.server(), 30000, e);
        bob.addAuthInfo("digest", "bob:pw".getBytes());
        String p = bob.create("/node-auth", X, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT);
        Check.equal("[31,s{'digest,'bob:ikIaKsbtGweaHnb/jKn7OHqbunM=}\n]".replace("\n", ""), bob.getACL(p, new Stat()).toString().replace("\n", ""), "acl of the creator");
        Check.fails(Code.NOAUTH, () -> zk.getData(p, false, null));
        Check.fails(Code.NOAUTH, () -> zk.getACL(p, new Stat()));
        Check.fails(Code.NOAUTH, () -> zk.getChildren(p, false));
        bob.setACL(p, Arrays.asList(new ACL(Perms.ALL, new Id("auth", "")), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), -1);
        Check.that(zk.getACL(p, new Stat()).toString().contains("bob:x"), "the hash is hidden from those without ADMIN");
        bob.close();
        ZooKeeper again = Events.connect(Check.server(), 30000, e);
        Check.fails(Code.NOAUTH, () -> again.setData(p, X, -1));
        again.addAuthInfo("digest", "bob:pw".getBytes());
        again.setData(p, X, -1);
        again.close();
        Events ge = new Events();
        ZooKeeper bad = Events.connect(Check.server(), 30000, ge);
        bad.addAuthInfo("nonsense", "x".getBytes());
        ge.await(org.apache.zookeeper.Watcher.Event.KeeperState.AuthFailed);
        Check.fails(Code.AUTHFAILED, () -> bad.exists("/", false));
        bad.close();
    }

    private void whoAmI() throws Exception {
        ZooKeeper ann = Events.connect(Check.server(), 30000, new Events());
        ann.addAuthInfo("digest", "ann:pw".getBytes());
        List<String> ids = new ArrayList<>();
        for (ClientInfo c : ann.whoAmI()) {
            ids.add(c.getAuthScheme() + ":" + c.getUser());
        }
        Collections.sort(ids);
        Check.equal(List.of("digest:ann", "ip:127.0.0.1"), ids, "identities");
        ann.close();
    }

    private void createErrors() throws Exception {
        String p = parent("errors");
        Check.fails(Code.NODEEXISTS, () -> zk.create(p, X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        Check.fails(Code.NONODE, () -> zk.create(p + "/a/b", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        Check.fails(Code.INVALIDACL, () -> zk.create(p + "/a", X, List.of(), CreateMode.PERSISTENT));
        Check.equal(null, zk.exists(p + "/a", false), "node of a failed create");
    }

    private void reservedNodes() throws Exception {
        for (String path : new String[] {"/zookeeper", "/zookeeper/quota", "/zookeeper/config"}) {
            Check.fails(Code.BADARGUMENTS, () -> zk.delete(path, -1));
        }
        Check.that(zk.getChildren("/", false).contains("zookeeper"), "the reserved node is listed");
        Check.equal(new TreeSet<>(List.of("config", "quota")), new TreeSet<>(zk.getChildren("/zookeeper", false)), "children of /zookeeper");
    }

    private void configAndReconfig() throws Exception {
        Check.members(zk.getConfig(false, new Stat()));
        Check.fails(Code.NOAUTH, () -> zk.setData("/zookeeper/config", X, -1));
        ZooKeeperAdmin admin = new ZooKeeperAdmin(Check.server(), 30000, e -> {});
        Check.fails(Code.RECONFIGDISABLED, () -> admin.reconfigure((String) null, null, "server.1=127.0.0.1:1:2;3", -1, new Stat()));
        admin.close();
    }

    private void largeData() throws Exception {
        String p = parent("large");
        byte[] big = new byte[1_000_000];
        Arrays.fill(big, (byte) 7);
        zk.setData(p, big, -1);
        Check.that(Arrays.equals(big, zk.getData(p, false, null)), "a megabyte comes back");
        // One byte more than jute.maxbuffer allows of the whole frame: the server hangs up.
        Check.fails(Code.CONNECTIONLOSS, () -> zk.setData(p, new byte[1024 * 1024], -1));
        Check.await("the same session goes on, and the write was not done", () -> {
            try {
                return zk.exists(p, false).getVersion() == 1;
            } catch (Exception e) {
                return false;
            }
        });
    }

    private void chroot() throws Exception {
        String p = parent("chroot");
        Events e = new Events();
        ZooKeeper sub = Events.connect(Check.server() + p, 30000, e);
        Check.equal("/a", sub.create("/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT), "path in a chroot");
        Check.equal("/s0000000001", sub.create("/s", X, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL), "path in a chroot");
        Check.that(zk.exists(p + "/a", false) != null, "the real path");
        sub.getData("/a", true, null);
        sub.getChildren("/", true);
        zk.setData(p + "/a", X, -1);
        zk.delete(p + "/a", -1);
        e.next(org.apache.zookeeper.Watcher.Event.EventType.NodeDataChanged, "/a");
        e.next(org.apache.zookeeper.Watcher.Event.EventType.NodeChildrenChanged, "/");
        sub.close();
    }

    private void quota() throws Exception {
        String p = parent("quota");
        zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        StatsTrack limits = new StatsTrack();
        limits.setCount(10);
        limits.setBytes(1000);
        SetQuotaCommand.createQuota(zk, p, limits);
        zk.create(p + "/b", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        StatsTrack used = new StatsTrack(zk.getData("/zookeeper/quota" + p + "/zookeeper_stats", false, null));
        Check.equal(3L, used.getCount(), "nodes under a quota");
        Check.equal(2L, used.getBytes(), "bytes under a quota");
        Check.that(DelQuotaCommand.delQuota(zk, p, limits), "the quota is taken away");
    }

    private void deleteRecursive() throws Exception {
        String p = parent("recursive");
        for (int i = 0; i < 20; i++) {
            String c = zk.create(p + "/n", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
            zk.create(c + "/below", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        }
        ZKUtil.deleteRecursive(zk, p);
        Check.equal(null, zk.exists(p, false), "the tree");
    }
}
