/* The pump, a background timer: it promotes due jobs, reclaims expired leases and removes ended pauses, in every queue
 * of every database. It runs EMQ.PROMOTE, EMQ.REAP and EMQ.RESUME, so that all decisions about jobs stay in package
 * commands.
 *
 * A tick, every pump-interval-ms, is a round over all known queues (queues.c). A round is cut into slices of
 * pump-budget-us, each followed by a rest of at least the same length. While some queues have work left, further rounds
 * visit those at once, without waiting for the next tick. */
#include "emq.h"

#include <math.h>
#include <string.h>

enum {
    /* Entries that one call looks at; the time is checked between two calls. */
    ENTRIES_PER_CALL = 32,
    /* Entries of one set that may stay in it during one tick: those of lanes must not use up the time of other queues. */
    LEFT_PER_TICK = 4096,
    /* Shorter gaps do not count as downtime, however short the interval. */
    LEAST_GAP_MS = 100,
    /* A timer that is later than this is set again. */
    LATE_MS = 20,
};

static const emq_position start = {-INFINITY, 0};

emq_pump_stats emq_pump;

static struct {
    /* Leases that expired up to served_since, in Unix ms, do not count against their jobs: the server was not serving, so
     * the holders could not extend them. */
    int64_t served_since;
    int away;             /* the timer did not run yet, or could not write the last time */
    int paused;           /* writes are paused */
    int64_t wall, steady; /* when the event loop last ran; ms */

    /* The timer. */
    uint64_t timer;
    int armed;
    int64_t due_ms; /* when it should fire, on the steady clock */
    int at_once;    /* set it to fire at once: after a load, or when a setting changed */

    /* The round. */
    enum {
        RESTING,     /* until the next tick */
        TICKING,     /* in a round over all queues */
        CATCHING_UP, /* in a round over those that have work left */
    } state;
    int more;         /* a queue that the round visited has work left */
    int64_t tick_ms;  /* when the last tick began, on the steady clock; 0: the next is due */
    int64_t slice_us; /* when the last slice began, on the steady clock */
} pump = {.away = 1, .at_once = 1};

/* ---- Whether the server serves ---- */

/* CLIENT PAUSE and failovers may begin and end between two ticks, so this is checked at each turn of the event loop. */
static void watch_pause(void) {
    int now = vm_AvoidReplicaTraffic() != 0;
    if (pump.paused && !now) pump.served_since = vm_Milliseconds();
    pump.paused = now;
}

void emq_pump_role_changed(void) { pump.served_since = vm_Milliseconds(); }

/* Notes that the event loop runs, which it does at least as often as the pump's timer fires. A gap of more than two ticks,
 * on either clock, means that the server was stopped or blocked, or that its wall clock was changed. */
static void watch_clocks(void) {
    int64_t wall = vm_Milliseconds(), steady = emq_steady_us() / 1000, gap = 2 * emq_pump_interval_ms;
    if (gap < LEAST_GAP_MS) gap = LEAST_GAP_MS;
    if (steady - pump.steady > gap || wall - pump.wall > gap || pump.wall - wall > gap) pump.served_since = wall;
    pump.wall = wall;
    pump.steady = steady;
}

/* Whether the selected database is claimed by our wire. The verbs check that too; this avoids even reading a store of
 * another wire. */
static int is_ours(vm_ctx *ctx) {
    vm_key *key = vm_OpenKey(ctx, emq_identity_key, VM_READ | VM_OPEN_UNSEEN);
    int ours = 0;
    if (key && vm_KeyType(key) == VM_TYPE_STRING) {
        size_t n, want_n;
        const char *p = vm_StringDMA(key, &n, VM_READ), *want = vm_StringPtrLen(emq_identity, &want_n);
        ours = n == want_n && !memcmp(p, want, n);
    }
    if (key) vm_CloseKey(key);
    return ours;
}

/* ---- One queue ---- */

/* The names of a queue's keys and the other arguments of the verbs that are sent to it. */
typedef struct {
    vm_string *name[EMQ_NUM_KEYS], *base;
} names;

static vm_string *limit, *two, *three, *max_stalled;

static void make_arguments(void) {
    static long long made_of = -1;
    if (!limit) {
        limit = vm_CreateStringFromLongLong(NULL, ENTRIES_PER_CALL);
        two = vm_CreateStringFromLongLong(NULL, 2);
        three = vm_CreateStringFromLongLong(NULL, 3);
    }
    if (made_of == emq_max_stalled) return;
    if (max_stalled) vm_FreeString(NULL, max_stalled);
    max_stalled = vm_CreateStringFromLongLong(NULL, made_of = emq_max_stalled);
}

