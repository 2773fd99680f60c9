import java.util.ArrayList;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Multi, transaction and multi-read. */
final class MultiChecks {
    private final ZooKeeper zk;

    MultiChecks() throws Exception {
        zk = Events.connect(Check.server(), 30000, new Events());
    }

    private static final byte[] X = {'x'};

    void runAll() throws Exception {
        Check.run("multi-each-operation", this::eachOperation);
        Check.run("multi-sees-itself", this::seesItself);
        Check.run("multi-failure", this::failure);
        Check.run("multi-failure-results", this::failureResults);
        Check.run("multi-transaction", this::transaction);
        Check.run("multi-read", this::multiRead);
        Check.run("multi-empty", this::empty);
        Check.run("multi-large", this::large);
        Check.run("multi-one-zxid", this::oneZxid);
        zk.close();
    }

    private String parent(String name) throws Exception {
        return zk.create("/multi-" + name, X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private static Op create(String path, CreateMode mode) {
        return Op.create(path, X, Ids.OPEN_ACL_UNSAFE, mode);
    }

    private void eachOperation() throws Exception {
        String p = parent("each");
        List<OpResult> r = zk.multi(List.of(create(p + "/a", CreateMode.PERSISTENT), create(p + "/s", CreateMode.EPHEMERAL_SEQUENTIAL), create(p + "/c", CreateMode.CONTAINER),
            Op.create(p + "/t", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_WITH_TTL, 600000), Op.setData(p + "/a", X, 0), Op.check(p + "/a", 1), Op.delete(p + "/a", 1)));
        Check.equal(7, r.size(), "results");
        Check.equal(p + "/a", ((OpResult.CreateResult) r.get(0)).getPath(), "path");
        Check.equal(p + "/s0000000001", ((OpResult.CreateResult) r.get(1)).getPath(), "path");
        Check.equal(p + "/c", ((OpResult.CreateResult) r.get(2)).getPath(), "path");
        Check.equal(p + "/t", ((OpResult.CreateResult) r.get(3)).getPath(), "path");
        Check.equal(1, ((OpResult.SetDataResult) r.get(4)).getStat().getVersion(), "version");
        Check.that(r.get(5) instanceof OpResult.CheckResult, "a check result");
        Check.that(r.get(6) instanceof OpResult.DeleteResult, "a delete result");
        Check.equal(3, zk.getChildren(p, false).size(), "children");
    }

    private void seesItself() throws Exception {
        String p = parent("itself");
        zk.multi(List.of(create(p + "/a", CreateMode.PERSISTENT), create(p + "/a/b", CreateMode.PERSISTENT), Op.delete(p + "/a/b", 0), Op.delete(p + "/a", 0), create(p + "/a", CreateMode.EPHEMERAL)));
        Check.equal(zk.getSessionId(), zk.exists(p + "/a", false).getEphemeralOwner(), "owner");
    }

    private void failure() throws Exception {
        String p = parent("failure");
        Check.fails(Code.NODEEXISTS, () -> zk.multi(List.of(create(p + "/a", CreateMode.PERSISTENT_SEQUENTIAL), Op.setData(p, X, -1), create(p, CreateMode.PERSISTENT))));
        Check.equal(List.of(), zk.getChildren(p, false), "children after a failed multi");
        Check.equal(0, zk.exists(p, false).getVersion(), "version after a failed multi");
        Check.equal(p + "/n0000000000", zk.create(p + "/n", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL), "no number was used up");
    }

    private void failureResults() throws Exception {
        String p = parent("results");
        KeeperException e = Check.fails(Code.BADVERSION, () -> zk.multi(List.of(Op.check(p, 0), Op.setData(p, X, 7), Op.delete(p, -1))));
        List<Integer> codes = new ArrayList<>();
        for (OpResult r : e.getResults()) {
            codes.add(((OpResult.ErrorResult) r).getErr());
        }
        Check.equal(List.of(0, Code.BADVERSION.intValue(), Code.RUNTIMEINCONSISTENCY.intValue()), codes, "error results");
    }

    private void transaction() throws Exception {
        String p = parent("transaction");
        List<OpResult> r = zk.transaction().check(p, 0).create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT).setData(p + "/a", X, 0).delete(p + "/a", 1).commit();
        Check.equal(4, r.size(), "results");
        Check.fails(Code.NONODE, () -> zk.transaction().check(p + "/no", -1).commit());
    }

    private void multiRead() throws Exception {
        String p = parent("read");
        zk.create(p + "/a", X, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
        List<OpResult> r = zk.multi(List.of(Op.getData(p), Op.getChildren(p), Op.getData(p + "/no")));
        Check.equal(1, ((OpResult.GetDataResult) r.get(0)).getData().length, "data");
        Check.equal(List.of("a"), ((OpResult.GetChildrenResult) r.get(1)).getChildren(), "children");
        Check.equal(Code.NONODE.intValue(), ((OpResult.ErrorResult) r.get(2)).getErr(), "error");
    }

    private void empty() throws Exception {
        Check.equal(0, zk.multi(List.of()).size(), "results of an empty multi");
    }

    private void large() throws Exception {
        String p = parent("large");
        List<Op> ops = new ArrayList<>();
        for (int i = 0; i < 2000; i++) {
            ops.add(create(p + "/n", CreateMode.PERSISTENT_SEQUENTIAL));
        }
        Check.equal(2000, zk.multi(ops).size(), "results");
        Check.equal(2000, zk.exists(p, false).getNumChildren(), "children");
    }

    private void oneZxid() throws Exception {
        String p = parent("zxid");
        zk.multi(List.of(create(p + "/a", CreateMode.PERSISTENT), create(p + "/b", CreateMode.PERSISTENT), Op.setData(p, X, -1)));
        Stat s = zk.exists(p, false);
        Check.equal(s.getMzxid(), zk.exists(p + "/a", false).getCzxid(), "zxid");
        Check.equal(s.getMzxid(), zk.exists(p + "/b", false).getCzxid(), "zxid");
        Check.equal(s.getMzxid(), s.getPzxid(), "zxid");
    }
}
