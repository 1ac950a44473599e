/* The interpreter of effects. Each effect is applied, propagated and announced as the plain command of its name would be
 * (WIRE6 §5). As the write and the propagated command come from the same effect, they can't differ. */
#include "emq.h"

#include <errno.h>

enum { MAX_WORDS = 1 + 2 * EMQ_MAX_FIELDS };

/* Propagates the plain command of the given words to replicas and the AOF. The format has one letter for each word. */
static void propagate(emq_frame *f, const char *name, vm_string *const *word, int n) {
    static const char format[] = "sssssssssss";
    _Static_assert(sizeof(format) == MAX_WORDS + 1, "a letter for each word");
    vm_Replicate(f->ctx, name, format + MAX_WORDS - n, word[0], word[1], word[2], word[3], word[4], word[5], word[6],
                 word[7], word[8], word[9], word[10]);
}

/* A number in decimal, for the caller to free. Recent ones are cached, one in each slot: tokens are small, and claims
 * within a millisecond have the same deadline. */
static vm_string *decimal(int64_t n) {
    enum { SLOTS = 64 };
    static struct {
        int64_t n;
        vm_string *string;
    } kept[SLOTS];
    __typeof__(*kept) *slot = &kept[(uint64_t)n % SLOTS];
    if (slot->n != n || !slot->string) {
        if (slot->string) vm_FreeString(NULL, slot->string);
        slot->n = n;
        slot->string = vm_CreateStringFromLongLong(NULL, n);
    }
    vm_RetainString(NULL, slot->string);
    return slot->string;
}

static emq_item *item_of(emq_frame *f, const emq_effect *e) { return emq_row_item(f, e->job); }

/* The string of a field's new value. If the caller must free it, *made is set to it too. */
static vm_string *value_of(emq_frame *f, const emq_effect *e, int i, vm_string **made) {
    int64_t n = e->values[i];
    switch (e->kinds[i]) {
    case EMQ_VALUE_CONST: return emq_const[n];
    case EMQ_VALUE_ARG: return f->argv[n];
    case EMQ_VALUE_EPOCH: return emq_run_id;
    default: return *made = decimal(n);
    }
}

/* A context without a user (the AOF, another module's timer) is unrestricted. Only the call itself shows that: with "C" it
 * fails with ENOTSUP, and is made again without. */
int emq_claim_identity(vm_ctx *ctx) {
    vm_reply *reply = vm_Call(ctx, "SET", "!CEssc", emq_identity_key, emq_identity, "NX");
    if (reply && vm_CallReplyType(reply) == VM_REPLY_ERROR && errno == ENOTSUP) {
        vm_FreeCallReply(reply);
        reply = vm_Call(ctx, "SET", "!Essc", emq_identity_key, emq_identity, "NX");
    }
    int claimed = reply && vm_CallReplyType(reply) == VM_REPLY_STRING;
    if (reply) vm_FreeCallReply(reply);
    return claimed;
}

static void hset(emq_frame *f, emq_effect *e) {
    emq_item *item = item_of(f, e);
    vm_string *made[EMQ_MAX_FIELDS] = {0}, *word[MAX_WORDS + 1] = {emq_name(f, item, e->key)};
    for (int i = 0; i < e->n; i++) {
        word[1 + 2 * i] = emq_field[e->fields[i]];
        word[2 + 2 * i] = value_of(f, e, i, &made[i]);
    }
    /* Words past the last are NULL, and the first NULL field ends the list. */
    vm_key *key = emq_open_or_make(f, item, e->key);
    vm_HashSet(key, VM_HASH_NONE, word[1], word[2], word[3], word[4], word[5], word[6], word[7], word[8], word[9],
               word[10], NULL);
    if (vm_KeyType(key) == VM_TYPE_HASH) {
        propagate(f, "HSET", word, 1 + 2 * e->n);
        e->changed = e->key;
    }
    for (int i = 0; i < e->n; i++)
        if (made[i]) vm_FreeString(NULL, made[i]);
}

static void hdel(emq_frame *f, emq_effect *e) {
    emq_item *item = item_of(f, e);
    vm_string *word[MAX_WORDS] = {emq_name(f, item, e->key)};
    vm_key *key = emq_open(f, item, e->key);
    int n = 1;
    for (int i = 0; i < e->n; i++) {
        vm_string *field = emq_field[e->fields[i]];
        if (vm_HashSet(key, VM_HASH_NONE, field, VM_HASH_DELETE, NULL)) word[n++] = field;
    }
    if (n == 1) return;
    propagate(f, "HDEL", word, n);
    e->changed = e->key;
    e->emptied = vm_KeyType(key) == VM_TYPE_EMPTY;
}

