/* What the two halves of the stub host share: the store (store.c) and the module API over it (stub.c). */
#ifndef STUB_H
#define STUB_H

#include <stddef.h>

#include "../../../module/abi.h"

/* Bytes in an allocation of exactly their length, so that one byte too far is found. */
typedef struct {
    char *p;
    size_t n;
} bytes;

bytes copy_of(const char *p, size_t n);
int same(bytes a, bytes b);

/* One entry of a hash (field, value) or of a sorted set (member, score). */
typedef struct {
    bytes name, value;
    double score;
} item;

typedef struct object {
    struct object *next;
    bytes name;
    int type;
    bytes string;
    item *items; /* those of a sorted set are in its order */
    size_t n;
} object;

enum { DATABASES = 16 };
typedef struct {
    object *db[DATABASES];
} store;

/* Called for each key that is created. */
extern void (*on_make)(store *s, int db, bytes name);

object *find(store *s, int db, bytes name);
object *make(store *s, int db, bytes name, int type);
void drop(store *s, int db, bytes name);
void flush(store *s, int db);
int equal(const store *a, const store *b);

/* The place of an entry, or n. */
size_t place_of(const object *o, bytes name);
int put_field(object *o, bytes field, bytes value);      /* 1 if it is new */
int put_member(object *o, bytes member, double score);   /* 1 if it is new, 2 if the score changed, 0 */
int take_out(store *s, int db, object *o, bytes name);   /* 1 if it existed; an empty key is removed */

/* Text that grows: replies. */
typedef struct {
    char *p;
    size_t n;
} text;
void put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_bulk(text *t, bytes b);

/* Runs one of the server's own commands; 0 if the stub does not have it. */
int plain(store *s, int *db, const bytes *argv, int argc, text *reply);

/* Exits, because the module has broken a rule. */
_Noreturn void fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
