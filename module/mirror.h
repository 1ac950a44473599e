/* Generated from package commands by tools/mirror; do not edit. */
#ifndef EMQ_MIRROR_H
#define EMQ_MIRROR_H

#include <stddef.h>
#include <stdint.h>

enum {
    EMQ_MAX_FIELDS = 5,
    EMQ_MAX_READ = 5,
    EMQ_MAX_EFFECTS = 6,
    EMQ_MAX_PROBES = 9,
    EMQ_NUM_ROW_FIELDS = 9,
    EMQ_MAX_ARGS = 12,
    EMQ_MAX_NUMBERS = 15,
    EMQ_WINDOW = 32,
    EMQ_MAX_LIST = 1000,
    EMQ_MAX_TEXT = 1024,
};
#define EMQ_NO_NUMBER INT64_MIN

enum {
    EMQ_ACCESS_RO = 1,
    EMQ_ACCESS_RW = 2,
    EMQ_ACCESS_READ = 16,
    EMQ_ACCESS_UPDATE = 32,
    EMQ_ACCESS_INSERT = 64,
    EMQ_ACCESS_DELETE = 128,
};

enum {
    EMQ_CONST_PENDING = 0,
    EMQ_CONST_ACTIVE = 1,
    EMQ_CONST_SCHEDULED = 2,
    EMQ_CONST_DEAD = 3,
    EMQ_CONST_ZERO = 4,
    EMQ_CONST_ONE = 5,
    EMQ_CONST_BAD_ATTEMPTS = 6,
    EMQ_CONST_STALLED = 7,
    EMQ_CONST_AUDIT = 8,
    EMQ_NUM_CONSTS = 9,
};

enum {
    EMQ_NO_DISPOSITION = 0,
    EMQ_DISPOSITION_DROPPED = 1,
    EMQ_DISPOSITION_LEFT = 2,
    EMQ_DISPOSITION_RETURNED = 3,
    EMQ_DISPOSITION_STALLED = 4,
    EMQ_DISPOSITION_BURIED = 5,
    EMQ_DISPOSITION_REPORTED = 6,
    EMQ_DISPOSITION_REPAIRED = 7,
    EMQ_NUM_DISPOSITIONS = 8,
};

enum {
    EMQ_FIELD_STATE = 0,
    EMQ_FIELD_ATTEMPTS = 1,
    EMQ_FIELD_PAYLOAD = 2,
    EMQ_FIELD_LEASE_EPOCH = 3,
    EMQ_FIELD_FAILURES = 4,
    EMQ_FIELD_LAST_ERROR = 5,
    EMQ_FIELD_STALLED = 6,
    EMQ_FIELD_GROUP = 7,
    EMQ_FIELD_PARENT = 8,
    EMQ_FIELD_COUNT = 9,
    EMQ_FIELD_PAUSED = 10,
    EMQ_FIELD_PAUSED_UNTIL = 11,
    EMQ_FIELD_CONCURRENCY = 12,
    EMQ_FIELD_MAX = 13,
    EMQ_FIELD_DURATION = 14,
    EMQ_FIELD_WINDOW = 15,
    EMQ_FIELD_USED = 16,
    EMQ_NUM_FIELDS = 17,
    EMQ_NO_FIELD = 255,
};

enum {
    EMQ_HOST_PANICKED = 0,
    EMQ_HOST_UNCLAIMED = 1,
    EMQ_HOST_FORKED = 2,
    EMQ_HOST_UNSCANNED = 3,
    EMQ_NUM_HOST_TEXTS = 4,
};

enum {
    EMQ_KEY_ROW = 0,
    EMQ_KEY_PENDING = 1,
    EMQ_KEY_ACTIVE = 2,
    EMQ_KEY_SCHEDULE = 3,
    EMQ_KEY_DEAD = 4,
    EMQ_KEY_COMPLETED = 5,
    EMQ_KEY_FAILED = 6,
    EMQ_KEY_META = 7,
    EMQ_NUM_KEYS = 8,
    EMQ_NO_KEY = 255,
};

