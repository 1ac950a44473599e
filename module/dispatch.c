/* Commands from clients: from the server's call to the reply. */
#include "emq.h"

/* Counts a call that was decided, for INFO. */
static void count_call(const emq_frame *f) {
    int result = f->out.result;
    emq_count *count = &emq_counts[f->verb->number];
    count->calls++;
    count->results[result]++;
    if (f->verb->jobs == EMQ_SOURCE_NAMED_JOB || (result == EMQ_RESULT_CLAIMED && f->call.step == 1))
        return; /* it has no dispositions, and no results of single jobs */
    for (int i = 0; i < EMQ_NUM_DISPOSITIONS; i++) count->dispositions[i] += f->dispositions[i];
    count->dispositions[f->out.gates.applied ? EMQ_DISPOSITION_REPAIRED : EMQ_DISPOSITION_REPORTED] +=
        (uint64_t)emq_findings_of_gates(f);
    if (result) return; /* otherwise each job has a result of its own */
    for (int32_t i = 0; i < f->call.first; i++) count->results[f->out.marks.at[i].result]++;
}

/* Replies with a refusal that only the host can find. */
EMQ_COLD static int reply_text(vm_ctx *ctx, int verb, int text) {
    emq_counts[verb].calls++;
    emq_counts[verb].results[emq_text_result[text]]++;
    return vm_ReplyWithError(ctx, emq_text[text]);
}

static inline void carry_out(emq_frame *f) {
    emq_execute(f);
    emq_send_reply(f);
    count_call(f);
    emq_free_frame(f);
}

/* Continues after a decision that panicked, or that asks for more than its effects to be applied. */
EMQ_COLD static int go_on(emq_frame *f, vm_ctx *ctx, vm_string **argv, int argc, int decided) {
    const emq_verb *v = f->verb;
    emq_scanned scan = {0};
    int failed = EMQ_NUM_HOST_TEXTS; /* none */
    if (decided && f->out.claim_identity) {
        /* The SET of the claim runs other modules' callbacks, so no key may stay open during it, and everything is read
         * again afterwards. */
        emq_free_frame(f);
        int claimed = emq_claim_identity(ctx);
        emq_identity_claims += (uint64_t)claimed;
        decided = emq_prepare(f, ctx, argv, argc, v, NULL, NULL);
        if (!claimed || (decided && f->out.claim_identity)) failed = EMQ_HOST_UNCLAIMED;
    } else if (decided && f->out.next == EMQ_NEXT_CLAIM) {
        emq_free_frame(f);
        return emq_wait(ctx, argv, argc);
    } else if (decided && f->out.next == EMQ_NEXT_LIST) {
        count_call(f);
        emq_free_frame(f);
        return emq_list_queues(ctx, argv);
    } else if (decided && f->out.next == EMQ_NEXT_SCAN) {
        /* A scan too may run such callbacks, if it finds keys that have expired. */
        emq_close_keys(f);
        if (!emq_make_scan(f, &scan)) failed = EMQ_HOST_UNSCANNED;
        emq_free_frame(f);
        decided = emq_prepare(f, ctx, argv, argc, v, NULL, failed == EMQ_HOST_UNSCANNED ? NULL : &scan);
    }
    if (!decided) failed = EMQ_HOST_PANICKED;
    if (failed == EMQ_NUM_HOST_TEXTS) {
        carry_out(f);
    } else {
        reply_text(ctx, v->number, failed);
        emq_free_frame(f);
    }
    if (scan.reply) vm_FreeCallReply(scan.reply);
    return VM_OK;
}

static int run(vm_ctx *ctx, vm_string **argv, int argc, const emq_verb *v) {
    if (EMQ_RARELY(vm_IsKeysPositionRequest(ctx))) {
        for (int i = 0; i < argc && i < v->num_args; i++)
            if (v->access[i]) vm_KeyAtPosWithFlags(ctx, i, (int)v->access[i]);
        for (int i = v->list_at; i && v->access[v->list_at] && i < argc; i++)
            vm_KeyAtPosWithFlags(ctx, i, (int)v->access[v->list_at]);
        return VM_OK;
    }
    /* The server checks the arity, but not that a list has whole groups; for a module's call without validation it does
     * not even check the arity. */
    if (argc < v->least || (v->list_at ? (argc - v->list_at) % v->list_len != 0 : argc > v->num_args))
        return vm_WrongArity(ctx);
    if (EMQ_RARELY(emq_is_child)) return reply_text(ctx, v->number, EMQ_HOST_FORKED);
    emq_frame f;
    int decided = emq_prepare(&f, ctx, argv, argc, v, NULL, NULL);
    if (EMQ_RARELY(!decided || f.out.claim_identity || f.out.next != EMQ_NEXT_FINISH))
        return go_on(&f, ctx, argv, argc, decided);
    carry_out(&f);
    return VM_OK;
}

/* One trampoline for each verb, because the server passes a command nothing that would identify the verb. */
#define TRAMPOLINE(verb)                                                                                               \
    static int trampoline_##verb(vm_ctx *ctx, vm_string **argv, int argc) {                                            \
        return run(ctx, argv, argc, &emq_verbs[verb]);                                                                 \
    }
EMQ_EACH_VERB(TRAMPOLINE)
#define ENTRY(verb) trampoline_##verb,
const vm_command_fn emq_trampolines[EMQ_NUM_VERBS] = {EMQ_EACH_VERB(ENTRY)};
