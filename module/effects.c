/* The interpreter of effects. What is done and what is propagated come from the same effect, so they can't drift apart;
 * each effect is applied, propagated and announced as the plain command of its name would be (WIRE6 §5). */
#include "emq.h"

#include <errno.h>
#include <stdio.h>

enum { MAX_WORDS = 1 + 2 * EMQ_MAX_FIELDS };

/* Hands the plain command of the given words to the replicas and the AOF. One letter of the format a word. */
static void propagate(emq_frame *f, const char *name, vm_string *const *word, int n) {
    static const char format[] = "sssssssss";
    _Static_assert(sizeof(format) == MAX_WORDS + 1, "a letter for each word");
    vm_Replicate(f->ctx, name, format + MAX_WORDS - n, word[0], word[1], word[2], word[3], word[4], word[5], word[6],
                 word[7], word[8]);
}

static vm_string *id_of(emq_frame *f, emq_step *s) { return s->entry ? s->entry : f->id; }

/* Making a key runs other modules' callbacks, for it and for an expired one in its place. So no other key stays open
 * across it; later effects open theirs anew. */
static vm_key *open_or_make(emq_frame *f, emq_step *s, int key) {
    vm_key *there = emq_open(f, s, key);
    if (vm_KeyType(there) != VM_TYPE_EMPTY) return there;
    int fresh = f->first_open == key;
    emq_close_keys(f, fresh ? key : EMQ_NO_KEY);
    return emq_open(f, s, key);
}

/* A number in decimal, for the caller to free. The last ones are kept, one a slot: tokens are small, and the deadlines
 * of one millisecond are the same. */
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

/* The string of a value; *made is set to it if it is to be freed. */
static vm_string *value_of(emq_frame *f, const emq_value *v, vm_string **made) {
    switch (v->kind) {
    case EMQ_VALUE_CONST: return emq_const[v->n];
    case EMQ_VALUE_ARG: return f->argv[v->n];
    case EMQ_VALUE_EPOCH: return emq_run_id;
    default: return *made = decimal(v->n);
    }
}

int emq_claims_identity(const emq_frame *f) {
    return f->first.num_effects && f->first.effects[0].op == EMQ_OP_SET;
}

/* A context without a user (the AOF, another module's timer) is unrestricted, which only the call itself tells. */
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

static void hset(emq_frame *f, emq_step *s, emq_effect *e) {
    vm_string *made[EMQ_MAX_FIELDS] = {0}, *word[MAX_WORDS + 1] = {emq_name(f, s, e->key)};
    for (int i = 0; i < e->n; i++) {
        word[1 + 2 * i] = emq_field[e->fields[i]];
        word[2 + 2 * i] = value_of(f, &e->values[i], &made[i]);
    }
    /* Words past the last are NULL, and the first NULL field ends the list. */
    vm_key *key = open_or_make(f, s, e->key);
    vm_HashSet(key, VM_HASH_NONE, word[1], word[2], word[3], word[4], word[5], word[6], word[7], word[8], NULL);
    if (vm_KeyType(key) == VM_TYPE_HASH) {
        propagate(f, "HSET", word, 1 + 2 * e->n);
        e->done = e->key;
    }
    for (int i = 0; i < e->n; i++)
        if (made[i]) vm_FreeString(NULL, made[i]);
}

static void hdel(emq_frame *f, emq_step *s, emq_effect *e) {
    vm_string *word[MAX_WORDS] = {emq_name(f, s, e->key)};
    vm_key *key = emq_open(f, s, e->key);
    int n = 1;
    for (int i = 0; i < e->n; i++) {
        vm_string *field = emq_field[e->fields[i]];
        if (vm_HashSet(key, VM_HASH_NONE, field, VM_HASH_DELETE, NULL)) word[n++] = field;
    }
    if (n == 1) return;
    propagate(f, "HDEL", word, n);
    e->done = e->key;
    e->emptied = vm_KeyType(key) == VM_TYPE_EMPTY;
}

static void zadd(emq_frame *f, emq_step *s, emq_effect *e) {
    int flags = 0;
    vm_string *id = id_of(f, s);
    vm_key *key = open_or_make(f, s, e->key);
    if (vm_ZsetAdd(key, (double)e->score, id, &flags) != VM_OK || !(flags & (VM_ZADD_ADDED | VM_ZADD_UPDATED))) return;
    vm_string *made = e->score ? decimal(e->score) : NULL;
    vm_string *word[MAX_WORDS] = {emq_name(f, s, e->key), made ? made : emq_const[EMQ_CONST_ZERO], id};
    propagate(f, "ZADD", word, 3);
    if (made) vm_FreeString(NULL, made);
    e->done = e->key;
}

