/* What was loaded, counters, clocks, and yielding to Go's scheduler. */
#include "emq.h"

#include <string.h>
#include <time.h>

#include "_cgo_export.h"

vm_string *emq_field[EMQ_NUM_FIELDS];
vm_string *emq_const[EMQ_NUM_CONSTS];
vm_string *emq_word[EMQ_NUM_WORDS];
uint8_t emq_part[EMQ_NUM_KEYS];
const char *emq_text[EMQ_NUM_HOST_TEXTS];
uint8_t emq_text_result[EMQ_NUM_HOST_TEXTS];
int8_t emq_status[EMQ_NUM_RESULTS];
vm_string *emq_identity_key, *emq_identity, *emq_run_id;
emq_bytes emq_epoch;
int emq_is_replica;
int emq_is_child;
int emq_fields_expire;
uint64_t emq_panics;
char emq_panic_text[EMQ_MAX_PANIC];
emq_count emq_counts[EMQ_NUM_VERBS];
emq_count_names emq_counted[EMQ_NUM_VERBS];
const char *emq_about[EMQ_NUM_ABOUT][2];
uint64_t emq_identity_claims;

vm_string *emq_string(const char *s, size_t n) { return vm_CreateString(NULL, s, n); }

void emq_log_panic(vm_ctx *ctx) {
    emq_panics++;
    for (char *line = strtok(emq_panic_text, "\n"); line; line = strtok(NULL, "\n"))
        vm_Log(ctx, "warning", "panic: %s", line);
}

int64_t emq_coarse_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int64_t emq_steady_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- The Go scheduler ----
 *
 * A thread of the host that calls Go again and again never passes through Go's scheduler, so after 10 ms the runtime's
 * monitor takes the processor from it and wakes another thread at every tick. Yielding to the scheduler avoids that,
 * but costs two thread switches. So it is done after the replies have been written, before the event loop sleeps, and
 * no more often than needed. Long pipelines keep the loop from sleeping, so the clock is also checked every LOOK_CALLS
 * calls. `make bench ARGS='-axis yield'` shows the effect: at 4 to 9 ms Go's threads sleep 500 times a second, without
 * it 2,600. */
static int64_t yield_us = 8000;
static uint64_t calls_since_yield;
static int64_t last_yield_us;
enum { LOOK_CALLS = 256 };

static void yield_if_due(void) {
    int64_t now = emq_steady_us();
    if (now - last_yield_us < yield_us) return;
    calls_since_yield = 0;
    last_yield_us = now;
    emqYield();
}

void emq_entered_go(void) {
    if (++calls_since_yield % LOOK_CALLS == 0) yield_if_due();
}

void emq_yield_turn(void) {
    if (calls_since_yield) yield_if_due();
}

#ifdef EMQ_DEBUG
void emq_set_yield(int64_t us) { yield_us = us; }
#endif
