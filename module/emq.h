/* What the files of module/ share: the data of one command, and each file's entry points, in the order in which they may
 * use one another: each file uses those above it alone (docs/architecture.md).
 *
 * A command passes through four steps, all on the main thread:
 *   read.c      reads what the verb's plan names into an emq_call,
 *   Go          decides (emqDecide, the one crossing) and appends to the log of an emq_outcome,
 *   effects.c   applies, propagates and announces the effects in the log,
 *   reply.c     replies. */
#ifndef EMQ_H
#define EMQ_H

#include "abi.h"
#include "mirror.h"

#pragma GCC visibility push(hidden)

/* The path of a command through the server is longer than the processor's instruction cache, so each line of it that a
 * command does not need costs time. Code that seldom runs is kept apart and not inlined, as is what only lists and long
 * walks need, and what follows a condition that seldom holds is put out of the way. Single jobs go straight through. */
#define EMQ_COLD __attribute__((cold, noinline))
#define EMQ_APART __attribute__((noinline))
#define EMQ_RARELY(condition) __builtin_expect(!!(condition), 0)
#define EMQ_MOSTLY(condition) __builtin_expect(!!(condition), 1)

/* A verb as C needs it, filled in from the command table at load. */
typedef struct {
    const char *name;
    int number;
    int num_args;    /* of those outside a list, the verb's name included */
    int least;       /* number of arguments, at least; at most num_args where there is no list */
    int list_at;     /* which argument a list begins with, or 0 */
    int list_len;    /* the number of arguments of one job of the list */
    int base_at;     /* which argument is the base, or 0 */
    int payload_at;  /* which argument is the payload, or 0 */
    int numkeys;     /* 0: it has no such argument */
    int id_at;       /* which argument is the id, or 0 */
    int count_at;    /* which argument is the count of a scan, or 0 */
    int cut_at;      /* which argument the base is cut off: the base itself, or the first declared set */
    const char *cut; /* what follows the base there */
    size_t cut_len;
    uint8_t view[EMQ_MAX_ARGS];   /* the arguments that a decision may look at, of a list those of one job; ends in 0 */
    uint8_t arg_of[EMQ_NUM_KEYS]; /* which argument names a key, or 0 */
    int mode, identity_mode;      /* in which keys, and the identity, are opened */
    /* The plan. */
    uint32_t keys; /* as bits */
    uint8_t jobs;  /* where the jobs come from */
    uint8_t walk;  /* the set that is walked, or EMQ_NO_KEY */
    uint8_t due;
    uint8_t values[EMQ_MAX_READ];         /* fields of the row, the rest EMQ_NO_FIELD */
    vm_string *value_names[EMQ_MAX_READ]; /* their names, the rest NULL */
    uint8_t payload_value;                /* which of them is the payload, where jobs are handed out */
    uint8_t late[EMQ_MAX_READ]; /* fields that are read when a decision asks for them, the rest EMQ_NO_FIELD */
    uint8_t num_probes, late_probes;
    uint8_t probed; /* there are probes that are not late */
    uint8_t member;
    uint8_t creates; /* the listed jobs are new ones: their rows are not there */
    uint8_t gated;
    uint8_t merged;
    uint8_t readonly;
    uint8_t figures;
    /* What most commands do not look at. */
    emq_probe probes[EMQ_MAX_PROBES];
    vm_string *fields[EMQ_MAX_NUMBERS]; /* the names in a reply of numbers */
    uint64_t access[EMQ_MAX_ARGS];      /* of an argument that is declared as a key; 0: it is not */
} emq_verb;

/* ---- One command in flight ---- */

/* What is kept of a job until the call ends. */
typedef struct {
    vm_string *id;
    vm_string *row_name;
    vm_key *row;                    /* open, or NULL */
    vm_string *value[EMQ_MAX_READ]; /* of the plan's values; owned */
    int32_t next_open;              /* the next item whose row is open, or -1 */
    uint8_t owns_id, owns_row_name; /* they are not the caller's arguments */
} emq_item;