static void zadd(emq_frame *f, emq_effect *e) {
    int flags = 0;
    emq_item *item = item_of(f, e);
    vm_key *key = emq_open_or_make(f, item, e->key);
    if (vm_ZsetAdd(key, (double)e->score, item->id, &flags) != VM_OK || !(flags & (VM_ZADD_ADDED | VM_ZADD_UPDATED)))
        return;
    vm_string *made = e->score ? decimal(e->score) : NULL;
    vm_string *word[MAX_WORDS] = {f->name[e->key], made ? made : emq_const[EMQ_CONST_ZERO], item->id};
    propagate(f, "ZADD", word, 3);
    if (made) vm_FreeString(NULL, made);
    e->changed = e->key;
}

static int zrem_from(emq_frame *f, emq_effect *e, int at) {
    int removed = 0;
    emq_item *item = item_of(f, e);
    vm_key *key = emq_open(f, item, at);
    if (vm_ZsetRem(key, item->id, &removed) != VM_OK || !removed) return 0;
    vm_string *word[MAX_WORDS] = {f->name[at], item->id};
    propagate(f, "ZREM", word, 2);
    e->changed = (uint8_t)at;
    e->emptied = vm_KeyType(key) == VM_TYPE_EMPTY;
    return 1;
}

static void zrem(emq_frame *f, emq_effect *e) {
    if (!zrem_from(f, e, e->key) && e->or_else != EMQ_NO_KEY) zrem_from(f, e, e->or_else);
}

static void del(emq_frame *f, emq_effect *e) {
    emq_item *item = item_of(f, e);
    vm_string *word[MAX_WORDS] = {item->row_name};
    vm_DeleteKey(emq_open(f, item, EMQ_KEY_ROW));
    propagate(f, "DEL", word, 1);
    e->changed = EMQ_KEY_ROW;
}

/* The increment of a counter. If the caller must free it, *made is set to it too. */
static vm_string *addend(const emq_effect *e, vm_string **made) {
    return e->values[1] == 1 ? emq_const[EMQ_CONST_ONE] : (*made = decimal(e->values[1]));
}

static void hincrby(emq_frame *f, emq_effect *e) {
    if (emq_fields_expire) return;
    vm_string *sum = vm_CreateStringFromLongLong(NULL, e->values[0]), *field = emq_field[e->fields[0]], *made = NULL;
    vm_HashSet(emq_open_or_make(f, item_of(f, e), e->key), VM_HASH_NONE, field, sum, NULL);
    vm_FreeString(NULL, sum);
    vm_string *word[MAX_WORDS] = {f->name[e->key], field, addend(e, &made)};
    propagate(f, "HINCRBY", word, 3);
    if (made) vm_FreeString(NULL, made);
    e->changed = e->key;
}

/* Creating a key runs other modules' callbacks, so where several jobs are changed, the effects that may create a set or
 * a counter are applied late: by then all rows have their new state and all removals are done, so that a verb in a
 * callback finds nothing that this call is still going to take. The use of a claim rate is written last. The effects on
 * a single job are in that order already. */
enum { EARLY = 1 << 0, LATE = 1 << 1, ALL = EARLY | LATE };

static int turn_of(const emq_effect *e) {
    return e->op == EMQ_OP_ZADD || e->op == EMQ_OP_HINCRBY || e->key == EMQ_KEY_META ? LATE : EARLY;
}

/* Calls do_effects for the whole log: once, or once for each turn. */
static inline void in_order(emq_frame *f, void (*do_effects)(emq_frame *, emq_effect *, emq_effect *, int turn)) {
    emq_effect *first = f->out.effects.at, *end = first + f->out.effects.n;
    int turn = ALL;
    if (EMQ_RARELY(f->call.first + f->call.jobs.n > 1)) {
        do_effects(f, first, end, EARLY);
        turn = LATE;
    }
    do_effects(f, first, end, turn);
}

static void apply(emq_frame *f, emq_effect *e, emq_effect *end, int turn) {
    for (; e < end; e++) {
        if (EMQ_RARELY(turn != ALL) && turn_of(e) != turn) continue;
        e->changed = EMQ_NO_KEY;
        e->emptied = 0;
        switch (e->op) {
        case EMQ_OP_HSET: hset(f, e); break;
        case EMQ_OP_HDEL: hdel(f, e); break;
        case EMQ_OP_ZADD: zadd(f, e); break;
        case EMQ_OP_ZREM: zrem(f, e); break;
        case EMQ_OP_DEL: del(f, e); break;
        case EMQ_OP_HINCRBY: hincrby(f, e); break;
        }
    }
}

static void apply_effect(emq_frame *f, emq_effect *e) { apply(f, e, e + 1, ALL); }

/* ---- Merged effects: one command for many jobs, the sets in the order of their numbers (WIRE6 §7) ---- */

