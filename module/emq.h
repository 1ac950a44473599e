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

/* The path of a command through the server is longer than the processor's instruction cache, so code on it that a command
 * does not need costs time. Code that seldom runs (EMQ_COLD), or that only lists and long walks need (EMQ_APART), is not
 * inlined, and rare branches are laid out elsewhere: a command about a single job runs straight through. */
#define EMQ_COLD __attribute__((cold, noinline))
#define EMQ_APART __attribute__((noinline))
#define EMQ_RARELY(condition) __builtin_expect(!!(condition), 0)
#define EMQ_MOSTLY(condition) __builtin_expect(!!(condition), 1)

/* A verb as C needs it, filled in from the command table at load. */
typedef struct {
    const char *name;
    int number;
    int num_args;    /* number of arguments outside a list, the verb's name included */
    int least;       /* smallest number of arguments; without a list, num_args is the largest */
    int list_at;     /* which argument a list begins with, or 0 */
    int list_len;    /* number of arguments for each job of the list */
    int base_at;     /* which argument is the base, or 0 */
    int payload_at;  /* which argument is the payload, or 0 */
    int numkeys;     /* the only valid value of that argument; 0: the verb has no such argument */
    int id_at;       /* which argument is the id, or 0 */
    int count_at;    /* which argument is the count of a scan, or 0 */
    int cut_at;      /* which argument begins with the base: the base itself, or the first declared set */
    const char *cut; /* what follows the base there */
    size_t cut_len;
    uint8_t view[EMQ_MAX_ARGS];   /* the arguments that a decision may look at (of a list, the first job's), then 0 */
    uint8_t arg_of[EMQ_NUM_KEYS]; /* which argument names a key, or 0 */
    int mode, identity_mode;      /* of OpenKey, for the keys and for the identity */
    /* The plan. */
    uint32_t keys; /* as bits */
    uint8_t jobs;  /* where the jobs come from */
    uint8_t walk;  /* the set to walk, or EMQ_NO_KEY */
    uint8_t due;
    uint8_t values[EMQ_MAX_READ];         /* fields of the row, the rest EMQ_NO_FIELD */
    vm_string *value_names[EMQ_MAX_READ]; /* their names, the rest NULL */
    uint8_t payload_value;                /* which of them is the payload, for verbs that hand out jobs */
    uint8_t late[EMQ_MAX_READ]; /* fields that are read when a decision asks for them, the rest EMQ_NO_FIELD */
    uint8_t num_probes, late_probes;
    uint8_t probed; /* there are probes that are not late */
    uint8_t member;
    uint8_t creates; /* it creates the listed jobs: only the types of their rows are read */
    uint8_t gated;
    uint8_t merged;
    uint8_t readonly;
    uint8_t figures;
    /* Most commands do not use what follows. */
    emq_probe probes[EMQ_MAX_PROBES];
    vm_string *fields[EMQ_MAX_NUMBERS]; /* the names in a reply of numbers */
    uint64_t access[EMQ_MAX_ARGS];      /* key-spec flags of an argument that is declared as a key, else 0 */
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

/* Where to resume the walk of a sorted set: after `ties` entries of `score`. {-INFINITY, 0} is the start. */
typedef struct {
    double score;
    uint32_t ties;
} emq_position;

/* A walk by the pump or for a client that waits: where it starts, how far it may go, and its result. */
typedef struct {
    emq_position at;
    int32_t slice;
    int32_t step; /* entries that earlier walks of the same call have looked at */
    int64_t served_since;
    int ended;    /* it reached the end of the due entries */
    int panicked; /* on an entry, which stays in its set; without one, ended is set too */
    uint32_t dispositions[EMQ_NUM_DISPOSITIONS]; /* of the entries */
    int gated;                                   /* a gate held the claim back, */
    int64_t opens;                               /* which opens by itself at this time, in Unix ms, or 0 */
    int64_t lag_ms;                              /* the longest delay of a moved job beyond its due time */
} emq_walk;

/* What a scan found: the server's reply, and how far it has been read. */
typedef struct {
    vm_reply *reply, *list;
    uint64_t to; /* the server's next cursor */
    size_t at, stride;
} emq_scanned;

typedef struct {
    /* The most used members come first: instructions that access them are shorter. */
    vm_ctx *ctx;
    vm_string **argv;
    const emq_verb *verb;
    emq_item *items;  /* one for each job: those before call.first are decided, the window's follow */
    int32_t *twins;   /* for each job, the place, from 1, of an earlier one with its id, or 0; NULL: all ids differ */
    const char *base; /* the queue's base, the prefix of a declared key */
    size_t base_len;
    uint32_t open;     /* keys that are open, as bits; rows are not among them */
    uint32_t owned;    /* keys whose names are ours to free */
    int mode;          /* of OpenKey, for the next key */
    int32_t open_row;  /* the first item whose row is open, or -1 */
    int32_t first_row; /* the item of first_key, if that is a row */
    uint8_t first_key; /* the key that was opened while no other was open, or EMQ_NO_KEY */
    int32_t room;      /* for items and marks */
    int32_t listed;    /* number of jobs that the caller lists */
    int spilled;       /* something did not fit into the frame and was allocated */
    uint32_t hash;     /* of the base; 0: not computed yet */
    vm_key *identity;
    emq_walk *walk;    /* of the pump or of a client that waits; NULL in a command */
    emq_scanned *scan; /* NULL where there is none */
    vm_string *name[EMQ_NUM_KEYS];
    vm_key *key[EMQ_NUM_KEYS];
    vm_string *oldest; /* holds the bytes of figures.oldest */
    /* The sets, as bits, from which merged effects removed ids (in the first and in the second pass), to which they added
     * some, and which they left empty. */
    uint32_t removed[2], added, emptied;
    uint32_t dispositions[EMQ_NUM_DISPOSITIONS];
    emq_item first_item; /* enough for most commands, as are the other members named first_ */
    emq_call call;
    emq_bytes first_args[EMQ_MAX_ARGS];
    emq_outcome out; /* cleared up to out.given */
    /* From here on nothing is cleared. */
    emq_mark first_mark;
    vm_string *probe[EMQ_MAX_PROBES]; /* valid where call.probed has the bit */
    emq_bytes probe_bytes[EMQ_MAX_PROBES];
    emq_figures figures;
    emq_effect first_effects[EMQ_MAX_EFFECTS];
    emq_job jobs[EMQ_WINDOW];
} emq_frame;

/* ---- runtime.c: what was loaded, counters, clocks, and yielding to Go's scheduler ---- */

extern vm_string *emq_field[EMQ_NUM_FIELDS];
extern vm_string *emq_const[EMQ_NUM_CONSTS];
extern vm_string *emq_word[EMQ_NUM_WORDS];
extern uint8_t emq_part[EMQ_NUM_KEYS]; /* for each part of the audit, its name in emq_word */
extern const char *emq_text[EMQ_NUM_HOST_TEXTS];
extern uint8_t emq_text_result[EMQ_NUM_HOST_TEXTS];
extern int8_t emq_status[EMQ_NUM_RESULTS]; /* the status that answers for one job of a list, by result */
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

/* Counts and logs the panic whose text is in emq_panic_text. */
void emq_log_panic(vm_ctx *ctx);

/* Clocks that never go back: milliseconds, cheap and coarse, and microseconds. */
int64_t emq_coarse_ms(void);
int64_t emq_steady_us(void);

/* Counts a call into Go, and from time to time yields to the Go scheduler. */
void emq_entered_go(void);

/* Yields to the Go scheduler if that is due. Called at each turn of the event loop. */
void emq_yield_turn(void);

/* Counts a verb's calls, their results, and the dispositions of the entries that they walked; and the names of these
 * counters in INFO, NULL where the verb can't have that result. */
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

/* Whether the server would accept a write from a client now, and its data are complete. */
int emq_may_write(vm_ctx *ctx);

int emq_serving_subscribe(vm_ctx *ctx);

/* ---- config.c ---- */

extern long long emq_pump_interval_ms; /* 0: off */
extern long long emq_pump_budget_us;
extern long long emq_max_stalled;       /* 0: never */
extern long long emq_max_payload_bytes; /* 0: any */
extern int emq_config_changed;          /* set when any of them may have changed; the reader clears it */

/* Registers the settings and loads their configured values. 0 if a value is out of bounds; the server has logged which.
 * `again` says that an earlier load of the same start did this: its values are kept, as the server hands them out once. */
int emq_load_config(vm_ctx *ctx, int again);

/* ---- names.c ---- */

extern const char *emq_suffix[EMQ_NUM_KEYS];
extern size_t emq_suffix_len[EMQ_NUM_KEYS];

int emq_ends_in(const char *s, size_t n, const char *end, size_t end_len);

/* A hash of a base, with a random seed that is chosen at load. */
void emq_seed_hash(void);
uint32_t emq_hash(const char *p, size_t n);
uint64_t emq_mix(uint64_t a, uint64_t b);

/* Makes the name of a key of a queue; the id is empty unless the key is a row. */
vm_string *emq_make_name(const char *base, size_t base_len, int key, emq_bytes id);

/* Finds the queue's base: the declared base, or the prefix of a declared set. The names of undeclared keys are made from
 * it, so that no call can read a key outside the queue whose keys the ACL has checked. Go checks that the declared names
 * are right. 0 if there is no base. */
int emq_find_base(emq_frame *f);

/* The name of a key of the frame's queue that has none yet; not for a row. */
vm_string *emq_find_name(emq_frame *f, int key);

/* The name of a key of the frame's queue; a row is the item's. A key that is or was open has f->name set. */
static inline vm_string *emq_key_name(emq_frame *f, int key) {
    return f->name[key] ? f->name[key] : emq_find_name(f, key);
}
static inline vm_string *emq_name(emq_frame *f, const emq_item *item, int key) {
    return key == EMQ_KEY_ROW ? item->row_name : emq_key_name(f, key);
}

/* The item that has a job's row: where the caller lists a job twice, that is the first one's, as a key is opened once. */
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
    vm_string *user; /* its user's name; NULL: it has no user and is unrestricted */
    int gone;        /* it has left its lines */
    size_t num_places;
    emq_place places[]; /* by priority: in the order of the call's arguments */
};

