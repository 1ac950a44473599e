/* What the rooms of module/ share: the data that crosses between C and Go, and each file's entry points.
 *
 * A command flows through three steps, all on the main thread (docs/architecture.md):
 *   command.c  reads what the verb's plan names into an emq_request,
 *   Go         decides (emqDecide, the one crossing) and fills an emq_outcome,
 *   effects.c  applies, propagates and announces the outcome's effects and replies. */
#ifndef EMQ_H
#define EMQ_H

#include "abi.h"

#pragma GCC visibility push(hidden)

/* What is seldom run stands apart, not inlined and away from what is run each time: a command's way through the server is
 * longer than the processor's instruction cache. */
#define EMQ_COLD __attribute__((cold, noinline))

/* ---- Data that crosses. The layouts and numbers are those of package commands; layout.go asserts it. ---- */

/* The module's version, as a decimal MMmmpp. */
enum { EMQ_VERSION = 100 };

enum { EMQ_MAX_ARGS = 12, EMQ_MAX_FIELDS = 4, EMQ_MAX_READ = 5, EMQ_MAX_EFFECTS = 6, EMQ_MAX_TEXT = 1024, EMQ_MAX_NUMBERS = 9, EMQ_MAX_VERBS = 16 };

enum { EMQ_ROW, EMQ_PENDING, EMQ_ACTIVE, EMQ_SCHEDULE, EMQ_DEAD, EMQ_COMPLETED, EMQ_FAILED, EMQ_NUM_KEYS, EMQ_NO_KEY = 255 };
enum { EMQ_FIELD_PAYLOAD = 2, EMQ_FIELD_COUNT = 9, EMQ_NUM_FIELDS, EMQ_NO_FIELD = 255 };
enum { EMQ_CONST_ZERO = 4, EMQ_CONST_ONE, EMQ_NUM_CONSTS = 9 };
enum { EMQ_OP_SET, EMQ_OP_HSET, EMQ_OP_HDEL, EMQ_OP_ZADD, EMQ_OP_ZREM, EMQ_OP_DEL, EMQ_OP_HINCRBY };
enum { EMQ_VALUE_CONST, EMQ_VALUE_ARG, EMQ_VALUE_INT, EMQ_VALUE_EPOCH };
enum { EMQ_REPLY_INTEGER, EMQ_REPLY_CONST, EMQ_REPLY_JOB, EMQ_REPLY_EMPTY, EMQ_REPLY_REAPED, EMQ_REPLY_NUMBERS, EMQ_REPLY_AUDIT };
enum { EMQ_FINISH, EMQ_NEXT_ENTRY, EMQ_LOOK, EMQ_MAKE_SCAN };
enum { EMQ_NO_FATE, EMQ_DROPPED, EMQ_LEFT, EMQ_RETURNED, EMQ_STALLED, EMQ_BURIED, EMQ_REPORTED, EMQ_REPAIRED, EMQ_NUM_FATES };
enum { EMQ_VERB_PROMOTE = 6, EMQ_VERB_REAP };
enum { EMQ_AUDIT_COUNT = 3 }; /* which argument */
enum { EMQ_UNREAD, EMQ_NONE, EMQ_STRING };
enum { EMQ_TEXT_PANICKED, EMQ_TEXT_UNCLAIMED, EMQ_TEXT_FORKED, EMQ_TEXT_UNSCANNED, EMQ_NUM_TEXTS };
enum { EMQ_NUM_RESULTS = 24, EMQ_NUM_WORDS = 15 };
#define EMQ_NO_NUMBER INT64_MIN

/* A Go string that views bytes of the server's. */
typedef struct {
    const char *p;
    intptr_t n;
} emq_bytes;

/* What one call has decided so far. */
typedef struct {
    int32_t taken, moved, counted;
} emq_tally;

/* What is read of a whole queue. */
typedef struct {
    int64_t sizes[EMQ_NUM_KEYS];
    double next[EMQ_NUM_KEYS];
    emq_bytes counts[EMQ_NUM_KEYS];
} emq_figures;

/* A place in the server's scan of a set, or of the rows. */
typedef struct {
    uint64_t at;
    uint8_t key;
} emq_scan;

/* Words of the audit's reply. */
typedef struct {
    uint8_t what, where, remedy, applied;
} emq_finding;