/* Where a walk of a sorted set goes on: after `ties` entries of `score`. {-INFINITY, 0} is the start. */
typedef struct {
    double score;
    uint32_t ties;
} emq_position;

/* A walk of the pump's or for a client that waits: where to go on and how far to go at most, and what came of it. */
typedef struct {
    emq_position at;
    int32_t slice;
    int32_t step; /* entries that were looked at before */
    int64_t served_since;
    int ended;                                   /* the walk came to the last due entry */
    int panicked;                                /* on an entry, which is left, or without one: then it has ended */
    uint32_t dispositions[EMQ_NUM_DISPOSITIONS]; /* of the entries */
    int gated;                                   /* a gate held the claim back, */
    int64_t opens;                               /* and opens by itself then, in Unix ms, or 0 */
    int64_t lag_ms;                              /* how late the latest of the jobs that were moved came */
} emq_walk;

/* What a scan found: the server's reply, and how far it has been read. */
typedef struct {
    vm_reply *reply, *list;
    uint64_t to; /* the server's next cursor */
    size_t at, stride;
} emq_scanned;

typedef struct {
    /* What is used again and again comes first: an instruction that reaches it is shorter. */
    vm_ctx *ctx;
    vm_string **argv;
    const emq_verb *verb;
    emq_item *items; /* of the jobs: those before call.first are decided, then come those of the window */
    int32_t
        *twins; /* of each, the place of the first with the same id, from 1; 0 if it is that itself; NULL: all are */
    const char *base; /* the queue's base, cut off a declared key */
    size_t base_len;
    uint32_t open;     /* keys that are open, as bits; rows are not among them */
    uint32_t owned;    /* keys whose name we made */
    int mode;          /* in which the next key is opened */
    int32_t open_row;  /* the first item whose row is open, or -1 */
    int32_t first_row; /* if the key that was opened when no other was is a row, that item's */
    uint8_t first_key; /* that key, or EMQ_NO_KEY */
    int32_t room;      /* for items and marks */
    int32_t listed;    /* the number of jobs that the caller lists */
    int spilled;       /* there is something that had no room in the frame */
    uint32_t hash;     /* of the base, or 0 before it is needed */
    vm_key *identity;
    emq_walk *walk;    /* of the pump or of a client that waits; NULL in a command */
    emq_scanned *scan; /* NULL where there is none */
    vm_string *name[EMQ_NUM_KEYS];
    vm_key *key[EMQ_NUM_KEYS];
    vm_string *oldest; /* of the figures */
    /* What merged effects did to the sets, as bits: ids were removed, in a first and a second pass, or added; the set went
     * away with them. */
    uint32_t removed[2], added, emptied;
    uint32_t dispositions[EMQ_NUM_DISPOSITIONS];
    emq_item first_item; /* most commands need no more than one of each */
    emq_call call;
    emq_bytes first_args[EMQ_MAX_ARGS];
    emq_outcome out; /* cleared up to the numbers that are given */
    /* From here on nothing is cleared. */
    emq_mark first_mark;
    vm_string *probe[EMQ_MAX_PROBES]; /* of those that call.probed tells of */
    emq_bytes probe_bytes[EMQ_MAX_PROBES];
    emq_figures figures;
    emq_effect first_effects[EMQ_MAX_EFFECTS];
    emq_job jobs[EMQ_WINDOW];
} emq_frame;

/* ---- runtime.c: what was loaded, counters, clocks, and the care of Go's scheduler ---- */

