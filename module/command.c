/* The way of a command: read what its plan names, have it decided, have it carried out. Nothing is written here. */
#include "emq.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "_cgo_export.h"

emq_verb emq_verbs[EMQ_MAX_VERBS];

static emq_bytes bytes_of(const vm_string *s) {
    size_t n;
    const char *p = vm_StringPtrLen(s, &n);
    return (emq_bytes){p, (intptr_t)n};
}

int emq_ends_in(const char *s, size_t n, const char *end, size_t end_len) {
    return n >= end_len && memcmp(s + n - end_len, end, end_len) == 0;
}

/* Cuts the queue's base off a declared set, or takes the declared base. The names of undeclared keys are made from it, so
 * whatever a caller sends, no key is read outside the queue of a key that the ACL has seen; whether the names are right
 * is Go's to say. */
static int find_base(emq_frame *f) {
    const emq_verb *v = f->verb;
    emq_bytes name = f->req.args[v->cut_at];
    if (!emq_ends_in(name.p, (size_t)name.n, v->cut, v->cut_len)) return 0;
    f->base = name.p;
    f->base_len = (size_t)name.n - v->cut_len;
    return emq_ends_in(f->base, f->base_len, "}:", 2);
}

vm_string *emq_make_name(const char *base, size_t base_len, int key, emq_bytes id) {
    char small[256], *buf = small;
    size_t n = base_len + emq_suffix_len[key] + (size_t)id.n;
    if (n > sizeof(small)) buf = vm_Alloc(n);
    memcpy(buf, base, base_len);
    memcpy(buf + base_len, emq_suffix[key], emq_suffix_len[key]);
    memcpy(buf + base_len + emq_suffix_len[key], id.p, (size_t)id.n);
    vm_string *name = vm_CreateString(NULL, buf, n);
    if (buf != small) vm_Free(buf);
    return name;
}

/* The name of an undeclared key of the frame's queue, for the caller to free. COMPLETE and FAIL need two of them each
 * time, so those of the queues last at work are kept, one queue a slot. */
static vm_string *derive_name(emq_frame *f, int key) {
    enum { SLOTS = 64, MAX_BASE = 120 };
    static struct {
        size_t base_len;
        char base[MAX_BASE];
        vm_string *name[EMQ_NUM_KEYS];
    } kept[SLOTS];
    const emq_bytes no_id = {"", 0};
    if (f->base_len > MAX_BASE) return emq_make_name(f->base, f->base_len, key, no_id);
    if (!f->hash) f->hash = emq_hash(f->base, f->base_len);
    __typeof__(*kept) *slot = &kept[f->hash % SLOTS];
    if (slot->base_len != f->base_len || memcmp(slot->base, f->base, f->base_len)) {
        for (int i = 0; i < EMQ_NUM_KEYS; i++) {
            if (slot->name[i]) vm_FreeString(NULL, slot->name[i]);
            slot->name[i] = NULL;
        }
        memcpy(slot->base, f->base, slot->base_len = f->base_len);
    }
    if (!slot->name[key]) slot->name[key] = emq_make_name(f->base, f->base_len, key, no_id);
    vm_RetainString(NULL, slot->name[key]);
    return slot->name[key];
}

vm_string *emq_find_name(emq_frame *f, int key) {
    int arg = f->verb->arg_of[key];
    if (arg) return f->name[key] = f->argv[arg];
    f->owned |= 1u << key;
    return f->name[key] = derive_name(f, key);
}

/* Other modules' callbacks run when a key expires under OpenKey, and they may do anything to the keys of the frame. So
 * only the first key is opened that way, with no other open; one that has expired counts as absent for the rest. */
static vm_key *open_next(emq_frame *f, vm_string *name, int key) {
    vm_key *opened = vm_OpenKey(f->ctx, name, f->mode);
    if (f->first_open == EMQ_NO_KEY) {
        f->first_open = (uint8_t)key;
        f->mode |= VM_OPEN_NOEXPIRE;
    }
    return opened;
}

static void start_opening(emq_frame *f) {
    f->mode = f->verb->readonly ? VM_READ | VM_OPEN_UNSEEN : VM_READ | VM_WRITE;
    f->first_open = EMQ_NO_KEY;
}

static inline vm_key *open_key(emq_frame *f, int key) {
    f->open |= 1u << key;
    return f->key[key] = open_next(f, f->name[key] ? f->name[key] : emq_find_name(f, key), key);
}

