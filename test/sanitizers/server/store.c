/* A store in memory, and the server's own commands that the tests use, in the forms in which they use them. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>

#include "stub.h"

bytes copy_of(const char *p, size_t n) {
    bytes b = {malloc(n), n};
    if (n) memcpy(b.p, p, n);
    return b;
}

int same(bytes a, bytes b) { return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n)); }

static int compare(bytes a, bytes b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

object *find(store *s, int db, bytes name) {
    for (object *o = s->db[db]; o; o = o->next)
        if (same(o->name, name)) return o;
    return NULL;
}

void (*on_make)(store *s, int db, bytes name);

object *make(store *s, int db, bytes name, int type) {
    object *o = calloc(1, sizeof(*o));
    *o = (object){.next = s->db[db], .name = copy_of(name.p, name.n), .type = type};
    s->db[db] = o;
    if (on_make) on_make(s, db, o->name);
    return o;
}

static void free_object(object *o) {
    for (size_t i = 0; i < o->n; i++) {
        free(o->items[i].name.p);
        free(o->items[i].value.p);
    }
    free(o->items);
    free(o->string.p);
    free(o->name.p);
    free(o);
}

void drop(store *s, int db, bytes name) {
    for (object **at = &s->db[db]; *at; at = &(*at)->next) {
        object *o = *at;
        if (!same(o->name, name)) continue;
        *at = o->next;
        free_object(o);
        return;
    }
}

void flush(store *s, int db) {
    while (s->db[db]) {
        object *o = s->db[db];
        s->db[db] = o->next;
        free_object(o);
    }
}

static int equal_objects(const object *a, const object *b) {
    if (!b || a->type != b->type || a->n != b->n || !same(a->string, b->string)) return 0;
    for (size_t i = 0; i < a->n; i++) {
        size_t j = place_of(b, a->items[i].name);
        if (j == b->n || !same(a->items[i].value, b->items[j].value) || a->items[i].score != b->items[j].score) return 0;
    }
    return 1;
}

int equal(const store *a, const store *b) {
    for (int db = 0; db < DATABASES; db++) {
        int left = 0;
        for (const object *o = a->db[db]; o; o = o->next, left++)
            if (!equal_objects(o, find((store *)b, db, o->name))) return 0;
        for (const object *o = b->db[db]; o; o = o->next) left--;
        if (left) return 0;
    }
    return 1;
}

size_t place_of(const object *o, bytes name) {
    size_t i = 0;
    while (i < o->n && !same(o->items[i].name, name)) i++;
    return i;
}

static void insert(object *o, size_t at, item new) {
    /* A new allocation each time, so that a pointer into the old one is found. */
    item *items = malloc((o->n + 1) * sizeof(item));
    if (at) memcpy(items, o->items, at * sizeof(item));
    if (o->n - at) memcpy(items + at + 1, o->items + at, (o->n - at) * sizeof(item));
    items[at] = new;
    free(o->items);
    o->items = items;
    o->n++;
}

int put_field(object *o, bytes field, bytes value) {
    size_t i = place_of(o, field);
    if (i == o->n) {
        insert(o, i, (item){copy_of(field.p, field.n), copy_of(value.p, value.n), 0});
        return 1;
    }
    bytes new = copy_of(value.p, value.n); /* first: it may be the old one */
    free(o->items[i].value.p);
    o->items[i].value = new;
    return 0;
}

static void cut(object *o, size_t i) {
    free(o->items[i].name.p);
    free(o->items[i].value.p);
    memmove(o->items + i, o->items + i + 1, (o->n - i - 1) * sizeof(item));
    o->n--;
}

int put_member(object *o, bytes member, double score) {
    size_t i = place_of(o, member);
    int new = i == o->n;
    if (!new && o->items[i].score == score) return 0;
    bytes name = copy_of(member.p, member.n);
    if (!new) cut(o, i);
    for (i = 0; i < o->n; i++) {
        double other = o->items[i].score;
        if (other > score || (other == score && compare(o->items[i].name, name) > 0)) break;
    }
    insert(o, i, (item){name, {NULL, 0}, score});
    return new ? 1 : 2;
}