/* Whether a sorted set has an entry that is due. */
static int has_due(vm_ctx *ctx, vm_string *name, int *there) {
    vm_key *set = vm_OpenKey(ctx, name, VM_READ | VM_OPEN_UNSEEN);
    vm_string *entry = NULL;
    if (set && vm_KeyType(set) != VM_TYPE_EMPTY) *there = 1;
    if (set && vm_KeyType(set) == VM_TYPE_ZSET) {
        vm_ZsetFirstInScoreRange(set, -INFINITY, (double)(vm_CachedMicroseconds() / 1000), 0, 0);
        entry = vm_ZsetRangeCurrentElement(set, NULL);
    }
    if (set) vm_CloseKey(set);
    if (!entry) return 0;
    vm_FreeString(NULL, entry);
    return 1;
}

/* Whether a queue has a timed pause, which may be over. */
static int has_timed_pause(vm_ctx *ctx, vm_string *name, int *there) {
    vm_key *meta = vm_OpenKey(ctx, name, VM_READ | VM_OPEN_UNSEEN);
    int timed = 0;
    if (meta && vm_KeyType(meta) != VM_TYPE_EMPTY) *there = 1;
    if (meta && vm_KeyType(meta) == VM_TYPE_HASH)
        vm_HashGet(meta, VM_HASH_EXISTS, emq_field[EMQ_FIELD_PAUSED_UNTIL], &timed, NULL);
    if (meta) vm_CloseKey(meta);
    return timed;
}

static void tally(int verb, const emq_walk *walk) {
    *(verb == EMQ_VERB_PROMOTE ? &emq_pump.promoted : &emq_pump.returned) +=
        walk->dispositions[EMQ_DISPOSITION_RETURNED];
    emq_pump.stalled += walk->dispositions[EMQ_DISPOSITION_STALLED];
    emq_pump.buried += walk->dispositions[EMQ_DISPOSITION_BURIED];
    emq_pump.dropped += walk->dispositions[EMQ_DISPOSITION_DROPPED];
    emq_pump.left += walk->dispositions[EMQ_DISPOSITION_LEFT];
    if (walk->lag_ms > emq_pump.lag_ms) emq_pump.lag_ms = walk->lag_ms;
}

/* Runs a verb on a queue until nothing is due, or the time is up: then it returns 0. A call that panics has changed
 * nothing, so after a panic the entries are tried one by one, until the one that causes it is found and skipped: in the
 * next slices too, since the log of a panic may take longer than a slice. */
static int drain(vm_ctx *ctx, emq_queue *q, int verb, vm_string **argv, emq_progress *p, int64_t until) {
    while (p->left < LEFT_PER_TICK) {
        emq_walk walk = {.at = p->at, .slice = p->singly ? 1 : ENTRIES_PER_CALL, .served_since = pump.served_since};
        int ok = emq_run_walk(ctx, argv, verb, &walk);
        /* Other modules' callbacks may have run and flushed the queue. */
        if (q->forgotten || (!ok && !walk.panicked)) return 1;
        int counts = ok || p->singly;
        if (walk.panicked) p->singly = !p->singly;
        if (counts) {
            tally(verb, &walk);
            p->left += walk.dispositions[EMQ_DISPOSITION_LEFT];
            p->at = walk.ended ? start : walk.at;
            if (walk.ended) {
                p->singly = 0;
                return 1;
            }
        }
        if (emq_steady_us() >= until) return 0;
    }
    return 1;
}

/* Promotes and reaps. 0 if the time ran out. */
static int move_jobs(vm_ctx *ctx, emq_queue *q, const names *n, int due, int expired, int64_t until) {
    vm_string *promote[] = {n->base, two, n->name[EMQ_KEY_SCHEDULE], n->name[EMQ_KEY_PENDING], n->base, limit};
    vm_string *reap[] = {
        n->base,     three, n->name[EMQ_KEY_ACTIVE], n->name[EMQ_KEY_PENDING], n->name[EMQ_KEY_DEAD], n->base,
        max_stalled, limit};
    int done = 1;
    /* If one of them runs out of time, the other goes first the next time. */
    for (int i = 0; i < 2 && done && !q->forgotten; i++) {
        int reaps = i ^ q->reap_first;
        if (!(reaps ? expired : due)) continue;
        done =
            drain(ctx, q, reaps ? EMQ_VERB_REAP : EMQ_VERB_PROMOTE, reaps ? reap : promote, &q->progress[reaps], until);
        if (!done) q->reap_first = !reaps;
    }
    return done;
}