vm_key *emq_open_anew(emq_frame *f, emq_step *s, int key) {
    if (key == EMQ_ROW && s->entry) return s->row = open_next(f, s->row_name, key);
    return open_key(f, key);
}

void emq_close_keys(emq_frame *f, int but) {
    for (emq_step *s = &f->first; s; s = s->next) {
        if (s->row) vm_CloseKey(s->row);
        s->row = NULL;
    }
    uint32_t stays = but == EMQ_NO_KEY ? 0 : f->open & 1u << but;
    for (uint32_t keys = f->open & ~stays; keys; keys &= keys - 1) {
        int key = __builtin_ctz(keys);
        vm_CloseKey(f->key[key]);
        f->key[key] = NULL;
    }
    f->open = stays;
    if (!stays) start_opening(f);
}

static uint8_t type_of(vm_key *key) { return (uint8_t)(vm_KeyType(key) + 1); }

static void read_identity(emq_frame *f) {
    f->identity = vm_OpenKey(f->ctx, emq_identity_key, VM_READ | VM_OPEN_NOSTATS | VM_OPEN_NONOTIFY | VM_OPEN_NOEXPIRE);
    f->req.identity_type = type_of(f->identity);
    if (f->req.identity_type == EMQ_STRING) {
        size_t n;
        const char *p = vm_StringDMA(f->identity, &n, VM_READ);
        f->req.identity = (emq_bytes){p, (intptr_t)n};
    }
}

static void read_row(emq_frame *f, emq_step *s) {
    emq_request *r = &f->req;
    vm_key *row = emq_open(f, s, EMQ_ROW);
    r->types[EMQ_ROW] = type_of(row);
    r->present = 0;
    if (r->types[EMQ_ROW] != VM_TYPE_HASH + 1) return;
    /* One call for all values. The list ends in a NULL field. */
    const uint8_t *v = f->verb->values;
#define VALUE(i) f->verb->value_names[i], &s->value[i]
    vm_HashGet(row, VM_HASH_NONE, VALUE(0), VALUE(1), VALUE(2), VALUE(3), VALUE(4), NULL);
#undef VALUE
    for (int i = 0; i < EMQ_MAX_READ; i++) {
        if (!s->value[i]) continue;
        r->row[v[i]] = bytes_of(s->value[i]);
        r->present |= 1u << v[i];
    }
}

static void read_count(emq_frame *f) {
    int key = f->verb->counter;
    if (f->req.types[key] != VM_TYPE_HASH + 1) return;
    vm_HashGet(f->key[key], VM_HASH_NONE, emq_field[EMQ_FIELD_COUNT], &f->count, NULL);
    if (!f->count) return;
    f->req.count = bytes_of(f->count);
    f->req.has_count = 1;
}

/* Starts the walk of the source, where the pump's last one stopped. 0 if there is nothing more. */
static int start_walk(emq_frame *f, vm_key *source) {
    emq_position at = f->walk ? f->walk->at : (emq_position){-INFINITY, 0};
    double to = f->verb->due ? (double)f->req.now : INFINITY, score;
    vm_ZsetFirstInScoreRange(source, at.score, to, 0, 0);
    if (!at.ties) return 1;
    /* Past all ties but the last without a look, for they may be very many. */
    uint32_t ties = 1;
    while (ties < at.ties && vm_ZsetRangeNext(source)) ties++;
    vm_string *tie = ties == at.ties ? vm_ZsetRangeCurrentElement(source, &score) : NULL;
    if (tie) vm_FreeString(NULL, tie);
    if (tie && score == at.score) return vm_ZsetRangeNext(source);
    /* Some of them are gone, and what was passed instead is new to us. */
    vm_ZsetFirstInScoreRange(source, at.score, to, 1, 0);
    return 1;
}

/* Reads the source's first or next entry and that entry's row into a step. */
static void read_entry(emq_frame *f, emq_step *s) {
    emq_request *r = &f->req;
    vm_key *source = f->key[f->verb->source];
    if (r->types[f->verb->source] != VM_TYPE_ZSET + 1) return;
    if (!(r->step == 0 ? start_walk(f, source) : vm_ZsetRangeNext(source))) return;
    s->entry = vm_ZsetRangeCurrentElement(source, &r->deadline);
    if (!s->entry) return;
    r->has_entry = 1;
    r->entry = bytes_of(s->entry);
    s->row_name = emq_make_name(f->base, f->base_len, EMQ_ROW, r->entry);
    read_row(f, s);
}

