/* The part of the module API that this module uses, declared from the server's documented ABI.
 *
 * Each function is resolved by name at load, through the pointer that is the first member of every context; see abi.c.
 * If one is missing, the load is refused and the log names it. Everything here is in Valkey since 8.0.0. */
#ifndef EMQ_ABI_H
#define EMQ_ABI_H

#include <stddef.h>
#include <stdint.h>

/* Hidden symbols are accessed directly, without the indirection of exported ones; -fvisibility does not cover
 * declarations. */
#pragma GCC visibility push(hidden)

typedef struct vm_ctx vm_ctx;
typedef struct vm_string vm_string;
typedef struct vm_key vm_key;
typedef struct vm_command vm_command;
typedef struct vm_reply vm_reply;
typedef struct vm_info vm_info;
typedef struct vm_info_ctx vm_info_ctx;
typedef struct vm_cursor vm_cursor;
typedef struct vm_blocked vm_blocked;
typedef struct vm_user vm_user;
typedef struct vm_dict vm_dict;
typedef struct vm_dict_iterator vm_dict_iterator;

enum { VM_OK = 0, VM_ERR = 1, VM_APIVER = 1 };

/* Modes of OpenKey. */
enum {
    VM_READ = 1 << 0,
    VM_WRITE = 1 << 1,
    VM_OPEN_NOTOUCH = 1 << 16,
    VM_OPEN_NONOTIFY = 1 << 17,
    VM_OPEN_NOSTATS = 1 << 18,
    VM_OPEN_NOEXPIRE = 1 << 19,
    VM_OPEN_UNSEEN = VM_OPEN_NOTOUCH | VM_OPEN_NONOTIFY | VM_OPEN_NOSTATS | VM_OPEN_NOEXPIRE,
};

/* What KeyType returns. */
enum { VM_TYPE_EMPTY, VM_TYPE_STRING, VM_TYPE_LIST, VM_TYPE_HASH, VM_TYPE_SET, VM_TYPE_ZSET };

/* Flags of HashSet and HashGet, and the value that removes a field. */
enum { VM_HASH_NONE = 0, VM_HASH_EXISTS = 1 << 3 };
#define VM_HASH_DELETE ((vm_string *)(intptr_t)1)

/* What ZsetAdd reports. */
enum { VM_ZADD_ADDED = 1 << 2, VM_ZADD_UPDATED = 1 << 3 };

/* Classes of keyspace events. Two are for modules only: LOADED, a key was read from a snapshot; NEW, a key was created. */
enum {
    VM_NOTIFY_GENERIC = 1 << 2,
    VM_NOTIFY_HASH = 1 << 6,
    VM_NOTIFY_ZSET = 1 << 7,
    VM_NOTIFY_LOADED = 1 << 12,
    VM_NOTIFY_NEW = 1 << 14,
};

/* Flags of a context. */
enum {
    VM_CTX_SCRIPT = 1 << 0,
    VM_CTX_MULTI = 1 << 1,
    VM_CTX_REPLICA = 1 << 3,
    VM_CTX_CLUSTER = 1 << 5,
    VM_CTX_LOADING = 1 << 13,
    VM_CTX_DENY_BLOCKING = 1 << 21,
    VM_CTX_ASYNC_LOADING = 1 << 23,
    VM_CTX_SERVER_STARTUP = 1 << 24,
};

/* Module options. The last exists since 8.1; older servers ignore it. */
enum {
    VM_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED = 1 << 1,
    VM_OPTION_HANDLE_REPL_ASYNC_LOAD = 1 << 2,
    VM_OPTION_SKIP_COMMAND_VALIDATION = 1 << 4,
};

/* Wakes a client that is blocked on a key although the key does not exist. */
enum { VM_BLOCK_UNBLOCK_DELETED = 1 << 0 };

/* Reasons of an entry in the ACL log. */
enum { VM_ACL_LOG_COMMAND = 1, VM_ACL_LOG_KEY = 2 };

/* What CallReplyType returns. */
enum { VM_REPLY_STRING = 0, VM_REPLY_ERROR = 1, VM_REPLY_ARRAY = 3, VM_REPLY_NULL = 4 };

/* The length of an array that ReplySetArrayLength sets later. */
enum { VM_POSTPONED_LEN = -1 };

