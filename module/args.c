/* The arguments of a command, as a decision sees them: views of the server's own bytes. */
#include "emq.h"

#include <string.h>

/* Finds the ids that stand in the list more than once. */
static void find_twins(emq_frame *f) {
    enum { SLOTS = 2048 }; /* twice what a list may have */
    _Static_assert(SLOTS >= 2 * EMQ_MAX_LIST, "the table stays sparse");
    if (f->listed < 2 || f->listed > EMQ_MAX_LIST) return;
    int16_t first[SLOTS] = {0}; /* the first job with an id, from 1 */
    const emq_bytes *id = f->call.args.at + f->verb->id_at;
    for (int32_t i = 0; i < f->listed; i++, id += f->verb->list_len) {
        uint32_t slot = emq_hash(id->p, (size_t)id->n) % SLOTS;
        for (; first[slot]; slot = (slot + 1) % SLOTS) {
            const emq_bytes *other = f->call.args.at + f->verb->id_at + (first[slot] - 1) * f->verb->list_len;
            if (other->n != id->n || memcmp(other->p, id->p, (size_t)id->n)) continue;
            if (!f->twins) {
                f->twins = vm_Alloc(sizeof(*f->twins) * (size_t)f->listed);
                memset(f->twins, 0, sizeof(*f->twins) * (size_t)f->listed);
            }
            f->twins[i] = first[slot];
            break;
        }
        if (!first[slot]) first[slot] = (int16_t)(i + 1);
    }
}

static void view(emq_bytes *to, const vm_string *s) {
    size_t n;
    to->p = vm_StringPtrLen(s, &n);
    to->n = (intptr_t)n;
}

void emq_view_arguments(emq_frame *f, int argc) {
    const emq_verb *v = f->verb;
    emq_bytes *args = f->first_args;
    if (argc > EMQ_MAX_ARGS) {
        args = vm_Alloc(sizeof(*args) * (size_t)argc);
        memset(args, 0, sizeof(*args) * (size_t)argc);
    }
    f->call.args.at = args;
    f->call.args.n = f->call.args.room = argc;
    if (v->list_at) f->listed = (argc - v->list_at) / v->list_len;
    for (const uint8_t *i = v->view; *i && *i < argc; i++) {
        int step = v->list_at && *i >= v->list_at ? v->list_len : argc;
        for (int at = *i; at < argc; at += step) view(&args[at], f->argv[at]);
    }
    if (v->payload_at && emq_max_payload_bytes) {
        f->call.max_payload = emq_max_payload_bytes;
        int step = v->list_at ? v->list_len : argc;
        for (int at = v->payload_at; at < argc; at += step) view(&args[at], f->argv[at]);
    }
    if (v->jobs == EMQ_SOURCE_LISTED_JOBS) find_twins(f);
}
