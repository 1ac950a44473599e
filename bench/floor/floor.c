/* The floor under the verbs: what their writes cost in C when nothing else is done.
 *
 * FLOOR.ENQUEUE, .CLAIM, .COMPLETE and .FAIL take the arguments of the EMQ verbs, write the same fields and entries,
 * propagate the same plain commands word for word, and send the same signals and keyspace events. They read only what
 * those writes need: the head of pending, the counts, the payload to hand out. They check nothing, not even the
 * identity, so they are for measuring alone. The benchmark proves the equality on every run (equal.go).
 *
 * Two steps between the floor and the verbs are compiled from here as well, with READS and with CROSSING: see steps.h. */
#include "../../module/abi.h"

#include <math.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#if defined(CROSSING)
#define NAME "CROSSING"
#elif defined(READS)
#define NAME "READS"
#else
#define NAME "FLOOR"
#endif

static vm_string *state, *attempts, *payload, *lease_epoch, *failures, *last_error, *count;
static vm_string *pending, *active, *scheduled, *dead, *zero, *one;
static vm_string *group, *parent, *identity;
static vm_string *run_id;

static const struct {
    vm_string **string;
    const char *text;
} constants[] = {
    {&state, "state"},           {&attempts, "attempts"}, {&payload, "payload"}, {&lease_epoch, "lease_epoch"},
    {&failures, "failures"},     {&last_error, "last_error"}, {&count, "count"},
    {&pending, "pending"},       {&active, "active"},     {&scheduled, "scheduled"}, {&dead, "dead"},
    {&zero, "0"},                {&one, "1"},             {&group, "group"},     {&parent, "parent"},
    {&identity, "{emq}:version"},
};

/* ---- Numbers and names ---- */

static long long number(const vm_string *s) {
    size_t n;
    const char *p = vm_StringPtrLen(s, &n);
    long long sum = 0;
    for (size_t i = 0; i < n; i++) sum = sum * 10 + (p[i] - '0');
    return sum;
}

static vm_string *decimal(long long n) { return vm_CreateStringFromLongLong(NULL, n); }

static vm_string *join(const vm_string *head, const char *tail, size_t tail_len) {
    char small[256], *buf = small;
    size_t head_len;
    const char *p = vm_StringPtrLen(head, &head_len);
    if (head_len + tail_len > sizeof(small)) buf = vm_Alloc(head_len + tail_len);
    memcpy(buf, p, head_len);
    memcpy(buf + head_len, tail, tail_len);
    vm_string *name = vm_CreateString(NULL, buf, head_len + tail_len);
    if (buf != small) vm_Free(buf);
    return name;
}

static vm_string *join_id(const vm_string *prefix, const vm_string *id) {
    size_t n;
    const char *p = vm_StringPtrLen(id, &n);
    return join(prefix, p, n);
}

/* The name of a key that is no argument, made once for a queue, as the verbs keep theirs. */
static vm_string *derive(vm_string **kept, const vm_string *base, const char *tail) {
    size_t n, kept_len = 0, tail_len = strlen(tail);
    const char *p = vm_StringPtrLen(base, &n), *was = *kept ? vm_StringPtrLen(*kept, &kept_len) : NULL;
    if (was && kept_len == n + tail_len && !memcmp(was, p, n)) return *kept;
    if (was) vm_FreeString(NULL, *kept);
    return *kept = join(base, tail, tail_len);
}

static int64_t now(void) { return vm_CachedMicroseconds() / 1000; }

/* ---- What follows a write ---- */

static void announce(vm_ctx *ctx, int class, const char *event, vm_string *name) {
    vm_SignalModifiedKey(ctx, name);
    vm_NotifyKeyspaceEvent(ctx, class, event, name);
}

static void announce_zrem(vm_ctx *ctx, vm_string *name, int emptied) {
    announce(ctx, VM_NOTIFY_ZSET, "zrem", name);
    if (emptied) vm_NotifyKeyspaceEvent(ctx, VM_NOTIFY_GENERIC, "del", name);
}

/* ---- Reads ---- */

static vm_key *open_key(vm_ctx *ctx, vm_string *name) { return vm_OpenKey(ctx, name, VM_READ | VM_WRITE); }

#ifdef READS
#include "steps.h"
#endif

/* ---- Writes ---- */

/* Tells whether the set went away with the id. */
static int zrem(vm_ctx *ctx, vm_key *set, vm_string *name, vm_string *id) {
    vm_ZsetRem(set, id, NULL);
    vm_Replicate(ctx, "ZREM", "ss", name, id);
    return vm_KeyType(set) == VM_TYPE_EMPTY;
}

static void zadd(vm_ctx *ctx, vm_key *set, vm_string *name, int64_t score, vm_string *id) {
    vm_string *text = score ? decimal(score) : zero;
    vm_ZsetAdd(set, (double)score, id, NULL);
    vm_Replicate(ctx, "ZADD", "sss", name, text, id);
    if (score) vm_FreeString(NULL, text);
}

