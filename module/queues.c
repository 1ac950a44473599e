/* The queues that may hold scheduled or active jobs, so that the pump need not look for them.
 *
 * A queue becomes known when a key `emq:{q}:schedule` or `emq:{q}:active` comes into being in any database, which the
 * server tells with NEW and LOADED, whoever made it: a client, a script, a module (this one too), RENAME, COPY, MOVE,
 * RESTORE, the append-only file, a snapshot, a primary. It is forgotten when both keys are gone. So what is known here is
 * never less than what there is, and for a while it may be more: a queue without sets costs a look.
 *
 * Valkey 8.1 and later do not allow for that alone: see hears_new(). */
#include "emq.h"

#include <math.h>
#include <string.h>

/* ---- The table ----
 *
 * There are as many buckets as queues: each queue that is added splits one bucket, each that goes joins two, so no step
 * is longer than another, and memory goes back as the queues do. The hash is of the base alone and has a seed: names come
 * from clients. */
enum { LEAST_ROOM = 16 };

static emq_queue **buckets;
static size_t count, room, entry_bytes;

static emq_queue *first;   /* the newest, so that a round does not meet those that come meanwhile */
static emq_queue *to_visit; /* by the pump */
static emq_queue *to_check; /* by check() */
static emq_queue *lent;     /* the pump has it: it is not freed before the pump comes back */
static int in_round;

/* The least 2^k - 1 that numbers n buckets. */
static size_t mask_of(size_t n) { return n > 1 ? ((size_t)2 << (63 - __builtin_clzll(n - 1))) - 1 : 0; }

/* The bucket of a hash among n. */
static size_t place(uint32_t hash, size_t n) {
    size_t mask = mask_of(n), i = hash & mask;
    return i < n ? i : hash & (mask >> 1);
}

/* Gives what is in bucket `from` its place among n. */
static void spread(size_t from, size_t n) {
    emq_queue *q = buckets[from], *chain;
    buckets[from] = NULL;
    for (; q; q = chain) {
        chain = q->chain;
        emq_queue **to = &buckets[place(q->hash, n)];
        q->chain = *to;
        *to = q;
    }
}

static void make_room(size_t n) {
    room = n;
    buckets = vm_Realloc(buckets, n * sizeof(*buckets));
}

static size_t size_of(const emq_queue *q) { return sizeof(*q) + q->base_len; }

vm_string *emq_set_name(const emq_queue *q, int key) {
    return emq_make_name(q->base, q->base_len, key, (emq_bytes){"", 0});
}

static emq_queue *find(int db, const char *base, size_t n, uint32_t hash) {
    if (!count) return NULL;
    for (emq_queue *q = buckets[place(hash, count)]; q; q = q->chain)
        if (q->hash == hash && q->db == db && q->base_len == n && !memcmp(q->base, base, n)) return q;
    return NULL;
}

static void add(int db, const char *base, size_t n) {
    uint32_t hash = emq_hash(base, n);
    if (find(db, base, n, hash)) return;

    if (count == room) make_room(room ? 2 * room : LEAST_ROOM);
    buckets[count++] = NULL;
    if (count > 1) spread((count - 1) & (mask_of(count) >> 1), count);

    emq_queue *q = vm_Alloc(sizeof(*q) + n);
    *q = (emq_queue){.db = db, .hash = hash, .after = first, .base_len = n};
    q->progress[0].at.score = q->progress[1].at.score = -INFINITY;
    memcpy(q->base, base, n);
    emq_queue **to = &buckets[place(hash, count)];
    q->chain = *to;
    *to = q;
    if (first) first->before = q;
    first = q;
    entry_bytes += size_of(q);
}

/* Takes a queue out of the table and out of the rounds. */
static void take_out(emq_queue *q) {
    emq_queue **at = &buckets[place(q->hash, count)];
    while (*at != q) at = &(*at)->chain;
    *at = q->chain;
    if (--count) {
        spread(count, count);
        if (room > LEAST_ROOM && count <= room / 4) make_room(room / 2);
    } else {
        vm_Free(buckets);
        buckets = NULL;
        room = 0;
    }

    if (to_visit == q) to_visit = q->after;
    if (to_check == q) to_check = q->after;
    if (first == q) first = q->after;
    if (q->before) q->before->after = q->after;
    if (q->after) q->after->before = q->before;
    entry_bytes -= size_of(q);
}

void emq_queues_forget(emq_queue *q) {
    if (q->forgotten) return;
    take_out(q);
    q->forgotten = 1;
    if (q != lent) vm_Free(q);
}

emq_queue *emq_queues_next(void) {
    if (lent && lent->forgotten) vm_Free(lent);
    if (!in_round) to_visit = first;
    lent = to_visit;
    in_round = lent != NULL;
    if (lent) to_visit = lent->after;
    return lent;
}

