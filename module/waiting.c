/* Clients that wait for jobs: EMQ.BCLAIM.
 *
 * A waiting client has a place in the line of each of its queues. The server blocks it on a key name of its own, which
 * never exists: so it is woken alone, by a signal on that name, at the same cost however many wait. If clients blocked
 * on pending itself, the server would call every one of the queue's waiters for each job.
 *
 * When pending may have got an entry, the first client in line is woken, once. The server calls on_ready for it at the
 * end of the command, transaction, script or timer, before it reads any other client's command. on_ready claims for the
 * client. When a client leaves its lines, whether it got a job, timed out or disconnected, the next in line is woken if
 * there are entries. */
#include "emq.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    /* How often, in ms, all lines are checked for entries of which no event told. */
    SWEEP_EVERY_MS = 500,
    /* A timer that is later than this is set again. */
    LATE_MS = 20,
    /* Broken entries that one call or wake may drop, in all queues together. */
    MOST_DROPPED = 100,
    /* Positions of the arguments of EMQ.BCLAIM. */
    LEASE = 1,
    TIMEOUT = 2,
    FIRST_BASE = 3,
};

static int some_again;       /* some line has `again` set */
static int64_t next_opening; /* when the next gate opens by itself, in Unix ms; 0: none does */
static uint64_t names_made;

/* For a line that may have entries which cannot be claimed now. */
static void wake_again(emq_line *l) { some_again = l->again = 1; }

/* ---- Claiming ---- */

/* Claims from one queue. */
static int claim(vm_ctx *ctx, vm_ctx *to, vm_string **argv, vm_string *base, emq_walk *walk) {
    static vm_string *claim_name, *two;
    if (!two) {
        claim_name = emq_string(emq_verbs[EMQ_VERB_CLAIM].name, strlen(emq_verbs[EMQ_VERB_CLAIM].name));
        two = vm_CreateStringFromLongLong(NULL, 2);
    }
    size_t n;
    const char *p = vm_StringPtrLen(base, &n);
    const emq_bytes no_id = {"", 0};
    vm_string *names[3];
    static const uint8_t keys[] = {EMQ_KEY_PENDING, EMQ_KEY_ACTIVE, EMQ_KEY_ROW};
    for (int i = 0; i < 3; i++) names[i] = emq_make_name(p, n, keys[i], no_id);
    vm_string *call[] = {claim_name, two, names[0], names[1], names[2], argv[LEASE]};
    int outcome = emq_run_claim(ctx, call, walk, to, base);
    for (int i = 0; i < 3; i++) vm_FreeString(NULL, names[i]);
    return outcome;
}

static int equal(const vm_string *a, const vm_string *b) {
    size_t n, other_n;
    const char *p = vm_StringPtrLen(a, &n), *other = vm_StringPtrLen(b, &other_n);
    return n == other_n && !memcmp(p, other, n);
}

/* Replies with the same NOPERM text as the server. A user's name may have any length. */
static void refuse_rights(vm_ctx *to, const vm_string *user, const vm_string *verb, int reason) {
    if (reason == VM_ACL_LOG_KEY) {
        vm_ReplyWithError(to, "NOPERM No permissions to access a key");
        return;
    }
    static const char format[] = "NOPERM User %.*s has no permissions to run the '%.*s' command";
    size_t user_len, verb_len;
    const char *user_name = vm_StringPtrLen(user, &user_len), *verb_name = vm_StringPtrLen(verb, &verb_len);
    size_t room = sizeof(format) + user_len + verb_len;
    char *text = vm_Alloc(room);
    snprintf(text, room, format, (int)user_len, user_name, (int)verb_len, verb_name);
    vm_ReplyWithError(to, text);
    vm_Free(text);
}

/* Whether a client still has the rights with which it began to wait. */
enum { RIGHTS_KEPT, RIGHTS_LOST, USER_GONE };

/* Refuses a client whose user may no longer run the call, as the server would. If the user was deleted or logged out, the
 * client has another user by now, and the server is about to close it. */
static int look_at_rights(vm_ctx *ctx, vm_ctx *to, const emq_waiter *w, vm_string **argv, int argc) {
    vm_string *name = vm_GetClientUserNameById(ctx, w->client);
    int same = name && w->user ? equal(name, w->user) : name == w->user;
    if (name) vm_FreeString(NULL, name);
    if (!same) return USER_GONE;
    if (!w->user) return RIGHTS_KEPT;
    vm_user *user = vm_GetModuleUserFromUserName(w->user);
    if (!user) return USER_GONE;
    int reason = 0;
    vm_string *verb = emq_string(emq_verbs[EMQ_VERB_BCLAIM].name, strlen(emq_verbs[EMQ_VERB_BCLAIM].name)),
              *object = verb;
    if (vm_ACLCheckCommandPermissions(user, argv, argc) != VM_OK) {
        int access = (int)emq_verbs[EMQ_VERB_BCLAIM].access[FIRST_BASE] & ~(EMQ_ACCESS_RO | EMQ_ACCESS_RW);
        reason = VM_ACL_LOG_COMMAND;
        for (int i = FIRST_BASE; i < argc && reason == VM_ACL_LOG_COMMAND; i++) {
            if (vm_ACLCheckKeyPermissions(user, argv[i], access) == VM_OK) continue;
            reason = VM_ACL_LOG_KEY;
            object = argv[i];
        }
    }
    vm_FreeModuleUser(user);
    if (reason) {
        vm_ACLAddLogEntryByUserName(ctx, w->user, object, reason);
        refuse_rights(to, w->user, verb, reason);
    }
    vm_FreeString(NULL, verb);
    return reason ? RIGHTS_LOST : RIGHTS_KEPT;
}

