/* The C client against one server: checks SERVER CONTROL. */
#include "check.h"

static zhandle_t *zk;
static seen_t seen;

static struct ACL_vector *open_acl(void) { return &ZOO_OPEN_ACL_UNSAFE; }

static void make(const char *path) { OK(zoo_create(zk, path, "x", 1, open_acl(), ZOO_PERSISTENT, NULL, 0)); }

static void create_in_every_mode(void) {
    char name[100];
    struct Stat st;
    make("/c-modes");
    OK(zoo_create(zk, "/c-modes/p", "x", 1, open_acl(), ZOO_PERSISTENT, name, sizeof name));
    SAME("/c-modes/p", name);
    OK(zoo_create(zk, "/c-modes/s", "x", 1, open_acl(), ZOO_PERSISTENT_SEQUENTIAL, name, sizeof name));
    SAME("/c-modes/s0000000001", name);
    OK(zoo_create2(zk, "/c-modes/e", "x", 1, open_acl(), ZOO_EPHEMERAL, name, sizeof name, &st));
    EQUAL(zoo_client_id(zk)->client_id, st.ephemeralOwner);
    OK(zoo_create2(zk, "/c-modes/es", NULL, -1, open_acl(), ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof name, &st));
    SAME("/c-modes/es0000000003", name);
    OK(zoo_create(zk, "/c-modes/c", "x", 1, open_acl(), ZOO_CONTAINER, name, sizeof name));
    OK(zoo_create_ttl(zk, "/c-modes/t", "x", 1, open_acl(), ZOO_PERSISTENT_WITH_TTL, 600000, name, sizeof name));
    OK(zoo_create2_ttl(zk, "/c-modes/ts", "x", 1, open_acl(), ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL, 600000, name, sizeof name, &st));
    SAME("/c-modes/ts0000000006", name);
    EQUAL(0, st.ephemeralOwner);
    EQUAL(ZNODEEXISTS, zoo_create(zk, "/c-modes/p", "x", 1, open_acl(), 0, NULL, 0));
    EQUAL(ZNONODE, zoo_create(zk, "/c-modes/no/p", "x", 1, open_acl(), 0, NULL, 0));
    EQUAL(ZNOCHILDRENFOREPHEMERALS, zoo_create(zk, "/c-modes/e/p", "x", 1, open_acl(), 0, NULL, 0));
    struct ACL_vector none = {0, NULL};
    EQUAL(ZINVALIDACL, zoo_create(zk, "/c-modes/q", "x", 1, &none, 0, NULL, 0));
}

static void get_and_set(void) {
    char buffer[100];
    int length = sizeof buffer;
    struct Stat st, st2;
    make("/c-data");
    OK(zoo_set2(zk, "/c-data", "two", 3, 0, &st));
    EQUAL(1, st.version);
    OK(zoo_get(zk, "/c-data", 0, buffer, &length, &st2));
    EQUAL(3, length);
    TRUE(memcmp(buffer, "two", 3) == 0 && memcmp(&st, &st2, sizeof st) == 0);
    EQUAL(ZBADVERSION, zoo_set(zk, "/c-data", "x", 1, 0));
    OK(zoo_set(zk, "/c-data", NULL, -1, -1));
    length = sizeof buffer;
    OK(zoo_get(zk, "/c-data", 0, buffer, &length, &st));
    EQUAL(-1, length); /* null data */
    EQUAL(ZNONODE, zoo_set(zk, "/c-no", "x", 1, -1));
    OK(zoo_exists(zk, "/c-data", 0, &st2));
    EQUAL(2, st2.version);
    EQUAL(ZNONODE, zoo_exists(zk, "/c-no", 0, &st));
}

static void children_and_delete(void) {
    struct String_vector names = {0, NULL};
    struct Stat st;
    make("/c-dir");
    make("/c-dir/a");
    make("/c-dir/b");
    OK(zoo_get_children(zk, "/c-dir", 0, &names));
    EQUAL(2, names.count);
    deallocate_String_vector(&names);
    OK(zoo_get_children2(zk, "/c-dir", 0, &names, &st));
    EQUAL(2, names.count);
    EQUAL(2, st.numChildren);
    deallocate_String_vector(&names);
    EQUAL(ZNOTEMPTY, zoo_delete(zk, "/c-dir", -1));
    EQUAL(ZBADVERSION, zoo_delete(zk, "/c-dir/a", 9));
    OK(zoo_delete(zk, "/c-dir/a", 0));
    EQUAL(ZNONODE, zoo_delete(zk, "/c-dir/a", -1));
    EQUAL(ZBADARGUMENTS, zoo_delete(zk, "/zookeeper", -1));
}

