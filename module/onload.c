/* Load, unload and the event loop. The order of the steps of ValkeyModule_OnLoad matters; each says why. */
#include "emq.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "_cgo_export.h"

enum { MIN_SERVER = 0x080000, FIELDS_EXPIRE_SINCE = 0x090000 };

static int loaded; /* this library is the server's module emq */
static int live;   /* the event loop has run since the load, and will run again */

static void on_event_loop(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)event, (void)data;
    if (sub != VM_EVENTLOOP_BEFORE_SLEEP || emq_is_child) return;
    live = 1;
    emq_queues_turn(ctx);
    emq_pump_turn(ctx);
    emq_waiting_turn(ctx);
    emq_yield_turn();
}

static void on_role_changed(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)event, (void)sub, (void)data;
    emq_is_replica = (vm_GetContextFlags(ctx) & VM_CTX_REPLICA) != 0;
    emq_pump_role_changed();
}

/* From 9.1 on the server unloads its modules at shutdown, and warns of a module that has a timer or refuses. */
static void on_shutdown(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)event, (void)sub, (void)data;
    emq_queues_stop(ctx);
    emq_pump_stop(ctx);
    emq_waiting_stop(ctx);
    live = 0;
}

static void on_fork(void) { emq_is_child = 1; }

/* ---- Steps of the load ---- */

/* Go makes the host's signal handlers run on the signal stack of the interrupted thread. The one that Go would allocate
 * has 32 KiB and no guard page, and the host's crash reporter needs nearly all of that, so a larger one is installed
 * before Go sees the thread. It is never freed: a handler may be running on it. */
static int make_signal_stack(void) {
    enum { SIZE = 256 << 10 };
    static void *made;
    if (made) return 1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, SIZE + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE)) return 0;
    stack_t stack = {.ss_sp = p + page, .ss_size = SIZE};
    if (sigaltstack(&stack, NULL)) return 0;
    made = p;
    return 1;
}

/* The host's memory test at a crash overwrites Go's memory, and the stack that the crash reporter runs on: the report
 * is cut short, and the server may hang instead of exiting. */
static void switch_memcheck_off(vm_ctx *ctx) {
    vm_reply *reply = vm_Call(ctx, "CONFIG", "ccc", "SET", "crash-memcheck-enabled", "no");
    if (reply && vm_CallReplyType(reply) != VM_REPLY_ERROR)
        vm_Log(ctx, "notice",
               "crash-memcheck-enabled is now no: its test destroys the Go runtime and cuts crash reports short "
               "(load argument keep-crash-memcheck leaves it alone)");
    else
        vm_Log(ctx, "warning", "crash-memcheck-enabled could not be set to no: crash reports may be cut short");
    if (reply) vm_FreeCallReply(reply);
}

static void warn_of_eviction(vm_ctx *ctx) {
    vm_reply *reply = vm_Call(ctx, "CONFIG", "cc", "GET", "maxmemory-policy");
    if (reply && vm_CallReplyType(reply) == VM_REPLY_ARRAY) {
        size_t n = 0;
        vm_reply *value = vm_CallReplyArrayElement(reply, 1);
        const char *policy = value ? vm_CallReplyStringPtr(value, &n) : NULL;
        if (policy && n > 8 && !strncmp(policy, "allkeys-", 8))
            vm_Log(ctx, "warning",
                   "maxmemory-policy is %.*s: under memory pressure the server may evict jobs; use noeviction", (int)n,
                   policy);
    }
    if (reply) vm_FreeCallReply(reply);
}

static int read_run_id(vm_ctx *ctx) {
    vm_info *info = vm_GetServerInfo(ctx, "server");
    const char *id = info ? vm_ServerInfoGetFieldC(info, "run_id") : NULL;
    if (id && !emq_run_id) {
        size_t n;
        emq_run_id = vm_CreateString(NULL, id, strlen(id));
        emq_epoch.p = vm_StringPtrLen(emq_run_id, &n);
        emq_epoch.n = (intptr_t)n;
    }
    if (info) vm_FreeServerInfo(ctx, info);
    return id != NULL;
}