extern vm_string *emq_field[EMQ_NUM_FIELDS];
extern vm_string *emq_const[EMQ_NUM_CONSTS];
extern vm_string *emq_word[EMQ_NUM_WORDS];
extern uint8_t emq_part[EMQ_NUM_KEYS]; /* the words for the parts of the audit */
extern const char *emq_text[EMQ_NUM_HOST_TEXTS];
extern uint8_t emq_text_result[EMQ_NUM_HOST_TEXTS];
extern int8_t emq_status[EMQ_NUM_RESULTS]; /* how a result is answered for one job of a list */
extern vm_string *emq_identity_key, *emq_identity, *emq_run_id;
extern emq_bytes emq_epoch; /* the bytes of emq_run_id */
extern int emq_is_replica;
extern int emq_is_child;
extern int emq_fields_expire; /* the server knows fields with a time to live: Valkey 9.0 */

vm_string *emq_string(const char *s, size_t n);

/* A view of a string's bytes. */
static inline emq_bytes emq_bytes_of(const vm_string *s) {
    size_t n;
    const char *p = vm_StringPtrLen(s, &n);
    return (emq_bytes){p, (intptr_t)n};
}

/* Panics caught since the load, and the text of the last one: value and stack. */
enum { EMQ_MAX_PANIC = 16 << 10 };
extern uint64_t emq_panics;
extern char emq_panic_text[EMQ_MAX_PANIC];

/* Counts and logs the panic whose text stands in emq_panic_text. */
void emq_log_panic(vm_ctx *ctx);

/* Clocks that never go back: milliseconds, cheap and coarse, and microseconds. */
int64_t emq_coarse_ms(void);
int64_t emq_steady_us(void);

/* Counts an entry into Go; now and then it lets the Go scheduler in. */
void emq_entered_go(void);

/* Lets the Go scheduler in if it is due; at each turn of the event loop. */
void emq_yield_turn(void);

/* What calls of a verb came to, and what became of entries that they walked; and each one's name in INFO, NULL where the
 * verb can't come to that. */
typedef struct {
    uint64_t calls, results[EMQ_NUM_RESULTS], dispositions[EMQ_NUM_DISPOSITIONS];
} emq_count;
typedef struct {
    const char *calls, *results[EMQ_NUM_RESULTS], *dispositions[EMQ_NUM_DISPOSITIONS];
} emq_count_names;
extern emq_count emq_counts[EMQ_NUM_VERBS];
extern emq_count_names emq_counted[EMQ_NUM_VERBS];
extern uint64_t emq_identity_claims;

/* Fields that never change, and their values. */
enum { EMQ_NUM_ABOUT = 4 };
extern const char *emq_about[EMQ_NUM_ABOUT][2];

/* ---- serving.c ---- */

/* Whether a client's write would be taken now, and the data are whole. */
int emq_may_write(vm_ctx *ctx);

int emq_serving_subscribe(vm_ctx *ctx);

/* ---- config.c ---- */

extern long long emq_pump_interval_ms; /* 0: off */
extern long long emq_pump_budget_us;
extern long long emq_max_stalled;       /* 0: never */
extern long long emq_max_payload_bytes; /* 0: any */
extern int emq_config_changed;          /* set when any of them may have changed; the reader clears it */

/* Puts the settings before the server and takes those that it has for them. 0 if one is out of its bounds, which the
 * server has logged. A later load of the same start keeps what the first took, for the server hands that out once. */
int emq_load_config(vm_ctx *ctx, int again);

/* ---- names.c ---- */

extern const char *emq_suffix[EMQ_NUM_KEYS];
extern size_t emq_suffix_len[EMQ_NUM_KEYS];

int emq_ends_in(const char *s, size_t n, const char *end, size_t end_len);

/* A hash of a base, with this server's own seed, which is made anew at load. */
void emq_seed_hash(void);
uint32_t emq_hash(const char *p, size_t n);
uint64_t emq_mix(uint64_t a, uint64_t b);

/* Makes the name of a key of a queue; what follows the suffix is a row's id, or nothing. */
vm_string *emq_make_name(const char *base, size_t base_len, int key, emq_bytes id);

/* Cuts the queue's base off a declared set, or takes the declared base. The names of undeclared keys are made from it, so
 * whatever a caller sends, no key is read outside the queue of a key that the ACL has seen; whether the names are right
 * is Go's to say. 0 if there is no base. */