typedef struct {
    emq_bytes args[EMQ_MAX_ARGS];
    emq_bytes entry;
    emq_bytes identity;
    emq_bytes epoch;
    emq_bytes row[EMQ_NUM_FIELDS];
    emq_bytes count;
    int64_t now;
    double deadline;
    int64_t served_since;
    const emq_figures *figures;
    uint64_t scanned_to;
    int32_t step;
    int32_t slice;
    emq_tally tally;
    int32_t argc;
    uint32_t present;
    uint8_t types[EMQ_NUM_KEYS];
    uint8_t identity_type;
    uint8_t replica;
    uint8_t has_entry;
    uint8_t has_count;
    uint8_t looked;
    uint8_t member;
    uint8_t scanned;
} emq_request;

typedef struct {
    int64_t kind;
    int64_t n;
} emq_value;

typedef struct {
    emq_value values[EMQ_MAX_FIELDS];
    int64_t score;
    uint8_t fields[EMQ_MAX_FIELDS];
    uint8_t op;
    uint8_t key;
    uint8_t or_else;
    uint8_t n;
    uint8_t done;    /* C's own: the key that was changed, or EMQ_NO_KEY */
    uint8_t emptied; /* C's own: the key went away with the last of what it held */
} emq_effect;

typedef struct {
    emq_effect effects[EMQ_MAX_EFFECTS];
    emq_value reply;
    int32_t num_effects;
    int32_t text_len;
    uint8_t refusal;
    uint8_t next;
    uint8_t fate;
    uint8_t result;
    emq_finding finding;
    emq_tally tally;
    emq_scan scan;
    int64_t numbers[EMQ_MAX_NUMBERS];
    char text[EMQ_MAX_TEXT];
} emq_outcome;

/* A verb as C needs it, filled in from the command table at load. */
typedef struct {
    const char *name;
    int arity, least; /* of arguments, the verb's name included: at most, at least */
    int numkeys;      /* 0: it has no such argument */
    int id_at;        /* which argument is the id, or 0 */
    int cut_at;       /* which argument the base is cut off: the base itself, or the first declared set */
    const char *cut;  /* what follows the base there */
    size_t cut_len;
    uint8_t view[EMQ_MAX_ARGS];    /* the arguments that a decision may look at; ends in 0 */
    uint8_t arg_of[EMQ_NUM_KEYS];  /* which argument names a key, or 0 */
    uint64_t access[EMQ_MAX_ARGS]; /* of an argument that is declared as a key; 0: it is not */
    uint32_t keys;   /* the plan, as bits */
    uint8_t values[EMQ_MAX_READ]; /* fields of the row, the rest EMQ_NO_FIELD */
    vm_string *value_names[EMQ_MAX_READ]; /* their names, the rest NULL */
    uint8_t late[EMQ_MAX_READ]; /* what is read when the decision asks for it */
    uint8_t late_counter;
    uint8_t counter;
    uint8_t source;
    uint8_t due;
    uint8_t member;
    uint8_t readonly;
    uint8_t figures;
    uint8_t scans;
    vm_string *fields[EMQ_MAX_NUMBERS];
} emq_verb;

/* ---- One command in flight. ---- */

/* What is done to one entry of the plan's source, or to the one job that the caller names. */
typedef struct emq_step {
    struct emq_step *next;
    vm_string *entry;               /* owned; NULL where the caller names the job */
    vm_string *row_name;            /* of the entry; owned */
    vm_key *row;                    /* of the entry */
    vm_string *value[EMQ_MAX_READ]; /* of the verb's values; owned */
    emq_effect *effects;            /* the outcome's own in the last step; owned in those before it */
    int num_effects;
    uint8_t fate;
    emq_finding finding;
} emq_step;

/* Where a walk of a sorted set goes on: after `ties` entries of `score`. {-INFINITY, 0} is the start. */
typedef struct {
    double score;
    uint32_t ties;
} emq_position;

/* A call of the pump's: where to go on and how far to go at most, and what came of it. */
typedef struct {
    emq_position at;
    int32_t slice;
    int64_t served_since;
    int ended;                     /* the walk came to the last due entry */
    int panicked;                  /* on an entry, which is left, or without one: then it has ended */
    uint32_t fates[EMQ_NUM_FATES]; /* of the entries */
    int64_t lag_ms;                /* how late the latest of the jobs that were moved came */
} emq_walk;

/* What a scan found: the server's reply, and how far the walk of it has come. */
typedef struct {
    vm_reply *reply, *list;
    uint64_t to; /* the server's next cursor */
    size_t at, stride;
} emq_scanned;

