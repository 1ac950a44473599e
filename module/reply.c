/* Sends the reply, in the shape that the decision chose. */
#include "emq.h"

#include <stdio.h>

/* The id, payload and token of a job. */
static void reply_fields(emq_frame *f, vm_ctx *ctx, int32_t i) {
    emq_item *item = &f->items[i];
    vm_string *payload = item->value[f->verb->payload_value];
    vm_ReplyWithString(ctx, item->id);
    if (payload)
        vm_ReplyWithString(ctx, payload);
    else
        vm_ReplyWithNull(ctx);
    vm_ReplyWithLongLong(ctx, f->out.marks.at[i].token);
}

static void reply_job(emq_frame *f, int32_t i) {
    vm_ReplyWithArray(f->ctx, 3);
    reply_fields(f, f->ctx, i);
}

void emq_reply_claimed(emq_frame *f, vm_ctx *to, vm_string *base) {
    vm_ReplyWithArray(to, 4);
    vm_ReplyWithString(to, base);
    reply_fields(f, to, f->call.first - 1); /* the last one of the walk */
}

/* All jobs that were granted. */
EMQ_COLD static void reply_jobs(emq_frame *f) {
    long n = 0;
    for (int32_t i = 0; i < f->call.first; i++) n += f->out.marks.at[i].result == EMQ_RESULT_CLAIMED;
    vm_ReplyWithArray(f->ctx, n);
    for (int32_t i = 0; i < f->call.first; i++)
        if (f->out.marks.at[i].result == EMQ_RESULT_CLAIMED) reply_job(f, i);
}

EMQ_COLD static void reply_statuses(emq_frame *f) {
    vm_ReplyWithArray(f->ctx, f->listed);
    for (int32_t i = 0; i < f->listed; i++) vm_ReplyWithLongLong(f->ctx, emq_status[f->out.marks.at[i].result]);
}

/* The ids of the entries with one of the given dispositions, which are bits. */
EMQ_COLD static void reply_ids(emq_frame *f, unsigned dispositions) {
    long n = 0;
    for (int32_t i = 0; i < f->call.first; i++) n += dispositions >> f->out.marks.at[i].disposition & 1;
    vm_ReplyWithArray(f->ctx, n);
    for (int32_t i = 0; i < f->call.first; i++)
        if (dispositions >> f->out.marks.at[i].disposition & 1) vm_ReplyWithString(f->ctx, f->items[i].id);
}

EMQ_COLD static void reply_numbers(emq_frame *f, long n) {
    vm_ReplyWithMap(f->ctx, n);
    for (long i = 0; i < n; i++) {
        vm_ReplyWithString(f->ctx, f->verb->fields[i]);
        if (f->out.numbers[i] == EMQ_NO_NUMBER)
            vm_ReplyWithNull(f->ctx);
        else
            vm_ReplyWithLongLong(f->ctx, f->out.numbers[i]);
    }
}

/* A cursor of the audit: a part and the server's cursor, or 0 at the end. */
EMQ_COLD static void reply_cursor(emq_frame *f) {
    char text[64];
    size_t n = 1;
    if (f->out.scan.key == EMQ_NO_KEY) {
        text[0] = '0';
    } else {
        size_t len;
        const char *part = vm_StringPtrLen(emq_word[emq_part[f->out.scan.key]], &len);
        n = (size_t)snprintf(text, sizeof(text), "%.*s:%llu", (int)len, part, (unsigned long long)f->out.scan.at);
    }
    vm_string *s = emq_string(text, n);
    vm_ReplyWithString(f->ctx, s);
    vm_FreeString(NULL, s);
}

int emq_findings_of_gates(const emq_frame *f) {
    return f->out.broken_gates ? __builtin_popcount(f->out.broken_gates) : f->out.gates.what != 0;
}

static void reply_finding(emq_frame *f, emq_finding finding, vm_string *id) {
    vm_ReplyWithArray(f->ctx, 5);
    vm_ReplyWithString(f->ctx, emq_word[finding.what]);
    vm_ReplyWithString(f->ctx, id);
    vm_ReplyWithString(f->ctx, emq_word[finding.where]);
    vm_ReplyWithString(f->ctx, emq_word[finding.remedy]);
    vm_ReplyWithLongLong(f->ctx, finding.applied);
}

/* The findings about gates come first. */
EMQ_COLD static void reply_findings(emq_frame *f) {
    long n = emq_findings_of_gates(f);
    vm_ReplyWithArray(f->ctx, 2);
    reply_cursor(f);
    for (int32_t i = 0; i < f->call.first; i++) n += f->out.marks.at[i].finding.what != 0;
    vm_ReplyWithArray(f->ctx, n);
    if (f->out.gates.what && !f->out.broken_gates) reply_finding(f, f->out.gates, emq_word[0]);
    for (uint32_t gates = f->out.broken_gates; gates; gates &= gates - 1)
        reply_finding(f, f->out.gates, emq_field[f->verb->probes[__builtin_ctz(gates)].field]);
    for (int32_t i = 0; i < f->call.first; i++)
        if (f->out.marks.at[i].finding.what) reply_finding(f, f->out.marks.at[i].finding, f->items[i].id);
}

void emq_send_reply(emq_frame *f) {
    emq_reply reply = f->out.reply;
    if (f->out.text_len) {
        vm_ReplyWithError(f->ctx, (const char *)f->out.text);
        return;
    }
    switch (reply.kind) {
    case EMQ_REPLY_INTEGER: vm_ReplyWithLongLong(f->ctx, reply.n); break;
    case EMQ_REPLY_CONST: vm_ReplyWithString(f->ctx, emq_const[reply.n]); break;
    case EMQ_REPLY_OK: vm_ReplyWithSimpleString(f->ctx, "OK"); break;
    case EMQ_REPLY_EMPTY: vm_ReplyWithEmptyArray(f->ctx); break;
    case EMQ_REPLY_JOB: reply_job(f, f->call.first - 1); break; /* the last one of the walk */
    case EMQ_REPLY_JOBS: reply_jobs(f); break;
    case EMQ_REPLY_STATUSES: reply_statuses(f); break;
    case EMQ_REPLY_LISTS:
        vm_ReplyWithArray(f->ctx, 2);
        reply_ids(f, 1u << EMQ_DISPOSITION_RETURNED | 1u << EMQ_DISPOSITION_STALLED);
        reply_ids(f, 1u << EMQ_DISPOSITION_BURIED);
        break;
    case EMQ_REPLY_NUMBERS: reply_numbers(f, (long)reply.n); break;
    case EMQ_REPLY_FINDINGS: reply_findings(f); break;
    }
}