/* Server events. */
typedef struct {
    uint64_t id;
    uint64_t version;
} vm_event;
enum {
    VM_EVENT_ROLE_CHANGED = 0,
    VM_EVENT_FLUSHDB = 2,
    VM_EVENT_LOADING = 3,
    VM_EVENT_SHUTDOWN = 5,
    VM_EVENT_SWAPDB = 11,
    VM_EVENT_EVENTLOOP = 15,
    VM_EVENT_CONFIG = 16,
    VM_EVENT_VERSION = 1,
};
enum { VM_EVENTLOOP_BEFORE_SLEEP = 0 };
enum { VM_FLUSHDB_START = 0 };
enum { VM_LOADING_ENDED = 3 };

/* What comes with FLUSHDB, with SWAPDB and with CONFIG. */
typedef struct {
    uint64_t version;
    int32_t sync;
    int32_t db; /* -1: all */
} vm_flush;
typedef struct {
    uint64_t version;
    int32_t first, second;
} vm_swap;
typedef struct {
    uint64_t version;
    uint32_t count;
    const char **names;
} vm_config_change;

typedef int (*vm_command_fn)(vm_ctx *, vm_string **, int);
typedef void (*vm_free_fn)(vm_ctx *, void *);
typedef void (*vm_disconnect_fn)(vm_ctx *, vm_blocked *);
typedef void (*vm_event_fn)(vm_ctx *, vm_event, uint64_t, void *);
typedef int (*vm_notify_fn)(vm_ctx *, int class, const char *event, vm_string *name);
typedef void (*vm_scan_fn)(vm_ctx *, vm_string *name, vm_key *, void *);
typedef void (*vm_timer_fn)(vm_ctx *, void *);
typedef void (*vm_info_fn)(vm_info_ctx *, int for_crash_report);
typedef long long (*vm_get_number_fn)(const char *name, void *);
typedef int (*vm_set_number_fn)(const char *name, long long, void *, vm_string **error);
typedef int (*vm_apply_fn)(vm_ctx *, void *, vm_string **error);

/* Command info, as SetCommandInfo reads it. */
enum { VM_ARG_STRING = 0, VM_ARG_INTEGER = 1, VM_ARG_KEY = 3, VM_ARG_PURE_TOKEN = 6, VM_ARG_BLOCK = 8 };
enum { VM_ARG_OPTIONAL = 1 << 0, VM_ARG_MULTIPLE = 1 << 1 };
typedef struct vm_arg {
    const char *name;
    int type;
    int key_spec;
    const char *token;
    const char *summary;
    const char *since;
    int flags;
    const char *deprecated_since;
    struct vm_arg *subargs;
    const char *display_text;
} vm_arg;

typedef struct {
    const char *since;
    const char *changes;
} vm_history;

enum { VM_BEGIN_INDEX = 2, VM_FIND_RANGE = 2 };
typedef struct {
    const char *notes;
    uint64_t flags;
    int begin;
    union {
        struct {
            int pos;
        } index;
        struct {
            const char *keyword;
            int start;
        } keyword;
    } bs;
    int find;
    union {
        struct {
            int last, step, limit;
        } range;
        struct {
            int index, first, step;
        } keynum;
    } fk;
} vm_key_spec;

typedef struct {
    int version;
    size_t sizeof_history, sizeof_key_spec, sizeof_arg;
} vm_info_version;

typedef struct {
    const vm_info_version *version;
    const char *summary;
    const char *complexity;
    const char *since;
    vm_history *history;
    const char *tips;
    int arity;
    vm_key_spec *key_specs;
    vm_arg *args;
} vm_command_info;

