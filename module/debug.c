/* EMQ.DEBUG, only in builds with the tag emqdebug: state inside the server that tests need to see. */
#include "emq.h"

#ifdef EMQ_DEBUG
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "_cgo_export.h"

static int64_t count_threads(void) {
    int64_t n = 0;
    DIR *tasks = opendir("/proc/self/task");
    if (!tasks) return -1;
    for (struct dirent *e; (e = readdir(tasks));)
        if (e->d_name[0] != '.') n++;
    closedir(tasks);
    return n;
}

static void reply_pair(vm_ctx *ctx, const char *name, int64_t n) {
    vm_string *s = emq_string(name, strlen(name));
    vm_ReplyWithString(ctx, s);
    vm_FreeString(NULL, s);
    vm_ReplyWithLongLong(ctx, n);
}

/* What the pump did, and what it knows. */
static int reply_pump(vm_ctx *ctx) {
    const emq_pump_stats *p = &emq_pump;
    vm_ReplyWithArray(ctx, 30);
    reply_pair(ctx, "ticks", (int64_t)p->ticks);
    reply_pair(ctx, "slices", (int64_t)p->slices);
    reply_pair(ctx, "time_us", (int64_t)p->time_us);
    reply_pair(ctx, "skipped", (int64_t)p->skipped);
    reply_pair(ctx, "visits", (int64_t)p->visits);
    reply_pair(ctx, "promoted", (int64_t)p->promoted);
    reply_pair(ctx, "returned", (int64_t)p->returned);
    reply_pair(ctx, "stalled", (int64_t)p->stalled);
    reply_pair(ctx, "buried", (int64_t)p->buried);
    reply_pair(ctx, "dropped", (int64_t)p->dropped);
    reply_pair(ctx, "left", (int64_t)p->left);
    reply_pair(ctx, "last_lag_ms", p->last_lag_ms);
    reply_pair(ctx, "queues", (int64_t)emq_queues_count());
    reply_pair(ctx, "may_have_meta", emq_may_have_meta());
    reply_pair(ctx, "queues_bytes", (int64_t)emq_queues_bytes());
    return VM_OK;
}

static int reply_runtime(vm_ctx *ctx) {
    emq_runtime r;
    if (!emqReadRuntime(&r)) return vm_ReplyWithError(ctx, "ERR internal error");
    stack_t stack;
    sigaltstack(NULL, &stack);
    vm_ReplyWithArray(ctx, 16);
    reply_pair(ctx, "goroutines", r.goroutines);
    reply_pair(ctx, "gomaxprocs", r.gomaxprocs);
    reply_pair(ctx, "numgc", r.numgc);
    reply_pair(ctx, "mallocs", r.mallocs);
    reply_pair(ctx, "heap_alloc", r.heap_alloc);
    reply_pair(ctx, "sigaltstack_bytes", stack.ss_flags & SS_DISABLE ? 0 : (int64_t)stack.ss_size);
    reply_pair(ctx, "threads", count_threads());
    reply_pair(ctx, "panics", (int64_t)emq_panics);
    return VM_OK;
}

static void reply_queue(vm_ctx *ctx, const emq_queue *q) {
    vm_string *base = emq_string(q->base, q->base_len);
    vm_ReplyWithArray(ctx, 2);
    vm_ReplyWithLongLong(ctx, q->db);
    vm_ReplyWithString(ctx, base);
    vm_FreeString(NULL, base);
}

/* The number of known queues, their bytes, and the db and base of each. */
static int reply_queues(vm_ctx *ctx) {
    vm_ReplyWithArray(ctx, 2 + (long)emq_queues_count());
    vm_ReplyWithLongLong(ctx, (long long)emq_queues_count());
    vm_ReplyWithLongLong(ctx, (long long)emq_queues_bytes());
    for (const emq_queue *q = emq_queues_newest(); q; q = q->after[EMQ_KNOWN]) reply_queue(ctx, q);
    return VM_OK;
}

/* YIELD us processors: sets how often the module yields to the Go scheduler, and GOMAXPROCS. */
static int set_yield(vm_ctx *ctx, vm_string **argv) {
    size_t n;
    emq_set_yield(atoll(vm_StringPtrLen(argv[2], &n)));
    return vm_ReplyWithLongLong(ctx, emqSetProcessors(atoi(vm_StringPtrLen(argv[3], &n))));
}

/* RUNTIME: the state of Go's runtime. PUMP: the pump's counters. QUEUES: the register of queues. NEXT: the next queue that
 * the pump would visit. FORGET: forget that queue. */
static int debug(vm_ctx *ctx, vm_string **argv, int argc) {
    static emq_queue *visited;
    size_t n;
    const char *what = argc == 2 ? vm_StringPtrLen(argv[1], &n) : "";
    if (argc == 4 && !strcasecmp(vm_StringPtrLen(argv[1], &n), "YIELD")) return set_yield(ctx, argv);
    if (!strcasecmp(what, "RUNTIME")) return reply_runtime(ctx);
    if (!strcasecmp(what, "PUMP")) return reply_pump(ctx);
    if (!strcasecmp(what, "QUEUES")) return reply_queues(ctx);
    if (!strcasecmp(what, "NEXT")) {
        if (!(visited = emq_queues_next())) return vm_ReplyWithNull(ctx);
        reply_queue(ctx, visited);
        return VM_OK;
    }
    if (!strcasecmp(what, "FORGET")) {
        if (visited) emq_queues_forget(visited);
        return vm_ReplyWithLongLong(ctx, visited != NULL);
    }
    return vm_ReplyWithError(ctx, "ERR EMQ.DEBUG takes RUNTIME, PUMP, QUEUES, NEXT, FORGET or YIELD");
}

int emq_register_debug(vm_ctx *ctx) { return vm_CreateCommand(ctx, "EMQ.DEBUG", debug, "admin", 0, 0, 0); }
#endif