int take_out(store *s, int db, object *o, bytes name) {
    size_t i = place_of(o, name);
    if (i == o->n) return 0;
    cut(o, i);
    if (!o->n) drop(s, db, o->name);
    return 1;
}

void put(text *t, const char *format, ...) {
    va_list args;
    char line[256];
    va_start(args, format);
    int n = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (n >= (int)sizeof(line)) fault("a line of %d bytes", n);
    t->p = realloc(t->p, t->n + (size_t)n);
    memcpy(t->p + t->n, line, (size_t)n);
    t->n += (size_t)n;
}

void put_bulk(text *t, bytes b) {
    put(t, "$%zu\r\n", b.n);
    t->p = realloc(t->p, t->n + b.n + 2);
    if (b.n) memcpy(t->p + t->n, b.p, b.n);
    memcpy(t->p + t->n + b.n, "\r\n", 2);
    t->n += b.n + 2;
}

static bytes literal(const char *s) { return (bytes){(char *)s, strlen(s)}; }

static int is(bytes word, const char *name) { return word.n == strlen(name) && !strncasecmp(word.p, name, word.n); }

static double number(bytes b) {
    char digits[64];
    snprintf(digits, sizeof(digits), "%.*s", (int)b.n, b.p);
    return strtod(digits, NULL);
}

static void put_items(text *t, const object *o) {
    if (o->type == VM_TYPE_STRING || o->type == VM_TYPE_LIST) {
        put(t, "*1\r\n");
        put_bulk(t, o->string);
        return;
    }
    put(t, "*%zu\r\n", 2 * o->n);
    for (size_t i = 0; i < o->n; i++) {
        char score[64];
        snprintf(score, sizeof(score), "%.17g", o->items[i].score);
        put_bulk(t, o->items[i].name);
        put_bulk(t, o->type == VM_TYPE_HASH ? o->items[i].value : literal(score));
    }
}

/* All data, in the form of the reply of test/store/read.lua. */
static void put_store(text *t, const store *s) {
    static const char *types[] = {"none", "string", "list", "hash", "set", "zset"};
    size_t n = 0;
    for (int db = 0; db < DATABASES; db++)
        for (object *o = s->db[db]; o; o = o->next) n++;
    put(t, "*%zu\r\n", n);
    for (int db = 0; db < DATABASES; db++) {
        for (object *o = s->db[db]; o; o = o->next) {
            put(t, "*4\r\n:%d\r\n", db);
            put_bulk(t, o->name);
            put_bulk(t, literal(types[o->type]));
            put_items(t, o);
        }
    }
}

/* The key's object, which must have a type; with `create`, a missing one is created. NULL, and a reply, if it has
 * another type. */