enum {
    EMQ_NEXT_FINISH = 0,
    EMQ_NEXT_MORE = 1,
    EMQ_NEXT_LOOK = 2,
    EMQ_NEXT_LIST = 3,
    EMQ_NEXT_CLAIM = 4,
    EMQ_NEXT_SCAN = 5,
};

enum {
    EMQ_OP_HSET = 0,
    EMQ_OP_HDEL = 1,
    EMQ_OP_ZADD = 2,
    EMQ_OP_ZREM = 3,
    EMQ_OP_DEL = 4,
    EMQ_OP_HINCRBY = 5,
    EMQ_NUM_OPS = 6,
};

enum {
    EMQ_REFUSAL_NOT_REFUSED = 0,
    EMQ_REFUSAL_REFUSED_NUMKEYS = 1,
    EMQ_REFUSAL_REFUSED_KIND = 2,
    EMQ_REFUSAL_REFUSED_KEY = 3,
    EMQ_REFUSAL_REFUSED_LENGTH = 4,
    EMQ_REFUSAL_REFUSED_WORD = 5,
    EMQ_REFUSAL_REFUSED_NUMBER = 6,
    EMQ_REFUSAL_REFUSED_CURSOR = 7,
    EMQ_REFUSAL_REFUSED_RATE = 8,
    EMQ_REFUSAL_REFUSED_PAYLOAD = 9,
    EMQ_REFUSAL_REFUSED_REPLICA = 10,
    EMQ_REFUSAL_REFUSED_FENCE = 11,
    EMQ_REFUSAL_REFUSED_TYPE = 12,
    EMQ_REFUSAL_REFUSED_GONE = 13,
    EMQ_REFUSAL_REFUSED_SCRIPT = 14,
    EMQ_REFUSAL_REFUSED_TOKEN = 15,
    EMQ_REFUSAL_REFUSED_INTERNAL = 16,
    EMQ_NUM_REFUSALS = 17,
};

enum {
    EMQ_REPLY_INTEGER = 0,
    EMQ_REPLY_CONST = 1,
    EMQ_REPLY_OK = 2,
    EMQ_REPLY_EMPTY = 3,
    EMQ_REPLY_JOB = 4,
    EMQ_REPLY_JOBS = 5,
    EMQ_REPLY_STATUSES = 6,
    EMQ_REPLY_LISTS = 7,
    EMQ_REPLY_NUMBERS = 8,
    EMQ_REPLY_FINDINGS = 9,
};

enum {
    EMQ_NO_RESULT = 0,
    EMQ_RESULT_ENQUEUED = 1,
    EMQ_RESULT_SCHEDULED = 2,
    EMQ_RESULT_DUPLICATE = 3,
    EMQ_RESULT_CLAIMED = 4,
    EMQ_RESULT_EMPTY = 5,
    EMQ_RESULT_COMPLETED = 6,
    EMQ_RESULT_DEAD = 7,
    EMQ_RESULT_EXTENDED = 8,
    EMQ_RESULT_GONE = 9,
    EMQ_RESULT_PROMOTED = 10,
    EMQ_RESULT_REAPED = 11,
    EMQ_RESULT_OK = 12,
    EMQ_RESULT_CLEAN = 13,
    EMQ_RESULT_FOUND = 14,
    EMQ_RESULT_RELEASED = 15,
    EMQ_RESULT_REQUEUED = 16,
    EMQ_RESULT_REMOVED = 17,
    EMQ_RESULT_PAUSED = 18,
    EMQ_RESULT_RESUMED = 19,
    EMQ_RESULT_NOT_PAUSED = 20,
    EMQ_RESULT_LIMITED = 21,
    EMQ_RESULT_TIMED_OUT = 22,
    EMQ_RESULT_WOKEN_IDLE = 23,
    EMQ_RESULT_ARGUMENT = 24,
    EMQ_RESULT_KIND = 25,
    EMQ_RESULT_KEY = 26,
    EMQ_RESULT_REPLICA = 27,
    EMQ_RESULT_FENCE = 28,
    EMQ_RESULT_TYPE = 29,
    EMQ_RESULT_SCRIPT = 30,
    EMQ_RESULT_STALE = 31,
    EMQ_RESULT_INTERNAL = 32,
    EMQ_NUM_RESULTS = 33,
};

