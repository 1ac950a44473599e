/* Executes a command: read the planned keys, call Go, apply the outcome. */
#include "emq.h"

#include <string.h>

#include "_cgo_export.h"

emq_verb emq_verbs[EMQ_NUM_VERBS];

/* ---- Decide ---- */

/* Notes the disposition of an entry for the pump. An entry that stays in its set is skipped by the next walk. */
EMQ_COLD static void note_entry(emq_walk *w, int disposition, double deadline, double now) {
    w->dispositions[disposition]++;
    if (disposition >= EMQ_DISPOSITION_RETURNED && now - deadline > (double)w->lag_ms)
        w->lag_ms = (int64_t)(now - deadline);
    if (disposition != EMQ_DISPOSITION_LEFT) return;
    if (w->at.score != deadline) w->at = (emq_position){deadline, 0};
    w->at.ties++;
}

/* Moves an item of the window, whose row may be open, to its final place. */
static void keep_item(emq_frame *f, int32_t from, int32_t to) {
    if (from != to) f->items[to] = f->items[from];
    if (!f->items[to].row) return;
    f->items[to].next_open = f->open_row;
    f->open_row = to;
}

static void drop_item(emq_item *item) {
    if (item->row) vm_CloseKey(item->row);
    emq_free_item(item);
}

/* Advances past the decided entries of the window. Entries without an effect or a finding are dropped, so that a walk
 * needs memory only for what it changes or replies with. The window's effects begin at `from` in the log. */
EMQ_APART static void advance_entries(emq_frame *f, intptr_t from) {
    emq_call *c = &f->call;
    emq_effect *e = f->out.effects.at + from, *end = f->out.effects.at + f->out.effects.n;
    int32_t i = c->first, to = c->first, done = c->first + f->out.done, window = c->first + (int32_t)c->jobs.n;
    while (f->open_row >= i) f->open_row = f->items[f->open_row].next_open; /* unlink the window's, which come first */
    for (; i < done; i++) {
        emq_mark mark = f->out.marks.at[i];
        f->dispositions[mark.disposition]++;
        if (f->walk) note_entry(f->walk, mark.disposition, c->jobs.at[i - c->first].deadline, (double)c->now);
        int kept = mark.finding.what != 0;
        for (; e < end && e->job == i; e++) {
            e->job = to;
            kept = 1;
        }
        if (!kept) {
            drop_item(&f->items[i]);
            continue;
        }
        keep_item(f, i, to);
        f->out.marks.at[to++] = mark;
    }
    int finished = f->out.next == EMQ_NEXT_FINISH;
    c->step += f->out.done;
    c->first = to;
    c->jobs.at += f->out.done;
    c->jobs.n -= f->out.done;
    for (; i < window; i++) { /* these are not needed, or wait for a look */
        if (finished)
            drop_item(&f->items[i]);
        else
            keep_item(f, i, to++);
    }
    if (finished) c->jobs.n = 0;
}

/* Advances past the decided jobs of the window. All listed jobs are kept, and so is the entry that CLAIM grants, its last
 * one. */
EMQ_APART static void advance(emq_frame *f, intptr_t from) {
    emq_call *c = &f->call;
    if (f->verb->jobs < EMQ_SOURCE_WALKED_JOBS ? !f->listed : f->out.result != EMQ_RESULT_CLAIMED || f->walk) {
        if (f->verb->jobs >= EMQ_SOURCE_WALKED_JOBS && c->jobs.n) advance_entries(f, from);
        return;
    }
    c->step += f->out.done;
    c->first += f->out.done;
    c->jobs.at += f->out.done;
    c->jobs.n -= f->out.done;
}

EMQ_COLD static void note_panic(emq_frame *f) {
    emq_log_panic(f->ctx);
    if (!f->walk) return;
    if (f->call.jobs.n)
        note_entry(f->walk, EMQ_DISPOSITION_LEFT, f->call.jobs.at->deadline, (double)f->call.now);
    else
        f->walk->ended = 1;
    f->walk->panicked = 1;
}

/* Reads what the decision asks for. 0 if it asks for nothing that is read here. */
EMQ_APART static int read_next(emq_frame *f) {
    if (f->out.next == EMQ_NEXT_LOOK)
        emq_look(f);
    else if (f->out.next == EMQ_NEXT_MORE)
        emq_read_more(f, f->out.want);
    else
        return 0;
    return 1;
}

/* Calls Go for every job, window by window. 0 if Go panicked: then nothing may be applied. */
static int decide(emq_frame *f) {
    do {
        intptr_t logged = f->out.effects.n;
        f->out.marks.n = f->call.first + f->call.jobs.n;
        f->out.marks.room = f->room;
        emq_entered_go();
        if (EMQ_RARELY(!emqDecide(f->verb->number, &f->call, &f->out))) {
            note_panic(f);
            return 0;
        }
        if (!EMQ_MOSTLY(f->verb->jobs == EMQ_SOURCE_NAMED_JOB)) advance(f, logged);
    } while (f->out.next != EMQ_NEXT_FINISH && read_next(f));
    if (EMQ_RARELY(f->walk)) f->walk->ended = f->call.ended;
    return 1;
}

/* ---- A command from its reads to its reply ---- */