/* Reads the late part of the verb's plan. */
EMQ_COLD static void read_late(emq_frame *f) {
    emq_request *r = &f->req;
    const uint8_t *late = f->verb->late;
    for (int i = 0; i < EMQ_MAX_READ && late[i] != EMQ_NO_FIELD && r->types[EMQ_ROW] == VM_TYPE_HASH + 1; i++) {
        int there = 0;
        vm_HashGet(f->key[EMQ_ROW], VM_HASH_EXISTS, emq_field[late[i]], &there, NULL);
        if (there) r->present |= 1u << late[i];
    }
    if (f->verb->late_counter) {
        int key = f->verb->counter;
        r->types[key] = type_of(emq_open(f, &f->first, key));
        read_count(f);
    }
    r->looked = 1;
}

/* Reads which sets of the queue hold the step's entry. */
EMQ_COLD static void look(emq_frame *f, emq_step *s) {
    static const uint8_t sets[] = {EMQ_PENDING, EMQ_ACTIVE, EMQ_SCHEDULE, EMQ_DEAD};
    emq_request *r = &f->req;
    r->member = 0;
    for (size_t i = 0; i < sizeof(sets); i++) {
        double score;
        vm_key *set = emq_open(f, s, sets[i]);
        r->types[sets[i]] = type_of(set);
        if (r->types[sets[i]] == VM_TYPE_ZSET + 1 && vm_ZsetScore(set, s->entry, &score) == VM_OK)
            r->member |= (uint8_t)(1u << sets[i]);
    }
    r->looked = 1;
}

/* Reads the next of what a scan found, that entry's row, and which sets hold it. */
EMQ_COLD static void read_scanned(emq_frame *f, emq_step *s) {
    emq_request *r = &f->req;
    size_t n, prefix = f->scan->stride == 1 ? f->base_len + emq_suffix_len[EMQ_ROW] : 0;
    const char *p;
    do {
        vm_reply *element = vm_CallReplyArrayElement(f->scan->list, f->scan->at);
        if (!element) return;
        f->scan->at += f->scan->stride;
        p = vm_CallReplyStringPtr(element, &n);
    } while (!p || n < prefix);
    s->entry = vm_CreateString(NULL, p + prefix, n - prefix);
    r->has_entry = 1;
    r->entry = bytes_of(s->entry);
    s->row_name = emq_make_name(f->base, f->base_len, EMQ_ROW, r->entry);
    read_row(f, s);
    look(f, s);
}

/* Reads of the whole queue what STATS tells. */
EMQ_COLD static void read_figures(emq_frame *f) {
    emq_figures *figures = &f->figures;
    emq_step *s = &f->first;
    vm_string **count = s->value;
    memset(figures, 0, sizeof(*figures));
    for (int key = 0; key < EMQ_NUM_KEYS; key++) {
        if (f->req.types[key] == VM_TYPE_HASH + 1) {
            vm_HashGet(f->key[key], VM_HASH_NONE, emq_field[EMQ_FIELD_COUNT], count, NULL);
            if (*count) figures->counts[key] = bytes_of(*count++);
        }
        if (f->req.types[key] != VM_TYPE_ZSET + 1) continue;
        figures->sizes[key] = (int64_t)vm_ValueLength(f->key[key]);
        vm_ZsetFirstInScoreRange(f->key[key], -INFINITY, INFINITY, 0, 0);
        vm_string *first = vm_ZsetRangeCurrentElement(f->key[key], &figures->next[key]);
        if (!first) continue;
        if (key == EMQ_PENDING) {
            s->entry = first;
            f->req.has_entry = 1;
            f->req.entry = bytes_of(first);
        } else {
            vm_FreeString(NULL, first);
        }
    }
    f->req.figures = figures;
}

/* Reads whether the plan's set holds the caller's id. */
static void read_member(emq_frame *f) {
    int key = f->verb->member;
    double score;
    if (f->req.types[key] == VM_TYPE_ZSET + 1 && vm_ZsetScore(f->key[key], f->id, &score) == VM_OK)
        f->req.member = (uint8_t)(1u << key);
}