enum {
    EMQ_ROLE_NUMKEYS = 0,
    EMQ_ROLE_KEY = 1,
    EMQ_ROLE_ID = 2,
    EMQ_ROLE_BASE = 3,
    EMQ_ROLE_ROW_PREFIX = 4,
    EMQ_ROLE_WORD = 5,
    EMQ_ROLE_OPTION = 6,
    EMQ_ROLE_CURSOR = 7,
    EMQ_ROLE_TOKEN = 8,
    EMQ_ROLE_PAYLOAD = 9,
    EMQ_ROLE_ERROR = 10,
    EMQ_ROLE_AFTER = 11,
    EMQ_ROLE_LEASE = 12,
    EMQ_ROLE_DELAY = 13,
    EMQ_ROLE_DUE = 14,
    EMQ_ROLE_MAX = 15,
    EMQ_ROLE_MAX_STALLED = 16,
    EMQ_ROLE_LIMIT = 17,
    EMQ_ROLE_COUNT = 18,
    EMQ_ROLE_TIMEOUT = 19,
    EMQ_ROLE_PAUSE = 20,
    EMQ_ROLE_CONCURRENCY = 21,
    EMQ_ROLE_RATE_MAX = 22,
    EMQ_ROLE_RATE_DURATION = 23,
    EMQ_NUM_ROLES = 24,
};

enum {
    EMQ_SOURCE_NO_JOBS = 0,
    EMQ_SOURCE_NAMED_JOB = 1,
    EMQ_SOURCE_LISTED_JOBS = 2,
    EMQ_SOURCE_LISTED_QUEUES = 3,
    EMQ_SOURCE_WALKED_JOBS = 4,
    EMQ_SOURCE_SCANNED_JOBS = 5,
};

enum {
    EMQ_TYPE_UNREAD = 0,
    EMQ_TYPE_NONE = 1,
    EMQ_TYPE_STRING = 2,
    EMQ_TYPE_LIST = 3,
    EMQ_TYPE_HASH = 4,
    EMQ_TYPE_SET = 5,
    EMQ_TYPE_SORTED_SET = 6,
    EMQ_TYPE_MODULE = 7,
    EMQ_TYPE_STREAM = 8,
};

enum {
    EMQ_VALUE_CONST = 0,
    EMQ_VALUE_ARG = 1,
    EMQ_VALUE_INT = 2,
    EMQ_VALUE_EPOCH = 3,
};

enum {
    EMQ_VERB_ENQUEUE = 0,
    EMQ_VERB_CLAIM = 1,
    EMQ_VERB_COMPLETE = 2,
    EMQ_VERB_FAIL = 3,
    EMQ_VERB_SCHEDULE = 4,
    EMQ_VERB_EXTEND = 5,
    EMQ_VERB_PROMOTE = 6,
    EMQ_VERB_REAP = 7,
    EMQ_VERB_STATS = 8,
    EMQ_VERB_AUDIT = 9,
    EMQ_VERB_MENQUEUE = 10,
    EMQ_VERB_MSCHEDULE = 11,
    EMQ_VERB_MCLAIM = 12,
    EMQ_VERB_MCOMPLETE = 13,
    EMQ_VERB_MEXTEND = 14,
    EMQ_VERB_MFAIL = 15,
    EMQ_VERB_BCLAIM = 16,
    EMQ_VERB_RELEASE = 17,
    EMQ_VERB_REQUEUE = 18,
    EMQ_VERB_REMOVE = 19,
    EMQ_VERB_PAUSE = 20,
    EMQ_VERB_RESUME = 21,
    EMQ_VERB_LIMIT = 22,
    EMQ_VERB_QUEUES = 23,
    EMQ_NUM_VERBS = 24,
};

