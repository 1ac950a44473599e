/* The names of a queue's keys. */
#include "emq.h"

#include <string.h>

const char *emq_suffix[EMQ_NUM_KEYS];
size_t emq_suffix_len[EMQ_NUM_KEYS];

int emq_ends_in(const char *s, size_t n, const char *end, size_t end_len) {
    return n >= end_len && memcmp(s + n - end_len, end, end_len) == 0;
}

static uint64_t seed;

void emq_seed_hash(void) { vm_GetRandomBytes((unsigned char *)&seed, sizeof(seed)); }

uint64_t emq_mix(uint64_t a, uint64_t b) {
    unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* The last word overlaps the one before, unless the length is a multiple of a word's. */
uint32_t emq_hash(const char *p, size_t n) {
    uint64_t h = seed ^ n, word = 0;
    if (n < sizeof(word)) {
        memcpy(&word, p, n);
        return (uint32_t)emq_mix(h ^ word, seed | 1);
    }
    for (size_t i = 0; i < n; i += sizeof(word)) {
        memcpy(&word, p + (i + sizeof(word) <= n ? i : n - sizeof(word)), sizeof(word));
        h = emq_mix(h ^ word, 0x9e3779b97f4a7c15);
    }
    return (uint32_t)emq_mix(h, seed | 1);
}

vm_string *emq_make_name(const char *base, size_t base_len, int key, emq_bytes id) {
    char small[256], *buf = small;
    size_t n = base_len + emq_suffix_len[key] + (size_t)id.n;
    if (n > sizeof(small)) buf = vm_Alloc(n);
    memcpy(buf, base, base_len);
    memcpy(buf + base_len, emq_suffix[key], emq_suffix_len[key]);
    memcpy(buf + base_len + emq_suffix_len[key], id.p, (size_t)id.n);
    vm_string *name = vm_CreateString(NULL, buf, n);
    if (buf != small) vm_Free(buf);
    return name;
}

/* The name of an undeclared key of the frame's queue, for the caller to free. COMPLETE and FAIL need two of them in each
 * call, so the names of recently used queues are cached, one queue in each slot. */
static vm_string *derive_name(emq_frame *f, int key) {
    enum { SLOTS = 64, MAX_BASE = 120 };
    static struct {
        size_t base_len;
        char base[MAX_BASE];
        vm_string *name[EMQ_NUM_KEYS];
    } kept[SLOTS];
    const emq_bytes no_id = {"", 0};
    if (f->base_len > MAX_BASE) return emq_make_name(f->base, f->base_len, key, no_id);
    if (!f->hash) f->hash = emq_hash(f->base, f->base_len);
    __typeof__(*kept) *slot = &kept[f->hash % SLOTS];
    if (slot->base_len != f->base_len || memcmp(slot->base, f->base, f->base_len)) {
        for (int i = 0; i < EMQ_NUM_KEYS; i++) {
            if (slot->name[i]) vm_FreeString(NULL, slot->name[i]);
            slot->name[i] = NULL;
        }
        memcpy(slot->base, f->base, slot->base_len = f->base_len);
    }
    if (!slot->name[key]) slot->name[key] = emq_make_name(f->base, f->base_len, key, no_id);
    vm_RetainString(NULL, slot->name[key]);
    return slot->name[key];
}

vm_string *emq_find_name(emq_frame *f, int key) {
    int arg = f->verb->arg_of[key];
    if (arg) return f->name[key] = f->argv[arg];
    f->owned |= 1u << key;
    return f->name[key] = derive_name(f, key);
}

int emq_find_base(emq_frame *f) {
    const emq_verb *v = f->verb;
    emq_bytes name = f->call.args.at[v->cut_at];
    if (!emq_ends_in(name.p, (size_t)name.n, v->cut, v->cut_len)) return 0;
    f->base = name.p;
    f->base_len = (size_t)name.n - v->cut_len;
    return emq_ends_in(f->base, f->base_len, "}:", 2);
}