static int subscribe(vm_ctx *ctx) {
    return vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_EVENTLOOP, VM_EVENT_VERSION}, on_event_loop) == VM_OK &&
           vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_ROLE_CHANGED, VM_EVENT_VERSION}, on_role_changed) ==
               VM_OK &&
           vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_SHUTDOWN, VM_EVENT_VERSION}, on_shutdown) == VM_OK;
}

static int refuse(vm_ctx *ctx, const char *why) {
    vm_Log(ctx, "warning", "not loaded: %s", why);
    return VM_ERR;
}

/* Commands are propagated under their plain names, so a server on which one of them is renamed could not read its own
 * AOF. The names are those of the effects, and of the commands that the server adds: MULTI, EXEC and SELECT around
 * them, DEL and UNLINK for expired keys, HMSET for a row in a rewritten AOF. Dry run: ENOENT means that the name is
 * unknown, and missing arguments ensure that nothing executes. */
static const char *find_renamed(vm_ctx *ctx) {
    static const char *const names[] = {"SET",  "HSET", "HMSET",  "HDEL",  "HINCRBY", "ZADD",
                                        "ZREM", "DEL",  "UNLINK", "MULTI", "EXEC",    "SELECT"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        errno = 0;
        vm_reply *reply = vm_Call(ctx, names[i], "D");
        int unknown = errno == ENOENT;
        if (reply) vm_FreeCallReply(reply);
        if (unknown) return names[i];
    }
    return NULL;
}

/* Unloads the module that an earlier loadmodule line of the same start has loaded. */
static int give_up_first(vm_ctx *ctx) {
    vm_reply *reply = vm_Call(ctx, "MODULE", "cc", "UNLOAD", "emq");
    int done = reply && vm_CallReplyType(reply) != VM_REPLY_ERROR;
    if (reply) vm_FreeCallReply(reply);
    return done;
}

static int read_arguments(vm_ctx *ctx, vm_string **argv, int argc, int *keep_memcheck) {
    for (int i = 0; i < argc; i++) {
        size_t n;
        const char *arg = vm_StringPtrLen(argv[i], &n);
        if (n == strlen("keep-crash-memcheck") && !strncasecmp(arg, "keep-crash-memcheck", n)) {
            *keep_memcheck = 1;
        } else {
            vm_Log(ctx, "warning", "not loaded: unknown load argument '%.*s'; the only one is keep-crash-memcheck",
                   (int)(n > 64 ? 64 : n), arg);
            return 0;
        }
    }
    return 1;
}