enum {
    EMQ_NO_WORD = 0,
    EMQ_WORD_NO_JOB = 1,
    EMQ_WORD_NO_ROW = 2,
    EMQ_WORD_NO_HASH = 3,
    EMQ_WORD_ATTEMPTS = 4,
    EMQ_WORD_TWO_SETS = 5,
    EMQ_WORD_STATE = 6,
    EMQ_WORD_NO_SET = 7,
    EMQ_WORD_GATE = 8,
    EMQ_WORD_PENDING = 9,
    EMQ_WORD_ACTIVE = 10,
    EMQ_WORD_SCHEDULE = 11,
    EMQ_WORD_DEAD = 12,
    EMQ_WORD_ROWS = 13,
    EMQ_WORD_META = 14,
    EMQ_WORD_DROP = 15,
    EMQ_WORD_LEAVE = 16,
    EMQ_NUM_WORDS = 17,
};

/* The module's own version, as a decimal MMmmpp. */
#define EMQ_VERSION 200

/* One X(verb) for each verb, in their order. */
#define EMQ_EACH_VERB(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23)

/* A Go string that views bytes of the server's. */
typedef struct {
    const char *p;
    intptr_t n;
} emq_bytes;

typedef struct {
    emq_bytes id;
    double deadline;
    uint32_t present;
    int32_t shift;
    int32_t twin;
    uint8_t type;
    uint8_t active;
    uint8_t member;
    uint8_t looked;
    emq_bytes row[9];
} emq_job;
_Static_assert(sizeof(emq_job) == 184, "Job");
_Static_assert(offsetof(emq_job, id) == 0, "Job.ID");
_Static_assert(offsetof(emq_job, deadline) == 16, "Job.Deadline");
_Static_assert(offsetof(emq_job, present) == 24, "Job.Present");
_Static_assert(offsetof(emq_job, shift) == 28, "Job.Shift");
_Static_assert(offsetof(emq_job, twin) == 32, "Job.Twin");
_Static_assert(offsetof(emq_job, type) == 36, "Job.Type");
_Static_assert(offsetof(emq_job, active) == 37, "Job.Active");
_Static_assert(offsetof(emq_job, member) == 38, "Job.Member");
_Static_assert(offsetof(emq_job, looked) == 39, "Job.Looked");
_Static_assert(offsetof(emq_job, row) == 40, "Job.Row");

typedef struct {
    int64_t sizes[8];
    double next[8];
    int64_t waiting;
    emq_bytes oldest;
} emq_figures;
_Static_assert(sizeof(emq_figures) == 152, "Figures");
_Static_assert(offsetof(emq_figures, sizes) == 0, "Figures.Sizes");
_Static_assert(offsetof(emq_figures, next) == 64, "Figures.Next");
_Static_assert(offsetof(emq_figures, waiting) == 128, "Figures.Waiting");
_Static_assert(offsetof(emq_figures, oldest) == 136, "Figures.Oldest");

typedef struct {
    struct {
        emq_bytes *at;
        intptr_t n, room;
    } args;
    struct {
        emq_job *at;
        intptr_t n, room;
    } jobs;
    emq_bytes identity;
    emq_bytes epoch;
    struct {
        emq_bytes *at;
        intptr_t n, room;
    } probes;
    const emq_figures *figures;
    int64_t num_active;
    int64_t max_payload;
    int64_t now;
    int64_t served_since;
    uint64_t scanned_to;
    int32_t step;
    int32_t first;
    int32_t slice;
    uint32_t probed;
    uint8_t types[8];
    uint8_t identity_type;
    uint8_t replica;
    uint8_t ended;
    uint8_t scanned;
} emq_call;
_Static_assert(sizeof(emq_call) == 184, "Call");
_Static_assert(offsetof(emq_call, args) == 0, "Call.Args");
_Static_assert(offsetof(emq_call, jobs) == 24, "Call.Jobs");
_Static_assert(offsetof(emq_call, identity) == 48, "Call.Identity");
_Static_assert(offsetof(emq_call, epoch) == 64, "Call.Epoch");
_Static_assert(offsetof(emq_call, probes) == 80, "Call.Probes");
_Static_assert(offsetof(emq_call, figures) == 104, "Call.Figures");
_Static_assert(offsetof(emq_call, num_active) == 112, "Call.NumActive");
_Static_assert(offsetof(emq_call, max_payload) == 120, "Call.MaxPayload");
_Static_assert(offsetof(emq_call, now) == 128, "Call.Now");
_Static_assert(offsetof(emq_call, served_since) == 136, "Call.ServedSince");
_Static_assert(offsetof(emq_call, scanned_to) == 144, "Call.ScannedTo");
_Static_assert(offsetof(emq_call, step) == 152, "Call.Step");
_Static_assert(offsetof(emq_call, first) == 156, "Call.First");
_Static_assert(offsetof(emq_call, slice) == 160, "Call.Slice");
_Static_assert(offsetof(emq_call, probed) == 164, "Call.Probed");
_Static_assert(offsetof(emq_call, types) == 168, "Call.Types");
_Static_assert(offsetof(emq_call, identity_type) == 176, "Call.IdentityType");
_Static_assert(offsetof(emq_call, replica) == 177, "Call.Replica");
_Static_assert(offsetof(emq_call, ended) == 178, "Call.Ended");
_Static_assert(offsetof(emq_call, scanned) == 179, "Call.Scanned");