const emq_queue *emq_queues_newest(void) { return first; }
size_t emq_queues_count(void) { return count; }
size_t emq_queues_bytes(void) { return entry_bytes + room * sizeof(*buckets); }

/* ---- How queues become known ---- */

/* The length of the base in the name of a schedule or an active set; 0 for any other key. This runs for every key that
 * is created in the server. */
static size_t base_of(const char *name, size_t n) {
    enum { PREFIX = sizeof("emq:{") - 1 };
    size_t base;
    if (n < PREFIX || memcmp(name, "emq:{", PREFIX)) return 0;
    if (emq_ends_in(name, n, "}:active", 8))
        base = n - 6;
    else if (emq_ends_in(name, n, "}:schedule", 10))
        base = n - 8;
    else
        return 0;
    /* What lies between is a queue's name: not empty, no brace and no NUL (commands/keys.go). */
    if (base < PREFIX + 3) return 0;
    const char *q = name + PREFIX;
    size_t q_len = base - PREFIX - 2;
    return memchr(q, '{', q_len) || memchr(q, '}', q_len) || memchr(q, 0, q_len) ? 0 : base;
}

static int is_loading(vm_ctx *ctx) { return (vm_GetContextFlags(ctx) & (VM_CTX_LOADING | VM_CTX_ASYNC_LOADING)) != 0; }

static size_t owed, owed_at_once; /* looks at other queues; see check() */

static void meet(vm_ctx *ctx, vm_string *name) {
    size_t n, base, before = count;
    const char *p = vm_StringPtrLen(name, &n);
    if (!(base = base_of(p, n)) || emq_is_child) return;
    add(vm_GetSelectedDb(ctx), p, base);
    if (count == before) return;
    owed += 2;
    if (!is_loading(ctx)) owed_at_once += 2;
}

/* From 8.1 on a keyspace event runs with the client whose command it belongs to, moved to the database of the key; and
 * until 9.1.2 it was not moved back (valkey-io/valkey pull request 4024). So where a module listens to NEW or GENERIC, a
 * COPY or MOVE to another database leaves its client, its transaction and its place in the append-only file in the wrong
 * database. No client shall find its server like that. There we listen to the events of sorted sets, which are always of
 * the client's own database: they miss sets that RENAME, COPY, MOVE and RESTORE make, and a scan looks for those, after a
 * load and when one of the four was called (scan_is_due). It does so from 9.1.2 on as well, where COPY and MOVE to another
 * database still tell of the wrong one within a transaction.
 * LOADED is safe: snapshots are read when no client's command runs, but for DEBUG RELOAD. */
static int hears_new(void) {
    int server = vm_GetServerVersion();
    return server < 0x080100 || server >= 0x090102;
}

static int on_key(vm_ctx *ctx, int class, const char *event, vm_string *name) {
    (void)class, (void)event;
    meet(ctx, name);
    if (emq_waiting_clients() && !emq_is_child) {
        size_t n;
        const char *p = vm_StringPtrLen(name, &n);
        if (emq_ends_in(p, n, "}:pending", 9)) emq_wake(vm_GetSelectedDb(ctx), p, n - 7);
    }
    return VM_OK;
}

static void drop(int db) {
    for (emq_queue *q = first, *after; q; q = after) {
        after = q->after;
        if (db < 0 || q->db == db) emq_queues_forget(q);
    }
}

/* At the start of a flush: a key that another module makes at its end is there afterwards. */
static void on_flush(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event;
    if (sub == VM_FLUSHDB_START && !emq_is_child) drop(((vm_flush *)data)->db);
}

/* ---- The scan ---- */

static vm_cursor *scan; /* NULL when there is none */
static int scan_db;

static void on_swap(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event, (void)sub;
    if (emq_is_child) return;
    const vm_swap *swap = data;
    for (emq_queue *q = first; q; q = q->after) {
        if (q->db == swap->first)
            q->db = swap->second;
        else if (q->db == swap->second)
            q->db = swap->first;
    }
    emq_wake_db(swap->first);
    emq_wake_db(swap->second);
    /* What has not been looked at may now be where the scan has been. */
    if (scan) {
        vm_ScanCursorRestart(scan);
        scan_db = 0;
    }
}

static void on_scanned(vm_ctx *ctx, vm_string *name, vm_key *key, void *seen) {
    (void)key;
    ++*(int *)seen;
    meet(ctx, name);
}

/* A store of a million keys takes some seconds, of which the server has nine tenths for others. Keys that come into
 * being meanwhile are met by their events. */
enum { SCAN_EVERY_MS = 1, SCAN_KEYS = 256, SCAN_STEPS = 1024 };

