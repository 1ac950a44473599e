/* Reads what a decision needs. Nothing is written here. */
#include "emq.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static uint8_t type_of(vm_key *key) { return (uint8_t)(vm_KeyType(key) + 1); }

/* ---- The queue as a whole ---- */

static void read_identity(emq_frame *f) {
    f->identity = vm_OpenKey(f->ctx, emq_identity_key, f->verb->identity_mode);
    f->call.identity_type = type_of(f->identity);
    if (EMQ_RARELY(f->call.identity_type != EMQ_TYPE_STRING)) return;
    size_t n;
    const char *p = vm_StringDMA(f->identity, &n, VM_READ);
    f->call.identity = (emq_bytes){p, (intptr_t)n};
}

static void read_type(emq_frame *f, int key) { f->call.types[key] = type_of(emq_open(f, NULL, key)); }

static void read_probes(emq_frame *f) {
    f->call.probes.at = f->probe_bytes;
    f->call.probes.n = f->call.probes.room = EMQ_MAX_PROBES;
    for (int i = 0; i < f->verb->num_probes; i++) {
        const emq_probe *probe = &f->verb->probes[i];
        if (f->call.types[probe->key] != EMQ_TYPE_HASH) {
            i += probe->more;
            continue;
        }
        vm_HashGet(f->key[probe->key], VM_HASH_NONE, emq_field[probe->field], &f->probe[i], NULL);
        if (!f->probe[i]) continue;
        f->probe_bytes[i] = emq_bytes_of(f->probe[i]);
        f->call.probed |= 1u << i;
    }
}

EMQ_COLD static void read_figures(emq_frame *f) {
    emq_figures *figures = &f->figures;
    memset(figures, 0, sizeof(*figures));
    for (int key = 0; key < EMQ_NUM_KEYS; key++) {
        if (f->call.types[key] != EMQ_TYPE_SORTED_SET) continue;
        figures->sizes[key] = (int64_t)vm_ValueLength(f->key[key]);
        vm_ZsetFirstInScoreRange(f->key[key], -INFINITY, INFINITY, 0, 0);
        vm_string *first = vm_ZsetRangeCurrentElement(f->key[key], &figures->next[key]);
        if (!first) continue;
        if (key == EMQ_KEY_PENDING) {
            f->oldest = first;
            f->spilled = 1;
            figures->oldest = emq_bytes_of(first);
        } else {
            vm_FreeString(NULL, first);
        }
    }
    figures->waiting = (int64_t)emq_waiting_for(vm_GetSelectedDb(f->ctx), f->base, f->base_len);
    f->call.figures = figures;
}

/* ---- Jobs ---- */

/* Makes room for n items and marks, and for the effects of a whole window. */
EMQ_COLD static void make_room(emq_frame *f, int32_t n) {
    f->spilled = 1;
    if (n > f->room) {
        int32_t room = 2 * f->room > n ? 2 * f->room : n;
        emq_item *items = vm_Alloc(sizeof(*items) * (size_t)room);
        emq_mark *marks = vm_Alloc(sizeof(*marks) * (size_t)room);
        memcpy(items, f->items, sizeof(*items) * (size_t)f->room);
        memcpy(marks, f->out.marks.at, sizeof(*marks) * (size_t)f->room);
        if (f->items != &f->first_item) {
            vm_Free(f->items);
            vm_Free(f->out.marks.at);
        }
        f->items = items;
        f->out.marks.at = marks;
        f->room = room;
    }
    intptr_t least = f->out.effects.n + EMQ_WINDOW * EMQ_MAX_EFFECTS;
    if (f->out.effects.room < least) {
        size_t room = 2 * (size_t)least;
        emq_effect *effects = vm_Alloc(sizeof(*effects) * room);
        memcpy(effects, f->out.effects.at, sizeof(*effects) * (size_t)f->out.effects.n);
        if (f->out.effects.at != f->first_effects) vm_Free(f->out.effects.at);
        f->out.effects.at = effects;
        f->out.effects.room = (intptr_t)room;
    }
}

