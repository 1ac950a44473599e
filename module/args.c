/* Makes the arguments of a command visible to a decision, as views of the server's own bytes. */
#include "emq.h"

#include <string.h>

/* Finds the ids that occur in the list more than once. */
static void find_twins(emq_frame *f) {
    enum { SLOTS = 2048 }; /* twice the length of the longest list */
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
                f->spilled = 1;
                f->twins = vm_Alloc(sizeof(*f->twins) * (size_t)f->listed);
                memset(f->twins, 0, sizeof(*f->twins) * (size_t)f->listed);
            }
            f->twins[i] = first[slot];
            break;
        }
        if (!first[slot]) first[slot] = (int16_t)(i + 1);
    }
}

/* Views an argument of each job of a list. */
static void view_listed(emq_frame *f, int at, int argc) {
    for (; at < argc; at += f->verb->list_len) f->call.args.at[at] = emq_bytes_of(f->argv[at]);
}

/* Views the arguments of a list, which are in the verb's view from `i` on, and the payloads if they are bounded. */
EMQ_APART static void view_more(emq_frame *f, const uint8_t *i, int argc) {
    const emq_verb *v = f->verb;
    if (v->payload_at) f->call.max_payload = emq_max_payload_bytes;
    if (!v->list_at) {
        if (f->call.max_payload) f->call.args.at[v->payload_at] = emq_bytes_of(f->argv[v->payload_at]);
        return;
    }
    f->listed = (argc - v->list_at) / v->list_len;
    for (; *i; i++) view_listed(f, *i, argc);
    if (f->call.max_payload) view_listed(f, v->payload_at, argc);
    if (v->jobs == EMQ_SOURCE_LISTED_JOBS) find_twins(f);
}

EMQ_COLD static void make_room(emq_frame *f, int argc) {
    f->call.args.at = vm_Alloc(sizeof(*f->call.args.at) * (size_t)argc);
    memset(f->call.args.at, 0, sizeof(*f->call.args.at) * (size_t)argc);
    f->spilled = 1;
}

void emq_view_arguments(emq_frame *f, int argc) {
    const emq_verb *v = f->verb;
    const uint8_t *i = v->view;
    f->call.args.at = f->first_args;
    f->call.args.n = f->call.args.room = argc;
    if (EMQ_RARELY(argc > EMQ_MAX_ARGS)) make_room(f, argc);
    emq_bytes *args = f->call.args.at;
    for (int alone = argc < v->num_args ? argc : v->num_args; *i && *i < alone; i++)
        args[*i] = emq_bytes_of(f->argv[*i]);
    if (EMQ_RARELY(v->list_at || emq_max_payload_bytes)) view_more(f, i, argc);
}