/* One line a function: X(result, name, arguments). */
/* clang-format off */
#define VM_FUNCTIONS(X)                                                                                                \
    X(void *, Alloc, (size_t))                                                                                         \
    X(void *, Realloc, (void *, size_t))                                                                               \
    X(void, Free, (void *))                                                                                            \
    X(void, GetRandomBytes, (unsigned char *, size_t))                                                                 \
    X(void, Log, (vm_ctx *, const char *level, const char *format, ...))                                               \
    /* load */                                                                                                         \
    X(int, IsModuleNameBusy, (const char *name))                                                                       \
    X(void, SetModuleAttribs, (vm_ctx *, const char *name, int version, int apiver))                                   \
    X(void, SetModuleOptions, (vm_ctx *, int options))                                                                 \
    X(int, GetServerVersion, (void))                                                                                   \
    X(int, GetContextFlags, (vm_ctx *))                                                                                \
    X(vm_info *, GetServerInfo, (vm_ctx *, const char *section))                                                       \
    X(const char *, ServerInfoGetFieldC, (vm_info *, const char *field))                                               \
    X(void, FreeServerInfo, (vm_ctx *, vm_info *))                                                                     \
    X(int, RegisterInfoFunc, (vm_ctx *, vm_info_fn))                                                                   \
    X(int, InfoAddSection, (vm_info_ctx *, const char *name))                                                          \
    X(int, InfoAddFieldString, (vm_info_ctx *, const char *field, vm_string *value))                                   \
    X(int, InfoAddFieldCString, (vm_info_ctx *, const char *field, const char *value))                                 \
    X(int, InfoAddFieldULongLong, (vm_info_ctx *, const char *field, unsigned long long value))                        \
    X(int, SubscribeToServerEvent, (vm_ctx *, vm_event, vm_event_fn))                                                  \
    X(int, SubscribeToKeyspaceEvents, (vm_ctx *, int classes, vm_notify_fn))                                           \
    X(int, RegisterNumericConfig, (vm_ctx *, const char *name, long long def, unsigned flags, long long min,           \
                                   long long max, vm_get_number_fn, vm_set_number_fn, vm_apply_fn, void *))            \
    X(int, LoadConfigs, (vm_ctx *))                                                                                    \
    X(int, CreateCommand, (vm_ctx *, const char *name, vm_command_fn, const char *flags, int, int, int))               \
    X(vm_command *, GetCommand, (vm_ctx *, const char *name))                                                          \
    X(int, SetCommandInfo, (vm_command *, const vm_command_info *))                                                    \
    X(int, AddACLCategory, (vm_ctx *, const char *name))                                                               \
    X(int, SetCommandACLCategories, (vm_command *, const char *categories))                                            \
    X(int, IsKeysPositionRequest, (vm_ctx *))                                                                          \
    X(void, KeyAtPosWithFlags, (vm_ctx *, int pos, int flags))                                                         \
    X(vm_reply *, Call, (vm_ctx *, const char *name, const char *format, ...))                                         \
    X(void, FreeCallReply, (vm_reply *))                                                                               \
    X(int, CallReplyType, (vm_reply *))                                                                                \
    X(const char *, CallReplyStringPtr, (vm_reply *, size_t *len))                                                     \
    X(vm_reply *, CallReplyArrayElement, (vm_reply *, size_t index))                                                   \
    /* strings */                                                                                                      \
    X(vm_string *, CreateString, (vm_ctx *, const char *, size_t))                                                     \
    X(vm_string *, CreateStringFromLongLong, (vm_ctx *, long long))                                                    \
    X(void, RetainString, (vm_ctx *, vm_string *))                                                                     \
    X(void, FreeString, (vm_ctx *, vm_string *))                                                                       \
    X(const char *, StringPtrLen, (const vm_string *, size_t *len))                                                    \
    /* databases and time */                                                                                           \
    X(int, GetSelectedDb, (vm_ctx *))                                                                                  \
    X(int, SelectDb, (vm_ctx *, int db))                                                                               \
    X(vm_cursor *, ScanCursorCreate, (void))                                                                           \
    X(void, ScanCursorRestart, (vm_cursor *))                                                                          \
    X(void, ScanCursorDestroy, (vm_cursor *))                                                                          \
    X(int, Scan, (vm_ctx *, vm_cursor *, vm_scan_fn, void *))                                                          \
    X(uint64_t, CreateTimer, (vm_ctx *, long long ms, vm_timer_fn, void *))                                            \
    X(int, StopTimer, (vm_ctx *, uint64_t timer, void **data))                                                         \
    X(int, AvoidReplicaTraffic, (void))                                                                                \
    /* keys */                                                                                                         \
    X(vm_key *, OpenKey, (vm_ctx *, vm_string *name, int mode))                                                        \
    X(void, CloseKey, (vm_key *))                                                                                      \
    X(int, KeyType, (vm_key *))                                                                                        \
    X(size_t, ValueLength, (vm_key *))                                                                                 \
    X(int, DeleteKey, (vm_key *))                                                                                      \
    X(char *, StringDMA, (vm_key *, size_t *len, int mode))                                                            \
    X(int, HashGet, (vm_key *, int flags, ...))                                                                        \
    X(int, HashSet, (vm_key *, int flags, ...))                                                                        \
    X(int, ZsetAdd, (vm_key *, double score, vm_string *, int *flags))                                                 \
    X(int, ZsetRem, (vm_key *, vm_string *, int *deleted))                                                             \
    X(int, ZsetScore, (vm_key *, vm_string *, double *score))                                                          \
    X(int, ZsetFirstInScoreRange, (vm_key *, double min, double max, int minex, int maxex))                            \
    X(vm_string *, ZsetRangeCurrentElement, (vm_key *, double *score))                                                 \
    X(int, ZsetRangeNext, (vm_key *))                                                                                  \
    X(void, ZsetRangeStop, (vm_key *))                                                                                 \
    /* effects */                                                                                                      \
    X(long long, Milliseconds, (void))                                                                                 \
    X(long long, CachedMicroseconds, (void))                                                                           \
    X(int, Replicate, (vm_ctx *, const char *name, const char *format, ...))                                           \
    X(int, SignalModifiedKey, (vm_ctx *, vm_string *name))                                                             \
    X(int, NotifyKeyspaceEvent, (vm_ctx *, int class, const char *event, vm_string *name))                             \
    /* clients that wait, and their rights */                                                                           \
    X(vm_blocked *, BlockClientOnKeysWithFlags, (vm_ctx *, vm_command_fn on_ready, vm_command_fn on_timeout, vm_free_fn, \
                                                 long long timeout_ms, vm_string **keys, int num_keys, void *, int flags)) \
    X(void, SetDisconnectCallback, (vm_blocked *, vm_disconnect_fn))                                                   \
    X(void *, GetBlockedClientPrivateData, (vm_ctx *))                                                                 \
    X(void, SignalKeyAsReady, (vm_ctx *, vm_string *key))                                                              \
    X(vm_ctx *, GetThreadSafeContext, (vm_blocked *))                                                                  \
    X(vm_ctx *, GetDetachedThreadSafeContext, (vm_ctx *))                                                              \
    X(void, FreeThreadSafeContext, (vm_ctx *))                                                                         \
    X(unsigned long long, GetClientId, (vm_ctx *))                                                                     \
    X(vm_string *, GetCurrentUserName, (vm_ctx *))                                                                     \
    X(vm_string *, GetClientUserNameById, (vm_ctx *, uint64_t client))                                                 \
    X(vm_user *, GetModuleUserFromUserName, (vm_string *name))                                                         \
    X(int, FreeModuleUser, (vm_user *))                                                                                \
    X(int, ACLCheckCommandPermissions, (vm_user *, vm_string **argv, int argc))                                        \
    X(int, ACLCheckKeyPermissions, (vm_user *, vm_string *key, int flags))                                             \
    X(int, ACLAddLogEntryByUserName, (vm_ctx *, vm_string *user, vm_string *object, int reason))                       \
    /* dictionaries, in the order of their keys' bytes */                                                              \
    X(vm_dict *, CreateDict, (vm_ctx *))                                                                               \
    X(int, DictSetC, (vm_dict *, void *key, size_t len, void *))                                                       \
    X(void *, DictGetC, (vm_dict *, void *key, size_t len, int *missing))                                              \
    X(int, DictDelC, (vm_dict *, void *key, size_t len, void *))                                                       \
    X(uint64_t, DictSize, (vm_dict *))                                                                                 \
    X(vm_dict_iterator *, DictIteratorStartC, (vm_dict *, const char *op, void *key, size_t len))                      \
    X(void *, DictNextC, (vm_dict_iterator *, size_t *len, void **data))                                               \
    X(int, DictIteratorReseekC, (vm_dict_iterator *, const char *op, void *key, size_t len))                           \
    X(void, DictIteratorStop, (vm_dict_iterator *))                                                                    \
    /* replies */                                                                                                      \
    X(int, WrongArity, (vm_ctx *))                                                                                     \
    X(int, ReplyWithError, (vm_ctx *, const char *))                                                                   \
    X(int, ReplyWithLongLong, (vm_ctx *, long long))                                                                   \
    X(int, ReplyWithString, (vm_ctx *, vm_string *))                                                                   \
    X(int, ReplyWithArray, (vm_ctx *, long))                                                                           \
    X(int, ReplyWithSimpleString, (vm_ctx *, const char *))                                                            \
    X(int, ReplyWithEmptyArray, (vm_ctx *))                                                                            \
    X(void, ReplySetArrayLength, (vm_ctx *, long))                                                                     \
    X(int, ReplyWithMap, (vm_ctx *, long))                                                                             \
    X(int, ReplyWithNull, (vm_ctx *))
/* clang-format on */

#define VM_DECLARE(result, name, args) extern result(*vm_##name) args;
VM_FUNCTIONS(VM_DECLARE)
#undef VM_DECLARE

/* Resolves every function. Returns NULL, or the name of the first one that the server does not have. */
const char *vm_resolve(vm_ctx *ctx);

#pragma GCC visibility pop

#endif