/* The words of a merged command. */
typedef struct {
    vm_string **word;
    size_t n;
} words;

static words start_words(const emq_frame *f, vm_string *first, size_t per_effect) {
    words w = {.word = vm_Alloc(sizeof(*w.word) * (1 + per_effect * (size_t)f->out.effects.n))};
    if (first) w.word[w.n++] = first;
    return w;
}

static void propagate_words(emq_frame *f, const char *name, words w, size_t least) {
    if (w.n >= least) vm_Replicate(f->ctx, name, "v", w.word, w.n);
    vm_Free(w.word);
}

/* Removes ids from a set: in the first pass, those of the effects that name it as their key; in the second, those of the
 * effects that name it as or_else and did not find the id in their key. */
static void remove_ids(emq_frame *f, int set, int pass) {
    words w = start_words(f, emq_name(f, NULL, set), 1);
    for (emq_effect *e = f->out.effects.at, *end = e + f->out.effects.n; e < end; e++) {
        if (e->op != EMQ_OP_ZREM || e->changed != EMQ_NO_KEY || (pass ? e->or_else : e->key) != set) continue;
        int removed = 0;
        vm_key *key = emq_open(f, NULL, set);
        vm_string *id = item_of(f, e)->id;
        if (vm_ZsetRem(key, id, &removed) != VM_OK || !removed) continue;
        w.word[w.n++] = id;
        e->changed = (uint8_t)set;
        if (vm_KeyType(key) == VM_TYPE_EMPTY) f->emptied |= 1u << set;
    }
    if (w.n > 1) f->removed[pass] |= 1u << set;
    propagate_words(f, "ZREM", w, 2);
}

static void add_ids(emq_frame *f, int set) {
    words w = start_words(f, emq_name(f, NULL, set), 2);
    for (emq_effect *e = f->out.effects.at, *end = e + f->out.effects.n; e < end; e++) {
        int flags = 0;
        if (e->op != EMQ_OP_ZADD || e->key != set) continue;
        emq_item *item = item_of(f, e);
        if (vm_ZsetAdd(emq_open_or_make(f, item, set), (double)e->score, item->id, &flags) != VM_OK) continue;
        if (!(flags & (VM_ZADD_ADDED | VM_ZADD_UPDATED))) continue;
        w.word[w.n++] = decimal(e->score);
        w.word[w.n++] = item->id;
    }
    if (w.n > 1) f->added |= 1u << set;
    vm_string **word = w.word;
    if (w.n > 1) vm_Replicate(f->ctx, "ZADD", "v", w.word, w.n);
    for (size_t i = 1; i < w.n; i += 2) vm_FreeString(NULL, word[i]);
    vm_Free(word);
}

static void delete_rows(emq_frame *f) {
    words w = start_words(f, NULL, 1);
    for (emq_effect *e = f->out.effects.at, *end = e + f->out.effects.n; e < end; e++) {
        if (e->op != EMQ_OP_DEL) continue;
        emq_item *item = item_of(f, e);
        vm_DeleteKey(emq_open(f, item, EMQ_KEY_ROW));
        w.word[w.n++] = item->row_name;
        e->changed = EMQ_KEY_ROW;
    }
    propagate_words(f, "DEL", w, 1);
}

/* The sets, as bits, that ids leave, in each pass, and enter. */
typedef struct {
    uint32_t leave[2], enter;
} touched;

static touched touched_sets(emq_frame *f) {
    touched sets = {0};
    for (emq_effect *e = f->out.effects.at, *end = e + f->out.effects.n; e < end; e++) {
        e->changed = EMQ_NO_KEY;
        e->emptied = 0;
        if (e->op == EMQ_OP_ZADD) sets.enter |= 1u << e->key;
        if (e->op != EMQ_OP_ZREM) continue;
        sets.leave[0] |= 1u << e->key;
        if (e->or_else != EMQ_NO_KEY) sets.leave[1] |= 1u << e->or_else;
    }
    return sets;
}

/* The effects that are not merged: those on the fields of a row, and those that are applied last. */
static int is_of_row(const emq_effect *e) {
    return (e->op == EMQ_OP_HSET || e->op == EMQ_OP_HDEL) && e->key == EMQ_KEY_ROW;
}
static int is_last(const emq_effect *e) { return e->op == EMQ_OP_HINCRBY || e->key == EMQ_KEY_META; }