typedef struct {
    int64_t values[5];
    int64_t score;
    int32_t job;
    uint8_t fields[5];
    uint8_t kinds[5];
    uint8_t op;
    uint8_t key;
    uint8_t or_else;
    uint8_t n;
    uint8_t changed;
    uint8_t emptied;
} emq_effect;
_Static_assert(sizeof(emq_effect) == 72, "Effect");
_Static_assert(offsetof(emq_effect, values) == 0, "Effect.Values");
_Static_assert(offsetof(emq_effect, score) == 40, "Effect.Score");
_Static_assert(offsetof(emq_effect, job) == 48, "Effect.Job");
_Static_assert(offsetof(emq_effect, fields) == 52, "Effect.Fields");
_Static_assert(offsetof(emq_effect, kinds) == 57, "Effect.Kinds");
_Static_assert(offsetof(emq_effect, op) == 62, "Effect.Op");
_Static_assert(offsetof(emq_effect, key) == 63, "Effect.Key");
_Static_assert(offsetof(emq_effect, or_else) == 64, "Effect.OrElse");
_Static_assert(offsetof(emq_effect, n) == 65, "Effect.N");
_Static_assert(offsetof(emq_effect, changed) == 66, "Effect.Changed");
_Static_assert(offsetof(emq_effect, emptied) == 67, "Effect.Emptied");

typedef struct {
    uint8_t what;
    uint8_t where;
    uint8_t remedy;
    uint8_t applied;
} emq_finding;
_Static_assert(sizeof(emq_finding) == 4, "Finding");
_Static_assert(offsetof(emq_finding, what) == 0, "Finding.What");
_Static_assert(offsetof(emq_finding, where) == 1, "Finding.Where");
_Static_assert(offsetof(emq_finding, remedy) == 2, "Finding.Remedy");
_Static_assert(offsetof(emq_finding, applied) == 3, "Finding.Applied");

typedef struct {
    int64_t token;
    uint8_t disposition;
    uint8_t result;
    emq_finding finding;
    uint8_t changed;
} emq_mark;
_Static_assert(sizeof(emq_mark) == 16, "Mark");
_Static_assert(offsetof(emq_mark, token) == 0, "Mark.Token");
_Static_assert(offsetof(emq_mark, disposition) == 8, "Mark.Disposition");
_Static_assert(offsetof(emq_mark, result) == 9, "Mark.Result");
_Static_assert(offsetof(emq_mark, finding) == 10, "Mark.Finding");
_Static_assert(offsetof(emq_mark, changed) == 14, "Mark.Changed");

typedef struct {
    int64_t kind;
    int64_t n;
} emq_reply;
_Static_assert(sizeof(emq_reply) == 16, "Reply");
_Static_assert(offsetof(emq_reply, kind) == 0, "Reply.Kind");
_Static_assert(offsetof(emq_reply, n) == 8, "Reply.N");

