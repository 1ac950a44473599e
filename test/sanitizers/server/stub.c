/* A host for the module in the place of Valkey: the module API of module/abi.h over a store in memory, in a process that can run
 * under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer, as a packaged server can't. It takes a server's
 * arguments and speaks its protocol on a unix socket, so that suites use it like a server.
 *
 * It is stricter than a server. It exits at once when the module
 *   - does not reply to a command exactly once, or refuses it after a write;
 *   - keeps a key, memory or a reply of the API after the command, or ever more strings;
 *   - writes to a key that it opened for reading, or continues the walk of a set that has changed;
 *   - has a key open where other modules' callbacks may run: when a key is created or may expire;
 *   - creates a key through a handle opened with NOEXPIRE, where an expired one may still be;
 *   - changes a key without signalling it, or signals one that it did not change;
 *   - replies to a blocked client in a way that can't be undone, or not exactly once when it reports that it has;
 *   - propagates anything else than it did: the propagated commands are executed on a second store, which must be equal. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "stub.h"

/* The types that are opaque to the module. */
struct vm_string {
    bytes b;
    int owners;
};
struct vm_key {
    bytes name;
    int db;
    int mode;
    size_t at;      /* of the range */
    size_t end;
    unsigned seen;  /* the store's changes when the range began */
    int ranging;
    vm_ctx *by;          /* the context that opened it */
    struct vm_key *next; /* the next open key */
};
struct vm_command {
    char *name;
    vm_command_fn run;
    int arity;
};
struct vm_reply {
    int type;
    bytes b;
    struct vm_reply **element;
    size_t n;
};
struct vm_info {
    char *run_id;
};
struct vm_info_ctx {
    text lines;
    int in_section;
};
struct vm_cursor {
    size_t at;
    int done;
};
struct vm_ctx {
    int (*get_api)(const char *, void *); /* the first member, by the ABI */
    int db;
    int asks_for_keys;
    text reply;
    long replies; /* number of replies still expected; arrays add theirs */
    size_t postponed;
    int refused, wrote;
    const char *verb;
    struct vm_blocked *blocked; /* the one whose callback this is, or that the command has made */
};

typedef struct {
    int fd, db;
    unsigned long long id;
    text in;
    struct vm_blocked *blocked;
} client;

/* A client that waits, until the module's last callback for it. */
struct vm_blocked {
    client *who; /* NULL: it has disconnected, or got another reply */
    vm_string **argv, *key;
    int argc, db, is_ready, unblocked;
    int64_t due_ms; /* 0: never */
    vm_command_fn on_ready, on_timeout;
    vm_free_fn on_free;
    vm_disconnect_fn on_disconnect;
    void *with;
    text reply; /* of its thread-safe contexts */
    long replies;
    vm_blocked *next, *next_ready, *next_done;
};

enum { MAX_CLIENTS = 64, MAX_COMMANDS = 64, MAX_CHANGED = 4096, MAX_WORDS = 8192, MAX_SETTINGS = 16, MAX_TIMERS = 8 };

/* The module may cache the names of some queues and some decimals; if it keeps more strings than this, it leaks them. */
enum { MAX_KEPT = 640 };

static store data, replica;
static vm_command commands[MAX_COMMANDS];
static int num_commands, is_replica, module_options;
static vm_event_fn on_event_loop, on_role, on_flush, on_swap, on_shutdown;
typedef int (*load_fn)(vm_ctx *, vm_string **, int);
static load_fn on_unload;
static vm_notify_fn on_key;
static vm_info_fn on_info;
static int key_events;
static struct {
    const char *name;
    long long min, max, start;
    vm_get_number_fn get;
    vm_set_number_fn set;
    void *data;
} settings[MAX_SETTINGS];
static int num_settings, settings_loaded, started, server_version = 0x080001;
static char **command_line;
static struct {
    vm_timer_fn run;
    void *data;
    int64_t due_ms;
} timers[MAX_TIMERS];
static unsigned changes;
static struct {
    bytes name;
    int signalled;
} changed[MAX_CHANGED];
static int num_changed;
static enum { RIGHTS, NO_RIGHTS, NO_USER } rights;
static volatile sig_atomic_t stopped;
static int64_t now_us;

/* What the module holds of the host's. */
static struct {
    long strings, keys, blocks, replies, infos;
} held;
static long strings_loaded;

_Noreturn void fault(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("=== BUG REPORT of the stub host: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    abort();
}

#define API(result, name, args) static result api_##name args;
VM_FUNCTIONS(API)
#undef API

static int get_api(const char *name, void *to) {
    static const struct {
        const char *name;
        void *f;
    } table[] = {
#define API(result, name, args) {"ValkeyModule_" #name, (void *)api_##name},
        VM_FUNCTIONS(API)
#undef API
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(table[i].name, name)) continue;
        memcpy(to, &table[i].f, sizeof(void *));
        return VM_OK;
    }
    return VM_ERR;
}

/* ---- Memory, strings, log ---- */

static void *api_Alloc(size_t n) { held.blocks++; return malloc(n); }

static void *api_Realloc(void *p, size_t n) {
    if (!p) held.blocks++;
    void *to = malloc(n); /* a new place each time */
    if (p) memcpy(to, p, n < malloc_usable_size(p) ? n : malloc_usable_size(p));
    free(p);
    return to;
}

static void api_GetRandomBytes(unsigned char *to, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = (unsigned char)random();
}

static void api_Free(void *p) {
    if (p) held.blocks--;
    free(p);
}

