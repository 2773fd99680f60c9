/* Runs checks and prints one line for each; see program_test.go for the form of the lines. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <netdb.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

/* How long a check waits for something that must happen. */
#define PATIENCE_MS 120000

static const char *server;  /* host:port of the server */
static const char *control; /* host:port where proxies are ordered */
static int done;
static char failure[1024]; /* of the running check; empty: none yet */

static void fail(const char *file, int line, const char *format, ...) {
    if (failure[0] != 0) {
        return; /* the first one counts */
    }
    va_list args;
    char text[800];
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(failure, sizeof failure, "%s | at %s:%d", text, file, line);
}

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)

/* The value of an expression must be that number. */
#define EQUAL(want, got)                                                          \
    do {                                                                          \
        long long want_ = (want), got_ = (got);                                   \
        if (want_ != got_) FAIL("%s is %lld, want %s = %lld", #got, got_, #want, want_); \
    } while (0)

#define OK(call) EQUAL(ZOK, call)
#define TRUE(condition)                       \
    do {                                      \
        if (!(condition)) FAIL("not so: %s", #condition); \
    } while (0)
#define SAME(want, got)                                                    \
    do {                                                                   \
        if (strcmp((want), (got)) != 0) FAIL("got %s, want %s", (got), (want)); \
    } while (0)

static long long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Polls until the condition holds. */
#define AWAIT(condition)                                      \
    do {                                                      \
        long long until_ = now_ms() + PATIENCE_MS;            \
        while (!(condition) && now_ms() < until_) usleep(5000); \
        if (!(condition)) FAIL("never happened: %s", #condition); \
    } while (0)

static void run(const char *name, void (*check)(void)) {
    long long start = now_ms();
    failure[0] = 0;
    check();
    if (failure[0] == 0) {
        printf("ok %s %lld ms\n", name, now_ms() - start);
    } else {
        printf("FAIL %s %s\n", name, failure);
    }
    fflush(stdout);
    done++;
}

/* What a watcher has seen. */
typedef struct {
    pthread_mutex_t mutex;
    int state;          /* the last session state */
    int events;         /* node events so far */
    char log[4000];     /* "type path;" of each */
} seen_t;

static void seen_init(seen_t *s) {
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->mutex, NULL);
}

static void watch(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    seen_t *s = context;
    pthread_mutex_lock(&s->mutex);
    if (type == ZOO_SESSION_EVENT) {
        s->state = state;
    } else {
        size_t n = strlen(s->log);
        const char *name = type == ZOO_CREATED_EVENT ? "created" : type == ZOO_DELETED_EVENT ? "deleted" : type == ZOO_CHANGED_EVENT ? "changed" : type == ZOO_CHILD_EVENT ? "children" : "other";
        snprintf(s->log + n, sizeof s->log - n, "%s %s;", name, path);
        s->events++;
    }
    pthread_mutex_unlock(&s->mutex);
}

static int events_of(seen_t *s) {
    pthread_mutex_lock(&s->mutex);
    int n = s->events;
    pthread_mutex_unlock(&s->mutex);
    return n;
}

static int state_of(seen_t *s) {
    pthread_mutex_lock(&s->mutex);
    int n = s->state;
    pthread_mutex_unlock(&s->mutex);
    return n;
}

static zhandle_t *connect_to(const char *address, int timeout_ms, const clientid_t *id, seen_t *seen) {
    seen_init(seen);
    zhandle_t *zh = zookeeper_init(address, watch, timeout_ms, id, seen, 0);
    AWAIT(zh == NULL || zoo_state(zh) == ZOO_CONNECTED_STATE);
    return zh;
}

/* One proxy in front of the server; see proxy_test.go for its orders. */
typedef struct {
    FILE *in;
    int fd;
    char address[100];
} proxy_t;

static void proxy_open(proxy_t *p) {
    char host[100];
    snprintf(host, sizeof host, "%s", control);
    char *port = strchr(host, ':');
    *port++ = 0;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(host, port, &hints, &found) != 0 || (p->fd = socket(AF_INET, SOCK_STREAM, 0)) < 0 || connect(p->fd, found->ai_addr, found->ai_addrlen) != 0) {
        fprintf(stderr, "no proxy: %s\n", strerror(errno));
        exit(1);
    }
    freeaddrinfo(found);
    p->in = fdopen(p->fd, "r");
    if (fgets(p->address, sizeof p->address, p->in) == NULL) {
        exit(1);
    }
    p->address[strcspn(p->address, "\n")] = 0;
}

static void proxy_order(proxy_t *p, const char *word) {
    char line[100];
    dprintf(p->fd, "%s\n", word);
    if (fgets(line, sizeof line, p->in) == NULL) {
        FAIL("the proxy is gone");
    }
}

static void proxy_close(proxy_t *p) { fclose(p->in); }

#endif