static emq_count *counts(void) { return &emq_counts[EMQ_VERB_BCLAIM]; }

/* Counts the outcome of a claim. 1 if it has replied to the client. */
static int is_answer(int outcome) {
    if (outcome == EMQ_GRANTED) counts()->results[EMQ_RESULT_CLAIMED]++;
    if (outcome == EMQ_FOREIGN) counts()->results[EMQ_RESULT_FENCE]++;
    if (outcome == EMQ_PANICKED) counts()->results[emq_text_result[EMQ_HOST_PANICKED]]++;
    return outcome != EMQ_NOTHING;
}

/* Claims a job for a client that was woken. 1 if the client has its reply and waits no more. */
static int hand_over(vm_ctx *ctx, vm_ctx *to, emq_waiter *w, vm_string **argv, int argc) {
    /* Writing while writes are paused would abort the server. */
    if (vm_AvoidReplicaTraffic()) {
        for (size_t i = 0; i < w->num_places; i++) wake_again(w->places[i].in);
        return 0;
    }
    switch (look_at_rights(ctx, to, w, argv, argc)) {
    case RIGHTS_LOST: return 1;
    case USER_GONE: emq_leave_lines(w); return 0;
    }
    emq_walk walk = {.at = {-INFINITY, 0}};
    for (size_t i = 0; i < w->num_places; i++) {
        emq_place *p = &w->places[i];
        if (p->in->first != p) continue;
        vm_string *base = emq_string(p->in->base, p->in->base_len);
        int outcome = claim(ctx, to, argv, base, &walk);
        vm_FreeString(NULL, base);
        if (is_answer(outcome)) return 1;
        p->in->gated = walk.gated;
        p->in->opens = walk.opens;
        if (walk.opens && (!next_opening || walk.opens < next_opening)) next_opening = walk.opens;
        if (walk.step < MOST_DROPPED) continue;
        for (; i < w->num_places; i++) wake_again(w->places[i].in);
        break;
    }
    counts()->results[EMQ_RESULT_WOKEN_IDLE]++;
    return 0;
}

/* ---- Callbacks of the server ---- */

/* The reply goes to a thread-safe context of the blocked client, so that it is dropped if the client has disconnected
 * or got another reply before it is sent. */
static int on_ready(vm_ctx *ctx, vm_string **argv, int argc) {
    emq_waiter *w = vm_GetBlockedClientPrivateData(ctx);
    if (w->gone) return VM_ERR;
    vm_ctx *to = vm_GetThreadSafeContext(w->handle);
    int answered = hand_over(ctx, to, w, argv, argc);
    vm_FreeThreadSafeContext(to);
    if (!answered) return VM_ERR;
    emq_leave_lines(w);
    return VM_OK;
}

static int on_timeout(vm_ctx *ctx, vm_string **argv, int argc) {
    (void)argv, (void)argc;
    emq_leave_lines(vm_GetBlockedClientPrivateData(ctx));
    counts()->results[EMQ_RESULT_TIMED_OUT]++;
    return vm_ReplyWithEmptyArray(ctx);
}

/* The client has disconnected, or got another reply from the server. */
static void on_disconnect(vm_ctx *ctx, vm_blocked *handle) {
    (void)handle;
    emq_leave_lines(vm_GetBlockedClientPrivateData(ctx));
}

static void free_waiter(vm_ctx *ctx, void *data) {
    (void)ctx;
    emq_waiter *w = data;
    vm_FreeString(NULL, w->name);
    if (w->user) vm_FreeString(NULL, w->user);
    vm_Free(w);
}

/* ---- Beginning to wait ---- */

static int is_named_before(vm_string **argv, int i) {
    size_t n, other_n;
    const char *base = vm_StringPtrLen(argv[i], &n);
    for (int k = FIRST_BASE; k < i; k++) {
        const char *other = vm_StringPtrLen(argv[k], &other_n);
        if (other_n == n && !memcmp(other, base, n)) return 1;
    }
    return 0;
}

/* `again` says that there may be entries which were not looked at, `gated` that some queue's gate was shut. As it is not
 * known which queue's, all lines are marked, until the first in line is woken and finds out. */
