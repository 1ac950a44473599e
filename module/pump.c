/* The pump: what makes time pass in the server. A timer promotes the jobs that are due and takes expired leases back, in
 * every queue of every database, by sending EMQ.PROMOTE and EMQ.REAP to itself: what becomes of a job is decided where
 * it always is, in package commands.
 *
 * A beat, every pump-interval-ms, is a round over all queues that are known (queues.c). A round is cut into slices of
 * pump-budget-us, each followed by a rest at least as long. While a queue has more work than its slice could do, rounds
 * over such queues follow one another. */
#include "emq.h"

#include <math.h>
#include <string.h>

/* The verbs, as package commands numbers them. */
enum { PROMOTE = EMQ_VERB_PROMOTE, REAP = EMQ_VERB_REAP };

enum {
    /* Entries that one call looks at; the time is checked between two calls. */
    ENTRIES_PER_CALL = 32,
    /* Entries of a set that may turn out to be a lane's in one beat: they must not eat the time of the others. */
    LEFT_PER_BEAT = 4096,
    /* An absence of the server no longer than this is none, however short the interval. */
    LEAST_GAP_MS = 100,
    /* A timer may be late by this. */
    LATE_MS = 20,
};

static const emq_position start = {-INFINITY, 0};

emq_pump_stats emq_pump;

/* The server's clock, by which deadlines are told. */
static int64_t wall_ms(void) { return vm_Milliseconds(); }

/* ---- Whether the server serves ---- */

/* Leases that ended up to this instant, in Unix ms, do not count against their jobs: the server did not serve when they
 * ended, so their holders could not keep them. */
static int64_t served_since;

static int away = 1; /* the pump had no turn yet, or could not write in its last one */
static int paused;

static struct {
    int64_t wall, steady; /* when the event loop was last seen at work; ms */
} seen;

/* CLIENT PAUSE and failovers may come and go between two beats, so this is asked at each turn of the event loop. */
static void watch_pause(void) {
    int now = vm_AvoidReplicaTraffic() != 0;
    if (paused && !now) served_since = wall_ms();
    paused = now;
}

void emq_pump_role_changed(void) { served_since = wall_ms(); }

/* Notes that the event loop is at work, which it is at least as often as the pump's timer comes. If it was not for two
 * beats, or the clock says so, then the server was stopped, busy with one thing, or its clock was moved. */
static void watch_clocks(void) {
    int64_t wall = wall_ms(), steady = emq_steady_us() / 1000, gap = 2 * emq_pump_interval_ms;
    if (gap < LEAST_GAP_MS) gap = LEAST_GAP_MS;
    if (steady - seen.steady > gap || wall - seen.wall > gap || seen.wall - wall > gap) served_since = wall;
    seen.wall = wall;
    seen.steady = steady;
}

/* Whether another system is bringing data, and the server was told so: what is not there yet may still come, as for the
 * server itself, which then lets no key expire. The value is asked for, since the server's event tells the name alone. */
static int asked_importing;

static int is_importing(vm_ctx *ctx) {
    static int importing;
    if (asked_importing) return importing;
    importing = 0;
    vm_reply *reply = vm_Call(ctx, "CONFIG", "cc", "GET", "import-mode");
    if (reply && vm_CallReplyType(reply) == VM_REPLY_ARRAY) {
        size_t n = 0;
        vm_reply *value = vm_CallReplyArrayElement(reply, 1); /* none before Valkey 8.1 */
        const char *p = value ? vm_CallReplyStringPtr(value, &n) : NULL;
        importing = p && n == 3 && !memcmp(p, "yes", n);
    }
    if (reply) vm_FreeCallReply(reply);
    asked_importing = 1;
    return importing;
}

static void on_config(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event, (void)sub;
    const vm_config_change *change = data;
    for (uint32_t i = 0; i < change->count; i++)
        if (!strcmp(change->names[i], "import-mode")) asked_importing = 0;
}

/* Whether a client's write would be taken now, and the data are whole. A dry run finds what only the way of a command checks: too few replicas,
 * a disk that fails. */