struct emq_line {
    emq_place *first, *last;
    size_t length;
    emq_line *before, *after; /* among all lines */
    int db;
    int again;     /* wake its first client again at the next turn of the event loop */
    int gated;     /* its first client was held back by a gate */
    int64_t opens; /* when that gate opens by itself, in Unix ms, or 0 */
    size_t base_len;
    char base[];
};

/* The number of clients that wait, of queues that they wait for, and of clients in the line of one queue. */
size_t emq_waiting_clients(void);
size_t emq_waiting_queues(void);
size_t emq_waiting_for(int db, const char *base, size_t base_len);

/* The head of the list of all lines, which are linked by `after`. */
emq_line *emq_newest_line(void);

/* Puts a client into the line of one of its queues. Any context will do. */
void emq_enter_line(vm_ctx *ctx, emq_waiter *w, int db, vm_string *base);

/* Takes the client out of its lines. Where it was the first and the queue has entries, the next client is woken: the entry
 * that this one was woken for may be left, or there are more. */
void emq_leave_lines(emq_waiter *w);

/* Wakes the first client that waits for a queue, because pending may have got an entry; emq_wake_gated does so only if a
 * gate held that client back, because the gate may have opened. */
void emq_wake(int db, const char *base, size_t base_len);
void emq_wake_gated(int db, const char *base, size_t base_len);