static void begin_to_wait(vm_ctx *ctx, vm_string **argv, int argc, int again, int gated) {
    emq_waiter *w = vm_Alloc(sizeof(*w) + sizeof(w->places[0]) * (size_t)(argc - FIRST_BASE));
    char name[64] = "";
    int n = snprintf(name + 1, sizeof(name) - 1, "emq:waiting:%llu", (unsigned long long)++names_made);
    *w = (emq_waiter){.name = vm_CreateString(NULL, name, (size_t)n + 1), .client = vm_GetClientId(ctx)};
    w->user = vm_GetClientUserNameById(ctx, w->client);
    int db = vm_GetSelectedDb(ctx);
    for (int i = FIRST_BASE; i < argc; i++) {
        if (is_named_before(argv, i)) continue;
        emq_enter_line(ctx, w, db, argv[i]);
        emq_line *l = w->places[w->num_places - 1].in;
        if (again || gated) wake_again(l);
        l->gated |= gated;
    }
    size_t digits;
    const char *text = vm_StringPtrLen(argv[TIMEOUT], &digits);
    long long timeout = 0;
    for (size_t i = 0; i < digits; i++) timeout = timeout * 10 + (text[i] - '0');
    w->handle = vm_BlockClientOnKeysWithFlags(ctx, on_ready, on_timeout, free_waiter, timeout, &w->name, 1, w,
                                              VM_BLOCK_UNBLOCK_DELETED);
    vm_SetDisconnectCallback(w->handle, on_disconnect);
}

int emq_wait(vm_ctx *ctx, vm_string **argv, int argc) {
    counts()->calls++;
    emq_walk walk = {.at = {-INFINITY, 0}};
    int gated = 0;
    for (int i = FIRST_BASE; i < argc && walk.step < MOST_DROPPED; i++) {
        int outcome = claim(ctx, ctx, argv, argv[i], &walk);
        if (is_answer(outcome)) return VM_OK;
        gated |= walk.gated;
    }
    if (vm_GetContextFlags(ctx) & (VM_CTX_MULTI | VM_CTX_SCRIPT | VM_CTX_DENY_BLOCKING)) {
        counts()->results[EMQ_RESULT_EMPTY]++;
        return vm_ReplyWithEmptyArray(ctx);
    }
    begin_to_wait(ctx, argv, argc, walk.step >= MOST_DROPPED, gated);
    return VM_OK;
}

/* ---- Wakes that no event triggers ---- */

static uint64_t timer;
static int armed;
static int64_t due_ms; /* when the timer should fire, on the steady clock */
static int64_t swept_ms;

/* Wakes lines whose wake was postponed, lines whose gate opens, and every SWEEP_EVERY_MS all lines. The server handles a
 * signal from a timer before the event loop sleeps. */
static void on_timer(vm_ctx *ctx, void *data) {
    (void)data;
    armed = 0;
    if (emq_is_child || !emq_waiting_clients()) return;
    int sweep = emq_coarse_ms() - swept_ms >= SWEEP_EVERY_MS;
    if (sweep) {
        swept_ms = emq_coarse_ms(); /* set even if it may not write: that is checked once a sweep, not at every turn */
        sweep = emq_may_write(ctx);
    }
    if (vm_AvoidReplicaTraffic()) return;
    int64_t now = vm_Milliseconds();
    some_again = 0;
    next_opening = 0;
    for (emq_line *l = emq_newest_line(); l; l = l->after) {
        int opens = l->opens && l->opens <= now;
        if (l->opens && !opens && (!next_opening || l->opens < next_opening)) next_opening = l->opens;
        if (!sweep && !l->again && !opens) continue;
        l->again = 0;
        if (opens) l->opens = 0;
        emq_wake_if_entries(l);
    }
}

/* Makes the timer fire in that many ms, unless it will fire earlier. */
static void arm(vm_ctx *ctx, int64_t ms) {
    if (ms < 1) ms = 1;
    int64_t at = emq_steady_us() / 1000 + ms;
    if (armed && due_ms <= at) return;
    if (armed) vm_StopTimer(ctx, timer, NULL);
    timer = vm_CreateTimer(ctx, ms, on_timer, NULL);
    due_ms = at;
    armed = 1;
}

void emq_waiting_stop(vm_ctx *ctx) {
    if (armed) vm_StopTimer(ctx, timer, NULL);
    armed = 0;
}

void emq_waiting_turn(vm_ctx *ctx) {
    if (!emq_waiting_clients()) return;
    /* The server's timers follow the wall clock: if that is set back by an hour, the timer is an hour late. */
    if (armed && emq_steady_us() / 1000 > due_ms + LATE_MS) emq_waiting_stop(ctx);
    int paused = vm_AvoidReplicaTraffic();
    if (emq_coarse_ms() - swept_ms >= SWEEP_EVERY_MS || (some_again && !paused)) arm(ctx, 1);
    if (next_opening && !paused) arm(ctx, next_opening - vm_Milliseconds());
}