static void authenticated(int rc, const void *data) { *(volatile int *)data = rc; }

static void acl_and_auth(void) {
    struct ACL_vector acl;
    struct Stat st;
    seen_t s;
    make("/c-acl");
    OK(zoo_get_acl(zk, "/c-acl", &acl, &st));
    EQUAL(1, acl.count);
    SAME("world", acl.data[0].id.scheme);
    deallocate_ACL_vector(&acl);
    zhandle_t *bob = connect_to(server, 20000, NULL, &s);
    volatile int rc = 1;
    OK(zoo_add_auth(bob, "digest", "bob:pw", 6, authenticated, (void *)&rc));
    AWAIT(rc != 1);
    OK(rc);
    OK(zoo_create(bob, "/c-acl/bobs", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    OK(zoo_get_acl(bob, "/c-acl/bobs", &acl, &st));
    SAME("bob:ikIaKsbtGweaHnb/jKn7OHqbunM=", acl.data[0].id.id);
    deallocate_ACL_vector(&acl);
    EQUAL(ZNOAUTH, zoo_set(zk, "/c-acl/bobs", "x", 1, -1));
    EQUAL(ZNOAUTH, zoo_get_acl(zk, "/c-acl/bobs", &acl, &st));
    OK(zoo_set_acl(bob, "/c-acl/bobs", 0, open_acl()));
    EQUAL(ZBADVERSION, zoo_set_acl(bob, "/c-acl/bobs", 0, open_acl()));
    OK(zoo_set(zk, "/c-acl/bobs", "x", 1, -1));
    OK(zookeeper_close(bob));
    zhandle_t *bad = connect_to(server, 20000, NULL, &s);
    rc = 1;
    OK(zoo_add_auth(bad, "nonsense", "x", 1, authenticated, (void *)&rc));
    AWAIT(rc != 1);
    EQUAL(ZAUTHFAILED, rc);
    AWAIT(zoo_state(bad) == ZOO_AUTH_FAILED_STATE);
    zookeeper_close(bad);
}

static void multi(void) {
    char name[100];
    struct Stat st;
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    make("/c-multi");
    zoo_check_op_init(&ops[0], "/c-multi", 0);
    zoo_create_op_init(&ops[1], "/c-multi/s", "x", 1, open_acl(), ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof name);
    zoo_set_op_init(&ops[2], "/c-multi", "yy", 2, 0, &st);
    zoo_delete_op_init(&ops[3], "/c-multi/s0000000000", 0);
    OK(zoo_multi(zk, 4, ops, results));
    for (int i = 0; i < 4; i++) {
        OK(results[i].err);
    }
    SAME("/c-multi/s0000000000", name);
    EQUAL(1, st.version);
    zoo_set_op_init(&ops[0], "/c-multi", "z", 1, -1, &st);
    zoo_check_op_init(&ops[1], "/c-multi", 77);
    zoo_delete_op_init(&ops[2], "/c-multi", -1);
    EQUAL(ZBADVERSION, zoo_multi(zk, 3, ops, results));
    OK(results[0].err);
    EQUAL(ZBADVERSION, results[1].err);
    EQUAL(ZRUNTIMEINCONSISTENCY, results[2].err);
    OK(zoo_exists(zk, "/c-multi", 0, &st));
    EQUAL(1, st.version);
}

static void watches(void) {
    struct Stat st;
    struct String_vector names = {0, NULL};
    seen_t w;
    char buffer[10];
    int length = sizeof buffer;
    seen_init(&w);
    make("/c-watch");
    OK(zoo_wget(zk, "/c-watch", watch, &w, buffer, &length, &st));
    EQUAL(ZNONODE, zoo_wexists(zk, "/c-watch/a", watch, &w, &st));
    OK(zoo_wget_children(zk, "/c-watch", watch, &w, &names));
    deallocate_String_vector(&names);
    OK(zoo_set(zk, "/c-watch", "y", 1, -1));
    OK(zoo_set(zk, "/c-watch", "z", 1, -1));
    make("/c-watch/a");
    AWAIT(events_of(&w) == 3);
    SAME("changed /c-watch;created /c-watch/a;children /c-watch;", w.log);
    OK(zoo_wexists(zk, "/c-watch/a", watch, &w, &st));
    OK(zoo_delete(zk, "/c-watch/a", -1));
    AWAIT(events_of(&w) == 4);
}

static void removed_watches(void) {
    struct Stat st;
    seen_t w;
    char buffer[10];
    int length = sizeof buffer;
    seen_init(&w);
    make("/c-remove");
    EQUAL(ZNOWATCHER, zoo_remove_watches(zk, "/c-remove", ZWATCHTYPE_DATA, watch, &w, 0));
    OK(zoo_wget(zk, "/c-remove", watch, &w, buffer, &length, &st));
    OK(zoo_remove_watches(zk, "/c-remove", ZWATCHTYPE_DATA, watch, &w, 0));
    OK(zoo_set(zk, "/c-remove", "y", 1, -1));
    OK(zoo_exists(zk, "/c-remove", 0, &st));
    OK(zoo_exists(zk, "/c-remove", 0, &st));
    TRUE(strstr(w.log, "changed") == NULL);
}

/* The order in which completions came. */
static char order[200];
static volatile int completions;

static void note(const char *what, int rc) {
    size_t n = strlen(order);
    snprintf(order + n, sizeof order - n, "%s %d;", what, rc);
    completions++;
}
static void string_done(int rc, const char *value, const void *data) { (void)value; note(data, rc); }
static void stat_done(int rc, const struct Stat *st, const void *data) { (void)st; note(data, rc); }
static void data_done(int rc, const char *v, int n, const struct Stat *st, const void *data) { (void)v; (void)n; (void)st; note(data, rc); }
static void strings_done(int rc, const struct String_vector *v, const void *data) { (void)v; note(data, rc); }
static void acl_done(int rc, struct ACL_vector *acl, struct Stat *st, const void *data) { (void)acl; (void)st; note(data, rc); }
static void void_done(int rc, const void *data) { note(data, rc); }

static void asynchronous_calls(void) {
    order[0] = 0;
    completions = 0;
    OK(zoo_acreate(zk, "/c-async", "x", 1, open_acl(), 0, string_done, "create"));
    OK(zoo_aexists(zk, "/c-async", 0, stat_done, "exists"));
    OK(zoo_aset(zk, "/c-async", "yy", 2, 0, stat_done, "set"));
    OK(zoo_aget(zk, "/c-async", 0, data_done, "get"));
    OK(zoo_aget(zk, "/c-async/no", 0, data_done, "get"));
    OK(zoo_aget_children(zk, "/c-async", 0, strings_done, "children"));
    OK(zoo_aget_acl(zk, "/c-async", acl_done, "acl"));
    OK(zoo_async(zk, "/c-async", string_done, "sync"));
    OK(zoo_adelete(zk, "/c-async", 1, void_done, "delete"));
    AWAIT(completions == 9);
    SAME("create 0;exists 0;set 0;get 0;get -101;children 0;acl 0;sync 0;delete 0;", order);
}

static volatile int in_order, out_of_order;

static void numbered_done(int rc, const char *value, const void *data) {
    char want[100];
    snprintf(want, sizeof want, "/c-many/n-%010d", (int)(long)data);
    if (rc == ZOK && strcmp(value, want) == 0) {
        in_order++;
    } else {
        out_of_order++;
    }
}

static void many_asynchronous_calls(void) {
    make("/c-many");
    for (long i = 0; i < 1000; i++) {
        OK(zoo_acreate(zk, "/c-many/n-", "x", 1, open_acl(), ZOO_PERSISTENT_SEQUENTIAL, numbered_done, (void *)i));
    }
    AWAIT(in_order + out_of_order == 1000);
    EQUAL(0, out_of_order);
}

static void reconnect_keeps_session_watches_and_auth(void) {
    proxy_t p;
    seen_t s, w;
    struct Stat st;
    char buffer[10];
    int length = sizeof buffer;
    struct String_vector names = {0, NULL};
    proxy_open(&p);
    make("/c-cut");
    make("/c-cut/changed");
    make("/c-cut/kept");
    zhandle_t *zh = connect_to(p.address, 20000, NULL, &s);
    volatile int rc = 1;
    OK(zoo_add_auth(zh, "digest", "cut:pw", 6, authenticated, (void *)&rc));
    AWAIT(rc == ZOK);
    OK(zoo_create(zh, "/c-cut/mine", "x", 1, &ZOO_CREATOR_ALL_ACL, ZOO_EPHEMERAL, NULL, 0));
    int64_t session = zoo_client_id(zh)->client_id;
    seen_init(&w);
    OK(zoo_wget(zh, "/c-cut/changed", watch, &w, buffer, &length, &st));
    length = sizeof buffer;
    OK(zoo_wget(zh, "/c-cut/kept", watch, &w, buffer, &length, &st));
    EQUAL(ZNONODE, zoo_wexists(zh, "/c-cut/created", watch, &w, &st));
    OK(zoo_wget_children(zh, "/c-cut", watch, &w, &names));
    deallocate_String_vector(&names);
    proxy_order(&p, "refuse");
    AWAIT(zoo_state(zh) != ZOO_CONNECTED_STATE);
    OK(zoo_set(zk, "/c-cut/changed", "y", 1, -1));
    make("/c-cut/created");
    proxy_order(&p, "pass");
    AWAIT(zoo_state(zh) == ZOO_CONNECTED_STATE);
    AWAIT(events_of(&w) == 3);
    TRUE(strstr(w.log, "changed /c-cut/changed;") && strstr(w.log, "created /c-cut/created;") && strstr(w.log, "children /c-cut;"));
    OK(zoo_set(zk, "/c-cut/kept", "y", 1, -1));
    AWAIT(events_of(&w) == 4);
    EQUAL(session, zoo_client_id(zh)->client_id);
    OK(zoo_set(zh, "/c-cut/mine", "y", 1, 0));
    OK(zookeeper_close(zh));
    EQUAL(ZNONODE, zoo_exists(zk, "/c-cut/mine", 0, &st));
    proxy_close(&p);
}

static void requests_under_way_fail_on_a_cut(void) {
    proxy_t p;
    seen_t s;
    struct Stat st;
    proxy_open(&p);
    make("/c-pending");
    zhandle_t *zh = connect_to(p.address, 20000, NULL, &s);
    order[0] = 0;
    completions = 0;
    proxy_order(&p, "hold");
    OK(zoo_aset(zh, "/c-pending", "y", 1, 0, stat_done, "set"));
    AWAIT(zoo_exists(zk, "/c-pending", 0, &st) == ZOK && st.version == 1);
    proxy_order(&p, "cut");
    AWAIT(completions == 1);
    SAME("set -4;", order);
    AWAIT(zoo_state(zh) == ZOO_CONNECTED_STATE);
    OK(zookeeper_close(zh));
    proxy_close(&p);
}

static void session_resumed(void) {
    proxy_t p;
    seen_t s, s2;
    struct Stat st;
    proxy_open(&p);
    zhandle_t *zh = connect_to(p.address, 20000, NULL, &s);
    OK(zoo_create(zh, "/c-resumed", "x", 1, open_acl(), ZOO_EPHEMERAL, NULL, 0));
    clientid_t id = *zoo_client_id(zh);
    proxy_order(&p, "refuse");
    AWAIT(zoo_state(zh) != ZOO_CONNECTED_STATE);
    zhandle_t *second = connect_to(server, 12345, &id, &s2);
    EQUAL(id.client_id, zoo_client_id(second)->client_id);
    EQUAL(12345, zoo_recv_timeout(second));
    OK(zoo_set(second, "/c-resumed", "y", 1, 0));
    OK(zookeeper_close(second));
    EQUAL(ZNONODE, zoo_exists(zk, "/c-resumed", 0, &st));
    proxy_order(&p, "pass");
    AWAIT(zoo_state(zh) == ZOO_EXPIRED_SESSION_STATE);
    zookeeper_close(zh);
    proxy_close(&p);
}

/* Two sessions whose timeouts pass beside the other checks, which look at them in the end. The
 * timeouts are long enough for a machine that stands still for a moment. */
#define EXPIRY_MS 5000
#define PINGS_MS 6000

static proxy_t expiring_proxy;
static zhandle_t *expiring, *pinging;
static seen_t expiring_seen, pinging_seen;
static long long pinging_since;

static void sessions_begin(void) {
    proxy_open(&expiring_proxy);
    expiring = connect_to(expiring_proxy.address, EXPIRY_MS, NULL, &expiring_seen);
    OK(zoo_create(expiring, "/c-expires", "x", 1, open_acl(), ZOO_EPHEMERAL, NULL, 0));
    proxy_order(&expiring_proxy, "refuse");
    pinging = connect_to(server, PINGS_MS, NULL, &pinging_seen);
    OK(zoo_create(pinging, "/c-pings", "x", 1, open_acl(), ZOO_EPHEMERAL, NULL, 0));
    pinging_since = now_ms();
}

static void session_expires(void) {
    struct Stat st;
    proxy_order(&expiring_proxy, "peace");
    AWAIT(zoo_exists(zk, "/c-expires", 0, &st) == ZNONODE);
    proxy_order(&expiring_proxy, "pass");
    AWAIT(state_of(&expiring_seen) == ZOO_EXPIRED_SESSION_STATE);
    TRUE(is_unrecoverable(expiring));
    zookeeper_close(expiring);
    proxy_close(&expiring_proxy);
}

static void kept_by_pings(void) {
    struct Stat st;
    AWAIT(now_ms() > pinging_since + PINGS_MS + 2000); /* idle for longer than the timeout: only pings can keep it */
    OK(zoo_exists(zk, "/c-pings", 0, &st));
    EQUAL(zoo_client_id(pinging)->client_id, st.ephemeralOwner);
    OK(zookeeper_close(pinging));
}

static void chroot_and_config(void) {
    seen_t s;
    char address[200], buffer[100], name[100];
    int length = sizeof buffer;
    struct Stat st;
    make("/c-chroot");
    snprintf(address, sizeof address, "%s/c-chroot", server);
    zhandle_t *zh = connect_to(address, 20000, NULL, &s);
    OK(zoo_create(zh, "/a", "x", 1, open_acl(), ZOO_EPHEMERAL_SEQUENTIAL, name, sizeof name));
    SAME("/a0000000000", name);
    OK(zoo_exists(zk, "/c-chroot/a0000000000", 0, &st));
    OK(zookeeper_close(zh));
    OK(zoo_getconfig(zk, 0, buffer, &length, &st));
    EQUAL(ZRECONFIGDISABLED, zoo_reconfig(zk, NULL, NULL, "server.1=127.0.0.1:1:2;3", -1, buffer, &length, &st));
}

static void large_data(void) {
    char *big = calloc(1, 1000000), *back = malloc(1000000);
    int length = 1000000;
    struct Stat st;
    memset(big, 7, 1000000);
    make("/c-large");
    OK(zoo_set(zk, "/c-large", big, 1000000, -1));
    OK(zoo_get(zk, "/c-large", 0, back, &length, &st));
    EQUAL(1000000, length);
    TRUE(memcmp(big, back, 1000000) == 0);
    free(big);
    free(back);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return 2;
    }
    server = argv[1];
    control = argv[2];
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zk = connect_to(server, 20000, NULL, &seen);
    run("sessions-begin", sessions_begin);
    run("create-in-every-mode", create_in_every_mode);
    run("get-and-set", get_and_set);
    run("children-and-delete", children_and_delete);
    run("acl-and-auth", acl_and_auth);
    run("multi", multi);
    run("watches", watches);
    run("removed-watches", removed_watches);
    run("asynchronous-calls", asynchronous_calls);
    run("many-asynchronous-calls", many_asynchronous_calls);
    run("reconnect-keeps-session-watches-and-auth", reconnect_keeps_session_watches_and_auth);
    run("requests-under-way-fail-on-a-cut", requests_under_way_fail_on_a_cut);
    run("session-resumed", session_resumed);
    run("chroot-and-config", chroot_and_config);
    run("large-data", large_data);
    run("session-expires", session_expires);
    run("kept-by-pings", kept_by_pings);
    zookeeper_close(zk);
    printf("done %d\n", done);
    return 0;
}