int emq_may_write(vm_ctx *ctx) {
    if (emq_is_replica || paused || vm_GetContextFlags(ctx) & (VM_CTX_LOADING | VM_CTX_ASYNC_LOADING)) return 0;
    if (is_importing(ctx)) return 0;
    vm_reply *reply = vm_Call(ctx, "DEL", "SDEs", emq_identity_key);
    int refused = reply && vm_CallReplyType(reply) == VM_REPLY_ERROR;
    if (reply) vm_FreeCallReply(reply);
    return !refused;
}

/* Whether the selected database is of our wire. The verbs check that themselves; this spares another's store even the
 * reads. */
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

/* Whether a sorted set has an entry that is due. *there is set if there is a key of that name, whatever it holds. */
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

static void tally(int verb, const emq_walk *walk) {
    *(verb == PROMOTE ? &emq_pump.promoted : &emq_pump.returned) += walk->dispositions[EMQ_DISPOSITION_RETURNED];
    emq_pump.stalled += walk->dispositions[EMQ_DISPOSITION_STALLED];
    emq_pump.buried += walk->dispositions[EMQ_DISPOSITION_BURIED];
    emq_pump.dropped += walk->dispositions[EMQ_DISPOSITION_DROPPED];
    emq_pump.left += walk->dispositions[EMQ_DISPOSITION_LEFT];
    if (walk->lag_ms > emq_pump.lag_ms) emq_pump.lag_ms = walk->lag_ms;
}

/* Sends a verb to a queue until nothing is due or the time is up. 0 if it is up. A call that panics has done nothing; so
 * the entries are tried one by one, until the one that is to blame is found and left. */
static int drain(vm_ctx *ctx, emq_queue *q, int verb, vm_string **argv, emq_progress *p, int64_t until) {
    for (int32_t entries = ENTRIES_PER_CALL; p->left < LEFT_PER_BEAT;) {
        emq_walk walk = {.at = p->at, .slice = entries, .served_since = served_since};
        int ok = emq_run_walk(ctx, argv, verb, &walk);
        /* Other modules' callbacks ran in between, and may have flushed the queue. */
        if (q->forgotten || (!ok && !walk.panicked)) return 1;
        if (ok || entries == 1) {
            tally(verb, &walk);
            p->left += walk.dispositions[EMQ_DISPOSITION_LEFT];
            p->at = walk.ended ? start : walk.at;
            if (walk.ended) return 1;
        }
        if (walk.panicked) entries = entries == 1 ? ENTRIES_PER_CALL : 1;
        if (emq_steady_us() >= until) return 0;
    }
    return 1;
}

/* Does what is due in a queue. 0 if the time was up before. */
static int visit(vm_ctx *ctx, emq_queue *q, int64_t until) {
    if (vm_SelectDb(ctx, q->db) != VM_OK) return 1;
    int there = 0, done = 1;
    vm_string *schedule = emq_set_name(q, EMQ_KEY_SCHEDULE), *active = emq_set_name(q, EMQ_KEY_ACTIVE);
    int due = has_due(ctx, schedule, &there), expired = has_due(ctx, active, &there);
    if (!there) {
        emq_queues_forget(q);
    } else if ((due || expired) && is_ours(ctx)) {
        vm_string *pending = emq_set_name(q, EMQ_KEY_PENDING), *dead = emq_set_name(q, EMQ_KEY_DEAD);
        vm_string *base = emq_string(q->base, q->base_len);
        vm_string *promote[] = {base, two, schedule, pending, base, limit};
        vm_string *reap[] = {base, three, active, pending, dead, base, max_stalled, limit};
        /* The one that did not come to its end makes way for the other the next time. */
        for (int i = 0; i < 2 && done && !q->forgotten; i++) {
            int reaps = i ^ q->reap_first;
            if (!(reaps ? expired : due)) continue;
            done = drain(ctx, q, reaps ? REAP : PROMOTE, reaps ? reap : promote, &q->progress[reaps], until);
            if (!done) q->reap_first = !reaps;
        }
        vm_FreeString(NULL, pending);
        vm_FreeString(NULL, dead);
        vm_FreeString(NULL, base);
    }
    vm_FreeString(NULL, schedule);
    vm_FreeString(NULL, active);
    return done;
}

