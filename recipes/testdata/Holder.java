import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/** Holds locks of Curator, and ZooKeeper's WriteLock, as it is told on standard input; see holder.py for the words. */
public class Holder {
    interface Lock {
        boolean acquire(long ms) throws Exception;

        void release() throws Exception;
    }

    static Lock of(InterProcessLock l) {
        return new Lock() {
            public boolean acquire(long ms) throws Exception {
                return l.acquire(ms, TimeUnit.MILLISECONDS);
            }

            public void release() throws Exception {
                l.release();
            }
        };
    }

    /** Holds a WriteLock of ZooKeeper's own recipes, which tells by a callback that it has come. */
    static class Ticket implements Lock, LockListener {
        final CuratorFramework c;
        final String path;
        WriteLock lock;
        CountDownLatch held;

        Ticket(CuratorFramework c, String path) {
            this.c = c;
            this.path = path;
        }

        public void lockAcquired() {
            held.countDown();
        }

        public void lockReleased() {
        }

        public boolean acquire(long ms) throws Exception {
            held = new CountDownLatch(1);
            lock = new WriteLock(c.getZookeeperClient().getZooKeeper(), path, null, this);
            lock.lock();
            if (held.await(ms, TimeUnit.MILLISECONDS)) {
                return true;
            }
            release();
            return false;
        }

        public void release() throws Exception {
            String id = lock.getId();
            synchronized (lock) { // an event between the two would have it ask for the lock again
                try {
                    lock.unlock();
                } catch (RuntimeException e) { // the connection was lost, and it does not try again
                    c.delete().quietly().forPath(id);
                }
                lock.close();
            }
        }
    }

    static Lock make(CuratorFramework c, String kind, String path) {
        switch (kind) {
            case "mutex":
                return of(new InterProcessMutex(c, path));
            case "read":
                return of(new InterProcessReadWriteLock(c, path).readLock());
            case "write":
                return of(new InterProcessReadWriteLock(c, path).writeLock());
            case "semaphore":
                InterProcessSemaphoreV2 s = new InterProcessSemaphoreV2(c, path, 1);
                return new Lock() {
                    Lease lease;

                    public boolean acquire(long ms) throws Exception {
                        lease = s.acquire(ms, TimeUnit.MILLISECONDS);
                        return lease != null;
                    }

                    public void release() {
                        s.returnLease(lease);
                    }
                };
            case "writelock":
                return new Ticket(c, path);
            case "latch":
                return new Lock() {
                    LeaderLatch latch;

                    public boolean acquire(long ms) throws Exception {
                        latch = new LeaderLatch(c, path, "curator");
                        latch.start();
                        if (latch.await(ms, TimeUnit.MILLISECONDS)) {
                            return true;
                        }
                        latch.close();
                        return false;
                    }

                    public void release() throws Exception {
                        latch.close();
                    }
                };
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(args[0], 10000, 10000, new RetryOneTime(200));
        c.start();
        c.blockUntilConnected();
        String path = args[2];
        Lock lock = make(c, args[1], path);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            String answer = "ok";
            switch (words[0]) {
                case "acquire":
                    if (words.length > 2 && !words[2].equals(path)) {
                        path = words[2];
                        lock = make(c, args[1], path);
                    }
                    if (!lock.acquire(Long.parseLong(words[1]))) {
                        answer = "timeout";
                    }
                    break;
                case "release":
                    lock.release();
                    break;
                case "work":
                    for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                        if (!lock.acquire(120000)) {
                            throw new IllegalStateException("no lock within two minutes");
                        }
                        int n = Integer.parseInt(new String(c.getData().forPath("/counter")));
                        c.setData().forPath("/counter", Integer.toString(n + 1).getBytes());
                        lock.release();
                    }
                    break;
            }
            System.out.println(answer);
        }
        c.close();
    }
}