/* Frees what did not fit into the frame. */
EMQ_COLD static void free_spilled(emq_frame *f) {
    if (f->items != &f->first_item) {
        vm_Free(f->items);
        vm_Free(f->out.marks.at);
    }
    if (f->out.effects.at != f->first_effects) vm_Free(f->out.effects.at);
    if (f->call.args.at != f->first_args) vm_Free(f->call.args.at);
    if (f->twins) vm_Free(f->twins);
    if (f->oldest) vm_FreeString(NULL, f->oldest);
}

void emq_free_frame(emq_frame *f) {
    emq_close_keys(f);
    for (emq_item *item = f->items, *end = item + f->call.first + f->call.jobs.n; item < end; item++)
        emq_free_item(item);
    if (EMQ_RARELY(f->spilled)) free_spilled(f);
    for (uint32_t keys = f->owned; keys; keys &= keys - 1) vm_FreeString(NULL, f->name[__builtin_ctz(keys)]);
    for (uint32_t probes = f->call.probed; probes; probes &= probes - 1)
        vm_FreeString(NULL, f->probe[__builtin_ctz(probes)]);
}

/* Not inlined: a compiler that knows the size turns it into a loop that is slower than the call. */
__attribute__((noipa)) static void clear(void *p, size_t n) { memset(p, 0, n); }

/* Sets up a walk, or the result of a scan. */
EMQ_COLD static void take_up(emq_frame *f, emq_walk *walk, emq_scanned *scan) {
    emq_call *c = &f->call;
    if (walk) {
        f->walk = walk;
        c->slice = walk->slice;
        c->step = walk->step;
        c->served_since = walk->served_since;
    }
    if (scan) {
        f->scan = scan;
        c->scanned = 1;
        c->scanned_to = scan->to;
    }
}

int emq_prepare(emq_frame *f, vm_ctx *ctx, vm_string **argv, int argc, const emq_verb *v, emq_walk *walk,
                emq_scanned *scan) {
    clear(f, offsetof(emq_frame, out) + offsetof(emq_outcome, given));
    f->ctx = ctx;
    f->argv = argv;
    f->verb = v;
    f->items = &f->first_item;
    f->room = 1;
    f->out.marks.at = &f->first_mark;
    f->out.effects.at = f->first_effects;
    f->out.effects.room = EMQ_MAX_EFFECTS;
    emq_start_opening(f);

    emq_call *c = &f->call;
    emq_view_arguments(f, argc);
    c->jobs.at = f->jobs;
    c->jobs.room = EMQ_WINDOW;
    c->ended = v->jobs == EMQ_SOURCE_NO_JOBS || v->jobs == EMQ_SOURCE_NAMED_JOB;
    c->now = vm_CachedMicroseconds() / 1000;
    c->replica = emq_is_replica && !v->readonly;
    c->epoch = emq_epoch;
    if (EMQ_RARELY(walk || scan)) take_up(f, walk, scan);
    emq_read_plan(f);
    int decided = decide(f);
    if (f->identity) vm_CloseKey(f->identity);
    return decided;
}

/* Wakes clients that wait for what the effects have changed. */
EMQ_APART static void wake(emq_frame *f) {
    int awaited = emq_awaited(f);
    if (awaited & EMQ_ADDS_JOB) emq_wake(vm_GetSelectedDb(f->ctx), f->base, f->base_len);
    if (awaited & EMQ_OPENS_GATE) emq_wake_gated(vm_GetSelectedDb(f->ctx), f->base, f->base_len);
}

void emq_execute(emq_frame *f) {
    if (f->out.effects.n) emq_apply(f);
    emq_close_keys(f);
    if (!f->out.effects.n) return;
    emq_announce(f);
    if (EMQ_RARELY(emq_waiting_clients())) wake(f);
}

int emq_run_walk(vm_ctx *ctx, vm_string **argv, int verb, emq_walk *walk) {
    emq_frame f;
    int ok = emq_prepare(&f, ctx, argv, emq_verbs[verb].num_args, &emq_verbs[verb], walk, NULL) && !f.out.text_len;
    if (ok) emq_execute(&f);
    emq_free_frame(&f);
    return ok;
}

int emq_run_claim(vm_ctx *ctx, vm_string **argv, emq_walk *walk, vm_ctx *to, vm_string *base) {
    emq_frame f;
    int outcome = EMQ_NOTHING;
    if (!emq_prepare(&f, ctx, argv, emq_verbs[EMQ_VERB_CLAIM].num_args, &emq_verbs[EMQ_VERB_CLAIM], walk, NULL)) {
        outcome = EMQ_PANICKED;
        vm_ReplyWithError(to, emq_text[EMQ_HOST_PANICKED]);
    } else {
        emq_execute(&f);
        walk->step = f.call.step;
        walk->gated = f.out.gated;
        walk->opens = f.out.opens;
        if (f.out.result == EMQ_RESULT_CLAIMED) {
            outcome = EMQ_GRANTED;
            emq_reply_claimed(&f, to, base);
        } else if (f.out.result == EMQ_RESULT_FENCE && f.call.identity_type != EMQ_TYPE_NONE) {
            outcome = EMQ_FOREIGN;
            vm_ReplyWithError(to, (const char *)f.out.text);
        }
    }
    emq_free_frame(&f);
    return outcome;
}