static inline void clear_job(emq_job *job) {
    memset(&job->deadline, 0, offsetof(emq_job, row) - offsetof(emq_job, deadline));
}

/* The next slot of the window and its item, both cleared. */
static emq_job *next_slot(emq_frame *f, emq_item **item) {
    emq_job *job = &f->call.jobs.at[f->call.jobs.n];
    *item = &f->items[f->call.first + f->call.jobs.n];
    memset(*item, 0, sizeof(**item));
    clear_job(job);
    return job;
}

static void read_row(emq_frame *f, emq_job *job, emq_item *item, vm_key *row) {
    job->type = type_of(row);
    if (job->type != EMQ_TYPE_HASH) return;
    /* One call for all values. The list ends in a NULL field. */
    const uint8_t *v = f->verb->values;
#define VALUE(i) f->verb->value_names[i], &item->value[i]
    vm_HashGet(row, VM_HASH_NONE, VALUE(0), VALUE(1), VALUE(2), VALUE(3), VALUE(4), NULL);
#undef VALUE
    for (int i = 0; i < EMQ_MAX_READ; i++) {
        if (!item->value[i]) continue;
        job->row[v[i]] = emq_bytes_of(item->value[i]);
        job->present |= 1u << v[i];
    }
}

/* Reads whether the plan's set holds a job. */
EMQ_APART static void read_member(emq_frame *f, emq_job *job, const emq_item *item) {
    int set = f->verb->member;
    double score;
    if (f->call.types[set] == EMQ_TYPE_SORTED_SET && vm_ZsetScore(f->key[set], item->id, &score) == VM_OK)
        job->member = (uint8_t)(1u << set);
}

/* Puts the job that the caller names into the first slot, whose item is cleared already. */
static inline void start_named(emq_frame *f) {
    int id = f->verb->id_at, row = f->verb->arg_of[EMQ_KEY_ROW];
    f->first_item.id = f->argv[id];
    if (EMQ_MOSTLY(row)) f->first_item.row_name = f->argv[row];
    f->jobs->id = f->call.args.at[id];
    clear_job(f->jobs);
    f->call.jobs.n = 1;
}

/* Makes the name of that job's row, if it is not an argument. */
EMQ_APART static void name_named(emq_frame *f) {
    emq_item *item = &f->first_item;
    item->row_name = emq_make_name(f->base, f->base_len, EMQ_KEY_ROW, f->jobs->id);
    item->owns_row_name = 1;
}

/* Reads the type of a key without keeping it open. */
static void read_type_unseen(emq_frame *f, vm_string *name, uint8_t *type) {
    vm_key *key = vm_OpenKey(f->ctx, name, VM_READ | VM_OPEN_UNSEEN);
    *type = type_of(key);
    if (key) vm_CloseKey(key);
}

/* Reads the next job of the caller's list into a slot. 0 if there is none. */
static int read_listed(emq_frame *f) {
    int32_t i = f->call.first + (int32_t)f->call.jobs.n;
    if (i == f->listed) return 0;
    emq_item *item;
    emq_job *job = next_slot(f, &item);
    job->shift = i * f->verb->list_len;
    job->twin = f->twins ? f->twins[i] : 0;
    item->id = f->argv[f->verb->id_at + job->shift];
    job->id = f->call.args.at[f->verb->id_at + job->shift];
    item->row_name = emq_make_name(f->base, f->base_len, EMQ_KEY_ROW, job->id);
    item->owns_row_name = 1;
    if (f->verb->creates) {
        read_type_unseen(f, item->row_name, &job->type);
        return 1;
    }
    read_row(f, job, item, emq_open(f, emq_row_item(f, i), EMQ_KEY_ROW));
    if (f->verb->member != EMQ_NO_KEY) read_member(f, job, item);
    return 1;
}