/* Does what is due in a queue. 0 if the time ran out. */
static int visit(vm_ctx *ctx, emq_queue *q, int64_t until) {
    emq_pump.visits++;
    if (vm_SelectDb(ctx, q->db) != VM_OK) return 1;
    names n = {0};
    n.name[EMQ_KEY_SCHEDULE] = emq_set_name(q, EMQ_KEY_SCHEDULE);
    n.name[EMQ_KEY_ACTIVE] = emq_set_name(q, EMQ_KEY_ACTIVE);
    int there = 0, meta = 0, timed = 0, done = 1;
    int due = has_due(ctx, n.name[EMQ_KEY_SCHEDULE], &there), expired = has_due(ctx, n.name[EMQ_KEY_ACTIVE], &there);
    if (q->with_meta) {
        n.name[EMQ_KEY_META] = emq_set_name(q, EMQ_KEY_META);
        timed = has_timed_pause(ctx, n.name[EMQ_KEY_META], &meta);
        emq_queues_note_meta(q, meta);
    }
    if (!there && !meta) {
        emq_queues_rest(ctx, q);
    } else if ((due || expired || timed) && is_ours(ctx)) {
        n.base = emq_string(q->base, q->base_len);
        n.name[EMQ_KEY_PENDING] = emq_set_name(q, EMQ_KEY_PENDING);
        n.name[EMQ_KEY_DEAD] = emq_set_name(q, EMQ_KEY_DEAD);
        vm_string *resume[] = {n.base, n.base};
        if (timed) emq_run_walk(ctx, resume, EMQ_VERB_RESUME, &(emq_walk){.slice = 1});
        if (!q->forgotten) done = move_jobs(ctx, q, &n, due, expired, until);
    }
    for (int key = 0; key < EMQ_NUM_KEYS; key++)
        if (n.name[key]) vm_FreeString(NULL, n.name[key]);
    if (n.base) vm_FreeString(NULL, n.base);
    return done;
}

/* ---- Rounds and slices ---- */

static void begin_round(void) {
    int64_t now = emq_steady_us() / 1000;
    int ticks = !pump.tick_ms || now - pump.tick_ms >= emq_pump_interval_ms;
    pump.state = ticks ? TICKING : CATCHING_UP;
    pump.more = 0;
    if (!ticks) return;
    pump.tick_ms = now;
    emq_pump.ticks++;
    emq_pump.last_lag_ms = emq_pump.lag_ms;
    emq_pump.lag_ms = 0;
}

/* Continues or begins a round, until the time is up or nothing is left to do. */
static void slice(vm_ctx *ctx) {
    pump.slice_us = emq_steady_us();
    int64_t until = pump.slice_us + emq_pump_budget_us;
    if (pump.state == RESTING) begin_round();
    while (emq_steady_us() < until) {
        emq_queue *q = emq_queues_next();
        if (q) {
            if (pump.state == TICKING)
                q->progress[0].left = q->progress[1].left = 0;
            else if (!q->more)
                continue;
            q->more = !visit(ctx, q, until);
            pump.more |= q->more;
            continue;
        }
        pump.state = RESTING;
        if (!pump.more) break;
        begin_round();
    }
    emq_pump.slices++;
    emq_pump.time_us += (uint64_t)(emq_steady_us() - pump.slice_us);
}

static void on_timer(vm_ctx *ctx, void *data) {
    (void)data;
    pump.armed = 0;
    if (emq_is_child) return;
    watch_pause();
    watch_clocks();
    if (!emq_pump_interval_ms || !emq_may_write(ctx)) {
        pump.away = 1;
        emq_pump.skipped++;
        return;
    }
    if (pump.away) pump.served_since = pump.wall;
    pump.away = 0;
    make_arguments();
    slice(ctx);
}

static void arm(vm_ctx *ctx, int64_t ms) {
    if (ms < 1) ms = 1;
    pump.timer = vm_CreateTimer(ctx, ms, on_timer, NULL);
    pump.due_ms = emq_steady_us() / 1000 + ms;
    pump.armed = 1;
}

void emq_pump_stop(vm_ctx *ctx) {
    if (pump.armed) vm_StopTimer(ctx, pump.timer, NULL);
    pump.armed = 0;
}

/* In how many ms the timer should fire next. The rest after a slice is computed here, at the turn of the event loop,
 * and not in the timer, because the slice's writes are propagated in between, which also takes time. */
static int64_t next_in_ms(void) {
    int64_t now_us = emq_steady_us();
    if (pump.away) return emq_pump_interval_ms;
    if (pump.state != RESTING || pump.more) return (now_us - pump.slice_us) / 1000 + 1;
    return pump.tick_ms ? pump.tick_ms + emq_pump_interval_ms - now_us / 1000 : 1;
}

void emq_pump_turn(vm_ctx *ctx) {
    watch_pause();
    watch_clocks();
    if (emq_config_changed) {
        emq_config_changed = 0;
        pump.tick_ms = 0;
        if (!pump.armed || pump.due_ms > pump.steady + 1) { /* a stream of changes must not postpone it for ever */
            emq_pump_stop(ctx);
            pump.at_once = 1;
        }
    }
    /* The server's timers follow the wall clock: if that is set back by an hour, the timer is an hour late. */
    if (pump.armed && pump.steady > pump.due_ms + LATE_MS) emq_pump_stop(ctx);
    if (pump.armed) return;
    if (!emq_pump_interval_ms) {
        pump.away = 1;
        return;
    }
    arm(ctx, pump.at_once ? 1 : next_in_ms());
    pump.at_once = 0;
}
