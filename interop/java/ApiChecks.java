/** The ZooKeeper class, method by method. Each check works under a parent of its own. */
public final class ApiChecks {
    private ApiChecks() {}

    public static void main(String[] args) throws Exception {
        Check.start(() -> {
            new NodeChecks().runAll();
            new AsyncChecks().runAll();
            new MultiChecks().runAll();
        });
        Check.start(() -> new WatchChecks().runAll());
        new CutChecks().startAll();
        new SessionChecks().startAll();
        Check.finish();
    }
}