/* Reads the next of the listed queues into a slot. 0 if there is none. */
EMQ_COLD static int read_queue(emq_frame *f) {
    static const uint8_t sets[] = {EMQ_KEY_PENDING, EMQ_KEY_ACTIVE};
    int32_t i = f->call.first + (int32_t)f->call.jobs.n;
    if (i == f->listed) return 0;
    emq_item *item;
    emq_job *job = next_slot(f, &item);
    job->id = f->call.args.at[f->verb->base_at + i];
    uint8_t *types[] = {&job->type, &job->active};
    for (int s = 0; s < 2; s++) {
        vm_string *name = emq_make_name(job->id.p, (size_t)job->id.n, sets[s], (emq_bytes){"", 0});
        read_type_unseen(f, name, types[s]);
        vm_FreeString(NULL, name);
    }
    return 1;
}

/* The largest score of a walk. */
static double end_of_walk(const emq_frame *f) { return f->verb->due ? (double)f->call.now : INFINITY; }

/* Resumes a walk where the last one stopped. 0 if there is nothing more. */
EMQ_APART static int resume_walk(emq_frame *f, vm_key *set) {
    emq_position at = f->walk->at;
    double to = end_of_walk(f), score;
    vm_ZsetFirstInScoreRange(set, at.score, to, 0, 0);
    if (!at.ties) return 1;
    /* There may be very many ties, so only the last one is read. */
    uint32_t ties = 1;
    while (ties < at.ties && vm_ZsetRangeNext(set)) ties++;
    vm_string *tie = ties == at.ties ? vm_ZsetRangeCurrentElement(set, &score) : NULL;
    if (tie) vm_FreeString(NULL, tie);
    if (tie && score == at.score) return vm_ZsetRangeNext(set);
    /* Some of the ties are gone, so this skipped entries that nobody has looked at: go back to the first after the
     * score. */
    vm_ZsetFirstInScoreRange(set, at.score, to, 1, 0);
    return 1;
}

static int start_walk(emq_frame *f, vm_key *set) {
    if (EMQ_RARELY(f->walk)) return resume_walk(f, set);
    vm_ZsetFirstInScoreRange(set, -INFINITY, end_of_walk(f), 0, 0);
    return 1;
}

/* Reads the next entry of the set that is walked into a slot. 0 if there is none. */
static int read_entry(emq_frame *f) {
    vm_key *set = f->key[f->verb->walk];
    if (f->call.types[f->verb->walk] != EMQ_TYPE_SORTED_SET) return 0;
    int is_first = f->call.step == (f->walk ? f->walk->step : 0) && !f->call.jobs.n; /* in this queue */
    if (!(is_first ? start_walk(f, set) : vm_ZsetRangeNext(set))) return 0;
    emq_item *item;
    emq_job *job = next_slot(f, &item);
    item->id = vm_ZsetRangeCurrentElement(set, &job->deadline);
    if (!item->id) return 0;
    item->owns_id = item->owns_row_name = 1;
    job->id = emq_bytes_of(item->id);
    item->row_name = emq_make_name(f->base, f->base_len, EMQ_KEY_ROW, job->id);
    read_row(f, job, item, emq_open(f, item, EMQ_KEY_ROW));
    return 1;
}

/* Reads the first entry of the walk; the frame has room for one. */
static void read_first_entry(emq_frame *f) {
    f->call.jobs.n = read_entry(f);
    f->call.ended = !f->call.jobs.n;
}

/* Reads which sets of the queue hold a job. */
EMQ_COLD static void read_members(emq_frame *f, emq_job *job, emq_item *item) {
    static const uint8_t sets[] = {EMQ_KEY_PENDING, EMQ_KEY_ACTIVE, EMQ_KEY_SCHEDULE, EMQ_KEY_DEAD};
    job->member = 0;
    for (size_t i = 0; i < sizeof(sets); i++) {
        double score;
        read_type(f, sets[i]);
        if (f->call.types[sets[i]] == EMQ_TYPE_SORTED_SET && vm_ZsetScore(f->key[sets[i]], item->id, &score) == VM_OK)
            job->member |= (uint8_t)(1u << sets[i]);
    }
    job->looked = 1;
}

