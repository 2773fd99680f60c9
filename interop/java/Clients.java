import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;

/** Curator clients as the checks want them: quick to retry, patient in the end. */
final class Clients {
    private Clients() {}

    static CuratorFramework connect(String address) throws Exception {
        CuratorFramework c = builder(address).build();
        c.start();
        Check.that(c.blockUntilConnected(Check.PATIENCE_MS, java.util.concurrent.TimeUnit.MILLISECONDS), "connected");
        return c;
    }

    static CuratorFrameworkFactory.Builder builder(String address) {
        return CuratorFrameworkFactory.builder().connectString(address).sessionTimeoutMs(20000).connectionTimeoutMs(10000).retryPolicy(new RetryNTimes(600, 100));
    }
}