static void api_Log(vm_ctx *ctx, const char *level, const char *format, ...) {
    va_list args;
    (void)ctx;
    va_start(args, format);
    fprintf(stderr, "<emq> %s ", level);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

static vm_string *api_CreateString(vm_ctx *ctx, const char *p, size_t n) {
    if (ctx) fault("a string that a context would free");
    vm_string *s = malloc(sizeof(*s));
    *s = (vm_string){copy_of(p, n), 1};
    held.strings++;
    return s;
}

static void api_RetainString(vm_ctx *ctx, vm_string *s) {
    if (ctx) fault("a string that a context would free");
    s->owners++;
    held.strings++;
}

static vm_string *api_CreateStringFromLongLong(vm_ctx *ctx, long long n) {
    char digits[32];
    return api_CreateString(ctx, digits, (size_t)snprintf(digits, sizeof(digits), "%lld", n));
}

static void api_FreeString(vm_ctx *ctx, vm_string *s) {
    (void)ctx;
    held.strings--;
    if (--s->owners) return;
    free(s->b.p);
    free(s);
}

static const char *api_StringPtrLen(const vm_string *s, size_t *n) {
    *n = s->b.n;
    return s->b.p;
}

/* ---- Load ---- */

static int api_IsModuleNameBusy(const char *name) { return strcmp(name, "emq") != 0; }
static void api_SetModuleAttribs(vm_ctx *ctx, const char *name, int version, int apiver) {
    (void)ctx;
    if (strcmp(name, "emq") || version < 1 || apiver != VM_APIVER) fault("attributes %s %d %d", name, version, apiver);
}
static void api_SetModuleOptions(vm_ctx *ctx, int options) { (void)ctx; module_options = options; }
static int api_GetServerVersion(void) { return server_version; }
static int in_exec, is_paused;
static int api_GetContextFlags(vm_ctx *ctx) {
    (void)ctx;
    return (in_exec ? VM_CTX_MULTI : 0) | (is_replica ? VM_CTX_REPLICA : 0);
}

static vm_info *api_GetServerInfo(vm_ctx *ctx, const char *section) {
    (void)ctx;
    if (strcmp(section, "server") && strcmp(section, "commandstats")) fault("section %s", section);
    vm_info *info = malloc(sizeof(*info));
    info->run_id = strdup("0123456789abcdef0123456789abcdef01234567");
    held.infos++;
    return info;
}

/* Pretends that RENAME, which the stub does not have, is called all the time. */
static const char *api_ServerInfoGetFieldC(vm_info *info, const char *field) {
    static char stats[32];
    if (!strcmp(field, "cmdstat_rename")) {
        snprintf(stats, sizeof(stats), "calls=%u", changes);
        return stats;
    }
    return strcmp(field, "run_id") ? NULL : info->run_id;
}

static void api_FreeServerInfo(vm_ctx *ctx, vm_info *info) {
    (void)ctx;
    free(info->run_id);
    free(info);
    held.infos--;
}

static int api_RegisterInfoFunc(vm_ctx *ctx, vm_info_fn f) {
    (void)ctx;
    on_info = f;
    return VM_OK;
}

static int api_InfoAddSection(vm_info_ctx *info, const char *name) {
    put(&info->lines, "# emq_%s\r\n", name);
    info->in_section = 1;
    return VM_OK;
}

static int api_InfoAddFieldCString(vm_info_ctx *info, const char *field, const char *value) {
    if (!info->in_section || strpbrk(field, ": \r\n") || strpbrk(value, "\r\n")) fault("INFO: field %s", field);
    put(&info->lines, "emq_%s:%s\r\n", field, value);
    return VM_OK;
}

static int api_InfoAddFieldString(vm_info_ctx *info, const char *field, vm_string *value) {
    if (!info->in_section) fault("INFO: field %s", field);
    put(&info->lines, "emq_%s:%.*s\r\n", field, (int)value->b.n, value->b.p);
    return VM_OK;
}

static int api_InfoAddFieldULongLong(vm_info_ctx *info, const char *field, unsigned long long value) {
    char digits[32];
    snprintf(digits, sizeof(digits), "%llu", value);
    return api_InfoAddFieldCString(info, field, digits);
}

static int api_SubscribeToServerEvent(vm_ctx *ctx, vm_event event, vm_event_fn f) {
    (void)ctx;
    if (event.id == VM_EVENT_EVENTLOOP) on_event_loop = f;
    if (event.id == VM_EVENT_ROLE_CHANGED) on_role = f;
    if (event.id == VM_EVENT_FLUSHDB) on_flush = f;
    if (event.id == VM_EVENT_SWAPDB) on_swap = f;
    if (event.id == VM_EVENT_SHUTDOWN) on_shutdown = f;
    return VM_OK;
}

static int api_SubscribeToKeyspaceEvents(vm_ctx *ctx, int classes, vm_notify_fn f) {
    (void)ctx;
    key_events = classes;
    on_key = f;
    return VM_OK;
}

static int api_RegisterNumericConfig(vm_ctx *ctx, const char *name, long long start, unsigned flags, long long min,
                                     long long max, vm_get_number_fn get, vm_set_number_fn set, vm_apply_fn apply,
                                     void *data) {
    (void)ctx;
    if (num_settings == MAX_SETTINGS || flags || apply || start < min || start > max) fault("the setting %s", name);
    settings[num_settings].name = name;
    settings[num_settings].start = start;
    settings[num_settings].min = min;
    settings[num_settings].max = max;
    settings[num_settings].get = get;
    settings[num_settings].set = set;
    settings[num_settings++].data = data;
    return VM_OK;
}

/* The value of a setting on the command line, or its default. */
static long long wanted(int setting) {
    for (char **word = command_line; *word; word++)
        if (word[1] && !strncmp(*word, "--emq.", 6) && !strcmp(*word + 6, settings[setting].name)) return atoll(word[1]);
    return settings[setting].start;
}

static int api_LoadConfigs(vm_ctx *ctx) {
    (void)ctx;
    for (int i = 0; i < num_settings; i++)
        if (settings[i].set(settings[i].name, wanted(i), settings[i].data, NULL) != VM_OK) return VM_ERR;
    settings_loaded = 1;
    return VM_OK;
}

static int api_CreateCommand(vm_ctx *ctx, const char *name, vm_command_fn f, const char *flags, int a, int b, int c) {
    (void)ctx, (void)flags, (void)a, (void)b, (void)c;
    if (num_commands == MAX_COMMANDS) fault("too many commands");
    commands[num_commands++] = (vm_command){.name = strdup(name), .run = f};
    return VM_OK;
}

static vm_command *api_GetCommand(vm_ctx *ctx, const char *name) {
    (void)ctx;
    for (int i = 0; i < num_commands; i++)
        if (!strcasecmp(commands[i].name, name)) return &commands[i];
    return NULL;
}

/* Reads all of the info, as a server does to copy it. */
static int api_SetCommandInfo(vm_command *command, const vm_command_info *info) {
    size_t n = strlen(info->summary) + strlen(info->complexity) + strlen(info->since) + (info->tips ? strlen(info->tips) : 0);
    int args = 0, specs = 0;
    for (const vm_arg *a = info->args; a && a->name; a++, args++) {
        n += strlen(a->name);
        if ((a->type == VM_ARG_BLOCK) != (a->subargs != NULL)) fault("%s: a block that is none", command->name);
        for (const vm_arg *sub = a->subargs; sub && sub->name; sub++) n += strlen(sub->name);
    }
    for (const vm_key_spec *k = info->key_specs; k && k->begin; k++, specs++) n += k->bs.index.pos;
    if (info->arity > 0 && args != info->arity - 1) fault("%s: %d arguments of %d", command->name, args, info->arity);
    if (!n || (!specs && strcmp(command->name, "EMQ.QUEUES"))) fault("%s: no documentation", command->name);
    command->arity = info->arity;
    return VM_OK;
}

static int api_AddACLCategory(vm_ctx *ctx, const char *name) { (void)ctx; return *name ? VM_OK : VM_ERR; }
static int api_SetCommandACLCategories(vm_command *c, const char *names) { return c && *names ? VM_OK : VM_ERR; }
static int api_IsKeysPositionRequest(vm_ctx *ctx) { return ctx->asks_for_keys; }
static void api_KeyAtPosWithFlags(vm_ctx *ctx, int pos, int flags) {
    if (!flags) fault("a key without an access");
    put(&ctx->reply, ":%d\r\n", pos);
    ctx->replies++;
}

/* ---- Commands that the module calls ---- */

static vm_reply *new_reply(int type, const char *s) {
    vm_reply *r = calloc(1, sizeof(*r));
    r->type = type;
    r->b = copy_of(s, strlen(s));
    held.replies++;
    return r;
}

static vm_reply *add_element(vm_reply *list, vm_reply *r) {
    list->element = realloc(list->element, (list->n + 1) * sizeof(*list->element));
    return list->element[list->n++] = r;
}

static vm_reply *add_bytes(vm_reply *list, bytes b) {
    vm_reply *r = add_element(list, new_reply(VM_REPLY_STRING, ""));
    free(r->b.p);
    r->b = copy_of(b.p, b.n);
    return r;
}

/* Whether a name matches a pattern: characters, which may be escaped by backslashes, and a star. */
static int matches(bytes pattern, bytes name) {
    size_t at = 0;
    for (size_t i = 0; i < pattern.n; i++, at++) {
        if (pattern.p[i] == '*') return i + 1 == pattern.n;
        if (strchr("?[", pattern.p[i])) fault("a pattern that this host does not know");
        if (pattern.p[i] == '\\') i++;
        if (at == name.n || name.p[at] != pattern.p[i]) return 0;
    }
    return at == name.n;
}

/* SCAN cursor MATCH pattern COUNT n, and ZSCAN key cursor COUNT n. The cursor is the number of elements before. */
static vm_reply *scan(int db, const bytes *argv, int argc) {
    int rows = !strcmp(argv[0].p, "SCAN");
    unsigned long from = strtoul(argv[rows ? 1 : 2].p, NULL, 10), at = 0;
    char digits[32];
    snprintf(digits, sizeof(digits), "%.*s", (int)argv[argc - 1].n, argv[argc - 1].p);
    unsigned long to = from + strtoul(digits, NULL, 10);
    vm_reply *reply = new_reply(VM_REPLY_ARRAY, ""), *list = new_reply(VM_REPLY_ARRAY, "");
    object *o = rows ? data.db[db] : find(&data, db, argv[1]);
    if (rows) {
        for (; o && at < to; o = o->next, at++)
            if (at >= from && matches(argv[3], o->name)) add_bytes(list, o->name);
    } else {
        for (at = from; o && at < to && at < o->n; at++) {
            add_bytes(list, o->items[at].name);
            add_bytes(list, (bytes){"0", 1});
        }
        if (o && at >= o->n) o = NULL;
    }
    snprintf(digits, sizeof(digits), "%lu", o ? at : 0);
    add_bytes(reply, (bytes){digits, strlen(digits)});
    add_element(reply, list);
    return reply;
}

static void note_change(bytes name) {
    changes++;
    for (int i = 0; i < num_changed; i++)
        if (same(changed[i].name, name)) return;
    if (num_changed == MAX_CHANGED) fault("too many keys were changed");
    changed[num_changed].name = copy_of(name.p, name.n);
    changed[num_changed++].signalled = 0;
}

/* Collects the words of a format; returns their number. Other letters are modifiers. */
static int words(bytes *to, const char *format, va_list args, int *as_user) {
    int n = 1;
    for (; *format; format++) {
        if (n == MAX_WORDS) fault("too many words");
        if (*format == 's') {
            to[n++] = va_arg(args, vm_string *)->b;
        } else if (*format == 'c') {
            const char *s = va_arg(args, const char *);
            to[n++] = (bytes){(char *)s, strlen(s)};
        } else if (*format == 'v') {
            vm_string **list = va_arg(args, vm_string **);
            size_t of = va_arg(args, size_t);
            if ((size_t)n + of > MAX_WORDS) fault("too many words");
            for (size_t i = 0; i < of; i++) to[n++] = list[i]->b;
        } else if (*format == 'C') {
            *as_user = 1;
        } else if (!strchr("!EDS", *format)) {
            fault("format %c", *format);
        }
    }
    return n;
}

static vm_reply *api_Call(vm_ctx *ctx, const char *name, const char *format, ...) {
    if (held.keys) fault("a key is open across a call");
    bytes argv[MAX_WORDS] = {{(char *)name, strlen(name)}};
    int as_user = 0;
    va_list args;
    va_start(args, format);
    int n = words(argv, format, args, &as_user);
    va_end(args);
    errno = 0;
    if (strchr(format, 'D')) { /* a dry run */
        if (as_user && rights == NO_USER) errno = ENOTSUP;
        if (n > 1 || !strcmp(name, "PING")) return NULL;
        errno = EINVAL;
        return new_reply(VM_REPLY_ERROR, "ERR wrong number of arguments");
    }
    if (!strcmp(name, "CONFIG")) {
        if (argv[1].p[0] == 'S') return new_reply(VM_REPLY_STRING, "OK");
        vm_reply *list = new_reply(VM_REPLY_ARRAY, "");
        add_element(list, new_reply(VM_REPLY_STRING, "maxmemory-policy"));
        add_element(list, new_reply(VM_REPLY_STRING, "allkeys-lru"));
        return list;
    }
    if (!strcmp(name, "SCAN") || !strcmp(name, "ZSCAN")) return scan(ctx->db, argv, n);
    if (as_user && rights == NO_USER) errno = ENOTSUP;
    if (as_user && rights != RIGHTS) return new_reply(VM_REPLY_ERROR, "NOPERM no rights");
    text reply = {0}, other = {0};
    if (!plain(&data, &ctx->db, argv, n, &reply) || !plain(&replica, &ctx->db, argv, n, &other)) fault("call of %s", name);
    int null = reply.p[0] == '$';
    free(reply.p);
    free(other.p);
    return new_reply(null ? VM_REPLY_NULL : VM_REPLY_STRING, "OK");
}

static void api_FreeCallReply(vm_reply *r) {
    for (size_t i = 0; i < r->n; i++) api_FreeCallReply(r->element[i]);
    free(r->element);
    free(r->b.p);
    free(r);
    held.replies--;
}

static int api_CallReplyType(vm_reply *r) { return r->type; }
static const char *api_CallReplyStringPtr(vm_reply *r, size_t *n) { *n = r->b.n; return r->b.p; }
static vm_reply *api_CallReplyArrayElement(vm_reply *r, size_t i) { return i < r->n ? r->element[i] : NULL; }

/* ---- Callbacks of the module other than commands ---- */

static vm_ctx *running;

/* Begin and end a call of the module without a client. It may keep memory, and a timer some strings, as a verb may; all
 * else it must free. */
typedef struct {
    vm_ctx ctx, *was;
    long blocks, strings, keys, replies, may_keep;
} visit;

static vm_ctx *enter(visit *v, int db) {
    *v = (visit){.ctx = {.get_api = get_api, .db = db}, .was = running, .blocks = held.blocks, .strings = held.strings,
                 .keys = held.keys, .replies = held.replies};
    return running = &v->ctx;
}

static void leave(visit *v, const char *what) {
    long kept = v->was ? 0 : held.strings - strings_loaded; /* a verb that is interrupted holds what it needs */
    if (held.strings - v->strings > v->may_keep || kept > MAX_KEPT || held.keys != v->keys || held.replies != v->replies || held.infos)
        fault("a callback for %s keeps %ld strings, %ld keys, %ld replies", what, held.strings - v->strings,
              held.keys - v->keys, held.replies - v->replies);
    if (v->ctx.replies) fault("a callback for %s replies", what);
    held.blocks = v->blocks;
    running = v->was;
}

static void tell_of_key(store *s, int db, bytes name) {
    int class = key_events & (VM_NOTIFY_NEW | VM_NOTIFY_ZSET); /* whichever it listens to */
    if (s != &data || !on_key || !class) return;
    visit v;
    vm_ctx *ctx = enter(&v, db);
    vm_string *copy = api_CreateString(NULL, name.p, name.n);
    on_key(ctx, class, "new", copy);
    if (copy->owners != 1) fault("the name of a key is kept");
    api_FreeString(NULL, copy);
    leave(&v, "a key");
}

static void tell(vm_event_fn f, uint64_t id, uint64_t sub, void *with, const char *what) {
    visit v;
    if (!f) return;
    f(enter(&v, 0), (vm_event){id, VM_EVENT_VERSION}, sub, with);
    leave(&v, what);
}

/* ---- Clients that wait ---- */

static int64_t coarse_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void set_clock(void) {
    struct timeval t;
    gettimeofday(&t, NULL);
    now_us = (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

static client clients[MAX_CLIENTS], *current; /* the one whose command runs */
static vm_blocked *all_blocked, *first_ready, **last_ready = &first_ready, *first_done, **last_done = &first_done;

/* What must hold after each call of the module that may write. */
static void check_effects(const char *what) {
    for (int i = 0; i < num_changed; i++) {
        if (!changed[i].signalled) fault("%s does not signal %.*s", what, (int)changed[i].name.n, changed[i].name.p);
        free(changed[i].name.p);
    }
    num_changed = 0;
    if (!equal(&data, &replica)) fault("%s propagates something else than it does", what);
}

static vm_blocked *api_BlockClientOnKeysWithFlags(vm_ctx *ctx, vm_command_fn on_ready, vm_command_fn on_timeout, vm_free_fn on_free,
                                                  long long timeout_ms, vm_string **keys, int num_keys, void *with, int flags) {
    if (in_exec || !current || current->blocked || ctx->blocked) fault("a client is blocked where that is denied");
    if (num_keys != 1 || flags != VM_BLOCK_UNBLOCK_DELETED) fault("blocked on %d keys", num_keys);
    vm_blocked *b = calloc(1, sizeof(*b));
    *b = (vm_blocked){.who = current, .db = ctx->db, .due_ms = timeout_ms ? coarse_ms() + timeout_ms : 0, .on_ready = on_ready,
                      .on_timeout = on_timeout, .on_free = on_free, .with = with, .replies = 1, .next = all_blocked};
    b->key = api_CreateString(NULL, keys[0]->b.p, keys[0]->b.n);
    held.strings--; /* it is ours */
    return all_blocked = current->blocked = ctx->blocked = b;
}

static void api_SetDisconnectCallback(vm_blocked *b, vm_disconnect_fn f) { b->on_disconnect = f; }
static void *api_GetBlockedClientPrivateData(vm_ctx *ctx) {
    if (!ctx->blocked) fault("private data of no blocked client");
    return ctx->blocked->with;
}
static unsigned long long api_GetClientId(vm_ctx *ctx) { (void)ctx; return current ? current->id : 0; }
static vm_string *api_GetClientUserNameById(vm_ctx *ctx, uint64_t id) {
    (void)ctx, (void)id;
    return rights == NO_USER ? NULL : api_CreateString(NULL, "default", 7);
}
static int api_ACLCheckCommandPermissions(vm_user *user, vm_string **argv, int argc) {
    (void)user;
    for (int i = 0; i < argc; i++)
        if (!argv[i]->owners) fault("an argument that is gone");
    return rights == RIGHTS ? VM_OK : VM_ERR;
}
static int api_ACLAddLogEntryByUserName(vm_ctx *ctx, vm_string *user, vm_string *object, int reason) {
    (void)ctx;
    if (!user->owners || !object->owners || !reason) fault("an entry of the log");
    return VM_OK;
}

/* A second signal before the first is handled has no effect. */
static void api_SignalKeyAsReady(vm_ctx *ctx, vm_string *key) {
    for (vm_blocked *b = all_blocked; b; b = b->next) {
        if (!b->who || b->db != ctx->db || !same(b->key->b, key->b)) continue;
        if (b->is_ready) return;
        b->is_ready = 1;
        b->next_ready = NULL;
        *last_ready = b;
        last_ready = &b->next_ready;
        return;
    }
}

static vm_ctx *api_GetThreadSafeContext(vm_blocked *b) {
    vm_ctx *ctx = calloc(1, sizeof(*ctx));
    *ctx = (vm_ctx){.get_api = get_api, .db = b->db, .replies = b->replies, .blocked = b};
    return ctx;
}

static vm_ctx *api_GetDetachedThreadSafeContext(vm_ctx *ctx) {
    (void)ctx;
    vm_ctx *own = calloc(1, sizeof(*own));
    own->get_api = get_api;
    return own;
}

static void api_FreeThreadSafeContext(vm_ctx *ctx) {
    vm_blocked *b = ctx->blocked;
    b->replies = ctx->replies;
    if (ctx->reply.n) {
        b->reply.p = realloc(b->reply.p, b->reply.n + ctx->reply.n);
        memcpy(b->reply.p + b->reply.n, ctx->reply.p, ctx->reply.n);
        b->reply.n += ctx->reply.n;
    }
    free(ctx->reply.p);
    free(ctx);
}

static void send_to(client *c, const text *t) {
    for (size_t sent = 0; sent < t->n;) {
        ssize_t n = write(c->fd, t->p + sent, t->n - sent);
        if (n < 0 && errno != EINTR) break;
        if (n > 0) sent += (size_t)n;
    }
}

/* The module is done with the client; its last callback comes before the event loop sleeps. */
static void set_done(vm_blocked *b) {
    if (b->unblocked) return;
    b->unblocked = 1;
    b->next_done = NULL;
    *last_done = b;
    last_done = &b->next_done;
}

/* The client has disconnected, or got another reply. */
static void disconnect(client *c) {
    vm_blocked *b = c->blocked;
    if (!b) return;
    if (b->on_disconnect) {
        visit v;
        vm_ctx *ctx = enter(&v, b->db);
        ctx->blocked = b;
        b->on_disconnect(ctx, b);
        leave(&v, "a client that is gone");
    }
    set_done(b);
    b->who = NULL;
    c->blocked = NULL;
}

static void time_out(client *c) {
    vm_blocked *b = c->blocked;
    if (b->unblocked) return;
    visit v;
    vm_ctx *ctx = enter(&v, b->db);
    ctx->blocked = b;
    ctx->replies = 1;
    b->on_timeout(ctx, b->argv, b->argc);
    text reply = ctx->reply;
    leave(&v, "a timeout");
    send_to(c, &reply);
    free(reply.p);
    b->on_disconnect = NULL;
    disconnect(c);
}

/* Calls on_ready for those that were signalled, in that order, before any other client's command. */
static void serve_ready(void) {
    while (!in_exec && first_ready) {
        vm_blocked *b = first_ready;
        if (!(first_ready = b->next_ready)) last_ready = &first_ready;
        b->is_ready = 0;
        if (!b->who || b->unblocked) continue;
        visit v;
        set_clock();
        vm_ctx *ctx = enter(&v, b->db);
        v.may_keep = MAX_KEPT;
        ctx->blocked = b;
        int served = b->on_ready(ctx, b->argv, b->argc) == VM_OK;
        if (ctx->reply.n) fault("an answer that can't be taken back");
        leave(&v, "a client that is served");
        check_effects("a client that is served");
        if (served == (b->replies != 0)) fault("%ld replies too few to a client that is %sserved", b->replies, served ? "" : "not ");
        if (served) set_done(b);
    }
}

static void hear_rest(client *c);

/* Makes the last callbacks, and sends the replies. */
static void free_done(void) {
    while (first_done) {
        vm_blocked *b = first_done, **at = &all_blocked;
        if (!(first_done = b->next_done)) last_done = &first_done;
        if (b->is_ready) fault("freed while it is signalled");
        visit v;
        vm_ctx *ctx = enter(&v, b->db);
        v.may_keep = MAX_KEPT;
        b->on_free(ctx, b->with);
        leave(&v, "a client that waits no more");
        client *c = b->who;
        if (c) {
            send_to(c, &b->reply);
            c->blocked = NULL;
        }
        while (*at != b) at = &(*at)->next;
        *at = b->next;
        for (int i = 0; i < b->argc; i++) api_FreeString(NULL, b->argv[i]);
        held.strings += b->argc + 1;
        api_FreeString(NULL, b->key);
        free(b->argv);
        free(b->reply.p);
        free(b);
        if (c) hear_rest(c);
    }
}

/* ---- Databases and time ---- */

static int api_GetSelectedDb(vm_ctx *ctx) { return ctx->db; }

static int api_SelectDb(vm_ctx *ctx, int db) {
    if (db < 0 || db >= DATABASES) return VM_ERR;
    ctx->db = db;
    return VM_OK;
}

static vm_cursor *api_ScanCursorCreate(void) { return calloc(1, sizeof(vm_cursor)); }
static void api_ScanCursorRestart(vm_cursor *c) { *c = (vm_cursor){0}; }
static void api_ScanCursorDestroy(vm_cursor *c) { free(c); }

static int api_Scan(vm_ctx *ctx, vm_cursor *c, vm_scan_fn f, void *with) {
    object *o = data.db[ctx->db];
    if (c->done) return 0;
    for (size_t i = 0; o && i < c->at; i++) o = o->next;
    c->at++;
    if (o) {
        vm_string *name = api_CreateString(NULL, o->name.p, o->name.n);
        f(ctx, name, NULL, with);
        api_FreeString(NULL, name);
    }
    c->done = !o || !o->next;
    return !c->done;
}

static uint64_t api_CreateTimer(vm_ctx *ctx, long long ms, vm_timer_fn f, void *with) {
    (void)ctx;
    if (!started) fault("a timer before the first turn of the event loop: a server that takes the module back dies");
    for (int i = 0; i < MAX_TIMERS; i++) {
        if (timers[i].run) continue;
        timers[i].run = f;
        timers[i].data = with;
        timers[i].due_ms = coarse_ms() + ms;
        return (uint64_t)i + 1;
    }
    fault("too many timers");
}

static int api_StopTimer(vm_ctx *ctx, uint64_t timer, void **with) {
    (void)ctx, (void)with;
    if (!timer || timer > MAX_TIMERS || !timers[timer - 1].run) fault("a timer is stopped that does not run");
    timers[timer - 1].run = NULL;
    return VM_OK;
}

static int api_AvoidReplicaTraffic(void) { return is_paused; }

/* Runs due timers, and returns in how many ms the next one is due, at most `most`. */
static int run_timers(int most) {
    for (int i = 0; i < MAX_TIMERS; i++) {
        if (!timers[i].run || timers[i].due_ms > coarse_ms()) continue;
        vm_timer_fn f = timers[i].run;
        visit v;
        set_clock();
        timers[i].run = NULL;
        vm_ctx *ctx = enter(&v, 0);
        v.may_keep = MAX_KEPT;
        f(ctx, timers[i].data);
        leave(&v, "a timer");
    }
    for (int i = 0; i < MAX_TIMERS; i++) {
        int64_t left = timers[i].run ? timers[i].due_ms - coarse_ms() : most;
        if (left < most) most = left < 0 ? 0 : (int)left;
    }
    return most;
}

/* ---- Keys ---- */

static object *at(vm_key *key) { return find(&data, key->db, key->name); }

static vm_key *open_keys;

/* A key that is written must have only one handle: if the write removes the key, closing another would still use it. */
static void alone(const vm_key *key) {
    for (const vm_key *other = open_keys; other; other = other->next)
        if (other != key && other->by == running && same(other->name, key->name))
            fault("a key is written while it is open twice: %.*s", (int)key->name.n, key->name.p);
}

static object *to_write(vm_key *key, int type) {
    alone(key);
    if (!(key->mode & VM_WRITE)) fault("a write through a key that is open for reading");
    object *o = at(key);
    if (o && o->type != type) return NULL;
    running->wrote = 1;
    if (o) return o;
    if (key->mode & VM_OPEN_NOEXPIRE) fault("a key is made where one that has expired may stand");
    if (held.keys != 1) fault("a key is made while another is open");
    return make(&data, key->db, key->name, type);
}

static vm_key *api_OpenKey(vm_ctx *ctx, vm_string *name, int mode) {
    (void)ctx;
    if (!(mode & VM_OPEN_NOEXPIRE) && held.keys) fault("a key may expire while another is open");
    vm_key *key = calloc(1, sizeof(*key));
    *key = (vm_key){.name = copy_of(name->b.p, name->b.n), .db = ctx->db, .mode = mode, .by = running, .next = open_keys};
    open_keys = key;
    held.keys++;
    return key;
}

static void api_CloseKey(vm_key *key) {
    vm_key **at = &open_keys;
    while (*at != key) at = &(*at)->next;
    *at = key->next;
    free(key->name.p);
    free(key);
    held.keys--;
}

static int api_KeyType(vm_key *key) {
    object *o = at(key);
    return o ? o->type : VM_TYPE_EMPTY;
}

static size_t api_ValueLength(vm_key *key) { return at(key) ? at(key)->n : 0; }

static int api_DeleteKey(vm_key *key) {
    alone(key);
    if (!(key->mode & VM_WRITE)) return VM_ERR;
    if (!at(key)) return VM_OK;
    drop(&data, key->db, key->name);
    running->wrote = 1;
    note_change(key->name);
    return VM_OK;
}

static char *api_StringDMA(vm_key *key, size_t *n, int mode) {
    object *o = at(key);
    if (!o || o->type != VM_TYPE_STRING || mode != VM_READ) fault("StringDMA of what is no string");
    *n = o->string.n;
    return o->string.p;
}

static int api_HashGet(vm_key *key, int flags, ...) {
    object *o = at(key);
    if (o && o->type != VM_TYPE_HASH) return VM_ERR;
    va_list args;
    va_start(args, flags);
    for (vm_string *field; (field = va_arg(args, vm_string *));) {
        size_t i = o ? place_of(o, field->b) : 0;
        int there = o && i < o->n;
        if (flags & VM_HASH_EXISTS)
            *va_arg(args, int *) = there;
        else
            *va_arg(args, vm_string **) = there ? api_CreateString(NULL, o->items[i].value.p, o->items[i].value.n) : NULL;
    }
    va_end(args);
    return VM_OK;
}

static int api_HashSet(vm_key *key, int flags, ...) {
    int n = 0;
    va_list args;
    va_start(args, flags);
    for (vm_string *field; (field = va_arg(args, vm_string *));) {
        vm_string *value = va_arg(args, vm_string *);
        if (value == VM_HASH_DELETE && !at(key)) fault("a field is deleted of a key that is not there");
        object *o = to_write(key, VM_TYPE_HASH);
        if (!o) break;
        note_change(key->name);
        if (value == VM_HASH_DELETE)
            n += take_out(&data, key->db, o, field->b);
        else
            n += !put_field(o, field->b, value->b);
    }
    va_end(args);
    return n;
}

static int api_ZsetAdd(vm_key *key, double score, vm_string *member, int *flags) {
    object *o = to_write(key, VM_TYPE_ZSET);
    if (!o) return VM_ERR;
    int did = put_member(o, member->b, score);
    *flags = (did == 1 ? VM_ZADD_ADDED : 0) | (did == 2 ? VM_ZADD_UPDATED : 0);
    if (did) note_change(key->name);
    return VM_OK;
}

static int api_ZsetRem(vm_key *key, vm_string *member, int *deleted) {
    object *o = at(key);
    *deleted = 0;
    if (!o) return VM_OK;
    if (!(o = to_write(key, VM_TYPE_ZSET))) return VM_ERR;
    *deleted = take_out(&data, key->db, o, member->b);
    if (*deleted) note_change(key->name);
    return VM_OK;
}

static int api_ZsetScore(vm_key *key, vm_string *member, double *score) {
    object *o = at(key);
    if (!o || o->type != VM_TYPE_ZSET) return VM_ERR;
    size_t i = place_of(o, member->b);
    if (i == o->n) return VM_ERR;
    *score = o->items[i].score;
    return VM_OK;
}

/* The object that a range walks, which must be as it was when the range began. */
static object *range_of(vm_key *key) {
    if (!key->ranging || key->seen != changes) fault("a range over a set that has changed, or none");
    return at(key);
}

static int api_ZsetFirstInScoreRange(vm_key *key, double min, double max, int minex, int maxex) {
    object *o = at(key);
    if (!o || o->type != VM_TYPE_ZSET) return VM_ERR;
    key->ranging = 1;
    key->seen = changes;
    for (key->at = 0; key->at < o->n; key->at++)
        if (o->items[key->at].score > min || (o->items[key->at].score == min && !minex)) break;
    for (key->end = key->at; key->end < o->n; key->end++)
        if (o->items[key->end].score > max || (o->items[key->end].score == max && maxex)) break;
    return VM_OK;
}

static vm_string *api_ZsetRangeCurrentElement(vm_key *key, double *score) {
    object *o = range_of(key);
    if (key->at >= key->end) return NULL;
    if (score) *score = o->items[key->at].score;
    return api_CreateString(NULL, o->items[key->at].name.p, o->items[key->at].name.n);
}

static int api_ZsetRangeNext(vm_key *key) {
    range_of(key);
    if (key->at < key->end) key->at++;
    return key->at < key->end;
}

static void api_ZsetRangeStop(vm_key *key) { key->ranging = 0; }

/* ---- Users: there is only one, who may do everything or nothing ---- */

static vm_string *api_GetCurrentUserName(vm_ctx *ctx) {
    (void)ctx;
    if (rights == NO_USER) fault("a server crashes where there is no user");
    return api_CreateString(NULL, "default", 7);
}
static vm_user *api_GetModuleUserFromUserName(vm_string *name) { (void)name; return malloc(1); }
static int api_FreeModuleUser(vm_user *user) { free(user); return VM_OK; }
static int api_ACLCheckKeyPermissions(vm_user *user, vm_string *key, int flags) {
    (void)user, (void)key, (void)flags;
    return rights == RIGHTS ? VM_OK : VM_ERR;
}

/* ---- Dictionaries, in the order of their keys ---- */

struct vm_dict {
    struct {
        bytes key;
        void *value;
    } *entry;
    size_t n;
};
struct vm_dict_iterator {
    const vm_dict *dict;
    bytes after; /* the key of the last entry, or where it began */
    int at_start, inclusive;
};

/* The place of the first entry that is not before a key. */
static size_t place_in(const vm_dict *d, bytes key) {
    size_t i = 0;
    for (; i < d->n; i++) {
        bytes other = d->entry[i].key;
        int c = memcmp(other.p, key.p, other.n < key.n ? other.n : key.n);
        if (c > 0 || (!c && other.n >= key.n)) break;
    }
    return i;
}

static int holds(const vm_dict *d, size_t i, bytes key) { return i < d->n && same(d->entry[i].key, key); }

static vm_dict *api_CreateDict(vm_ctx *ctx) { (void)ctx; return calloc(1, sizeof(vm_dict)); }
static uint64_t api_DictSize(vm_dict *d) { return d->n; }

static int api_DictSetC(vm_dict *d, void *key, size_t n, void *value) {
    bytes k = {key, n};
    size_t i = place_in(d, k);
    if (holds(d, i, k)) return VM_ERR;
    void *grown = malloc((d->n + 1) * sizeof(*d->entry));
    if (d->n) memcpy(grown, d->entry, d->n * sizeof(*d->entry));
    free(d->entry);
    d->entry = grown;
    memmove(d->entry + i + 1, d->entry + i, (d->n++ - i) * sizeof(*d->entry));
    d->entry[i].key = copy_of(key, n);
    d->entry[i].value = value;
    return VM_OK;
}

static void *api_DictGetC(vm_dict *d, void *key, size_t n, int *missing) {
    size_t i = place_in(d, (bytes){key, n});
    int there = holds(d, i, (bytes){key, n});
    if (missing) *missing = !there;
    return there ? d->entry[i].value : NULL;
}

static int api_DictDelC(vm_dict *d, void *key, size_t n, void *old) {
    size_t i = place_in(d, (bytes){key, n});
    if (!holds(d, i, (bytes){key, n})) return VM_ERR;
    if (old) *(void **)old = d->entry[i].value;
    free(d->entry[i].key.p);
    memmove(d->entry + i, d->entry + i + 1, (--d->n - i) * sizeof(*d->entry));
    return VM_OK;
}

static int api_DictIteratorReseekC(vm_dict_iterator *it, const char *op, void *key, size_t n) {
    if (strcmp(op, "^") && strcmp(op, ">") && strcmp(op, ">=")) fault("a dictionary is walked by %s", op);
    bytes from = copy_of(key, n);
    free(it->after.p);
    it->after = from;
    it->at_start = *op == '^';
    it->inclusive = !strcmp(op, ">=");
    return 1;
}

static vm_dict_iterator *api_DictIteratorStartC(vm_dict *d, const char *op, void *key, size_t n) {
    vm_dict_iterator *it = calloc(1, sizeof(*it));
    it->dict = d;
    api_DictIteratorReseekC(it, op, key, n);
    return it;
}

static void *api_DictNextC(vm_dict_iterator *it, size_t *n, void **value) {
    const vm_dict *d = it->dict;
    size_t i = it->at_start ? 0 : place_in(d, it->after);
    if (!it->at_start && !it->inclusive && holds(d, i, it->after)) i++;
    if (i == d->n) return NULL;
    if (n) *n = d->entry[i].key.n;
    if (value) *value = d->entry[i].value;
    api_DictIteratorReseekC(it, ">", d->entry[i].key.p, d->entry[i].key.n);
    return d->entry[i].key.p;
}

static void api_DictIteratorStop(vm_dict_iterator *it) {
    free(it->after.p);
    free(it);
}

/* ---- Effects ---- */

static long long api_CachedMicroseconds(void) { return now_us; }

static long long api_Milliseconds(void) {
    struct timeval t;
    gettimeofday(&t, NULL);
    return (long long)t.tv_sec * 1000 + t.tv_usec / 1000;
}

static int api_Replicate(vm_ctx *ctx, const char *name, const char *format, ...) {
    bytes argv[MAX_WORDS] = {{(char *)name, strlen(name)}};
    int as_user = 0;
    text reply = {0};
    va_list args;
    va_start(args, format);
    int n = words(argv, format, args, &as_user);
    va_end(args);
    if (!plain(&replica, &ctx->db, argv, n, &reply)) fault("%s is propagated", name);
    if (reply.p[0] == '-') fault("a replica fails to carry out %s: %.*s", name, (int)reply.n, reply.p);
    free(reply.p);
    return VM_OK;
}

static int api_SignalModifiedKey(vm_ctx *ctx, vm_string *name) {
    (void)ctx;
    for (int i = 0; i < num_changed; i++) {
        if (!same(changed[i].name, name->b)) continue;
        changed[i].signalled = 1;
        return VM_OK;
    }
    fault("a key is signalled that was not changed");
}

static int api_NotifyKeyspaceEvent(vm_ctx *ctx, int class, const char *event, vm_string *name) {
    (void)ctx, (void)name;
    if (!class || !*event) fault("an event without a class or a name");
    if (held.keys) fault("a key is open while other modules hear of %s", event);
    return VM_OK;
}

/* ---- Replies ---- */

static int api_ReplyWithError(vm_ctx *ctx, const char *s) {
    char line[2048];
    snprintf(line, sizeof(line), "%s", s);
    for (char *p = line; *p; p++)
        if (*p == '\r' || *p == '\n') *p = ' ';
    put(&ctx->reply, "-");
    for (char *p = line; *p; p++) put(&ctx->reply, "%c", *p);
    put(&ctx->reply, "\r\n");
    ctx->replies--;
    ctx->refused = 1;
    return VM_OK;
}

static int api_WrongArity(vm_ctx *ctx) {
    char line[128];
    snprintf(line, sizeof(line), "ERR wrong number of arguments for '%s' command", ctx->verb);
    return api_ReplyWithError(ctx, line);
}

static int api_ReplyWithLongLong(vm_ctx *ctx, long long n) { put(&ctx->reply, ":%lld\r\n", n); ctx->replies--; return VM_OK; }
static int api_ReplyWithString(vm_ctx *ctx, vm_string *s) { put_bulk(&ctx->reply, s->b); ctx->replies--; return VM_OK; }
static int api_ReplyWithSimpleString(vm_ctx *ctx, const char *s) { put(&ctx->reply, "+%s\r\n", s); ctx->replies--; return VM_OK; }

/* An array with a postponed length begins with a placeholder for it. */
static int api_ReplyWithArray(vm_ctx *ctx, long n) {
    if (n == VM_POSTPONED_LEN) {
        ctx->postponed = ctx->reply.n;
        ctx->replies--;
        return VM_OK;
    }
    put(&ctx->reply, "*%ld\r\n", n);
    ctx->replies += n - 1;
    return VM_OK;
}

static void api_ReplySetArrayLength(vm_ctx *ctx, long n) {
    text t = {0};
    put(&t, "*%ld\r\n", n);
    size_t elements = ctx->reply.n - ctx->postponed;
    t.p = realloc(t.p, t.n + elements + 1);
    if (elements) memcpy(t.p + t.n, ctx->reply.p + ctx->postponed, elements);
    t.n += elements;
    ctx->reply.p = realloc(ctx->reply.p, ctx->postponed + t.n);
    memcpy(ctx->reply.p + ctx->postponed, t.p, t.n);
    ctx->reply.n = ctx->postponed + t.n;
    free(t.p);
    ctx->replies += n;
}

static int api_ReplyWithMap(vm_ctx *ctx, long n) { return api_ReplyWithArray(ctx, 2 * n); }
static int api_ReplyWithEmptyArray(vm_ctx *ctx) { return api_ReplyWithArray(ctx, 0); }
static int api_ReplyWithNull(vm_ctx *ctx) { put(&ctx->reply, "$-1\r\n"); ctx->replies--; return VM_OK; }

/* ---- A command ---- */

static void run_verb(vm_command *command, int db, const bytes *argv, int argc, text *reply, int asks_for_keys) {
    const char *verb = command->name;
    vm_ctx ctx = {.get_api = get_api, .db = db, .replies = 1, .verb = verb, .asks_for_keys = asks_for_keys};
    vm_string **strings = malloc((size_t)argc * sizeof(*strings));
    for (int i = 0; i < argc; i++) strings[i] = api_CreateString(NULL, argv[i].p, argv[i].n);
    long blocks_held = held.blocks;
    running = &ctx;
    set_clock();
    command->run(&ctx, strings, argc);
    running = NULL;
    for (int i = 0; i < argc; i++) {
        if (strings[i]->owners != 1) fault("%s keeps an argument", verb);
        if (!ctx.blocked) api_FreeString(NULL, strings[i]);
    }
    if (ctx.blocked) {
        ctx.blocked->argv = strings;
        ctx.blocked->argc = argc;
        held.strings -= argc;
        held.blocks = blocks_held; /* it keeps what it needs for the blocked client */
        ctx.replies--;
    } else {
        free(strings);
    }
    if (held.strings - strings_loaded > MAX_KEPT || held.blocks != blocks_held || held.keys || held.replies || held.infos)
        fault("%s keeps %ld strings, %ld blocks, %ld keys, %ld replies", verb, held.strings - strings_loaded,
              held.blocks - blocks_held, held.keys, held.replies);
    if (asks_for_keys) {
        put(reply, "*%ld\r\n", ctx.replies - 1);
    } else if (ctx.replies) {
        fault("%s: %ld replies too few", verb, ctx.replies);
    }
    if (ctx.refused && ctx.wrote) fault("%s has written, and refuses", verb);
    check_effects(verb);
    reply->p = realloc(reply->p, reply->n + ctx.reply.n);
    if (ctx.reply.n) memcpy(reply->p + reply->n, ctx.reply.p, ctx.reply.n);
    reply->n += ctx.reply.n;
    free(ctx.reply.p);
}

static int is(bytes word, const char *name) { return word.n == strlen(name) && !strncasecmp(word.p, name, word.n); }

static int number(bytes b) {
    char digits[32];
    snprintf(digits, sizeof(digits), "%.*s", (int)b.n, b.p);
    return atoi(digits);
}

static vm_command *command_of(bytes verb) {
    for (int i = 0; i < num_commands; i++)
        if (is(verb, commands[i].name)) return &commands[i];
    return NULL;
}

static void change_role(int to) {
    is_replica = to;
    tell(on_role, VM_EVENT_ROLE_CHANGED, 0, NULL, "a role");
}

/* CONFIG GET and SET of the module's own settings. 0 for another setting. */
static int configure(const bytes *argv, int argc, text *reply) {
    for (int i = 0; i < num_settings && argc > 2; i++) {
        char name[128];
        snprintf(name, sizeof(name), "emq.%s", settings[i].name);
        if (!is(argv[2], name)) continue;
        if (argc == 4 && is(argv[1], "SET")) {
            char digits[32], *end;
            snprintf(digits, sizeof(digits), "%.*s", (int)argv[3].n, argv[3].p);
            long long n = strtoll(digits, &end, 10);
            if (*end || n < settings[i].min || n > settings[i].max) {
                put(reply, "-ERR CONFIG SET failed\r\n");
            } else {
                settings[i].set(settings[i].name, n, settings[i].data, NULL);
                put(reply, "+OK\r\n");
            }
        } else {
            char digits[32];
            int n = snprintf(digits, sizeof(digits), "%lld", settings[i].get(settings[i].name, settings[i].data));
            put(reply, "*2\r\n");
            put_bulk(reply, argv[2]);
            put_bulk(reply, (bytes){digits, (size_t)n});
        }
        return 1;
    }
    return 0;
}

/* Commands of the stub alone: STUB RIGHTS all|none|nouser (may the caller claim the identity?); STUB OVERRUN reads one
 * byte too far and STUB LEAK leaks some memory, to show that this is found. */
static void stub_command(const bytes *argv, int argc, text *reply) {
    if (argc == 3 && is(argv[1], "RIGHTS")) rights = is(argv[2], "none") ? NO_RIGHTS : is(argv[2], "nouser") ? NO_USER : RIGHTS;
    if (argc == 2 && is(argv[1], "OVERRUN")) {
        bytes b = copy_of("x", 1);
        put(reply, "+%c\r\n", ((volatile char *)b.p)[b.n]);
    }
    if (argc == 2 && is(argv[1], "LEAK")) {
        bytes b = copy_of("forgotten", 9);
        put(reply, b.p ? "+OK\r\n" : "-ERR\r\n");
        return;
    }
    put(reply, "+OK\r\n");
}

static void forget(client *c) {
    disconnect(c);
    close(c->fd);
    free(c->in.p);
    *c = (client){.fd = -1};
}

static void unblock(client *c) {
    text error = {0};
    put(&error, "-UNBLOCKED\r\n");
    send_to(c, &error);
    free(error.p);
    disconnect(c);
}

/* CLIENT ID; CLIENT BLOCKED, the stub's own, replies with the number of blocked clients; CLIENT PAUSE and UNPAUSE, for
 * writes; CLIENT UNBLOCK id [ERROR]; CLIENT KILL ID id. */
static void client_command(const bytes *argv, int argc, text *reply) {
    if (is(argv[1], "ID")) {
        put(reply, ":%llu\r\n", current->id);
        return;
    }
    if (is(argv[1], "PAUSE") || is(argv[1], "UNPAUSE")) is_paused = is(argv[1], "PAUSE");
    long blocked = 0;
    for (client *c = clients; c < clients + MAX_CLIENTS; c++) {
        blocked += c->fd >= 0 && c->blocked;
        if (c->fd < 0 || c == current || argc < 3 || c->id != (unsigned long long)number(argv[argc - 1 - is(argv[argc - 1], "ERROR")])) continue;
        if (is(argv[1], "KILL"))
            forget(c);
        else if (c->blocked && argc == 4)
            unblock(c);
        else if (c->blocked)
            time_out(c);
    }
    if (is(argv[1], "BLOCKED"))
        put(reply, ":%ld\r\n", blocked);
    else
        put(reply, "+OK\r\n");
}

static void run(int *db, const bytes *argv, int argc, text *reply) {
    vm_command *command = command_of(argv[0]);
    if (is(argv[0], "CLIENT") && argc > 1) {
        client_command(argv, argc, reply);
    } else if (is(argv[0], "MULTI") || is(argv[0], "EXEC")) { /* commands between them are executed at once, and no waiting client is served */
        in_exec = is(argv[0], "MULTI");
        put(reply, "+OK\r\n");
    } else if (command) {
        run_verb(command, *db, argv, argc, reply, 0);
    } else if (is(argv[0], "COMMAND") && argc > 2 && is(argv[1], "GETKEYS") && (command = command_of(argv[2]))) {
        run_verb(command, *db, argv + 2, argc - 2, reply, 1);
    } else if (is(argv[0], "REPLICAOF")) {
        change_role(!is(argv[1], "NO"));
        for (client *c = clients; is_replica && c < clients + MAX_CLIENTS; c++)
            if (c->fd >= 0 && c->blocked) unblock(c);
        put(reply, "+OK\r\n");
    } else if (is(argv[0], "INFO")) {
        vm_info_ctx info = {0};
        put(&info.lines, "run_id:0123456789abcdef0123456789abcdef01234567\r\n");
        if (on_info) on_info(&info, 0);
        put_bulk(reply, (bytes){info.lines.p, info.lines.n});
        free(info.lines.p);
    } else if (is(argv[0], "STUB")) {
        stub_command(argv, argc, reply);
    } else if (is(argv[0], "CONFIG") && configure(argv, argc, reply)) {
    } else {
        text other = {0};
        int other_db = *db;
        changes++;
        vm_flush flushed = {1, 1, is(argv[0], "FLUSHDB") ? *db : -1};
        if (is(argv[0], "FLUSHDB") || is(argv[0], "FLUSHALL")) tell(on_flush, VM_EVENT_FLUSHDB, VM_FLUSHDB_START, &flushed, "a flush");
        if (!plain(&data, db, argv, argc, reply))
            put(reply, "-ERR unknown command\r\n");
        else
            plain(&replica, &other_db, argv, argc, &other);
        if (is(argv[0], "SWAPDB")) {
            vm_swap swapped = {1, number(argv[1]), number(argv[2])};
            tell(on_swap, VM_EVENT_SWAPDB, 0, &swapped, "a swap");
        }
        if (is(argv[0], "FLUSHDB") || is(argv[0], "FLUSHALL")) tell(on_flush, VM_EVENT_FLUSHDB, VM_FLUSHDB_START + 1, &flushed, "a flush");
        free(other.p);
    }
}

/* ---- The server ---- */

/* Reads one line of a request: its number. 0 if it has not come yet. */
static int read_number(const text *in, size_t *at, long *n) {
    for (size_t i = *at; i + 1 < in->n; i++) {
        if (in->p[i] != '\r') continue;
        *n = strtol(in->p + *at + 1, NULL, 10);
        *at = i + 2;
        return 1;
    }
    return 0;
}

/* Runs the first complete request in the buffer, and removes it. 0 if there is none. */
static int serve(client *c, text *reply) {
    bytes argv[MAX_WORDS];
    size_t at = 0;
    long argc, n;
    int got = 0, whole = 0;
    if (!c->in.n || c->blocked) return 0;
    if (c->in.p[0] == '*') {
        if (!read_number(&c->in, &at, &argc)) return 0;
        if (argc < 1 || argc > MAX_WORDS) fault("a request of %ld words", argc);
        while (got < argc && read_number(&c->in, &at, &n) && at + (size_t)n + 2 <= c->in.n) {
            argv[got++] = copy_of(c->in.p + at, (size_t)n);
            at += (size_t)n + 2;
        }
        whole = got == argc;
    } else { /* the one request that is sent as a line is PING */
        while (at < c->in.n && c->in.p[at] != '\n') at++;
        if ((whole = at < c->in.n)) argv[got++] = copy_of("PING", 4);
        at++;
    }
    if (whole) {
        current = c;
        run(&c->db, argv, got, reply);
        current = NULL;
        serve_ready();
        memmove(c->in.p, c->in.p + at, c->in.n - at);
        c->in.n -= at;
    }
    while (got) free(argv[--got].p);
    return whole;
}

/* Serves a client's requests. 0 if it has disconnected. */
static int hear(client *c) {
    char buffer[65536];
    ssize_t n = read(c->fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) return 1;
    if (n <= 0) return 0;
    c->in.p = realloc(c->in.p, c->in.n + (size_t)n + 1);
    memcpy(c->in.p + c->in.n, buffer, (size_t)n);
    c->in.n += (size_t)n;
    c->in.p[c->in.n] = 0; /* ends what strtol reads */
    hear_rest(c);
    return 1;
}

static void hear_rest(client *c) {
    text reply = {0};
    while (serve(c, &reply)) {}
    send_to(c, &reply);
    free(reply.p);
}

/* What is done before the event loop sleeps: timeouts, signalled clients, replies. */
static void see_to_blocked(void) {
    if (in_exec) return;
    for (client *c = clients; c < clients + MAX_CLIENTS; c++)
        if (c->fd >= 0 && c->blocked && c->blocked->due_ms && c->blocked->due_ms <= coarse_ms()) time_out(c);
    while (first_ready || first_done) {
        serve_ready();
        free_done();
    }
}

/* In how many ms the next client times out, at most `most`. */
static int next_timeout(int most) {
    for (client *c = clients; c < clients + MAX_CLIENTS; c++) {
        int64_t left = c->fd >= 0 && c->blocked && c->blocked->due_ms ? c->blocked->due_ms - coarse_ms() : most;
        if (left < most) most = left < 0 ? 0 : (int)left;
    }
    return most;
}

static void loop(int listener) {
    static unsigned long long last_id;
    for (int i = 0; i < MAX_CLIENTS; i++) clients[i].fd = -1;
    while (!stopped) {
        struct pollfd fds[MAX_CLIENTS + 1] = {{.fd = listener, .events = POLLIN}};
        for (int i = 0; i < MAX_CLIENTS; i++) fds[i + 1] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
        started = 1;
        tell(on_event_loop, VM_EVENT_EVENTLOOP, VM_EVENTLOOP_BEFORE_SLEEP, NULL, "the event loop");
        int sleep = run_timers(100);
        see_to_blocked();
        if (poll(fds, MAX_CLIENTS + 1, next_timeout(sleep)) < 0) continue;
        for (int i = 0; i < MAX_CLIENTS; i++)
            if (clients[i].fd >= 0 && fds[i + 1].revents && !hear(&clients[i])) forget(&clients[i]);
        for (int i = 0; fds[0].revents && i < MAX_CLIENTS; i++) {
            if (clients[i].fd >= 0) continue;
            clients[i] = (client){.fd = accept(listener, NULL, NULL), .id = ++last_id};
            break;
        }
    }
    for (int i = 0; i < MAX_CLIENTS; i++)
        if (clients[i].fd >= 0) forget(&clients[i]);
    see_to_blocked();
}

static int listen_on(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 16)) fault("no socket %s", path);
    return fd;
}

static void load(const char *path, char **args, int num_args) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fault("%s", dlerror());
    load_fn on_load = (load_fn)dlsym(library, "ValkeyModule_OnLoad");
    vm_ctx ctx = {.get_api = get_api};
    vm_string *argv[16];
    for (int i = 0; i < num_args && i < 16; i++) argv[i] = api_CreateString(NULL, args[i], strlen(args[i]));
    running = &ctx;
    if (on_load(&ctx, argv, num_args) != VM_OK) fault("the module refuses to be loaded");
    running = NULL;
    for (int i = 0; i < num_args && i < 16; i++) api_FreeString(NULL, argv[i]);
    if (num_settings && !settings_loaded) fault("the settings are not loaded: a server would unload the module");
    strings_loaded = held.strings;
    if (held.keys || held.replies || held.infos || held.blocks) fault("the load keeps what it must give back");
    if (!(module_options & VM_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED)) fault("closing a key would signal it");
    on_unload = (load_fn)dlsym(library, "ValkeyModule_OnUnload");
    if (!on_unload) fault("no OnUnload");
}

