/* The register of the queues of all databases: for the pump, which so need not search the key space, and for
 * EMQ.QUEUES, which lists them in the order of their bases.
 *
 * A queue becomes known when one of the keys of `kinds` is created, which the server announces with NEW and LOADED,
 * whoever creates it: a client, a script, a module (this one too), RENAME, COPY, MOVE, RESTORE, the append-only file, a
 * snapshot, a primary. It is forgotten when all of them are gone. So no queue is missing here, while some may be listed
 * that are gone: that costs a lookup each.
 *
 * On Valkey 8.1 and later these events are not enough: see hears_new(). */
#include "emq.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* The keys that make a queue known. The pump visits only queues with a schedule, an active or a meta. */
static const struct {
    uint8_t key;
    uint8_t pumped;
    const char *end; /* of the key's name */
    size_t len;
} kinds[] = {
    {EMQ_KEY_PENDING, 0, "}:pending", 9}, {EMQ_KEY_ACTIVE, 1, "}:active", 8}, {EMQ_KEY_SCHEDULE, 1, "}:schedule", 10},
    {EMQ_KEY_DEAD, 0, "}:dead", 6},       {EMQ_KEY_META, 1, "}:meta", 6},
};
enum { NUM_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* ---- The register ---- */

static vm_dict **by_base; /* for each database, its queues by base; NULL: it never had one */
static int num_dbs;
static size_t count, bytes;
static size_t with_meta; /* number of queues that may have a meta */
static int hears_all;    /* the server announces every key that is created */

static emq_queue *first[EMQ_NUM_LISTS]; /* the newest, so that a round does not meet queues that were added since */
static emq_queue *next[EMQ_NUM_LISTS];  /* where check() and the pump continue their rounds */
static emq_queue *lent;                 /* the pump uses it, so it is not freed before the next call */
static int in_round;

static vm_cursor *scan; /* NULL when there is none */
static int scan_wanted; /* start one at the next turn of the event loop */
static uint64_t scan_timer;
static int scan_armed;

/* About the memory that the server's dictionary uses for an entry, beside the key. */
enum { DICT_ENTRY = 48 };
static size_t size_of(const emq_queue *q) { return sizeof(*q) + 2 * q->base_len + DICT_ENTRY; }

vm_string *emq_set_name(const emq_queue *q, int key) {
    return emq_make_name(q->base, q->base_len, key, (emq_bytes){"", 0});
}

/* The dictionary of a database. */
static vm_dict *dict_of(int db) {
    if (db >= num_dbs) {
        by_base = vm_Realloc(by_base, sizeof(*by_base) * (size_t)(db + 1));
        while (num_dbs <= db) by_base[num_dbs++] = NULL;
    }
    if (!by_base[db]) by_base[db] = vm_CreateDict(NULL);
    return by_base[db];
}

static void put_in(int list, emq_queue *q) {
    q->before[list] = NULL;
    q->after[list] = first[list];
    if (first[list]) first[list]->before[list] = q;
    first[list] = q;
}

static void take_from(int list, emq_queue *q) {
    emq_queue *before = q->before[list], *after = q->after[list];
    if (next[list] == q) next[list] = after;
    *(before ? &before->after[list] : &first[list]) = after;
    if (after) after->before[list] = before;
}

static void set_pumped(emq_queue *q, int pumped) {
    if (q->pumped == pumped) return;
    q->pumped = (uint8_t)pumped;
    (pumped ? put_in : take_from)(EMQ_PUMPED, q);
}

/* Returns a queue, which is added if it is new. */
static emq_queue *find_or_add(int db, const char *base, size_t n) {
    vm_dict *dict = dict_of(db);
    emq_queue *q = vm_DictGetC(dict, (void *)base, n, NULL);
    if (q) return q;
    q = vm_Alloc(sizeof(*q) + n);
    *q = (emq_queue){.db = db, .base_len = n};
    q->progress[0].at.score = q->progress[1].at.score = -INFINITY;
    memcpy(q->base, base, n);
    vm_DictSetC(dict, q->base, n, q);
    put_in(EMQ_KNOWN, q);
    count++;
    bytes += size_of(q);
    return q;
}

/* Takes a queue out of the register and out of the rounds. */
static void take_out(emq_queue *q) {
    vm_DictDelC(by_base[q->db], q->base, q->base_len, NULL);
    set_pumped(q, 0);
    take_from(EMQ_KNOWN, q);
    count--;
    bytes -= size_of(q);
    with_meta -= q->with_meta;
}

void emq_queues_note_meta(emq_queue *q, int may) {
    with_meta += (size_t)may - q->with_meta;
    q->with_meta = (uint8_t)may;
}

int emq_may_have_meta(void) { return !hears_all || scan_wanted || scan || with_meta; }

void emq_queues_forget(emq_queue *q) {
    if (q->forgotten) return;
    take_out(q);
    q->forgotten = 1;
    if (q != lent) vm_Free(q);
}

emq_queue *emq_queues_next(void) {
    if (lent && lent->forgotten) vm_Free(lent);
    lent = in_round ? next[EMQ_PUMPED] : first[EMQ_PUMPED];
    in_round = lent != NULL;
    if (lent) next[EMQ_PUMPED] = lent->after[EMQ_PUMPED];
    return lent;
}

const emq_queue *emq_queues_newest(void) { return first[EMQ_KNOWN]; }
size_t emq_queues_count(void) { return count; }
size_t emq_queues_bytes(void) { return bytes; }

static int is_there(vm_ctx *ctx, const emq_queue *q, int key) {
    vm_string *s = emq_set_name(q, key);
    vm_key *handle = vm_OpenKey(ctx, s, VM_READ | VM_OPEN_UNSEEN);
    int there = handle && vm_KeyType(handle) != VM_TYPE_EMPTY;
    if (handle) vm_CloseKey(handle);
    vm_FreeString(NULL, s);
    return there;
}

/* Whether a queue has one of the keys that make it known. The context must have selected its database. */
static int has_keys(vm_ctx *ctx, const emq_queue *q, int pumped_alone) {
    for (int i = 0; i < NUM_KINDS; i++)
        if ((!pumped_alone || kinds[i].pumped) && is_there(ctx, q, kinds[i].key)) return 1;
    return 0;
}

void emq_queues_rest(vm_ctx *ctx, emq_queue *q) {
    if (q->forgotten) return;
    emq_queues_note_meta(q, is_there(ctx, q, EMQ_KEY_META));
    if (has_keys(ctx, q, 1)) return;
    set_pumped(q, 0);
    if (!has_keys(ctx, q, 0)) emq_queues_forget(q);
}

/* ---- EMQ.QUEUES ---- */

/* The user of a context; NULL if it has none, and the caller is unrestricted. GetCurrentUserName would crash the server
 * in that case, so a call that needs a user is tried first: EMQ.QUEUES itself, because a call that the user may not
 * make would leave an entry in the ACL log. */
static vm_string *user_of(vm_ctx *ctx, vm_string **argv) {
    errno = 0;
    vm_reply *reply = vm_Call(ctx, "EMQ.QUEUES", "CDEss", argv[1], argv[2]);
    int unrestricted = errno == ENOTSUP;
    if (reply) vm_FreeCallReply(reply);
    return unrestricted ? NULL : vm_GetCurrentUserName(ctx);
}

int emq_list_queues(vm_ctx *ctx, vm_string **argv) {
    size_t after_len, digits;
    const char *after = vm_StringPtrLen(argv[1], &after_len), *text = vm_StringPtrLen(argv[2], &digits);
    long most = 0, n = 0;
    for (size_t i = 0; i < digits; i++) most = most * 10 + (text[i] - '0');
    vm_string *name = user_of(ctx, argv);
    vm_user *user = name ? vm_GetModuleUserFromUserName(name) : NULL;
    vm_dict_iterator *at =
        vm_DictIteratorStartC(dict_of(vm_GetSelectedDb(ctx)), after_len ? ">" : "^", (void *)after, after_len);
    vm_ReplyWithArray(ctx, VM_POSTPONED_LEN);
    for (emq_queue *q; n < most && vm_DictNextC(at, NULL, (void **)&q);) {
        vm_string *base = emq_string(q->base, q->base_len);
        if ((!name || (user && vm_ACLCheckKeyPermissions(user, base, EMQ_ACCESS_READ) == VM_OK)) &&
            has_keys(ctx, q, 0)) {
            vm_ReplyWithString(ctx, base);
            n++;
        }
        vm_FreeString(NULL, base);
    }
    vm_ReplySetArrayLength(ctx, n);
    vm_DictIteratorStop(at);
    if (user) vm_FreeModuleUser(user);
    if (name) vm_FreeString(NULL, name);
    return VM_OK;
}

/* ---- How queues become known ---- */

/* The length of the base in a key's name, and the key's kind; 0 for a key of no kind. This runs for every key that is
 * created in the server. */
static size_t base_of(const char *name, size_t n, int *kind) {
    enum { PREFIX = sizeof("emq:{") - 1 };
    if (n < PREFIX || memcmp(name, "emq:{", PREFIX)) return 0;
    switch (name[n - 1]) { /* most keys are rows, whose ids seldom end in these letters */
    case 'g':
    case 'e':
    case 'd':
    case 'a': break;
    default: return 0;
    }
    int i = 0;
    while (i < NUM_KINDS && !emq_ends_in(name, n, kinds[i].end, kinds[i].len)) i++;
    if (i == NUM_KINDS) return 0;
    *kind = i;
    size_t base = n - kinds[i].len + 2;
    /* A queue's name is not empty and has no brace and no NUL (commands/keys.go). */
    if (base < PREFIX + 3) return 0;
    const char *q = name + PREFIX;
    size_t q_len = base - PREFIX - 2;
    return memchr(q, '{', q_len) || memchr(q, '}', q_len) || memchr(q, 0, q_len) ? 0 : base;
}

static int is_loading(vm_ctx *ctx) { return (vm_GetContextFlags(ctx) & (VM_CTX_LOADING | VM_CTX_ASYNC_LOADING)) != 0; }

static size_t checks_pending, checks_at_once; /* of other queues; see check() */

/* Notes a key that may be new: if it is one of the kinds, its queue becomes known. */
static void note_key(vm_ctx *ctx, vm_string *name) {
    int kind;
    size_t n, base, before = count;
    const char *p = vm_StringPtrLen(name, &n);
    if (emq_is_child || !(base = base_of(p, n, &kind))) return;
    emq_queue *q = find_or_add(vm_GetSelectedDb(ctx), p, base);
    if (kinds[kind].pumped) set_pumped(q, 1);
    if (kinds[kind].key == EMQ_KEY_META) emq_queues_note_meta(q, 1);
    if (kinds[kind].key == EMQ_KEY_PENDING) emq_wake(q->db, q->base, q->base_len);
    if (count == before) return;
    checks_pending += 2;
    if (!is_loading(ctx)) checks_at_once += 2;
}

/* Whether it is safe to subscribe to NEW.
 *
 * From 8.1 on, a keyspace event moves the client whose command caused it to the database of the key, and before 9.1.2
 * the client was not moved back (valkey-io/valkey pull request 4024). So if a module listened to NEW or GENERIC, a COPY
 * or MOVE to another database would leave the client, its transaction and its commands in the append-only file in the
 * wrong database. On these releases the events of sorted sets and hashes are used instead, which are always about the
 * client's own database. They miss keys that RENAME, COPY, MOVE and RESTORE create, so a scan looks for those: after a
 * load, and when one of the four was called (scan_is_due). From 9.1.2 on that scan is still needed, because within a
 * transaction COPY and MOVE to another database report the wrong one. LOADED is safe: except for DEBUG RELOAD,
 * snapshots are read while no client's command runs. */
static int hears_new(void) {
    int server = vm_GetServerVersion();
    return server < 0x080100 || server >= 0x090102;
}

static int on_key(vm_ctx *ctx, int class, const char *event, vm_string *name) {
    (void)class, (void)event;
    note_key(ctx, name);
    return VM_OK;
}

static void drop(int db) {
    for (emq_queue *q = first[EMQ_KNOWN], *after; q; q = after) {
        after = q->after[EMQ_KNOWN];
        if (db < 0 || q->db == db) emq_queues_forget(q);
    }
}

/* Runs before the flush, so that keys which a module creates afterwards stay registered. */
static void on_flush(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event;
    if (sub == VM_FLUSHDB_START && !emq_is_child) drop(((vm_flush *)data)->db);
}

/* ---- The scan ---- */

static int scan_db;

static void on_swap(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event, (void)sub;
    if (emq_is_child) return;
    const vm_swap *swap = data;
    vm_dict *one = dict_of(swap->first), *other = dict_of(swap->second);
    by_base[swap->first] = other;
    by_base[swap->second] = one;
    for (emq_queue *q = first[EMQ_KNOWN]; q; q = q->after[EMQ_KNOWN]) {
        if (q->db == swap->first)
            q->db = swap->second;
        else if (q->db == swap->second)
            q->db = swap->first;
    }
    emq_wake_db(swap->first);
    emq_wake_db(swap->second);
    /* Keys that the scan has not reached may now be in a database that it has finished. */
    if (scan) {
        vm_ScanCursorRestart(scan);
        scan_db = 0;
    }
}

static void on_scanned(vm_ctx *ctx, vm_string *name, vm_key *key, void *seen) {
    (void)key;
    ++*(int *)seen;
    note_key(ctx, name);
}

/* A store of a million keys takes some seconds, during which the server has nine tenths of its time for clients. Keys that
 * are created meanwhile are found by their events. */
enum { SCAN_EVERY_MS = 1, SCAN_KEYS = 256, SCAN_STEPS = 1024 };

static void on_scan(vm_ctx *ctx, void *data);

static void arm_scan(vm_ctx *ctx) {
    scan_timer = vm_CreateTimer(ctx, SCAN_EVERY_MS, on_scan, NULL);
    scan_armed = 1;
}

void emq_queues_stop(vm_ctx *ctx) {
    if (scan_armed) vm_StopTimer(ctx, scan_timer, NULL);
    scan_armed = 0;
}

static void on_scan(vm_ctx *ctx, void *data) {
    (void)data;
    scan_armed = 0;
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
    arm_scan(ctx);
}

/* If OnLoad set a timer, a server that then unloads the module (LOADEX with an unknown setting) would crash, so the scan
 * starts at the first turn of the event loop. */
void emq_queues_scan(void) { scan_wanted = 1; }

static void start_scan(void) {
    scan_wanted = 0;
    scan_db = 0;
    scan = vm_ScanCursorCreate();
}

/* ---- Releases on which NEW is unsafe or reports the wrong database ---- */

enum { ASK_EVERY_MS = 1000 };

static int misses_some;
static int64_t asked_ms;
static uint64_t calls; /* digest of the server's own counts of the commands that create keys without an event */

static void on_loading(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event, (void)data;
    if (sub == VM_LOADING_ENDED && !emq_is_child) emq_queues_scan();
}

static int scan_is_due(vm_ctx *ctx) {
    static const char *const names[] = {"cmdstat_rename", "cmdstat_renamenx", "cmdstat_copy",
                                        "cmdstat_move",   "cmdstat_restore",  "cmdstat_restore-asking"};
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

/* ---- Forgetting queues without the pump ----
 *
 * The pump forgets those of the queues that it visits. For the others, on a replica, and with the pump off, each new queue
 * schedules two existence checks of other queues, which run before the event loop sleeps. So the register stays about as
 * large as the number of queues has ever been, and costs nothing while no queue is added. The checks that a load has
 * scheduled are bounded per turn. */
enum { CHECKS_PER_TURN = 256 };

/* Does nothing while a snapshot is loaded beside the data that are served (repl-diskless-load swapdb): the events of
 * its keys have come, but the keys are not visible yet. The releases that we know do not run the event loop then. */
static void check(vm_ctx *ctx) {
    if (is_loading(ctx)) return;
    if (checks_pending > count) checks_pending = count;
    size_t checks = CHECKS_PER_TURN + checks_at_once;
    if (checks > checks_pending) checks = checks_pending;
    checks_pending -= checks;
    checks_at_once = 0;
    while (checks--) {
        emq_queue *q = next[EMQ_KNOWN] ? next[EMQ_KNOWN] : first[EMQ_KNOWN];
        if (!q) break;
        next[EMQ_KNOWN] = q->after[EMQ_KNOWN];
        if (vm_SelectDb(ctx, q->db) == VM_OK && !has_keys(ctx, q, 0)) emq_queues_forget(q);
    }
}

void emq_queues_turn(vm_ctx *ctx) {
    if (checks_pending) check(ctx);
    if (misses_some && scan_is_due(ctx)) scan_wanted = 1;
    if (scan_wanted && !scan) start_scan();
    if (scan && !scan_armed) arm_scan(ctx); /* a new one, or the server has not shut down after all */
}

int emq_queues_subscribe(vm_ctx *ctx) {
    /* If the library was unloaded and loaded again (see OnUnload), its old register is void. */
    drop(-1);
    checks_pending = checks_at_once = 0;
    scan_wanted = 0;
    emq_seed_hash();
    misses_some = vm_GetServerVersion() >= 0x080100;
    hears_all = hears_new();
    int classes = VM_NOTIFY_LOADED | (hears_all ? VM_NOTIFY_NEW : VM_NOTIFY_ZSET | VM_NOTIFY_HASH);
    return vm_SubscribeToKeyspaceEvents(ctx, classes, on_key) == VM_OK &&
           vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_FLUSHDB, VM_EVENT_VERSION}, on_flush) == VM_OK &&
           vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_SWAPDB, VM_EVENT_VERSION}, on_swap) == VM_OK &&
           (!misses_some ||
            vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_LOADING, VM_EVENT_VERSION}, on_loading) == VM_OK);
}
