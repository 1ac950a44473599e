/* A module that writes from a keyspace event, which the server discourages but does not prevent, or at the end of a flush, for
 * which the event is `flushed` with any key.
 *
 *   MEDDLER.ON event key command [arg ...]   runs the command the next time that this event is sent for this key
 *   MEDDLER.LEFT                             whether it still waits for that
 *
 * It declares the few functions that it uses: their names and types are the server's module ABI. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Reply Reply;
typedef struct {
    uint64_t id, version;
} Event;

enum { OK = 0, ERR = 1, MAX_WORDS = 16, ALL_EVENTS = 0x7ff & ~3, EVENT_NEW = 1 << 14, FLUSHDB = 2, FLUSHED = 1 };

static int (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, int (*)(Ctx *, String **, int), const char *, int, int, int);
static int (*SubscribeToKeyspaceEvents)(Ctx *, int, int (*)(Ctx *, int, const char *, String *));
static int (*SubscribeToServerEvent)(Ctx *, Event, void (*)(Ctx *, Event, uint64_t, void *));
static Reply *(*Call)(Ctx *, const char *, const char *, ...);
static void (*FreeCallReply)(Reply *);
static void (*RetainString)(Ctx *, String *);
static void (*FreeString)(Ctx *, String *);
static int (*StringCompare)(String *, String *);
static const char *(*StringPtrLen)(const String *, size_t *);
static int (*ReplyWithSimpleString)(Ctx *, const char *);
static int (*WrongArity)(Ctx *);

static String *words[MAX_WORDS];
static int num_words;

static int is_awaited(const char *event) { return num_words && !strcmp(StringPtrLen(words[1], NULL), event); }

static void run(Ctx *ctx) {
    int n = num_words;
    num_words = 0; /* only once, and not for its own writes */
    Reply *reply = Call(ctx, StringPtrLen(words[3], NULL), "!v", words + 4, (size_t)(n - 4));
    if (reply) FreeCallReply(reply);
    for (int i = 0; i < n; i++) FreeString(NULL, words[i]);
}

static int on_key(Ctx *ctx, int class, const char *event, String *key) {
    (void)class;
    if (is_awaited(event) && !StringCompare(words[2], key)) run(ctx);
    return OK;
}

static void on_flush(Ctx *ctx, Event event, uint64_t sub, void *data) {
    (void)event;
    (void)data;
    if (sub == FLUSHED && is_awaited("flushed")) run(ctx);
}

static int on(Ctx *ctx, String **argv, int argc) {
    if (argc < 5 || argc > MAX_WORDS) return WrongArity(ctx);
    for (int i = 0; i < argc; i++) RetainString(NULL, words[i] = argv[i]);
    num_words = argc;
    return ReplyWithSimpleString(ctx, "OK");
}

static int left(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    if (argc != 1) return WrongArity(ctx);
    return ReplyWithSimpleString(ctx, num_words ? "waits" : "done");
}

int ValkeyModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    (void)argc;
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx; /* the context begins with it */
    const struct {
        const char *name;
        void *at;
    } used[] = {
        {"ValkeyModule_SetModuleAttribs", &SetModuleAttribs},
        {"ValkeyModule_CreateCommand", &CreateCommand},
        {"ValkeyModule_SubscribeToKeyspaceEvents", &SubscribeToKeyspaceEvents},
        {"ValkeyModule_SubscribeToServerEvent", &SubscribeToServerEvent},
        {"ValkeyModule_Call", &Call},
        {"ValkeyModule_FreeCallReply", &FreeCallReply},
        {"ValkeyModule_RetainString", &RetainString},
        {"ValkeyModule_FreeString", &FreeString},
        {"ValkeyModule_StringCompare", &StringCompare},
        {"ValkeyModule_StringPtrLen", &StringPtrLen},
        {"ValkeyModule_ReplyWithSimpleString", &ReplyWithSimpleString},
        {"ValkeyModule_WrongArity", &WrongArity},
    };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (get(used[i].name, used[i].at) != OK) return ERR;
    SetModuleAttribs(ctx, "meddler", 1, 1);
    if (SubscribeToKeyspaceEvents(ctx, ALL_EVENTS | EVENT_NEW, on_key) != OK) return ERR;
    if (SubscribeToServerEvent(ctx, (Event){FLUSHDB, 1}, on_flush) != OK) return ERR;
    if (CreateCommand(ctx, "meddler.left", left, "readonly", 0, 0, 0) != OK) return ERR;
    return CreateCommand(ctx, "meddler.on", on, "write", 0, 0, 0);
}