/* Reads the next element of a scan's result into a slot. 0 if there is none. */
EMQ_COLD static int read_scanned(emq_frame *f) {
    size_t n, prefix = f->scan->stride == 1 ? f->base_len + emq_suffix_len[EMQ_KEY_ROW] : 0;
    const char *p;
    do {
        vm_reply *element = vm_CallReplyArrayElement(f->scan->list, f->scan->at);
        if (!element) return 0;
        f->scan->at += f->scan->stride;
        p = vm_CallReplyStringPtr(element, &n);
    } while (!p || n < prefix);
    emq_item *item;
    emq_job *job = next_slot(f, &item);
    item->id = vm_CreateString(NULL, p + prefix, n - prefix);
    item->owns_id = item->owns_row_name = 1;
    job->id = emq_bytes_of(item->id);
    item->row_name = emq_make_name(f->base, f->base_len, EMQ_KEY_ROW, job->id);
    read_row(f, job, item, emq_open(f, item, EMQ_KEY_ROW));
    read_members(f, job, item);
    return 1;
}

void emq_read_more(emq_frame *f, int32_t want) {
    f->call.jobs.at = f->jobs;
    f->call.jobs.n = 0;
    if (f->call.first + want > f->room || f->out.effects.room - f->out.effects.n < want * EMQ_MAX_EFFECTS)
        make_room(f, f->call.first + want);
    int (*read)(emq_frame *) = f->verb->jobs == EMQ_SOURCE_LISTED_QUEUES ? read_queue
                               : f->listed                               ? read_listed
                               : f->scan                                 ? read_scanned
                                                                         : read_entry;
    for (; f->call.jobs.n < want; f->call.jobs.n++) {
        if (read(f)) continue;
        f->call.ended = 1;
        return;
    }
    /* The end of a list is known in advance. */
    if (f->listed) f->call.ended = f->call.first + f->call.jobs.n == f->listed;
}

/* For a named or listed job this is the late part of the plan; for any other, which sets hold it. */
EMQ_COLD void emq_look(emq_frame *f) {
    emq_job *job = f->call.jobs.at;
    if (f->verb->jobs >= EMQ_SOURCE_WALKED_JOBS) {
        read_members(f, job, &f->items[f->call.first]);
        return;
    }
    vm_key *row = emq_open(f, emq_row_item(f, f->call.first), EMQ_KEY_ROW);
    const uint8_t *late = f->verb->late;
    for (int i = 0; i < EMQ_MAX_READ && late[i] != EMQ_NO_FIELD && job->type == EMQ_TYPE_HASH; i++) {
        int there = 0;
        vm_HashGet(row, VM_HASH_EXISTS, emq_field[late[i]], &there, NULL);
        if (there) job->present |= 1u << late[i];
    }
    if (f->verb->late_probes) {
        for (int i = 0; i < f->verb->num_probes; i++) read_type(f, f->verb->probes[i].key);
        read_probes(f);
    }
    job->looked = 1;
}

/* ---- The plan ---- */

/* Reads the first window for a list or a scan, or the figures of STATS. */
EMQ_APART static void read_first(emq_frame *f) {
    if (f->listed)
        emq_read_more(f, f->listed < EMQ_WINDOW ? f->listed : EMQ_WINDOW);
    else if (f->scan)
        emq_read_more(f, EMQ_WINDOW);
    else if (f->verb->figures)
        read_figures(f);
}

/* Nothing is read if the names can't belong to one queue, if the server is a replica, or if a list is too long: Go refuses
 * such a call before it looks at the store. */