typedef struct {
    vm_ctx *ctx;
    vm_string **argv;
    const emq_verb *verb;
    const char *base; /* the queue's base, cut off a declared key */
    size_t base_len;
    vm_string *name[EMQ_NUM_KEYS];
    vm_key *key[EMQ_NUM_KEYS];
    uint32_t open;      /* keys that are open, as bits */
    uint32_t owned;     /* keys whose name we made */
    int mode;           /* in which the next key is opened */
    uint8_t first_open; /* the key that was opened when no other was, or EMQ_NO_KEY */
    uint32_t hash;      /* of the base, or 0 before it is needed */
    vm_string *id;      /* the id argument, if there is one */
    vm_string *count;
    vm_key *identity;
    emq_step *last;     /* the step that answers */
    emq_walk *walk;     /* of the pump; NULL in a command */
    emq_scanned *scan;  /* NULL where there is none */
    uint32_t fates[EMQ_NUM_FATES]; /* of the entries that were decided on */
    emq_request req;
    emq_step first;
    emq_outcome out; /* of the step decided last; Go's to fill, and not cleared before, as are the figures */
    emq_figures figures;
} emq_frame;

/* ---- onload.c ---- */

extern vm_string *emq_field[EMQ_NUM_FIELDS];
extern vm_string *emq_const[EMQ_NUM_CONSTS];
extern vm_string *emq_word[EMQ_NUM_WORDS];
extern uint8_t emq_part[EMQ_NUM_KEYS]; /* the words for the parts of the audit */
extern const char *emq_text[EMQ_NUM_TEXTS];
extern uint8_t emq_text_result[EMQ_NUM_TEXTS];
extern const char *emq_suffix[EMQ_NUM_KEYS];
extern size_t emq_suffix_len[EMQ_NUM_KEYS];
extern vm_string *emq_identity_key, *emq_identity, *emq_run_id;
extern emq_bytes emq_epoch; /* the bytes of emq_run_id */
extern int emq_is_replica;
extern int emq_is_child;
extern int emq_fields_expire; /* the server knows fields with a time to live: Valkey 9.0 */

/* Panics caught since the load, and the text of the last one: value and stack. */
enum { EMQ_MAX_PANIC = 16 << 10 };
extern uint64_t emq_panics;
extern char emq_panic_text[EMQ_MAX_PANIC];

/* Counts and logs the panic whose text stands in emq_panic_text. */
void emq_log_panic(vm_ctx *ctx);

/* Milliseconds of a clock that never goes back. */
int64_t emq_coarse_ms(void);

/* Counts an entry into Go; now and then it lets the Go scheduler in. */
void emq_entered_go(void);

/* ---- command.c ---- */

extern emq_verb emq_verbs[EMQ_MAX_VERBS];
extern const vm_command_fn emq_trampolines[];
extern const int emq_num_trampolines;

/* Carries a verb out for the pump: no client, no reply. 0 if it was refused. */
int emq_run_walk(vm_ctx *ctx, vm_string **argv, int verb, emq_walk *walk);

int emq_ends_in(const char *s, size_t n, const char *end, size_t end_len);

/* Makes the name of a key of a queue; what follows the suffix is a row's id, or nothing. */
vm_string *emq_make_name(const char *base, size_t base_len, int key, emq_bytes id);

/* The name of a key of the frame's queue, looked for the first time. */
vm_string *emq_find_name(emq_frame *f, int key);

/* The name of a key of the frame's queue; the row is the step's. */
static inline vm_string *emq_name(emq_frame *f, emq_step *s, int key) {
    if (key == EMQ_ROW && s->entry) return s->row_name;
    return f->name[key] ? f->name[key] : emq_find_name(f, key);
}

/* Opens a key that is not open. */
vm_key *emq_open_anew(emq_frame *f, emq_step *s, int key);

/* The handle of a key, opened for reading and writing if it is not open yet. */
static inline vm_key *emq_open(emq_frame *f, emq_step *s, int key) {
    vm_key *open = key == EMQ_ROW && s->entry ? s->row : f->key[key];
    return open ? open : emq_open_anew(f, s, key);
}

/* Closes the frame's keys, all but one. */
void emq_close_keys(emq_frame *f, int but);

/* ---- effects.c ---- */

/* Tells whether the decision is to claim the store's identity first: the one effect that can fail. */
int emq_claims_identity(const emq_frame *f);

/* Claims the store with the caller's own rights. 0 if it could not: then nothing was written. */
int emq_claim_identity(vm_ctx *ctx);

/* Applies the effects of every step and hands them to the replicas and the AOF. */
void emq_apply(emq_frame *f);