/* ---- Rounds and slices ---- */

static uint64_t timer;
static int armed;          /* the timer runs */
static int fresh = 1;      /* it is to come at once: after a load, or when a setting changed */
static int64_t due_ms;     /* when it is to come, on the steady clock */
static int in_round, beat; /* in a round, which is one over all queues */
static int more;           /* a queue that the round met has more work */
static int64_t beat_ms;    /* when the last beat began, on the steady clock; 0: the next is due */
static int64_t slice_us;   /* when the last slice began */

static void begin_round(void) {
    int64_t now = emq_steady_us() / 1000;
    in_round = 1;
    more = 0;
    beat = !beat_ms || now - beat_ms >= emq_pump_interval_ms;
    if (!beat) return;
    beat_ms = now;
    emq_pump.beats++;
    emq_pump.last_lag_ms = emq_pump.lag_ms;
    emq_pump.lag_ms = 0;
}

/* Goes on with the round, or begins one, until the time is up or nothing is left to do. */
static void slice(vm_ctx *ctx) {
    slice_us = emq_steady_us();
    int64_t until = slice_us + emq_pump_budget_us;
    if (!in_round) begin_round();
    while (emq_steady_us() < until) {
        emq_queue *q = emq_queues_next();
        if (q) {
            if (beat)
                q->progress[0].left = q->progress[1].left = 0;
            else if (!q->more)
                continue;
            q->more = !visit(ctx, q, until);
            more |= q->more;
            continue;
        }
        in_round = 0;
        if (!more) break;
        begin_round();
    }
    emq_pump.slices++;
    emq_pump.time_us += (uint64_t)(emq_steady_us() - slice_us);
}

static void on_timer(vm_ctx *ctx, void *data) {
    (void)data;
    armed = 0;
    if (emq_is_child) return;
    watch_pause();
    watch_clocks();
    if (!emq_pump_interval_ms || !emq_may_write(ctx)) {
        away = 1;
        emq_pump.stood_down++;
        return;
    }
    if (away) served_since = seen.wall;
    away = 0;
    make_arguments();
    slice(ctx);
}

static void arm(vm_ctx *ctx, int64_t ms) {
    if (ms < 1) ms = 1;
    timer = vm_CreateTimer(ctx, ms, on_timer, NULL);
    due_ms = emq_steady_us() / 1000 + ms;
    armed = 1;
}

static void disarm(vm_ctx *ctx) {
    if (armed) vm_StopTimer(ctx, timer, NULL);
    armed = 0;
}

void emq_pump_stop(vm_ctx *ctx) { disarm(ctx); }

/* The rest after a slice is set here and not in the timer, because what a slice did is propagated in between. */
void emq_pump_turn(vm_ctx *ctx) {
    watch_pause();
    watch_clocks();
    if (emq_config_changed) {
        emq_config_changed = 0;
        beat_ms = 0;
        if (!armed || due_ms > seen.steady + 1) { /* a stream of changes must not put it off for ever */
            disarm(ctx);
            fresh = 1;
        }
    }
    /* The server's timers go by the wall clock: set back, it would stop the pump for as long. */
    if (armed && seen.steady > due_ms + LATE_MS) disarm(ctx);
    if (armed) return;
    if (!emq_pump_interval_ms) {
        away = 1;
    } else if (fresh) {
        fresh = 0;
        arm(ctx, 1);
    } else if (away) {
        arm(ctx, emq_pump_interval_ms);
    } else if (in_round || more) {
        arm(ctx, (emq_steady_us() - slice_us) / 1000 + 1);
    } else {
        arm(ctx, beat_ms ? beat_ms + emq_pump_interval_ms - emq_steady_us() / 1000 : 1);
    }
}

int emq_pump_subscribe(vm_ctx *ctx) {
    asked_importing = 0;
    return vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_CONFIG, VM_EVENT_VERSION}, on_config) == VM_OK;
}