int emq_find_base(emq_frame *f);

/* The name of a key of the frame's queue, looked for the first time; not that of a row. */
vm_string *emq_find_name(emq_frame *f, int key);

/* The name of a key of the frame's queue; the row is the item's. A key that is or was open has a name. */
static inline vm_string *emq_key_name(emq_frame *f, int key) {
    return f->name[key] ? f->name[key] : emq_find_name(f, key);
}
static inline vm_string *emq_name(emq_frame *f, const emq_item *item, int key) {
    return key == EMQ_KEY_ROW ? item->row_name : emq_key_name(f, key);
}

/* The item of a job's row: a key is open once, so where the caller lists a job twice the first one's item has it. */
static inline emq_item *emq_row_item(emq_frame *f, int32_t i) {
    return &f->items[EMQ_RARELY(f->twins) && f->twins[i] ? f->twins[i] - 1 : i];
}

/* ---- lines.c: the lines of clients that wait, one line a queue ---- */

typedef struct emq_waiter emq_waiter;
typedef struct emq_line emq_line;

/* A client's place in the line of one queue. */
typedef struct emq_place {
    emq_waiter *who;
    emq_line *in;
    struct emq_place *before, *after;
} emq_place;

struct emq_waiter {
    vm_blocked *handle;
    vm_string *name; /* of the key that it is blocked on */
    uint64_t client;
    vm_string *user; /* its user's name, or NULL: it has none, and is unrestricted */
    int gone;        /* it stands in no line any more */
    size_t num_places;
    emq_place places[]; /* in the order of the call: its priorities */
};

struct emq_line {
    emq_place *first, *last;
    size_t length;
    emq_line *before, *after; /* among all lines */
    int db;
    int again;     /* to be woken at the next turn of the event loop */
    int gated;     /* its first client was held back by a gate */
    int64_t opens; /* when that gate opens by itself, in Unix ms, or 0 */
    size_t base_len;
    char base[];
};

/* How many clients wait, for how many queues, and in the line of one. */
size_t emq_waiting_clients(void);
size_t emq_waiting_queues(void);
size_t emq_waiting_for(int db, const char *base, size_t base_len);

/* All lines, from the newest on by `after`. */
emq_line *emq_newest_line(void);

/* A client that was given its places enters the lines of its queues; the context is any. */
void emq_enter_line(vm_ctx *ctx, emq_waiter *w, int db, vm_string *base);

/* The client leaves its lines. Where it was the first, it may have been woken for an entry that it does not take, or there
 * are more: the next one is woken. */
void emq_leave_lines(emq_waiter *w);

/* Wakes the first client that waits for a queue, as something may have come into its pending; or, if a gate held it back,
 * as the gate may have opened. */
void emq_wake(int db, const char *base, size_t base_len);
void emq_wake_gated(int db, const char *base, size_t base_len);

/* Wakes the first in a line if the queue has entries; in all lines of a database. */
void emq_wake_if_entries(const emq_line *l);
void emq_wake_db(int db);

/* ---- keys.c ---- */

/* From here on no key is open. */
void emq_start_opening(emq_frame *f);

/* Opens a row, or another key of the queue, that is not open. */
vm_key *emq_open_row(emq_frame *f, emq_item *item);
vm_key *emq_open_key(emq_frame *f, int key);

/* The handle of a key, opened for reading and writing if it is not open yet. The item matters for a row alone. */
vm_key *emq_open(emq_frame *f, emq_item *item, int key);

/* The same for a key that is about to be written, which may have to be made. Making a key runs other modules' callbacks,
 * for it and for an expired one in its place. So no other key stays open across it; later effects open theirs anew. */
vm_key *emq_open_or_make(emq_frame *f, emq_item *item, int key);

void emq_close_keys(emq_frame *f);

/* ---- queues.c: the queues that are known ---- */