/* Makes n queues and other keys in three databases, for a module that is loaded at run time. */
static void preload(int n) {
    for (int i = 0; i < n; i++) {
        char name[64];
        const char *forms[] = {"emq:{before %d}:active", "emq:{before %d}:schedule", "other %d"};
        bytes b = {name, (size_t)snprintf(name, sizeof(name), forms[i % 3], i)};
        put_member(make(&data, i % 3, b, VM_TYPE_ZSET), b, i);
        put_member(make(&replica, i % 3, b, VM_TYPE_ZSET), b, i);
    }
}

/* The shutdown of a server, which unloads its modules and warns of those that it can't unload. */
static void unload(void) {
    visit v;
    vm_ctx *ctx = enter(&v, 0);
    if (on_unload(ctx, NULL, 0) != VM_ERR) fault("the module goes while the server is at work");
    leave(&v, "an unload");
    tell(on_shutdown, VM_EVENT_SHUTDOWN, 0, NULL, "the shutdown");
    for (int i = 0; i < MAX_TIMERS; i++)
        if (timers[i].run) fault("a timer outlasts the shutdown");
    ctx = enter(&v, 0);
    if (on_unload(ctx, NULL, 0) != VM_OK) fault("the module stays at the server's end");
    leave(&v, "the unload");
}