/* Wakes the first client of a line if the queue has entries; emq_wake_db does so for all lines of a database. */
void emq_wake_if_entries(const emq_line *l);
void emq_wake_db(int db);

/* ---- keys.c ---- */

/* Resets the frame to the state in which no key is open. */
void emq_start_opening(emq_frame *f);

/* Opens a row, or another key of the queue, that is not open yet. */
vm_key *emq_open_row(emq_frame *f, emq_item *item);
vm_key *emq_open_key(emq_frame *f, int key);

/* The handle of a key, opened for reading and writing if it is not open yet. The item matters for a row alone. */
vm_key *emq_open(emq_frame *f, emq_item *item, int key);

/* The same for a key that is about to be written and may not exist. Creating a key runs other modules' callbacks, also for
 * an expired key in its place. So all other keys are closed first; later effects reopen theirs. */
vm_key *emq_open_or_make(emq_frame *f, emq_item *item, int key);

void emq_close_keys(emq_frame *f);

/* ---- queues.c: the register of queues ---- */

typedef struct {
    emq_position at;
    uint32_t left; /* in this tick */
    int singly;    /* a call panicked: the entries are tried one by one */
} emq_progress;

/* The lists of queues, newest first: all known ones, and those that the pump visits, because they may have one of the keys
 * schedule, active and meta. */