static void count_up(vm_ctx *ctx, vm_key *counter, vm_string *name) {
    vm_string *old = NULL;
    vm_HashGet(counter, VM_HASH_NONE, count, &old, NULL);
    vm_string *sum = decimal(old ? number(old) + 1 : 1);
    vm_HashSet(counter, VM_HASH_NONE, count, sum, NULL);
    vm_Replicate(ctx, "HINCRBY", "sss", name, count, one);
    vm_FreeString(NULL, sum);
    if (old) vm_FreeString(NULL, old);
}

/* ---- Verbs: each opens its keys, reads, writes, and lets the world know ---- */

/* FLOOR.ENQUEUE 2 row pending id payload */
static int enqueue(vm_ctx *ctx, vm_string **argv, int argc) {
    vm_string *row_name = argv[2], *pending_name = argv[3], *id = argv[4], *body = argv[5];
    (void)argc;
    vm_key *row = open_key(ctx, row_name), *queue = open_key(ctx, pending_name);
#ifdef READS
    expect(vm_KeyType(row) == VM_TYPE_EMPTY);
    expect_type(queue, VM_TYPE_ZSET);
    expect_identity(ctx);
    enter_go();
#endif
    vm_HashSet(row, VM_HASH_NONE, state, pending, attempts, zero, payload, body, NULL);
    vm_Replicate(ctx, "HSET", "sssssss", row_name, state, pending, attempts, zero, payload, body);
    zadd(ctx, queue, pending_name, 0, id);
    vm_CloseKey(row);
    vm_CloseKey(queue);

    announce(ctx, VM_NOTIFY_HASH, "hset", row_name);
    announce(ctx, VM_NOTIFY_ZSET, "zadd", pending_name);
    return vm_ReplyWithLongLong(ctx, 1);
}

/* FLOOR.CLAIM 2 pending active rowprefix lease_ms */
static int claim(vm_ctx *ctx, vm_string **argv, int argc) {
    vm_string *pending_name = argv[2], *active_name = argv[3], *tries = NULL, *body = NULL;
    (void)argc;
    vm_key *queue = open_key(ctx, pending_name), *leases = open_key(ctx, active_name);
#ifdef READS
    expect_type(queue, VM_TYPE_ZSET);
    expect_type(leases, VM_TYPE_ZSET);
    expect_no_gate(ctx, argv[4]);
    expect_identity(ctx);
#endif
    vm_ZsetFirstInScoreRange(queue, -INFINITY, INFINITY, 0, 0);
    vm_string *id = vm_ZsetRangeCurrentElement(queue, NULL);
    vm_ZsetRangeStop(queue);
    if (!id) {
        vm_CloseKey(queue);
        vm_CloseKey(leases);
        return vm_ReplyWithEmptyArray(ctx);
    }
    vm_string *row_name = join_id(argv[4], id);
    vm_key *row = open_key(ctx, row_name);
#ifdef READS
    expect_waiting(row, &tries, &body);
    enter_go();
#else
    vm_HashGet(row, VM_HASH_NONE, attempts, &tries, payload, &body, NULL);
#endif

    int emptied = zrem(ctx, queue, pending_name, id);
    long long token = (tries ? number(tries) : 0) + 1;
    vm_string *token_text = decimal(token);
    vm_HashSet(row, VM_HASH_NONE, state, active, attempts, token_text, lease_epoch, run_id, NULL);
    vm_Replicate(ctx, "HSET", "sssssss", row_name, state, active, attempts, token_text, lease_epoch, run_id);
    zadd(ctx, leases, active_name, now() + number(argv[5]), id);
    vm_CloseKey(queue);
    vm_CloseKey(row);
    vm_CloseKey(leases);

    announce_zrem(ctx, pending_name, emptied);
    announce(ctx, VM_NOTIFY_HASH, "hset", row_name);
    announce(ctx, VM_NOTIFY_ZSET, "zadd", active_name);
    vm_ReplyWithArray(ctx, 3);
    vm_ReplyWithString(ctx, id);
    if (body)
        vm_ReplyWithString(ctx, body);
    else
        vm_ReplyWithNull(ctx);
    vm_ReplyWithLongLong(ctx, token);

    if (tries) vm_FreeString(NULL, tries);
    if (body) vm_FreeString(NULL, body);
    vm_FreeString(NULL, token_text);
    vm_FreeString(NULL, row_name);
    vm_FreeString(NULL, id);
    return VM_OK;
}

/* FLOOR.COMPLETE 2 active row id token base */
static int complete(vm_ctx *ctx, vm_string **argv, int argc) {
    static vm_string *kept;
    vm_string *active_name = argv[2], *row_name = argv[3], *id = argv[4];
    vm_string *counter_name = derive(&kept, argv[6], "metrics:completed");
    (void)argc;
    vm_key *leases = open_key(ctx, active_name), *row = open_key(ctx, row_name), *counter = open_key(ctx, counter_name);
#ifdef READS
    expect_held(row, NULL);
    expect_type(leases, VM_TYPE_ZSET);
    expect_type(counter, VM_TYPE_HASH);
    expect_pending(ctx, argv[6]);
    expect_identity(ctx);
    enter_go();
#endif
    int emptied = zrem(ctx, leases, active_name, id);
    vm_DeleteKey(row);
    vm_Replicate(ctx, "DEL", "s", row_name);
    count_up(ctx, counter, counter_name);
    vm_CloseKey(leases);
    vm_CloseKey(row);
    vm_CloseKey(counter);

    announce_zrem(ctx, active_name, emptied);
    announce(ctx, VM_NOTIFY_GENERIC, "del", row_name);
    announce(ctx, VM_NOTIFY_HASH, "hincrby", counter_name);
    return vm_ReplyWithLongLong(ctx, 1);
}