/* Reads everything that the verb's plan names. Where the names can't be those of one queue, or nothing may be written,
 * nothing is read: Go refuses these before it looks at the store. */
static void read_plan(emq_frame *f) {
    emq_request *r = &f->req;
    emq_bytes numkeys = r->args[1];
    if (f->verb->numkeys && (numkeys.n != 1 || numkeys.p[0] != '0' + f->verb->numkeys)) return;
    if (r->replica || !find_base(f)) return;
    for (uint32_t keys = f->verb->keys; keys; keys &= keys - 1) {
        int key = __builtin_ctz(keys);
        r->types[key] = type_of(open_key(f, key));
    }
    read_identity(f);
    if (f->verb->counter != EMQ_NO_KEY && !f->verb->late_counter) read_count(f);
    if (f->verb->member != EMQ_NO_KEY) read_member(f);
    if (f->verb->figures)
        read_figures(f);
    else if (f->scan)
        read_scanned(f, &f->first);
    else if (f->verb->source != EMQ_NO_KEY)
        read_entry(f, &f->first);
    else if (!f->verb->scans)
        read_row(f, &f->first);
}

/* Frees what was read for a step. */
static void free_read(emq_step *s) {
    for (int i = 0; i < EMQ_MAX_READ; i++)
        if (s->value[i]) vm_FreeString(NULL, s->value[i]);
    if (s->entry) vm_FreeString(NULL, s->entry);
    if (s->row_name) vm_FreeString(NULL, s->row_name);
    if (s->row) vm_CloseKey(s->row);
}

/* Notes for the pump what becomes of an entry. One that is left is passed by the next walk. */
EMQ_COLD static void note_fate(emq_frame *f, int fate) {
    emq_walk *w = f->walk;
    w->ended = !f->req.has_entry;
    if (w->ended) return;
    w->fates[fate]++;
    if (fate >= EMQ_RETURNED && f->req.now - f->req.deadline > w->lag_ms)
        w->lag_ms = (int64_t)(f->req.now - f->req.deadline);
    if (fate != EMQ_LEFT) return;
    if (w->at.score != f->req.deadline) w->at = (emq_position){f->req.deadline, 0};
    w->at.ties++;
}

/* The step for the next entry, of which nothing is read yet. One of which nothing comes is not kept, so that a walk costs the memory of what it
 * changes or tells. */
EMQ_COLD static emq_step *next_step(emq_frame *f, emq_step *s) {
    f->req.step++;
    f->req.tally = f->out.tally;
    f->req.has_entry = f->req.looked = 0;
    memset(f->req.row, 0, sizeof(f->req.row));
    if (!s->num_effects && !s->finding.what) {
        free_read(s);
        memset(s, 0, sizeof(*s));
        return s;
    }
    size_t size = sizeof(*s->effects) * (size_t)s->num_effects;
    s->effects = size ? memcpy(vm_Alloc(size), f->out.effects, size) : NULL;
    s->next = vm_Alloc(sizeof(*s));
    memset(s->next, 0, sizeof(*s));
    return s->next;
}

/* Has every step decided. 0 if Go panicked: then no step may be carried out. */
static int decide(emq_frame *f, int verb) {
    for (emq_step *s = &f->first;;) {
        emq_entered_go();
        if (!emqDecide(verb, &f->req, &f->out)) {
            emq_log_panic(f->ctx);
            if (f->walk) note_fate(f, EMQ_LEFT);
            if (f->walk) f->walk->panicked = 1;
            return 0;
        }
        if (f->out.next == EMQ_LOOK) {
            s->entry ? look(f, s) : read_late(f);
            continue;
        }
        s->effects = f->out.effects;
        s->num_effects = f->out.num_effects;
        s->fate = f->out.fate;
        s->finding = f->out.finding;
        f->last = s;
        if (f->out.next == EMQ_MAKE_SCAN) return 1;
        f->fates[f->out.fate]++;
        if (f->walk) note_fate(f, f->out.fate);
        if (f->out.next == EMQ_FINISH) return 1;
        s = next_step(f, s);
        f->scan ? read_scanned(f, s) : read_entry(f, s);
    }
}

