/* The lines of clients that wait for jobs, one for each queue. What the clients do is in waiting.c. */
#include "emq.h"

#include <string.h>

static vm_dict *lines;   /* by database and base */
static emq_line *newest; /* of all lines */
static size_t waiters;
static vm_ctx *own; /* a context without a client, for reads and signals in any database */

size_t emq_waiting_clients(void) { return waiters; }
size_t emq_waiting_queues(void) { return lines ? vm_DictSize(lines) : 0; }
emq_line *emq_newest_line(void) { return newest; }

/* ---- Lines ---- */

/* The key of a line in the dictionary: the database's number and the base. free_key frees it. */
typedef struct {
    char small[128], *p;
    size_t n;
} line_key;

static void make_key(line_key *k, int db, const char *base, size_t base_len) {
    k->n = sizeof(db) + base_len;
    k->p = k->n <= sizeof(k->small) ? k->small : vm_Alloc(k->n);
    memcpy(k->p, &db, sizeof(db));
    memcpy(k->p + sizeof(db), base, base_len);
}

static void free_key(line_key *k) {
    if (k->p != k->small) vm_Free(k->p);
}

static emq_line *find_line(int db, const char *base, size_t base_len) {
    line_key k;
    make_key(&k, db, base, base_len);
    emq_line *l = vm_DictGetC(lines, k.p, k.n, NULL);
    free_key(&k);
    return l;
}

static emq_line *find_or_make_line(int db, const char *base, size_t base_len) {
    emq_line *l = find_line(db, base, base_len);
    if (l) return l;
    l = vm_Alloc(sizeof(*l) + base_len);
    *l = (emq_line){.db = db, .after = newest, .base_len = base_len};
    memcpy(l->base, base, base_len);
    if (newest) newest->before = l;
    newest = l;
    line_key k;
    make_key(&k, db, base, base_len);
    vm_DictSetC(lines, k.p, k.n, l);
    free_key(&k);
    return l;
}

static void free_line(emq_line *l) {
    line_key k;
    make_key(&k, l->db, l->base, l->base_len);
    vm_DictDelC(lines, k.p, k.n, NULL);
    free_key(&k);
    if (l->before) l->before->after = l->after;
    if (l->after) l->after->before = l->before;
    if (newest == l) newest = l->after;
    vm_Free(l);
}

size_t emq_waiting_for(int db, const char *base, size_t base_len) {
    emq_line *l = waiters ? find_line(db, base, base_len) : NULL;
    return l ? l->length : 0;
}

static void join(emq_line *l, emq_place *p) {
    p->in = l;
    l->length++;
    p->before = l->last;
    p->after = NULL;
    *(l->last ? &l->last->after : &l->first) = p;
    l->last = p;
}

static int has_entries(const emq_line *l) {
    vm_string *name = emq_make_name(l->base, l->base_len, EMQ_KEY_PENDING, (emq_bytes){"", 0});
    int some = 0;
    if (vm_SelectDb(own, l->db) == VM_OK) {
        vm_key *key = vm_OpenKey(own, name, VM_READ | VM_OPEN_UNSEEN);
        some = key && vm_KeyType(key) == VM_TYPE_ZSET;
        if (key) vm_CloseKey(key);
    }
    vm_FreeString(NULL, name);
    return some;
}

/* Signalling a name again before the server has handled the first signal has no effect. */
static void wake_first(const emq_line *l) {
    if (vm_SelectDb(own, l->db) == VM_OK) vm_SignalKeyAsReady(own, l->first->who->name);
}

void emq_wake_if_entries(const emq_line *l) {
    if (has_entries(l)) wake_first(l);
}

void emq_enter_line(vm_ctx *ctx, emq_waiter *w, int db, vm_string *base) {
    if (!lines) lines = vm_CreateDict(NULL);
    if (!own) own = vm_GetDetachedThreadSafeContext(ctx);
    if (!w->num_places) waiters++;
    size_t n;
    const char *p = vm_StringPtrLen(base, &n);
    emq_place *place = &w->places[w->num_places++];
    place->who = w;
    join(find_or_make_line(db, p, n), place);
}

void emq_leave_lines(emq_waiter *w) {
    if (w->gone) return;
    w->gone = 1;
    waiters--;
    for (size_t i = 0; i < w->num_places; i++) {
        emq_place *p = &w->places[i];
        emq_line *l = p->in;
        int was_first = l->first == p;
        l->length--;
        *(p->before ? &p->before->after : &l->first) = p->after;
        *(p->after ? &p->after->before : &l->last) = p->before;
        if (!l->first)
            free_line(l);
        else if (was_first)
            emq_wake_if_entries(l);
    }
}

/* ---- Waking ---- */

void emq_wake(int db, const char *base, size_t base_len) {
    if (!waiters) return;
    emq_line *l = find_line(db, base, base_len);
    if (l) wake_first(l);
}

void emq_wake_gated(int db, const char *base, size_t base_len) {
    emq_line *l = waiters ? find_line(db, base, base_len) : NULL;
    if (l && l->gated) wake_first(l);
}

void emq_wake_db(int db) {
    for (emq_line *l = newest; waiters && l; l = l->after)
        if (l->db == db) emq_wake_if_entries(l);
}