/* FLOOR.FAIL 4 active schedule dead row id token delay_ms max error base */
static int fail(vm_ctx *ctx, vm_string **argv, int argc) {
    static vm_string *kept;
    vm_string *active_name = argv[2], *row_name = argv[5], *id = argv[6], *error = argv[10], *old = NULL;
    (void)argc;
    vm_key *leases = open_key(ctx, active_name), *row = open_key(ctx, row_name);
#ifdef READS
    expect_held(row, &old);
#else
    vm_HashGet(row, VM_HASH_NONE, failures, &old, NULL);
#endif
    long long failed = (old ? number(old) : 0) + 1;
    int dies = failed >= number(argv[9]);
    vm_string *becomes = dies ? dead : scheduled, *to_name = dies ? argv[4] : argv[3], *failed_text = decimal(failed);
    vm_string *counter_name = dies ? derive(&kept, argv[11], "metrics:failed") : NULL;
    vm_key *to = open_key(ctx, to_name), *counter = dies ? open_key(ctx, counter_name) : NULL;
#ifdef READS
    expect_type(leases, VM_TYPE_ZSET);
    expect_type(to, VM_TYPE_ZSET);
    expect_set(ctx, dies ? argv[3] : argv[4]);
    expect_pending(ctx, argv[11]);
    if (dies) expect_type(counter, VM_TYPE_HASH);
    expect_identity(ctx);
    enter_go();
#endif

    int emptied = zrem(ctx, leases, active_name, id);
    vm_HashSet(row, VM_HASH_NONE, state, becomes, failures, failed_text, last_error, error, NULL);
    vm_Replicate(ctx, "HSET", "sssssss", row_name, state, becomes, failures, failed_text, last_error, error);
    vm_HashSet(row, VM_HASH_NONE, lease_epoch, VM_HASH_DELETE, NULL);
    vm_Replicate(ctx, "HDEL", "ss", row_name, lease_epoch);
    zadd(ctx, to, to_name, dies ? 0 : now() + number(argv[8]), id);
    if (dies) count_up(ctx, counter, counter_name);
    vm_CloseKey(leases);
    vm_CloseKey(row);
    vm_CloseKey(to);
    if (dies) vm_CloseKey(counter);

    announce_zrem(ctx, active_name, emptied);
    announce(ctx, VM_NOTIFY_HASH, "hset", row_name);
    announce(ctx, VM_NOTIFY_HASH, "hdel", row_name);
    announce(ctx, VM_NOTIFY_ZSET, "zadd", to_name);
    if (dies) announce(ctx, VM_NOTIFY_HASH, "hincrby", counter_name);
    vm_ReplyWithString(ctx, becomes);

    if (old) vm_FreeString(NULL, old);
    vm_FreeString(NULL, failed_text);
    return VM_OK;
}

/* ---- Load ---- */

static int read_run_id(vm_ctx *ctx) {
    vm_info *info = vm_GetServerInfo(ctx, "server");
    const char *id = info ? vm_ServerInfoGetFieldC(info, "run_id") : NULL;
    if (id) run_id = vm_CreateString(NULL, id, strlen(id));
    if (info) vm_FreeServerInfo(ctx, info);
    return id != NULL;
}

__attribute__((visibility("default"))) int ValkeyModule_OnLoad(vm_ctx *ctx) {
    static const struct {
        const char *name;
        vm_command_fn run;
        const char *flags;
        int last_key;
    } verbs[] = {
        {NAME ".ENQUEUE", enqueue, "write deny-oom", 3},
        {NAME ".CLAIM", claim, "write", 3},
        {NAME ".COMPLETE", complete, "write", 3},
        {NAME ".FAIL", fail, "write", 5},
    };
    if (vm_resolve(ctx) || vm_IsModuleNameBusy(NAME)) return VM_ERR;
    vm_SetModuleAttribs(ctx, NAME, 1, VM_APIVER);
    vm_SetModuleOptions(ctx, VM_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED | VM_OPTION_SKIP_COMMAND_VALIDATION);
    if (!read_run_id(ctx)) return VM_ERR;
#ifdef CROSSING
    if (!start_go(ctx)) return VM_ERR;
#endif
    for (size_t i = 0; i < ARRAY_LEN(constants); i++)
        *constants[i].string = vm_CreateString(NULL, constants[i].text, strlen(constants[i].text));
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (vm_CreateCommand(ctx, verbs[i].name, verbs[i].run, verbs[i].flags, 2, verbs[i].last_key, 1) != VM_OK)
            return VM_ERR;
    return VM_OK;
}