/* Closes what is open still, and frees all. */
static void free_frame(emq_frame *f) {
    for (emq_step *s = &f->first, *next; s; s = next) {
        next = s->next;
        free_read(s);
        if (s->effects && s->effects != f->out.effects) vm_Free(s->effects);
        if (s != &f->first) vm_Free(s);
    }
    for (uint32_t keys = f->open; keys; keys &= keys - 1) vm_CloseKey(f->key[__builtin_ctz(keys)]);
    for (uint32_t keys = f->owned; keys; keys &= keys - 1) vm_FreeString(NULL, f->name[__builtin_ctz(keys)]);
    if (f->count) vm_FreeString(NULL, f->count);
}

/* Kept from being inlined: a compiler that sees the size makes a loop of it that is slower than the call. */
__attribute__((noipa)) static void clear(void *p, size_t n) { memset(p, 0, n); }

/* Reads and decides. 0 if there is no decision. */
static int prepare(emq_frame *f, vm_ctx *ctx, vm_string **argv, int argc, int verb, emq_walk *walk, emq_scanned *scan) {
    const emq_verb *v = &emq_verbs[verb];
    clear(f, offsetof(emq_frame, out));
    f->walk = walk;
    f->scan = scan;
    f->ctx = ctx;
    f->argv = argv;
    f->verb = v;
    f->last = &f->first;
    start_opening(f);
    for (const uint8_t *i = v->view; *i && *i < argc; i++) f->req.args[*i] = bytes_of(argv[*i]);
    if (v->id_at) f->id = argv[v->id_at];
    f->req.now = vm_CachedMicroseconds() / 1000;
    f->req.argc = argc;
    f->req.replica = emq_is_replica && !v->readonly;
    f->req.epoch = emq_epoch;
    if (walk) {
        f->req.slice = walk->slice;
        f->req.served_since = walk->served_since;
    }
    if (scan) {
        f->req.scanned = 1;
        f->req.scanned_to = scan->to;
    }
    read_plan(f);
    int decided = decide(f, verb);
    if (f->identity) vm_CloseKey(f->identity);
    return decided;
}

/* The pattern of the row keys of a queue: its characters mean themselves. */
EMQ_COLD static vm_string *row_pattern(const emq_frame *f) {
    char *pattern = vm_Alloc(2 * f->base_len + emq_suffix_len[EMQ_ROW] + 1), *to = pattern;
    for (size_t i = 0; i < f->base_len; i++) {
        if (strchr("*?[]\\^-", f->base[i])) *to++ = '\\'; /* no NUL is in a base */
        *to++ = f->base[i];
    }
    memcpy(to, emq_suffix[EMQ_ROW], emq_suffix_len[EMQ_ROW]);
    to += emq_suffix_len[EMQ_ROW];
    *to++ = '*';
    vm_string *s = vm_CreateString(NULL, pattern, (size_t)(to - pattern));
    vm_Free(pattern);
    return s;
}

/* Has the server make the scan that was decided on. 0 if it does not. No key is open. */
EMQ_COLD static int make_scan(emq_frame *f, emq_scanned *scan) {
    char cursor[24];
    int key = f->out.scan.key;
    vm_string *count = f->argv[EMQ_AUDIT_COUNT];
    snprintf(cursor, sizeof(cursor), "%llu", (unsigned long long)f->out.scan.at);
    if (key == EMQ_ROW) {
        vm_string *pattern = row_pattern(f);
        scan->reply = vm_Call(f->ctx, "SCAN", "ccscs", cursor, "MATCH", pattern, "COUNT", count);
        vm_FreeString(NULL, pattern);
        scan->stride = 1;
    } else {
        scan->reply = vm_Call(f->ctx, "ZSCAN", "sccs", emq_name(f, &f->first, key), cursor, "COUNT", count);
        scan->stride = 2; /* each entry with its score */
    }
    if (!scan->reply || vm_CallReplyType(scan->reply) != VM_REPLY_ARRAY) return 0;
    vm_reply *next = vm_CallReplyArrayElement(scan->reply, 0);
    scan->list = vm_CallReplyArrayElement(scan->reply, 1);
    size_t n;
    const char *p = next ? vm_CallReplyStringPtr(next, &n) : NULL;
    if (!p || !scan->list) return 0;
    for (size_t i = 0; i < n; i++) scan->to = scan->to * 10 + (uint64_t)(p[i] - '0');
    return 1;
}