static int zrem_from(emq_frame *f, emq_step *s, emq_effect *e, int at) {
    int removed = 0;
    vm_string *id = id_of(f, s);
    vm_key *key = emq_open(f, s, at);
    if (vm_ZsetRem(key, id, &removed) != VM_OK || !removed) return 0;
    vm_string *word[MAX_WORDS] = {emq_name(f, s, at), id};
    propagate(f, "ZREM", word, 2);
    e->done = (uint8_t)at;
    e->emptied = vm_KeyType(key) == VM_TYPE_EMPTY;
    return 1;
}

static void zrem(emq_frame *f, emq_step *s, emq_effect *e) {
    if (!zrem_from(f, s, e, e->key) && e->or_else != EMQ_NO_KEY) zrem_from(f, s, e, e->or_else);
}

static void del(emq_frame *f, emq_step *s, emq_effect *e) {
    vm_string *word[MAX_WORDS] = {emq_name(f, s, e->key)};
    vm_DeleteKey(emq_open(f, s, e->key));
    propagate(f, "DEL", word, 1);
    e->done = e->key;
}

static void hincrby(emq_frame *f, emq_step *s, emq_effect *e) {
    if (emq_fields_expire) return;
    vm_string *sum = vm_CreateStringFromLongLong(NULL, e->values[0].n), *field = emq_field[e->fields[0]];
    vm_HashSet(open_or_make(f, s, e->key), VM_HASH_NONE, field, sum, NULL);
    vm_FreeString(NULL, sum);
    vm_string *word[MAX_WORDS] = {emq_name(f, s, e->key), field, emq_const[EMQ_CONST_ONE]};
    propagate(f, "HINCRBY", word, 3);
    e->done = e->key;
}

/* Sets and counters may have to be made, which runs other modules' callbacks. So in a walk they come last, when every row
 * says what was decided and no set holds an id any more that it is about to lose: a verb in a callback finds nothing that
 * another step of this one is going to take. Within a step the decision has them last already. */
enum { MAKERS = 1 << EMQ_OP_ZADD | 1 << EMQ_OP_HINCRBY, ALL = -1 };

/* Calls do_step for every step, with the operations that are its turn. */
static inline void in_order(emq_frame *f, void (*do_step)(emq_frame *, emq_step *, int ops)) {
    if (!f->first.next) {
        do_step(f, &f->first, ALL);
        return;
    }
    for (emq_step *s = &f->first; s; s = s->next) do_step(f, s, ~MAKERS);
    for (emq_step *s = &f->first; s; s = s->next) do_step(f, s, MAKERS);
}

static void apply_step(emq_frame *f, emq_step *s, int ops) {
    for (emq_effect *e = s->effects, *end = e + s->num_effects; e < end; e++) {
        if (!(ops >> e->op & 1)) continue;
        e->done = EMQ_NO_KEY;
        e->emptied = 0;
        switch (e->op) {
        case EMQ_OP_HSET: hset(f, s, e); break;
        case EMQ_OP_HDEL: hdel(f, s, e); break;
        case EMQ_OP_ZADD: zadd(f, s, e); break;
        case EMQ_OP_ZREM: zrem(f, s, e); break;
        case EMQ_OP_DEL: del(f, s, e); break;
        case EMQ_OP_HINCRBY: hincrby(f, s, e); break;
        }
    }
}

void emq_apply(emq_frame *f) { in_order(f, apply_step); }

static void announce_step(emq_frame *f, emq_step *s, int ops) {
    static const struct {
        int class;
        const char *event;
    } events[] = {
        [EMQ_OP_HSET] = {VM_NOTIFY_HASH, "hset"},     [EMQ_OP_HDEL] = {VM_NOTIFY_HASH, "hdel"},
        [EMQ_OP_ZADD] = {VM_NOTIFY_ZSET, "zadd"},     [EMQ_OP_ZREM] = {VM_NOTIFY_ZSET, "zrem"},
        [EMQ_OP_DEL] = {VM_NOTIFY_GENERIC, "del"},    [EMQ_OP_HINCRBY] = {VM_NOTIFY_HASH, "hincrby"},
    };
    for (emq_effect *e = s->effects, *end = e + s->num_effects; e < end; e++) {
        if (e->done == EMQ_NO_KEY || !(ops >> e->op & 1)) continue;
        vm_string *name = emq_name(f, s, e->done);
        vm_SignalModifiedKey(f->ctx, name);
        vm_NotifyKeyspaceEvent(f->ctx, events[e->op].class, events[e->op].event, name);
        if (e->emptied) vm_NotifyKeyspaceEvent(f->ctx, VM_NOTIFY_GENERIC, "del", name);
    }
}

/* The key API writes a field without the time to live that it may have where fields can expire; HINCRBY keeps it. There
 * the command itself counts, after all else, for it runs other modules' callbacks. */
