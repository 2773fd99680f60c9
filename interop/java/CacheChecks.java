import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;

/** The caches, each also over a connection that is cut while the tree changes. */
@SuppressWarnings("deprecation")
final class CacheChecks {
    private final CuratorFramework client;

    CacheChecks() throws Exception {
        client = Clients.connect(Check.server());
    }

    void startAll() {
        Check.start("cache-curator", this::curatorCache);
        Check.start("cache-curator-over-a-cut", this::curatorCacheOverACut);
        Check.start("cache-path-children", this::pathChildren);
        Check.start("cache-path-children-over-a-cut", this::pathChildrenOverACut);
        Check.start("cache-tree", this::tree);
        Check.start("cache-node", this::node);
    }

    private static byte[] bytes(int i) {
        return Integer.toString(i).getBytes();
    }

    private void curatorCache() throws Exception {
        client.create().forPath("/cc", bytes(0));
        client.create().forPath("/cc/old", bytes(1));
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        CuratorCache cache = CuratorCache.build(client, "/cc");
        cache.listenable().addListener(CuratorCacheListener.builder().forCreates(n -> events.add("created " + n.getPath())).forChanges((a, b) -> events.add("changed " + b.getPath()))
            .forDeletes(n -> events.add("deleted " + n.getPath())).forInitialized(() -> events.add("initialized")).build());
        cache.start();
        expect(events, "created /cc", "created /cc/old", "initialized");
        client.create().forPath("/cc/a", bytes(2));
        expect(events, "created /cc/a");
        client.create().forPath("/cc/a/b", bytes(3));
        expect(events, "created /cc/a/b");
        client.setData().forPath("/cc/a/b", bytes(4));
        expect(events, "changed /cc/a/b");
        client.delete().forPath("/cc/a/b");
        expect(events, "deleted /cc/a/b");
        Check.equal("2", new String(cache.get("/cc/a").get().getData()), "data");
        Check.equal(3, cache.size(), "nodes");
        cache.close();
    }

    private static void expect(BlockingQueue<String> events, String... want) throws Exception {
        for (String w : want) {
            Check.equal(w, events.poll(Check.PATIENCE_MS, TimeUnit.MILLISECONDS), "event");
        }
    }

    private interface Snapshot {
        Map<String, String> take();
    }

    /** Changes a directory while the cache's connection is refused; afterwards both must agree. */
    private void overACut(String dir, Proxy proxy, Snapshot snapshot) throws Exception {
        for (int i = 0; i < 30; i++) {
            client.create().forPath(dir + "/n" + i, bytes(i));
        }
        Check.await("the cache is filled", () -> snapshot.take().size() == 30);
        proxy.order("refuse");
        for (int i = 0; i < 10; i++) {
            client.setData().forPath(dir + "/n" + i, bytes(100 + i));
            client.delete().forPath(dir + "/n" + (10 + i));
            client.create().forPath(dir + "/m" + i, bytes(200 + i));
        }
        proxy.order("pass");
        Map<String, String> want = new TreeMap<>();
        for (String c : client.getChildren().forPath(dir)) {
            want.put(dir + "/" + c, new String(client.getData().forPath(dir + "/" + c)));
        }
        Check.equal(30, want.size(), "nodes");
        Check.await("the cache equals the tree", () -> new TreeMap<>(snapshot.take()).equals(want));
    }

    private void curatorCacheOverACut() throws Exception {
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.connect(proxy.address);
        client.create().forPath("/cc-cut");
        CuratorCache cache = CuratorCache.build(c, "/cc-cut");
        cache.start();
        overACut("/cc-cut", proxy, () -> {
            Map<String, String> m = new HashMap<>();
            cache.stream().filter(n -> !n.getPath().equals("/cc-cut")).forEach(n -> m.put(n.getPath(), new String(n.getData())));
            return m;
        });
        cache.close();
        c.close();
        proxy.close();
    }

    private void pathChildren() throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        PathChildrenCache cache = new PathChildrenCache(client, "/pc", true);
        cache.getListenable().addListener((c, e) -> events.add(e.getType() + " " + (e.getData() == null ? "" : e.getData().getPath())));
        cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
        expect(events, "INITIALIZED ");
        client.create().forPath("/pc/a", bytes(1));
        expect(events, "CHILD_ADDED /pc/a");
        client.setData().forPath("/pc/a", bytes(2));
        expect(events, "CHILD_UPDATED /pc/a");
        client.create().forPath("/pc/b", bytes(3));
        expect(events, "CHILD_ADDED /pc/b");
        client.delete().forPath("/pc/a");
        expect(events, "CHILD_REMOVED /pc/a");
        Check.equal(1, cache.getCurrentData().size(), "children");
        cache.close();
    }

    private void pathChildrenOverACut() throws Exception {
        Proxy proxy = new Proxy();
        CuratorFramework c = Clients.connect(proxy.address);
        PathChildrenCache cache = new PathChildrenCache(c, "/pc-cut", true);
        cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        overACut("/pc-cut", proxy, () -> {
            Map<String, String> m = new HashMap<>();
            for (ChildData d : cache.getCurrentData()) {
                m.put(d.getPath(), new String(d.getData()));
            }
            return m;
        });
        cache.close();
        c.close();
        proxy.close();
    }

    private void tree() throws Exception {
        client.create().creatingParentsIfNeeded().forPath("/tc/a", bytes(1));
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        TreeCache cache = new TreeCache(client, "/tc");
        cache.getListenable().addListener((c, e) -> {
            if (e.getType() == TreeCacheEvent.Type.INITIALIZED || e.getData() != null && !e.getData().getPath().equals("/tc")) {
                events.add(e.getType() + " " + (e.getData() == null ? "" : e.getData().getPath()));
            }
        });
        cache.start();
        expect(events, "NODE_ADDED /tc/a", "INITIALIZED ");
        client.create().forPath("/tc/a/b", bytes(2));
        expect(events, "NODE_ADDED /tc/a/b");
        client.setData().forPath("/tc/a/b", bytes(3));
        expect(events, "NODE_UPDATED /tc/a/b");
        client.delete().forPath("/tc/a/b");
        expect(events, "NODE_REMOVED /tc/a/b");
        Check.equal(1, cache.getCurrentChildren("/tc").size(), "children");
        cache.close();
    }

    private void node() throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        NodeCache cache = new NodeCache(client, "/nc");
        cache.getListenable().addListener(() -> events.add(cache.getCurrentData() == null ? "none" : new String(cache.getCurrentData().getData())));
        cache.start(true);
        client.create().forPath("/nc", bytes(1));
        expect(events, "1");
        client.setData().forPath("/nc", bytes(2));
        expect(events, "2");
        client.delete().forPath("/nc");
        expect(events, "none");
        cache.close();
    }
}