enum { EMQ_KNOWN, EMQ_PUMPED, EMQ_NUM_LISTS };

typedef struct emq_queue {
    int db;
    emq_progress progress[2];                                       /* in schedule and active; the pump's alone */
    struct emq_queue *before[EMQ_NUM_LISTS], *after[EMQ_NUM_LISTS]; /* queues.c's alone, as are the next three */
    uint8_t forgotten;
    uint8_t with_meta; /* it may have a meta */
    uint8_t pumped;
    uint8_t more;       /* the pump's alone: its last visit left work */
    uint8_t reap_first; /* the pump's alone: at the next visit, reap before promoting */
    size_t base_len;
    char base[]; /* `emq:{q}:`, any bytes, no NUL at the end */
} emq_queue;

int emq_queues_subscribe(vm_ctx *ctx);

/* Starts a scan, in small steps, for queues that exist already; needed after a load at run time. */
void emq_queues_scan(void);

/* Called at each turn of the event loop. */
void emq_queues_turn(vm_ctx *ctx);

/* Stops the timer of a scan. */
void emq_queues_stop(vm_ctx *ctx);

/* The name of one of the queue's keys, for the caller to free. */
vm_string *emq_set_name(const emq_queue *q, int key);

/* Answers EMQ.QUEUES, whose arguments have been checked. */
int emq_list_queues(vm_ctx *ctx, vm_string **argv);

/* The next queue to visit, in rounds: NULL ends a round, and the call after it begins another. A round visits the queues
 * that were known when it began and still are. The queue stays in memory until the next call; if it is forgotten meanwhile
 * (by a flush), `forgotten` is set. */
emq_queue *emq_queues_next(void);

/* Stops visiting a queue if it has no schedule, no active and no meta: the pump has nothing to do there. If it has no
 * other key either, it is forgotten. A key of another type counts, as it could become a set without an event. */
void emq_queues_rest(vm_ctx *ctx, emq_queue *q);

/* Notes whether a queue may have a meta; if not, neither the pump nor a claim looks for it. */
void emq_queues_note_meta(emq_queue *q, int may);

/* Forgets a queue, all of whose keys are gone. */
void emq_queues_forget(emq_queue *q);

/* The head of the list of all queues, which are linked by `after[EMQ_KNOWN]`. */
const emq_queue *emq_queues_newest(void);
size_t emq_queues_count(void);
size_t emq_queues_bytes(void);

/* Whether any queue may have a meta; if not, claims need not look for gates. */
int emq_may_have_meta(void);

/* ---- args.c ---- */

/* Sets call.args to views of the arguments that a decision may look at; the others stay empty. */
void emq_view_arguments(emq_frame *f, int argc);

/* ---- read.c ---- */

/* Reads what the plan names of the queue, and the first jobs. */
void emq_read_plan(emq_frame *f);

/* Reads up to `want` further jobs. */
void emq_read_more(emq_frame *f, int32_t want);

/* Reads what a decision asks for with NEXT_LOOK about the first job of the window. */
void emq_look(emq_frame *f);

/* Executes the SCAN or ZSCAN that was decided on. 0 if the server refuses it. No key may be open. */
int emq_make_scan(emq_frame *f, emq_scanned *scan);

void emq_free_item(emq_item *item);