EMQ_APART static void apply_merged(emq_frame *f) {
    touched sets = touched_sets(f);
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t s = sets.leave[pass]; s; s &= s - 1) remove_ids(f, __builtin_ctz(s), pass);
    emq_effect *first = f->out.effects.at, *end = first + f->out.effects.n;
    for (emq_effect *e = first; e < end; e++) {
        if (!is_of_row(e)) continue;
        apply_effect(f, e);
        if (f->verb->creates) emq_close_keys(f); /* so that the next row can be created without being reopened */
    }
    delete_rows(f);
    for (uint32_t s = sets.enter; s; s &= s - 1) add_ids(f, __builtin_ctz(s));
    for (emq_effect *e = first; e < end; e++)
        if (is_last(e)) apply_effect(f, e);
}

void emq_apply(emq_frame *f) {
    if (EMQ_RARELY(f->verb->merged))
        apply_merged(f);
    else
        in_order(f, apply);
}

static const struct {
    int class;
    const char *event;
} events[EMQ_NUM_OPS] = {
    [EMQ_OP_HSET] = {VM_NOTIFY_HASH, "hset"},  [EMQ_OP_HDEL] = {VM_NOTIFY_HASH, "hdel"},
    [EMQ_OP_ZADD] = {VM_NOTIFY_ZSET, "zadd"},  [EMQ_OP_ZREM] = {VM_NOTIFY_ZSET, "zrem"},
    [EMQ_OP_DEL] = {VM_NOTIFY_GENERIC, "del"}, [EMQ_OP_HINCRBY] = {VM_NOTIFY_HASH, "hincrby"},
};

static inline void announce_key(emq_frame *f, vm_string *name, int op, int emptied) {
    vm_SignalModifiedKey(f->ctx, name);
    vm_NotifyKeyspaceEvent(f->ctx, events[op].class, events[op].event, name);
    if (emptied) vm_NotifyKeyspaceEvent(f->ctx, VM_NOTIFY_GENERIC, "del", name);
}

int emq_awaited(const emq_frame *f) {
    int what = 0;
    for (const emq_effect *e = f->out.effects.at, *end = e + f->out.effects.n; e < end; e++) {
        if (e->op == EMQ_OP_ZADD && e->key == EMQ_KEY_PENDING) what |= EMQ_ADDS_JOB;
        if (e->op == EMQ_OP_ZREM && e->key == EMQ_KEY_ACTIVE) what |= EMQ_OPENS_GATE;
        if (e->key == EMQ_KEY_META && f->verb->jobs == EMQ_SOURCE_NO_JOBS) what |= EMQ_OPENS_GATE;
    }
    return what;
}

static void announce(emq_frame *f, emq_effect *e, emq_effect *end, int turn) {
    for (; e < end; e++) {
        if (e->changed == EMQ_NO_KEY || (EMQ_RARELY(turn != ALL) && turn_of(e) != turn)) continue;
        vm_string *name = e->changed == EMQ_KEY_ROW ? item_of(f, e)->row_name : f->name[e->changed];
        announce_key(f, name, e->op, e->emptied);
    }
}

static void announce_effect(emq_frame *f, emq_effect *e) { announce(f, e, e + 1, ALL); }

EMQ_APART static void announce_merged(emq_frame *f) {
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t s = f->removed[pass]; s; s &= s - 1) {
            int set = __builtin_ctz(s);
            announce_key(f, emq_name(f, NULL, set), EMQ_OP_ZREM, f->emptied >> set & 1);
        }
    }
    emq_effect *first = f->out.effects.at, *end = first + f->out.effects.n;
    for (emq_effect *e = first; e < end; e++)
        if (is_of_row(e)) announce_effect(f, e);
    for (emq_effect *e = first; e < end; e++)
        if (e->op == EMQ_OP_DEL) announce_effect(f, e);
    for (uint32_t s = f->added; s; s &= s - 1) announce_key(f, emq_name(f, NULL, __builtin_ctz(s)), EMQ_OP_ZADD, 0);
    for (emq_effect *e = first; e < end; e++)
        if (is_last(e)) announce_effect(f, e);
}

/* Where fields can expire, writing one with the key API removes its time to live, which HINCRBY keeps. So there the
 * command itself is called: last, because it runs other modules' callbacks. */
EMQ_APART static void count_by_command(emq_frame *f) {
    for (emq_effect *e = f->out.effects.at, *end = e + f->out.effects.n; e < end; e++) {
        if (e->op != EMQ_OP_HINCRBY) continue;
        vm_string *made = NULL;
        vm_reply *reply =
            vm_Call(f->ctx, "HINCRBY", "!sss", emq_name(f, NULL, e->key), emq_field[e->fields[0]], addend(e, &made));
        if (made) vm_FreeString(NULL, made);
        if (reply) vm_FreeCallReply(reply);
    }
}

void emq_announce(emq_frame *f) {
    if (EMQ_RARELY(f->verb->merged))
        announce_merged(f);
    else
        in_order(f, announce);
    if (EMQ_RARELY(emq_fields_expire)) count_by_command(f);
}