__attribute__((visibility("default"))) int ValkeyModule_OnLoad(vm_ctx *ctx, vm_string **argv, int argc) {
    int keep_memcheck = 0;
    const char *missing = vm_resolve(ctx);
    if (missing) {
        /* The log function itself may be missing. */
        if (vm_Log) vm_Log(ctx, "warning", "not loaded: this server lacks %s; Valkey 8.0 or later is needed", missing);
        return VM_ERR;
    }
    /* Check the preconditions before any side effect. */
    int flags = vm_GetContextFlags(ctx), again = vm_IsModuleNameBusy("emq");
    if (again && !(loaded && flags & VM_CTX_SERVER_STARTUP)) return refuse(ctx, "a module named emq is loaded already");
    vm_SetModuleAttribs(ctx, "emq", EMQ_VERSION, VM_APIVER);
    if (again) {
        /* CONFIG REWRITE adds a loadmodule line to the one in an included file. If the second load failed, the server
         * would not start, so it replaces the first. */
        if (!give_up_first(ctx))
            return refuse(ctx, "an earlier loadmodule line has loaded it, and MODULE UNLOAD is refused");
        vm_Log(ctx, "warning",
               "more than one loadmodule line loads emq, but it is loaded only once. CONFIG REWRITE adds a line if the "
               "first is in an included file or a flag; remove one of them");
    }
    int server = vm_GetServerVersion();
    if (server < MIN_SERVER) {
        vm_Log(ctx, "warning", "not loaded: server version %d.%d.%d, needed 8.0.0 or later", server >> 16,
               server >> 8 & 0xff, server & 0xff);
        return VM_ERR;
    }
    emq_fields_expire = server >= FIELDS_EXPIRE_SINCE;
    if (!read_arguments(ctx, argv, argc, &keep_memcheck)) return VM_ERR;
    if (flags & VM_CTX_CLUSTER)
        return refuse(ctx, "the server is cluster-enabled; {emq}:version and the queues lie in different slots, so a "
                           "node could not check the identity of its own queues. Use a standalone server");
    emq_is_replica = (flags & VM_CTX_REPLICA) != 0;
    /* Settings first: one that is out of bounds refuses the load while everything can still be undone. */
    if (!emq_load_config(ctx, again)) return refuse(ctx, "a setting emq.* was refused; the line above says why");
    const char *renamed = find_renamed(ctx);
    if (renamed) {
        vm_Log(ctx, "warning",
               "not loaded: this server has no command %s (see rename-command), which the verbs propagate to the "
               "append-only file and replicas",
               renamed);
        return VM_ERR;
    }

    /* These must be in place before Go runs. */
    if (!make_signal_stack()) return refuse(ctx, "no memory for a signal stack");
    if (pthread_atfork(NULL, NULL, on_fork)) return refuse(ctx, "pthread_atfork failed");
    if (!keep_memcheck) switch_memcheck_off(ctx);

    /* The Go runtime starts in a thread of its own; this call waits for it, so that a load that succeeds means that Go
     * works. */
    if (!emqStart()) return refuse(ctx, "the Go runtime did not start");
    if (!read_run_id(ctx)) return refuse(ctx, "the server does not tell its run_id");
    /* Each effect signals its own key; the plain commands that are propagated need no validation; and the register of
     * queues stays correct while a snapshot is loaded beside the data that are served. */
    vm_SetModuleOptions(ctx, VM_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED | VM_OPTION_SKIP_COMMAND_VALIDATION |
                                 VM_OPTION_HANDLE_REPL_ASYNC_LOAD);
    const char *failed = emqRegister(ctx);
    if (failed) return refuse(ctx, failed);
#ifdef EMQ_DEBUG
    if (emq_register_debug(ctx) != VM_OK) return refuse(ctx, "EMQ.DEBUG could not be registered");
#endif
    if (vm_RegisterInfoFunc(ctx, emq_info) != VM_OK) return refuse(ctx, "INFO could not be registered");
    if (!subscribe(ctx) || !emq_queues_subscribe(ctx) || !emq_serving_subscribe(ctx))
        return refuse(ctx, "no subscription to the server's events");
    /* At start-up the server loads the data after the modules, with an event for each key. */
    if (!(flags & VM_CTX_SERVER_STARTUP)) emq_queues_scan();

    warn_of_eviction(ctx);
    loaded = 1;
    live = 0;
    char *description = emqDescription();
    vm_Log(ctx, "notice", "emq %s, on Valkey %d.%d.%d (8.0.0 or later is needed)", description ? description : "?",
           server >> 16, server >> 8 & 0xff, server & 0xff);
    free(description);
    return VM_OK;
}

/* The Go runtime can't leave a process: after an unload it would stay, and a reload would run the old code. So
 * unloading is allowed only before the event loop runs, when the server unloads a module whose settings it refuses, and
 * at shutdown. */
__attribute__((visibility("default"))) int ValkeyModule_OnUnload(vm_ctx *ctx) {
    if (!live) {
        loaded = 0;
        return VM_OK;
    }
    vm_Log(ctx, "warning",
           "unload refused: the Go runtime can't leave the process, and a reload would run the old code. To upgrade or "
           "remove the module, restart the server");
    return VM_ERR;
}