/* ---- effects.c ---- */

/* Claims the store with the caller's own rights. 0 if that failed; then nothing was written. */
int emq_claim_identity(vm_ctx *ctx);

/* Applies the effects in the log, and propagates them to replicas and the AOF. */
void emq_apply(emq_frame *f);

/* Notifies WATCH, client-side caches and subscribers of each changed key. Other modules' callbacks run here, so no key of
 * the frame may be open. */
void emq_announce(emq_frame *f);

/* Which changes in the log waiting clients may want to know of: a job was added to pending, or a gate may have opened. */
enum { EMQ_ADDS_JOB = 1, EMQ_OPENS_GATE = 2 };
int emq_awaited(const emq_frame *f);

/* ---- reply.c ---- */

void emq_send_reply(emq_frame *f);

/* The number of the audit's findings about the gates. */
int emq_findings_of_gates(const emq_frame *f);

/* Replies with the claimed job to a client that waits, in the context `to`. */
void emq_reply_claimed(emq_frame *f, vm_ctx *to, vm_string *base);

/* ---- command.c: what clients' commands and the module's own walks have in common ---- */

extern emq_verb emq_verbs[EMQ_NUM_VERBS];

/* Reads and decides. 0 if Go panicked. Either way the caller must free the frame. */
int emq_prepare(emq_frame *f, vm_ctx *ctx, vm_string **argv, int argc, const emq_verb *v, emq_walk *walk,
                emq_scanned *scan);

/* Applies the effects and announces them. A refusal has none. */
void emq_execute(emq_frame *f);

/* Closes the keys that are still open, and frees what the frame owns. */
void emq_free_frame(emq_frame *f);

/* Runs a verb for the pump, without a client or a reply. 0 if it was refused or Go panicked. */
int emq_run_walk(vm_ctx *ctx, vm_string **argv, int verb, emq_walk *walk);

/* The result of a claim for a client that waits. After EMQ_NOTHING the next queue may be tried. */
enum { EMQ_GRANTED, EMQ_NOTHING, EMQ_FOREIGN, EMQ_PANICKED };

/* Runs EMQ.CLAIM with the given arguments. Unless the result is EMQ_NOTHING, the reply goes to the context `to`: an error,
 * or the job, preceded by the base. */
int emq_run_claim(vm_ctx *ctx, vm_string **argv, emq_walk *walk, vm_ctx *to, vm_string *base);

/* ---- waiting.c: clients that wait for jobs ---- */

/* Claims from the first of the call's queues that has a job, or blocks the client. The arguments have been checked. */
int emq_wait(vm_ctx *ctx, vm_string **argv, int argc);

/* Called at each turn of the event loop. */
void emq_waiting_turn(vm_ctx *ctx);

/* Stops the timer. */
void emq_waiting_stop(vm_ctx *ctx);

/* ---- dispatch.c: one function for each verb, which the server calls ---- */

extern const vm_command_fn emq_trampolines[EMQ_NUM_VERBS];

/* ---- register.c ---- */

/* Adds the ACL category. Returns NULL, or the step that failed, as emq_register does. */
const char *emq_add_category(vm_ctx *ctx, const char *name);

/* Registers a verb, already in emq_verbs, and its documentation with the server. The option is the keyword that the verb
 * takes as an optional last argument, or NULL. */
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

/* Called at each turn of the event loop. */
void emq_pump_turn(vm_ctx *ctx);

/* Called when this server becomes a primary or a replica. */
void emq_pump_role_changed(void);

/* Stops the timer; the next turn of the event loop would start it again. */
void emq_pump_stop(vm_ctx *ctx);

/* ---- info.c ---- */

void emq_info(vm_info_ctx *ctx, int for_crash_report);

/* ---- debug.c, in builds with the tag emqdebug ---- */

typedef struct {
    int64_t goroutines, gomaxprocs, numgc, mallocs, heap_alloc;
} emq_runtime;

int emq_register_debug(vm_ctx *ctx);

/* Sets how often the module yields to the Go scheduler. */
void emq_set_yield(int64_t us);

#pragma GCC visibility pop

#endif
