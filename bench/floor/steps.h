/* The steps between the floor and the verbs; a part of floor.c.
 *
 * With READS, a verb reads before its first write what the contract has it look at: the identity, the types of all the
 * keys of its plan (commands/table.go), and the row's fields in one HashGet. Nothing is decided: what is not as the
 * benchmark's jobs have it ends the process.
 *
 * With CROSSING, it then calls into Go, where nothing is done either (crossing.go). */

static void expect(int so) {
    if (!so) __builtin_trap();
}

static void expect_type(vm_key *key, int type) {
    int is = vm_KeyType(key);
    expect(is == type || is == VM_TYPE_EMPTY);
}

static void expect_identity(vm_ctx *ctx) {
    static const char wire[] = "echomq:6.0.0";
    size_t n = 0;
    vm_key *key = vm_OpenKey(ctx, identity, VM_READ | VM_OPEN_NOSTATS | VM_OPEN_NONOTIFY | VM_OPEN_NOEXPIRE);
    expect(vm_KeyType(key) == VM_TYPE_STRING);
    const char *p = vm_StringDMA(key, &n, VM_READ);
    expect(n == sizeof(wire) - 1 && !memcmp(p, wire, n));
    vm_CloseKey(key);
}

/* A set that the verb does not write. */
static void expect_set(vm_ctx *ctx, vm_string *name) {
    vm_key *set = open_key(ctx, name);
    expect_type(set, VM_TYPE_ZSET);
    vm_CloseKey(set);
}

static void expect_pending(vm_ctx *ctx, const vm_string *base) {
    static vm_string *kept;
    expect_set(ctx, derive(&kept, base, "pending"));
}

/* The gates, of which there are none, of the one queue that there is. */
static void expect_no_gate(vm_ctx *ctx, const vm_string *rowprefix) {
    static vm_string *base, *kept;
    size_t n;
    const char *p = vm_StringPtrLen(rowprefix, &n);
    if (!base) base = vm_CreateString(NULL, p, n - strlen("job:"));
    vm_key *meta = open_key(ctx, derive(&kept, base, "meta"));
    expect(vm_KeyType(meta) == VM_TYPE_EMPTY);
    vm_CloseKey(meta);
}

/* The row of a job to be claimed. */
static void expect_waiting(vm_key *row, vm_string **tries, vm_string **body) {
    vm_string *was = NULL;
    expect(vm_KeyType(row) == VM_TYPE_HASH);
    vm_HashGet(row, VM_HASH_NONE, state, &was, attempts, tries, payload, body, NULL);
    expect(was && *tries && *body);
    vm_FreeString(NULL, was);
}

/* The row of a job to be settled, its failures as well if they are asked for: a NULL field ends the list. */
static void expect_held(vm_key *row, vm_string **failed) {
    vm_string *was = NULL, *tries = NULL, *lane = NULL, *flow = NULL;
    expect(vm_KeyType(row) == VM_TYPE_HASH);
    vm_HashGet(row, VM_HASH_NONE, state, &was, attempts, &tries, group, &lane, parent, &flow, failed ? failures : NULL,
               failed, NULL);
    expect(was && tries && !lane && !flow);
    vm_FreeString(NULL, was);
    vm_FreeString(NULL, tries);
}

#ifndef CROSSING
static void enter_go(void) {}
#else
#include <time.h>

#include "_cgo_export.h"

/* Go builds this folder alone. */
#include "../../module/abi.c"

/* The Go scheduler is let in as module/onload.c lets it in, and for its reasons. */
enum { YIELD_US = 8000, LOOK_CALLS = 256 };

static uint64_t calls_since_yield;
static int64_t last_yield_us;

static void yield_if_due(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int64_t now_us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
    if (now_us - last_yield_us < YIELD_US) return;
    calls_since_yield = 0;
    last_yield_us = now_us;
    crossingYield();
}

static void on_event_loop(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event, (void)data;
    if (sub == VM_EVENTLOOP_BEFORE_SLEEP && calls_since_yield) yield_if_due();
}

static void enter_go(void) {
    if (++calls_since_yield % LOOK_CALLS == 0) yield_if_due();
    expect(crossingDecide(0, NULL, NULL));
}

static int start_go(vm_ctx *ctx) {
    return crossingStart() &&
           vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_EVENTLOOP, VM_EVENT_VERSION}, on_event_loop) == VM_OK;
}
#endif