/* Counts a call that is over, for INFO; the fates of its entries if it was carried out. */
static void count_call(const emq_frame *f, int verb, int result, int carried_out) {
    emq_count *count = &emq_counts[verb];
    count->results[result]++;
    if (!carried_out || (f->verb->source == EMQ_NO_KEY && !f->verb->scans)) return;
    for (int i = 0; i < EMQ_NUM_FATES; i++) count->fates[i] += f->fates[i];
}

static int run(vm_ctx *ctx, vm_string **argv, int argc, int verb) {
    const emq_verb *v = &emq_verbs[verb];
    if (vm_IsKeysPositionRequest(ctx)) {
        for (int i = 0; i < argc && i < v->arity; i++)
            if (v->access[i]) vm_KeyAtPosWithFlags(ctx, i, (int)v->access[i]);
        return VM_OK;
    }
    if (argc > v->arity || argc < v->least) return vm_WrongArity(ctx);
    /* A forked child shares nothing with the Go runtime's threads: entering Go there hangs for ever. */
    if (emq_is_child) return vm_ReplyWithError(ctx, emq_text[EMQ_TEXT_FORKED]);

    emq_frame f;
    emq_scanned scan = {0};
    int decided = prepare(&f, ctx, argv, argc, verb, NULL, NULL), refused = 0, unscanned = 0;
    if (decided && emq_claims_identity(&f)) {
        /* The claim is a command of its own, which may run code of other modules: no key stays open across it, and what
         * was read before it is read again after it. */
        free_frame(&f);
        refused = !emq_claim_identity(ctx);
        emq_identity_claims += !refused;
        decided = prepare(&f, ctx, argv, argc, verb, NULL, NULL);
        refused |= decided && emq_claims_identity(&f);
    } else if (decided && f.out.next == EMQ_MAKE_SCAN) {
        /* So is a scan, which may meet keys that have expired. */
        emq_close_keys(&f, EMQ_NO_KEY);
        unscanned = !make_scan(&f, &scan);
        free_frame(&f);
        decided = prepare(&f, ctx, argv, argc, verb, NULL, unscanned ? NULL : &scan);
    }
    if (!decided) {
        vm_ReplyWithError(ctx, emq_text[EMQ_TEXT_PANICKED]);
        count_call(&f, verb, emq_text_result[EMQ_TEXT_PANICKED], 0);
    } else if (refused) {
        vm_ReplyWithError(ctx, emq_text[EMQ_TEXT_UNCLAIMED]);
        count_call(&f, verb, emq_text_result[EMQ_TEXT_UNCLAIMED], 0);
    } else if (unscanned) {
        vm_ReplyWithError(ctx, emq_text[EMQ_TEXT_UNSCANNED]);
        count_call(&f, verb, emq_text_result[EMQ_TEXT_UNSCANNED], 0);
    } else {
        emq_apply(&f);
        emq_close_keys(&f, EMQ_NO_KEY);
        emq_announce(&f);
        emq_reply(&f);
        count_call(&f, verb, f.out.result, 1);
    }
    free_frame(&f);
    if (scan.reply) vm_FreeCallReply(scan.reply);
    return VM_OK;
}

int emq_run_walk(vm_ctx *ctx, vm_string **argv, int verb, emq_walk *walk) {
    emq_frame f;
    int ok = prepare(&f, ctx, argv, emq_verbs[verb].arity, verb, walk, NULL) && !f.out.text_len;
    if (ok) {
        emq_apply(&f);
        emq_close_keys(&f, EMQ_NO_KEY);
        emq_announce(&f);
    }
    free_frame(&f);
    return ok;
}

/* One trampoline a verb, in the order of package commands: the server hands a command nothing but its arguments. */
#define TRAMPOLINE(verb)                                                                                               \
    static int trampoline_##verb(vm_ctx *ctx, vm_string **argv, int argc) { return run(ctx, argv, argc, verb); }
TRAMPOLINE(0)
TRAMPOLINE(1)
TRAMPOLINE(2)
TRAMPOLINE(3)
TRAMPOLINE(4)
TRAMPOLINE(5)
TRAMPOLINE(6)
TRAMPOLINE(7)
TRAMPOLINE(8)
TRAMPOLINE(9)
const vm_command_fn emq_trampolines[] = {trampoline_0, trampoline_1, trampoline_2, trampoline_3,
                                         trampoline_4, trampoline_5, trampoline_6, trampoline_7, trampoline_8, trampoline_9};
const int emq_num_trampolines = sizeof(emq_trampolines) / sizeof(emq_trampolines[0]);