/* Tells watchers, client-side caches and subscribers of each key that was changed. Other modules' callbacks run here, so
 * no key of the frame is open any more. */
void emq_announce(emq_frame *f);

void emq_reply(emq_frame *f);

/* ---- register.c ---- */

vm_string *emq_string(const char *s, size_t n);

/* Makes the ACL category. NULL, or what could not be done; so also emq_register. */
const char *emq_add_category(vm_ctx *ctx, const char *name);

/* Puts the verb, already in emq_verbs, and its documentation before the server. The option is its last argument's word,
 * if that may be left out, or NULL. */
const char *emq_register(vm_ctx *ctx, int verb, const char *flags, const char *categories, const char *summary,
                         const char *complexity, const char *since, const char *tips, const char *const *arg_names,
                         const uint8_t *arg_types, const char *option);

/* ---- info.c ---- */

/* What calls of a verb came to, and what became of entries that they walked; and each one's name in INFO, NULL where the
 * verb can't come to that. */
typedef struct {
    uint64_t results[EMQ_NUM_RESULTS], fates[EMQ_NUM_FATES];
} emq_count;
typedef struct {
    const char *calls, *results[EMQ_NUM_RESULTS], *fates[EMQ_NUM_FATES];
} emq_count_names;
extern emq_count emq_counts[EMQ_MAX_VERBS];
extern emq_count_names emq_counted[EMQ_MAX_VERBS];
extern uint64_t emq_identity_claims;

/* Fields that never change, and their values. */
enum { EMQ_NUM_ABOUT = 4 };
extern const char *emq_about[EMQ_NUM_ABOUT][2];

void emq_info(vm_info_ctx *ctx, int for_crash_report);

/* ---- config.c ---- */

extern long long emq_pump_interval_ms; /* 0: off */
extern long long emq_pump_budget_us;
extern long long emq_max_stalled; /* 0: never */
extern int emq_config_changed;    /* set when any of them may have changed; the reader clears it */

/* Puts the settings before the server and takes those that it has for them. 0 if one is out of its bounds, which the
 * server has logged. */
int emq_load_config(vm_ctx *ctx);

/* ---- queues.c: the queues that may hold scheduled or active jobs ---- */

typedef struct {
    emq_position at;
    uint32_t left; /* in this beat */
} emq_progress;

typedef struct emq_queue {
    int db;
    uint32_t hash;
    emq_progress progress[2]; /* in schedule and active: the pump's own; at the start when the queue becomes known */
    struct emq_queue *chain, *before, *after; /* queues.c's own, as is `forgotten` */
    uint8_t forgotten;
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

/* A hash of a base, with this server's own seed. */
uint32_t emq_hash(const char *p, size_t n);

/* The name of one of its sets, for the caller to free. */
vm_string *emq_set_name(const emq_queue *q, int key);

/* The next queue to visit, in rounds: NULL says that the round is over, and the call after it begins another. A round
 * visits the queues that were known when it began and still are. A queue stays in memory until the next call, whatever
 * happens; if it was forgotten meanwhile (a flush), it says so. */
emq_queue *emq_queues_next(void);

/* Both of its sets are gone: there is no key of the name, of whatever type. A key of another type is not gone: it could
 * become a set without an event. */
void emq_queues_forget(emq_queue *q);

/* All of them, from the newest on by `after`; for who only looks. */
const emq_queue *emq_queues_newest(void);
size_t emq_queues_count(void);
size_t emq_queues_bytes(void);

/* ---- pump.c ---- */

/* What the pump did since the load. */
typedef struct {
    uint64_t beats, slices, time_us, stood_down;
    uint64_t promoted, returned, stalled, buried, dropped, left;
    int64_t last_lag_ms, lag_ms; /* in the last beat, and in the one under way */
} emq_pump_stats;
extern emq_pump_stats emq_pump;

/* At each turn of the event loop. */
void emq_pump_turn(vm_ctx *ctx);

/* This server began to lead or to follow. */
void emq_pump_role_changed(void);

int emq_pump_subscribe(vm_ctx *ctx);

/* ---- debug.c, in builds with the tag emqdebug ---- */

typedef struct {
    int64_t goroutines, gomaxprocs, numgc, mallocs, heap_alloc;
} emq_runtime;

int emq_register_debug(vm_ctx *ctx);

/* Sets how often the Go scheduler is let in. */
void emq_set_yield(int64_t us);

#pragma GCC visibility pop

#endif