typedef struct {
    emq_position at;
    uint32_t left; /* in this tick */
} emq_progress;

/* The lists that a queue stands in: all that are known, and those that the pump visits, because they may have a schedule,
 * an active or a meta. The newest is first. */
enum { EMQ_KNOWN, EMQ_PUMPED, EMQ_NUM_LISTS };

typedef struct emq_queue {
    int db;
    emq_progress progress[2]; /* in schedule and active: the pump's own; at the start when the queue becomes known */
    struct emq_queue *before[EMQ_NUM_LISTS], *after[EMQ_NUM_LISTS]; /* queues.c's own, as are the next three */
    uint8_t forgotten;
    uint8_t with_meta; /* it may have a meta */
    uint8_t pumped;
    uint8_t more;       /* the pump's own: its last visit left work */
    uint8_t reap_first; /* so is this: the order of the next */
    size_t base_len;
    char base[]; /* `emq:{q}:`, any bytes, no NUL at the end */
} emq_queue;

int emq_queues_subscribe(vm_ctx *ctx);

/* Looks, at its leisure, through all that the server holds already; for a load at run time. */
void emq_queues_scan(void);

/* At each turn of the event loop. */
void emq_queues_turn(vm_ctx *ctx);

/* The name of one of its sets, for the caller to free. */
vm_string *emq_set_name(const emq_queue *q, int key);

/* Answers EMQ.QUEUES, whose arguments have been checked. */
int emq_list_queues(vm_ctx *ctx, vm_string **argv);

/* The next queue to visit, in rounds: NULL says that the round is over, and the call after it begins another. A round
 * visits the queues that were known when it began and still are. A queue stays in memory until the next call, whatever
 * happens; if it was forgotten meanwhile (a flush), it says so. */
emq_queue *emq_queues_next(void);

/* The pump has nothing to do for a queue that has no schedule, no active and no meta: it is not visited any more, and
 * forgotten if it has no other key either. A key of another type counts: it could become a set without an event. */
void emq_queues_rest(vm_ctx *ctx, emq_queue *q);

/* Whether a queue may have a meta; if not, neither the pump nor a claim looks for it. */
void emq_queues_note_meta(emq_queue *q, int may);

/* All of its keys are gone. */
void emq_queues_forget(emq_queue *q);

/* All of them, from the newest on by `after[EMQ_KNOWN]`; for who only looks. */
const emq_queue *emq_queues_newest(void);
size_t emq_queues_count(void);
size_t emq_queues_bytes(void);

/* Whether any queue may have a meta; if not, no claim need look for gates. */
int emq_may_have_meta(void);

/* ---- args.c ---- */

/* Views the arguments that a decision may look at; the others stay empty. */
void emq_view_arguments(emq_frame *f, int argc);

/* ---- read.c ---- */

/* Reads what the plan names of the queue as a whole, and the first job. */
void emq_read_plan(emq_frame *f);

/* Reads up to `want` further jobs. */
void emq_read_more(emq_frame *f, int32_t want);

/* Reads what a decision has asked for of the first job of the window. */
void emq_look(emq_frame *f);

/* Makes the scan that was decided on. 0 if the server does not. No key is open. */
int emq_make_scan(emq_frame *f, emq_scanned *scan);

void emq_free_item(emq_item *item);

/* ---- effects.c ---- */

/* Claims the store with the caller's own rights. 0 if it could not: then nothing was written. */
int emq_claim_identity(vm_ctx *ctx);

/* Applies the effects in the log and hands them to the replicas and the AOF. */
void emq_apply(emq_frame *f);

/* Tells watchers, client-side caches and subscribers of each key that was changed. Other modules' callbacks run here, so
 * no key of the frame is open any more. */
void emq_announce(emq_frame *f);

/* What the log does that clients may wait for: it adds a job to pending, or may open a gate. */
enum { EMQ_ADDS_JOB = 1, EMQ_OPENS_GATE = 2 };
int emq_awaited(const emq_frame *f);

