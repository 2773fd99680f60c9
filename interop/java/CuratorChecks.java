/** Curator: the framework, the caches and the recipes. */
public final class CuratorChecks {
    private CuratorChecks() {}

    public static void main(String[] args) throws Exception {
        new FrameworkChecks().startAll();
        new CacheChecks().startAll();
        new LockChecks().startAll();
        new RecipeChecks().startAll();
        Check.finish();
    }
}
