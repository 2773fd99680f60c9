import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.curator.RetryLoop;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryUntilElapsed;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * A client of Java that does what it is told: a line of fields between tabs, and one as the answer.
 *
 * <p>usage: Client SERVERS TIMEOUT-IN-MS
 */
public final class Client {
    /** For an answer, as the other clients of these tests have. */
    private static final int PATIENCE_MS = 4000;

    /** Codes by which the library says that it does not know what became of a request. */
    private static final List<Code> LOST = List.of(
        Code.CONNECTIONLOSS, Code.OPERATIONTIMEOUT, Code.REQUESTTIMEOUT, Code.SESSIONEXPIRED, Code.SESSIONMOVED);

    private final CuratorFramework curator;
    private Mutex mutex;

    private Client(String servers, int timeoutMs) throws Exception {
        curator = CuratorFrameworkFactory.builder().connectString(servers).sessionTimeoutMs(timeoutMs)
            .connectionTimeoutMs(timeoutMs).retryPolicy(new RetryUntilElapsed(PATIENCE_MS, 50)).build();
        curator.start();
        curator.blockUntilConnected(); // how long is up to who reads
    }

    /** A lock that tells the name of its node. */
    private static final class Mutex extends InterProcessMutex {
        Mutex(CuratorFramework client, String path) {
            super(client, path);
        }

        String node() {
            return getLockPath();
        }
    }

    /** What became of a question; a stat that was not asked for is all zero. */
    private static final class Answer {
        final String lost;
        final int code;
        final String value;
        final Stat stat;

        Answer(String lost, int code, String value, Stat stat) {
            this.lost = lost;
            this.code = code;
            this.value = value;
            this.stat = stat;
        }

        Answer(String value, Stat stat) {
            this("", 0, value, stat);
        }

        Answer(int code) {
            this("", code, "", new Stat());
        }

        static Answer lost(String why) {
            return new Answer(why, 0, "", new Stat());
        }
    }

    private Answer answer(String[] q) {
        try {
            return act(q[0], q[1], q[2], Integer.parseInt(q[3]), Integer.parseInt(q[4]));
        } catch (KeeperException e) {
            return LOST.contains(e.code()) ? Answer.lost(e.toString()) : new Answer(e.code().intValue());
        } catch (Exception e) {
            return Answer.lost(e.toString());
        }
    }

    private Answer act(String what, String path, String value, int version, int seconds) throws Exception {
        byte[] data = value.getBytes(StandardCharsets.UTF_8);
        Stat stat = new Stat();
        switch (what) {
            case "set":
                return new Answer("", zk().setData(path, data, version));
            case "create":
                return new Answer(zk().create(path, data, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT, stat), stat);
            case "delete":
                zk().delete(path, version);
                return new Answer("", stat);
            case "sync-get": // reads may be repeated: here it is the library that does so
                return RetryLoop.callWithRetry(curator.getZookeeperClient(), () -> {
                    ZooKeeper zk = zk();
                    sync(zk, path);
                    return new Answer(new String(zk.getData(path, false, stat), StandardCharsets.UTF_8), stat);
                });
            case "exists":
                Stat found = curator.checkExists().forPath(path);
                return found == null ? new Answer(Code.NONODE.intValue()) : new Answer("", found);
            case "acquire":
                mutex = new Mutex(curator, path);
                if (!mutex.acquire(seconds, TimeUnit.SECONDS)) {
                    return Answer.lost("LockTimeout");
                }
                String node = mutex.node();
                return new Answer(node.substring(node.lastIndexOf('/') + 1), stat);
            case "release":
                mutex.release();
                return new Answer("", stat);
            default:
                throw new IllegalArgumentException(what);
        }
    }

    /** Writes go past Curator, which would repeat those that may have been done. */
    private ZooKeeper zk() throws Exception {
        return curator.getZookeeperClient().getZooKeeper();
    }

    private static void sync(ZooKeeper zk, String path) throws Exception {
        CompletableFuture<Integer> done = new CompletableFuture<>();
        zk.sync(path, (code, p, context) -> done.complete(code), null);
        int code = done.get();
        if (code != Code.OK.intValue()) {
            throw KeeperException.create(Code.get(code), path);
        }
    }

    private void say(Answer a) throws Exception {
        long session = 0;
        // Both must say so: Curator gives a session up that is connected again, as long as it has not noticed.
        if (curator.getZookeeperClient().isConnected() && curator.blockUntilConnected(0, TimeUnit.MILLISECONDS)) {
            session = zk().getSessionId();
        }
        System.out.println(session + "\t" + a.lost.replaceAll("\\s", " ") + "\t" + a.code + "\t" + a.value + "\t"
            + a.stat.getVersion() + "\t" + a.stat.getCzxid() + "\t" + a.stat.getMzxid() + "\t" + a.stat.getEphemeralOwner());
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("zookeeper.request.timeout", Integer.toString(PATIENCE_MS));
        Client c = new Client(args[0], Integer.parseInt(args[1]));
        c.say(new Answer(0));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            c.say(c.answer(line.split("\t", -1)));
        }
        Runtime.getRuntime().halt(0); // whoever gave the orders is gone; the session is left to expire
    }
}