void emq_read_plan(emq_frame *f) {
    const emq_verb *v = f->verb;
    const emq_bytes *numkeys = &f->call.args.at[1];
    int named = EMQ_MOSTLY(v->jobs == EMQ_SOURCE_NAMED_JOB);
    if (named) start_named(f);
    if (EMQ_RARELY(v->numkeys && (numkeys->n != 1 || numkeys->p[0] != '0' + v->numkeys))) return;
    if (EMQ_RARELY(f->call.replica || (v->cut_at && !emq_find_base(f)))) return;
    if (EMQ_RARELY(f->listed > EMQ_MAX_LIST && v->jobs == EMQ_SOURCE_LISTED_JOBS)) return;
    if (named) { /* first, as it is the key that is created most often: see emq_open_or_make */
        if (EMQ_RARELY(!f->first_item.row_name)) name_named(f);
        emq_open_row(f, &f->first_item);
    }
    uint32_t keys = v->keys;
    int probed = v->probed;
    if (v->gated && !emq_may_have_meta()) {
        keys &= ~(1u << EMQ_KEY_META);
        f->call.types[EMQ_KEY_META] = EMQ_TYPE_NONE;
        probed = 0; /* its probes are the gates */
    }
    for (; keys; keys &= keys - 1) {
        int key = __builtin_ctz(keys);
        f->call.types[key] = type_of(emq_open_key(f, key));
    }
    read_identity(f);
    if (probed) read_probes(f);
    if (EMQ_MOSTLY(named)) {
        read_row(f, f->jobs, &f->first_item, f->first_item.row);
        if (v->member != EMQ_NO_KEY) read_member(f, f->jobs, &f->first_item);
        return;
    }
    if (v->gated && f->call.types[EMQ_KEY_META] == EMQ_TYPE_HASH &&
        f->call.types[EMQ_KEY_ACTIVE] == EMQ_TYPE_SORTED_SET)
        f->call.num_active = (int64_t)vm_ValueLength(f->key[EMQ_KEY_ACTIVE]);
    if (v->jobs == EMQ_SOURCE_WALKED_JOBS)
        read_first_entry(f);
    else
        read_first(f);
}

void emq_free_item(emq_item *item) {
    for (int i = 0; i < EMQ_MAX_READ; i++)
        if (item->value[i]) vm_FreeString(NULL, item->value[i]);
    if (item->owns_id) vm_FreeString(NULL, item->id);
    if (item->owns_row_name) vm_FreeString(NULL, item->row_name);
}

/* ---- The audit's scan ---- */

/* The pattern that matches the row keys of a queue. The base is escaped. */
static vm_string *row_pattern(const emq_frame *f) {
    char *pattern = vm_Alloc(2 * f->base_len + emq_suffix_len[EMQ_KEY_ROW] + 1), *to = pattern;
    for (size_t i = 0; i < f->base_len; i++) {
        if (strchr("*?[]\\^-", f->base[i])) *to++ = '\\'; /* no NUL is in a base */
        *to++ = f->base[i];
    }
    memcpy(to, emq_suffix[EMQ_KEY_ROW], emq_suffix_len[EMQ_KEY_ROW]);
    to += emq_suffix_len[EMQ_KEY_ROW];
    *to++ = '*';
    vm_string *s = vm_CreateString(NULL, pattern, (size_t)(to - pattern));
    vm_Free(pattern);
    return s;
}

EMQ_COLD int emq_make_scan(emq_frame *f, emq_scanned *scan) {
    char cursor[24];
    int key = f->out.scan.key;
    vm_string *count = f->argv[f->verb->count_at];
    snprintf(cursor, sizeof(cursor), "%llu", (unsigned long long)f->out.scan.at);
    if (key == EMQ_KEY_ROW) {
        vm_string *pattern = row_pattern(f);
        scan->reply = vm_Call(f->ctx, "SCAN", "ccscs", cursor, "MATCH", pattern, "COUNT", count);
        vm_FreeString(NULL, pattern);
        scan->stride = 1;
    } else {
        scan->reply = vm_Call(f->ctx, "ZSCAN", "sccs", emq_name(f, NULL, key), cursor, "COUNT", count);
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