static object *typed(store *s, int db, bytes name, int type, int create, text *reply) {
    object *o = find(s, db, name);
    if (o && o->type != type) {
        put(reply, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n");
        return NULL;
    }
    return o || !create ? o : make(s, db, name, type);
}

int plain(store *s, int *db, const bytes *argv, int argc, text *reply) {
    bytes verb = argv[0], key = argc > 1 ? argv[1] : (bytes){NULL, 0};
    object *o;
    size_t before = reply->n;
    int n = 0;
    if (is(verb, "PING")) {
        put(reply, "+PONG\r\n");
    } else if (is(verb, "TIME")) {
        struct timeval now;
        gettimeofday(&now, NULL);
        char seconds[32], micros[32];
        snprintf(seconds, sizeof(seconds), "%lld", (long long)now.tv_sec);
        snprintf(micros, sizeof(micros), "%lld", (long long)now.tv_usec);
        put(reply, "*2\r\n");
        put_bulk(reply, literal(seconds));
        put_bulk(reply, literal(micros));
    } else if (is(verb, "EVAL")) { /* the one script that is ever sent */
        put_store(reply, s);
    } else if (is(verb, "SELECT")) {
        *db = (int)number(key);
        put(reply, "+OK\r\n");
    } else if (is(verb, "SWAPDB")) {
        int a = (int)number(key), b = (int)number(argv[2]);
        object *kept = s->db[a];
        s->db[a] = s->db[b];
        s->db[b] = kept;
        put(reply, "+OK\r\n");
    } else if (is(verb, "FLUSHALL") || is(verb, "FLUSHDB")) {
        for (int i = 0; i < DATABASES; i++)
            if (i == *db || is(verb, "FLUSHALL")) flush(s, i);
        put(reply, "+OK\r\n");
    } else if (is(verb, "SET")) {
        if (argc > 3 && find(s, *db, key)) { /* NX */
            put(reply, "$-1\r\n");
            return 1;
        }
        drop(s, *db, key);
        make(s, *db, key, VM_TYPE_STRING)->string = copy_of(argv[2].p, argv[2].n);
        put(reply, "+OK\r\n");
    } else if (is(verb, "GET")) {
        o = find(s, *db, key);
        if (o)
            put_bulk(reply, o->string);
        else
            put(reply, "$-1\r\n");
    } else if (is(verb, "LPUSH")) {
        if (!find(s, *db, key)) make(s, *db, key, VM_TYPE_LIST)->string = copy_of(argv[2].p, argv[2].n);
        put(reply, ":1\r\n");
    } else if (is(verb, "DEL")) {
        for (int i = 1; i < argc; i++) {
            n += find(s, *db, argv[i]) != NULL;
            drop(s, *db, argv[i]);
        }
        put(reply, ":%d\r\n", n);
    } else if (is(verb, "EXISTS")) {
        put(reply, ":%d\r\n", find(s, *db, key) != NULL);
    } else if (is(verb, "HSET")) {
        if (!(o = typed(s, *db, key, VM_TYPE_HASH, 1, reply))) return 1;
        for (int i = 2; i + 1 < argc; i += 2) n += put_field(o, argv[i], argv[i + 1]);
        put(reply, ":%d\r\n", n);
    } else if (is(verb, "HINCRBY")) {
        if (!(o = typed(s, *db, key, VM_TYPE_HASH, 1, reply))) return 1;
        size_t at = place_of(o, argv[2]);
        char sum[32], was[32] = "0";
        if (at < o->n) snprintf(was, sizeof(was), "%.*s", (int)o->items[at].value.n, o->items[at].value.p);
        snprintf(sum, sizeof(sum), "%lld", strtoll(was, NULL, 10) + (long long)number(argv[3]));
        put_field(o, argv[2], literal(sum));
        put(reply, ":%s\r\n", sum);
    } else if (is(verb, "HGET") || is(verb, "HMGET")) {
        if (!(o = typed(s, *db, key, VM_TYPE_HASH, 0, reply)) && reply->n != before) return 1;
        if (is(verb, "HMGET")) put(reply, "*%d\r\n", argc - 2);
        for (int i = 2; i < argc; i++) {
            size_t at = o ? place_of(o, argv[i]) : 0;
            if (o && at < o->n)
                put_bulk(reply, o->items[at].value);
            else
                put(reply, "$-1\r\n");
        }
    } else if (is(verb, "HGETALL")) {
        o = find(s, *db, key);
        if (o)
            put_items(reply, o);
        else
            put(reply, "*0\r\n");
    } else if (is(verb, "ZADD")) {
        if (!(o = typed(s, *db, key, VM_TYPE_ZSET, 1, reply))) return 1;
        for (int i = 2; i + 1 < argc; i += 2) n += put_member(o, argv[i + 1], number(argv[i])) == 1;
        put(reply, ":%d\r\n", n);
    } else if (is(verb, "HDEL") || is(verb, "ZREM")) {
        int type = is(verb, "HDEL") ? VM_TYPE_HASH : VM_TYPE_ZSET;
        if (!(o = typed(s, *db, key, type, 0, reply)) && reply->n != before) return 1;
        for (int i = 2; i < argc && (o = find(s, *db, key)); i++) n += take_out(s, *db, o, argv[i]);
        put(reply, ":%d\r\n", n);
    } else {
        return 0;
    }
    return 1;
}