typedef struct {
    uint64_t at;
    uint8_t key;
} emq_scan;
_Static_assert(sizeof(emq_scan) == 16, "Scan");
_Static_assert(offsetof(emq_scan, at) == 0, "Scan.At");
_Static_assert(offsetof(emq_scan, key) == 8, "Scan.Key");

typedef struct {
    int32_t taken;
    int32_t moved;
    int32_t counted;
} emq_tally;
_Static_assert(sizeof(emq_tally) == 12, "Tally");
_Static_assert(offsetof(emq_tally, taken) == 0, "Tally.Taken");
_Static_assert(offsetof(emq_tally, moved) == 4, "Tally.Moved");
_Static_assert(offsetof(emq_tally, counted) == 8, "Tally.Counted");

typedef struct {
    struct {
        emq_effect *at;
        intptr_t n, room;
    } effects;
    struct {
        emq_mark *at;
        intptr_t n, room;
    } marks;
    emq_reply reply;
    emq_scan scan;
    emq_finding gates;
    uint32_t broken_gates;
    emq_tally tally;
    int64_t room;
    int64_t opens;
    int32_t done;
    int32_t want;
    int32_t text_len;
    uint8_t refusal;
    uint8_t next;
    uint8_t result;
    uint8_t admitted;
    uint8_t claim_identity;
    uint8_t gated;
    int32_t job;
    int64_t given[12];
    int64_t numbers[15];
    uint8_t text[1024];
} emq_outcome;
_Static_assert(sizeof(emq_outcome) == 1384, "Outcome");
_Static_assert(offsetof(emq_outcome, effects) == 0, "Outcome.Effects");
_Static_assert(offsetof(emq_outcome, marks) == 24, "Outcome.Marks");
_Static_assert(offsetof(emq_outcome, reply) == 48, "Outcome.Reply");
_Static_assert(offsetof(emq_outcome, scan) == 64, "Outcome.Scan");
_Static_assert(offsetof(emq_outcome, gates) == 80, "Outcome.Gates");
_Static_assert(offsetof(emq_outcome, broken_gates) == 84, "Outcome.BrokenGates");
_Static_assert(offsetof(emq_outcome, tally) == 88, "Outcome.Tally");
_Static_assert(offsetof(emq_outcome, room) == 104, "Outcome.Room");
_Static_assert(offsetof(emq_outcome, opens) == 112, "Outcome.Opens");
_Static_assert(offsetof(emq_outcome, done) == 120, "Outcome.Done");
_Static_assert(offsetof(emq_outcome, want) == 124, "Outcome.Want");
_Static_assert(offsetof(emq_outcome, text_len) == 128, "Outcome.TextLen");
_Static_assert(offsetof(emq_outcome, refusal) == 132, "Outcome.Refusal");
_Static_assert(offsetof(emq_outcome, next) == 133, "Outcome.Next");
_Static_assert(offsetof(emq_outcome, result) == 134, "Outcome.Result");
_Static_assert(offsetof(emq_outcome, admitted) == 135, "Outcome.Admitted");
_Static_assert(offsetof(emq_outcome, claim_identity) == 136, "Outcome.ClaimIdentity");
_Static_assert(offsetof(emq_outcome, gated) == 137, "Outcome.Gated");
_Static_assert(offsetof(emq_outcome, job) == 140, "Outcome.job");
_Static_assert(offsetof(emq_outcome, given) == 144, "Outcome.given");
_Static_assert(offsetof(emq_outcome, numbers) == 240, "Outcome.Numbers");
_Static_assert(offsetof(emq_outcome, text) == 360, "Outcome.Text");

typedef struct {
    uint8_t key;
    uint8_t field;
    uint8_t more;
} emq_probe;
_Static_assert(sizeof(emq_probe) == 3, "Probe");
_Static_assert(offsetof(emq_probe, key) == 0, "Probe.Key");
_Static_assert(offsetof(emq_probe, field) == 1, "Probe.Field");
_Static_assert(offsetof(emq_probe, more) == 2, "Probe.More");

#endif