/* ---- reply.c ---- */

void emq_send_reply(emq_frame *f);

/* How many things the audit found wrong with the gates. */
int emq_findings_of_gates(const emq_frame *f);

/* Answers a claim for a client that waits, in a context of its own. */
void emq_reply_claimed(emq_frame *f, vm_ctx *to, vm_string *base);

/* ---- command.c: what a command of a client's and a walk of the module's own have in common ---- */

extern emq_verb emq_verbs[EMQ_NUM_VERBS];

/* Reads and decides. 0 if there is no decision. The frame is to be freed whatever it answers. */
int emq_prepare(emq_frame *f, vm_ctx *ctx, vm_string **argv, int argc, const emq_verb *v, emq_walk *walk,
                emq_scanned *scan);

/* Applies what was decided and announces it; a refusal has decided nothing. */
void emq_execute(emq_frame *f);

/* Closes what is open still, and frees all. */
void emq_free_frame(emq_frame *f);

/* Runs a verb for the pump: no client, no reply. 0 if it was refused. */
int emq_run_walk(vm_ctx *ctx, vm_string **argv, int verb, emq_walk *walk);

/* What a claim for a client that waits comes to. With nothing it may go on with another queue. */
enum { EMQ_GRANTED, EMQ_NOTHING, EMQ_FOREIGN, EMQ_PANICKED };

/* Runs EMQ.CLAIM with the given arguments. A job that is granted, a refusal by the fence and a panic are answered in the
 * context `to`, the job with the base before it. */
int emq_run_claim(vm_ctx *ctx, vm_string **argv, emq_walk *walk, vm_ctx *to, vm_string *base);

/* ---- waiting.c: clients that wait for jobs ---- */

/* Claims from the first of the call's queues that has a job, or has the client wait; the call has been checked. */
int emq_wait(vm_ctx *ctx, vm_string **argv, int argc);

/* At each turn of the event loop. */
void emq_waiting_turn(vm_ctx *ctx);

/* No timer is left. */
void emq_waiting_stop(vm_ctx *ctx);

/* ---- dispatch.c: one function a verb for the server to call ---- */

extern const vm_command_fn emq_trampolines[EMQ_NUM_VERBS];

/* ---- register.c ---- */

/* Makes the ACL category. NULL, or what could not be done; so also emq_register. */
const char *emq_add_category(vm_ctx *ctx, const char *name);

/* Puts the verb, already in emq_verbs, and its documentation before the server. The option is its last argument's word,
 * if that may be left out, or NULL. */
const char *emq_register(vm_ctx *ctx, int verb, const char *flags, const char *categories, const char *summary,
                         const char *complexity, const char *since, const char *tips, const char *const *arg_names,
                         const uint8_t *arg_types, const char *option);

/* ---- pump.c ---- */

/* What the pump did since the load. */
typedef struct {
    uint64_t ticks, slices, time_us, skipped, visits;
    uint64_t promoted, returned, stalled, buried, dropped, left;
    int64_t last_lag_ms, lag_ms; /* in the last tick, and in the one under way */
} emq_pump_stats;
extern emq_pump_stats emq_pump;

/* At each turn of the event loop. */
void emq_pump_turn(vm_ctx *ctx);

/* This server began to lead or to follow. */
void emq_pump_role_changed(void);

/* No timer of it is left; the next turn of the event loop would set one again. */
void emq_pump_stop(vm_ctx *ctx);

/* ---- info.c ---- */

void emq_info(vm_info_ctx *ctx, int for_crash_report);

/* ---- debug.c, in builds with the tag emqdebug ---- */

typedef struct {
    int64_t goroutines, gomaxprocs, numgc, mallocs, heap_alloc;
} emq_runtime;

int emq_register_debug(vm_ctx *ctx);

/* Sets how often the Go scheduler is let in. */
void emq_set_yield(int64_t us);

#pragma GCC visibility pop

#endif
