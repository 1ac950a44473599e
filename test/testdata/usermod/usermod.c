/* A module that runs a command from a timer, without a client and so without a user.
 *
 *   USERMOD.LATER reply-key command [arg ...]   runs the command a millisecond later and keeps its reply, as the
 *                                               bytes of RESP2, under reply-key
 *
 * It declares the few functions that it uses: their names and types are the server's module ABI. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Reply Reply;
typedef struct Command {
    String **argv;
    int argc;
} Command;

#define OK 0
#define ERR 1

static int (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, int (*)(Ctx *, String **, int), const char *, int, int, int);
static unsigned long long (*CreateTimer)(Ctx *, long long, void (*)(Ctx *, void *), void *);
static Reply *(*Call)(Ctx *, const char *, const char *, ...);
static const char *(*CallReplyProto)(Reply *, size_t *);
static void (*FreeCallReply)(Reply *);
static void (*RetainString)(Ctx *, String *);
static void (*FreeString)(Ctx *, String *);
static const char *(*StringPtrLen)(const String *, size_t *);
static int (*ReplyWithSimpleString)(Ctx *, const char *);
static int (*WrongArity)(Ctx *);

static void run(Ctx *ctx, void *data) {
    Command *c = data;
    size_t len = 0;
    Reply *reply = Call(ctx, StringPtrLen(c->argv[2], NULL), "!Ev", c->argv + 3, (size_t)(c->argc - 3));
    const char *bytes = reply ? CallReplyProto(reply, &len) : "(none)";
    Reply *kept = Call(ctx, "SET", "!sb", c->argv[1], bytes, reply ? len : strlen(bytes));
    if (kept) FreeCallReply(kept);
    if (reply) FreeCallReply(reply);
    for (int i = 0; i < c->argc; i++) FreeString(ctx, c->argv[i]);
    free(c->argv);
    free(c);
}

static int later(Ctx *ctx, String **argv, int argc) {
    if (argc < 3) return WrongArity(ctx);
    Command *c = malloc(sizeof *c);
    c->argc = argc;
    c->argv = malloc(sizeof(String *) * (size_t)argc);
    for (int i = 0; i < argc; i++) {
        RetainString(ctx, argv[i]);
        c->argv[i] = argv[i];
    }
    CreateTimer(ctx, 1, run, c);
    return ReplyWithSimpleString(ctx, "OK");
}

int ValkeyModule_OnLoad(Ctx *ctx, String **argv, int argc) {
    (void)argv;
    (void)argc;
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx; /* the context begins with it */
    const struct { const char *name; void *at; } used[] = {
        {"ValkeyModule_SetModuleAttribs", &SetModuleAttribs}, {"ValkeyModule_CreateCommand", &CreateCommand},
        {"ValkeyModule_CreateTimer", &CreateTimer}, {"ValkeyModule_Call", &Call},
        {"ValkeyModule_CallReplyProto", &CallReplyProto}, {"ValkeyModule_FreeCallReply", &FreeCallReply},
        {"ValkeyModule_RetainString", &RetainString}, {"ValkeyModule_FreeString", &FreeString},
        {"ValkeyModule_StringPtrLen", &StringPtrLen}, {"ValkeyModule_ReplyWithSimpleString", &ReplyWithSimpleString},
        {"ValkeyModule_WrongArity", &WrongArity},
    };
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        if (get(used[i].name, used[i].at) != OK) return ERR;
    SetModuleAttribs(ctx, "usermod", 1, 1);
    return CreateCommand(ctx, "usermod.later", later, "write", 0, 0, 0);
}