static void on_scan(vm_ctx *ctx, void *data) {
    (void)data;
    int seen = 0;
    for (int step = 0; step < SCAN_STEPS && seen < SCAN_KEYS; step++) {
        if (vm_SelectDb(ctx, scan_db) != VM_OK) { /* that was the last */
            vm_ScanCursorDestroy(scan);
            scan = NULL;
            return;
        }
        if (vm_Scan(ctx, scan, on_scanned, &seen)) continue;
        vm_ScanCursorRestart(scan);
        scan_db++;
    }
    vm_CreateTimer(ctx, SCAN_EVERY_MS, on_scan, NULL);
}

/* A timer in OnLoad would be the end of a server that takes the module back (LOADEX with an unknown setting), so the scan
 * waits for the first turn of the event loop. */
static int scan_wanted;

void emq_queues_scan(void) { scan_wanted = 1; }

static void start_scan(vm_ctx *ctx) {
    scan_wanted = 0;
    scan_db = 0;
    scan = vm_ScanCursorCreate();
    vm_CreateTimer(ctx, SCAN_EVERY_MS, on_scan, NULL);
}

/* ---- Where NEW must not be heard, or tells of another database ---- */

enum { ASK_EVERY_MS = 1000 };

static int misses_some;
static int64_t asked_ms;
static uint64_t calls; /* of what makes sets unheard; a digest of the server's own counts */

static void on_loading(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event, (void)data;
    if (sub == VM_LOADING_ENDED && !emq_is_child) emq_queues_scan();
}

static int scan_is_due(vm_ctx *ctx) {
    static const char *const names[] = {"cmdstat_rename", "cmdstat_renamenx", "cmdstat_copy", "cmdstat_move",
                                        "cmdstat_restore", "cmdstat_restore-asking"};
    int64_t now = emq_coarse_ms();
    if (now - asked_ms < ASK_EVERY_MS) return 0;
    asked_ms = now;
    vm_info *info = vm_GetServerInfo(ctx, "commandstats");
    if (!info) return 0;
    uint64_t was = calls;
    calls = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *stats = vm_ServerInfoGetFieldC(info, names[i]);
        if (stats) calls = emq_mix(calls ^ emq_hash(stats, strlen(stats)), 0x9e3779b97f4a7c15 + i);
    }
    vm_FreeServerInfo(ctx, info);
    return calls != was;
}

/* ---- Where no pump goes round ----
 *
 * The pump forgets what is gone. On a replica, or with the pump off, nobody would, and queues that come and go would be
 * kept for ever. So each queue that becomes known pays for a look at two others, before the event loop sleeps: what is gone
 * is never more than about what there was, and costs nothing while nothing comes. For what a load has brought it is paid
 * in rates. */
enum { LOOKS_PER_TURN = 256 };

static int is_there(vm_ctx *ctx, const emq_queue *q, int key) {
    vm_string *s = emq_set_name(q, key);
    vm_key *handle = vm_OpenKey(ctx, s, VM_READ | VM_OPEN_UNSEEN);
    int there = handle && vm_KeyType(handle) != VM_TYPE_EMPTY;
    if (handle) vm_CloseKey(handle);
    vm_FreeString(NULL, s);
    return there;
}

/* Not while a snapshot is loaded beside the data that are served (repl-diskless-load swapdb): its keys have had their
 * events and are not there yet. The servers that we know do not come here then. */
static void check(vm_ctx *ctx) {
    if (is_loading(ctx)) return;
    if (owed > count) owed = count;
    size_t looks = LOOKS_PER_TURN + owed_at_once;
    if (looks > owed) looks = owed;
    owed -= looks;
    owed_at_once = 0;
    while (looks--) {
        emq_queue *q = to_check ? to_check : first;
        if (!q) break;
        to_check = q->after;
        if (vm_SelectDb(ctx, q->db) == VM_OK && !is_there(ctx, q, EMQ_KEY_SCHEDULE) && !is_there(ctx, q, EMQ_KEY_ACTIVE))
            emq_queues_forget(q);
    }
}

void emq_queues_turn(vm_ctx *ctx) {
    if (owed) check(ctx);
    if (misses_some && scan_is_due(ctx)) scan_wanted = 1;
    if (scan_wanted && !scan) start_scan(ctx);
}

int emq_queues_subscribe(vm_ctx *ctx) {
    /* What the library held before it was taken back (see OnUnload) is void. */
    drop(-1);
    owed = owed_at_once = 0;
    scan_wanted = 0;
    emq_seed_hash();
    misses_some = vm_GetServerVersion() >= 0x080100;
    int classes = VM_NOTIFY_LOADED | (hears_new() ? VM_NOTIFY_NEW : VM_NOTIFY_ZSET);
    return vm_SubscribeToKeyspaceEvents(ctx, classes, on_key) == VM_OK &&
           vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_FLUSHDB, VM_EVENT_VERSION}, on_flush) == VM_OK &&
           vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_SWAPDB, VM_EVENT_VERSION}, on_swap) == VM_OK &&
           (!misses_some ||
            vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_LOADING, VM_EVENT_VERSION}, on_loading) == VM_OK);
}
