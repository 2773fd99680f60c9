import java.util.Arrays;
import java.util.Iterator;
import java.util.TreeSet;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;

/** Writes with Curator's recipes what interop_values_test.go reads, and reads what that writes. */
public class Writer {
    static final QueueSerializer<String> TEXT = new QueueSerializer<String>() {
        public byte[] serialize(String s) {
            return s.getBytes();
        }

        public String deserialize(byte[] b) {
            return new String(b);
        }
    };

    /** What Curator's consumer of a queue has got. */
    static class Taken extends LinkedBlockingQueue<String> implements QueueConsumer<String> {
        public void consumeMessage(String s) {
            add(s);
        }

        public void stateChanged(CuratorFramework c, ConnectionState s) {
        }
    }

    static QueueBuilder<String> queue(CuratorFramework c, String path) {
        return QueueBuilder.builder(c, (QueueConsumer<String>) null, TEXT, path);
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(args[0], 10000, 10000, new RetryOneTime(200));
        c.start();
        c.blockUntilConnected();

        new SimpleDistributedQueue(c, "/simple").offer("one".getBytes());

        DistributedQueue<String> q = queue(c, "/plain").buildQueue();
        q.start();
        q.put("one");
        Iterator<String> items = Arrays.asList("two", "three").iterator();
        q.putMulti(new MultiItem<String>() {
            public String nextItem() {
                return items.hasNext() ? items.next() : null;
            }
        });
        DistributedPriorityQueue<String> p = queue(c, "/priority").buildPriorityQueue(0);
        p.start();
        p.put("last", 300);
        p.put("first", -7);
        p.put("second", 4);
        DistributedIdQueue<String> i = queue(c, "/id").buildIdQueue();
        i.start();
        i.put("a", "x/1");
        i.put("b", "y");
        DistributedDelayQueue<String> d = queue(c, "/delay").buildDelayQueue();
        d.start();
        d.put("later", System.currentTimeMillis() + 400);
        d.put("sooner", System.currentTimeMillis() + 200);

        SharedCount count = new SharedCount(c, "/count", 3);
        count.start();
        count.setCount(17);
        DistributedAtomicLong n = new DistributedAtomicLong(c, "/long", new RetryOneTime(10));
        n.add(-40L);
        GroupMember member = new GroupMember(c, "/group", "java", "hello".getBytes());
        member.start();
        System.out.println("ready");
        DistributedDoubleBarrier b = new DistributedDoubleBarrier(c, "/barrier", 2);
        b.enter();
        System.out.println("entered");
        b.leave();
        System.out.println("left");
        System.in.read(); // until our test has written
        Taken taken = new Taken();
        DistributedQueue<String> multi = QueueBuilder.builder(c, taken, TEXT, "/multi").buildQueue();
        multi.start();
        String together = taken.take() + taken.take() + taken.take();
        multi.close();
        while (count.getCount() != 18 || member.getCurrentMembers().size() != 2) {
            Thread.sleep(10); // what it has of others comes by itself, when it comes
        }
        System.out.println(new String(new SimpleDistributedQueue(c, "/simple").take()) + " " + together + " " + n.get().postValue() + " " + count.getCount()
            + " " + new TreeSet<>(member.getCurrentMembers().keySet()));
        member.close();
        count.close();
        c.close();
    }
}