static void count_by_command(emq_frame *f) {
    for (emq_step *s = &f->first; s; s = s->next) {
        for (emq_effect *e = s->effects, *end = e + s->num_effects; e < end; e++) {
            if (e->op != EMQ_OP_HINCRBY) continue;
            vm_reply *reply = vm_Call(f->ctx, "HINCRBY", "!sss", emq_name(f, s, e->key), emq_field[e->fields[0]],
                                      emq_const[EMQ_CONST_ONE]);
            if (reply) vm_FreeCallReply(reply);
        }
    }
}

void emq_announce(emq_frame *f) {
    in_order(f, announce_step);
    if (emq_fields_expire) count_by_command(f);
}

static void reply_payload(emq_frame *f, emq_step *s) {
    for (int i = 0; i < EMQ_MAX_READ; i++) {
        if (f->verb->values[i] == EMQ_FIELD_PAYLOAD && s->value[i]) {
            vm_ReplyWithString(f->ctx, s->value[i]);
            return;
        }
    }
    vm_ReplyWithNull(f->ctx);
}

/* The ids of the steps with one of two fates. */
EMQ_COLD static void reply_ids(emq_frame *f, int fate, int or_fate) {
    long n = 0;
    for (emq_step *s = &f->first; s; s = s->next) n += s->fate == fate || s->fate == or_fate;
    vm_ReplyWithArray(f->ctx, n);
    for (emq_step *s = &f->first; s; s = s->next)
        if (s->fate == fate || s->fate == or_fate) vm_ReplyWithString(f->ctx, s->entry);
}

EMQ_COLD static void reply_numbers(emq_frame *f, long n) {
    vm_ReplyWithMap(f->ctx, n);
    for (long i = 0; i < n; i++) {
        vm_ReplyWithString(f->ctx, f->verb->fields[i]);
        if (f->out.numbers[i] == EMQ_NO_NUMBER)
            vm_ReplyWithNull(f->ctx);
        else
            vm_ReplyWithLongLong(f->ctx, f->out.numbers[i]);
    }
}

/* A cursor of the audit's, which begins and ends in 0. */
EMQ_COLD static void reply_cursor(emq_frame *f) {
    char text[64];
    size_t n = 1;
    if (f->out.scan.key == EMQ_NO_KEY) {
        text[0] = '0';
    } else {
        size_t len;
        const char *part = vm_StringPtrLen(emq_word[emq_part[f->out.scan.key]], &len);
        n = (size_t)snprintf(text, sizeof(text), "%.*s:%llu", (int)len, part, (unsigned long long)f->out.scan.at);
    }
    vm_string *s = emq_string(text, n);
    vm_ReplyWithString(f->ctx, s);
    vm_FreeString(NULL, s);
}

EMQ_COLD static void reply_audit(emq_frame *f) {
    long n = 0;
    vm_ReplyWithArray(f->ctx, 2);
    reply_cursor(f);
    for (emq_step *s = &f->first; s; s = s->next) n += s->finding.what != 0;
    vm_ReplyWithArray(f->ctx, n);
    for (emq_step *s = &f->first; s; s = s->next) {
        if (!s->finding.what) continue;
        vm_ReplyWithArray(f->ctx, 5);
        vm_ReplyWithString(f->ctx, emq_word[s->finding.what]);
        vm_ReplyWithString(f->ctx, s->entry);
        vm_ReplyWithString(f->ctx, emq_word[s->finding.where]);
        vm_ReplyWithString(f->ctx, emq_word[s->finding.remedy]);
        vm_ReplyWithLongLong(f->ctx, s->finding.applied);
    }
}

void emq_reply(emq_frame *f) {
    emq_step *s = f->last;
    const emq_value *reply = &f->out.reply;
    if (f->out.text_len) {
        vm_ReplyWithError(f->ctx, f->out.text);
        return;
    }
    switch (reply->kind) {
    case EMQ_REPLY_INTEGER: vm_ReplyWithLongLong(f->ctx, reply->n); break;
    case EMQ_REPLY_CONST: vm_ReplyWithString(f->ctx, emq_const[reply->n]); break;
    case EMQ_REPLY_EMPTY: vm_ReplyWithEmptyArray(f->ctx); break;
    case EMQ_REPLY_REAPED:
        vm_ReplyWithArray(f->ctx, 2);
        reply_ids(f, EMQ_RETURNED, EMQ_STALLED);
        reply_ids(f, EMQ_BURIED, EMQ_BURIED);
        break;
    case EMQ_REPLY_NUMBERS: reply_numbers(f, (long)reply->n); break;
    case EMQ_REPLY_AUDIT: reply_audit(f); break;
    case EMQ_REPLY_JOB:
        vm_ReplyWithArray(f->ctx, 3);
        vm_ReplyWithString(f->ctx, s->entry);
        reply_payload(f, s);
        vm_ReplyWithLongLong(f->ctx, reply->n);
        break;
    }
}