static void stop(int signal) { (void)signal; stopped = 1; }

int main(int argc, char **argv) {
    const char *socket = NULL, *module = NULL;
    command_line = argv;
    on_make = tell_of_key;
    int args = 0;
    for (int i = 1; i + 1 < argc; i++) {
        if (!strcmp(argv[i], "--unixsocket")) socket = argv[i + 1];
        if (!strcmp(argv[i], "--loadmodule")) module = argv[i + 1], args = i + 2;
        if (!strcmp(argv[i], "--as")) server_version = (int)strtol(argv[i + 1], NULL, 16);
        if (!strcmp(argv[i], "--preload")) preload(atoi(argv[i + 1]));
    }
    if (!socket || !module) fault("--unixsocket and --loadmodule are needed");
    int num_args = 0; /* the module's own, up to the next setting */
    while (args + num_args < argc && strncmp(argv[args + num_args], "--", 2)) num_args++;
    load(module, argv + args, num_args);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = stop, .sa_flags = SA_ONSTACK}, NULL);
    signal(SIGPIPE, SIG_IGN);
    int listener = listen_on(socket);
    loop(listener);
    close(listener);
    unload();
    for (int db = 0; db < DATABASES; db++) {
        flush(&data, db);
        flush(&replica, db);
    }
    return 0; /* then LeakSanitizer checks */
}
