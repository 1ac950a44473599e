/* The open keys of a command. */
#include "emq.h"

/* Other modules' callbacks run when OpenKey expires a key, and they may do anything to the frame's keys. So only the first
 * key, opened while no other is open, may be expired; the others are opened with NOEXPIRE, and an expired one counts as
 * absent. */
static vm_key *open_next(emq_frame *f, vm_string *name, uint8_t key, int32_t item) {
    vm_key *opened = vm_OpenKey(f->ctx, name, f->mode);
    if (f->first_key != EMQ_NO_KEY) return opened;
    f->first_key = key;
    f->first_row = item;
    f->mode |= VM_OPEN_NOEXPIRE;
    return opened;
}

void emq_start_opening(emq_frame *f) {
    f->mode = f->verb->mode;
    f->first_key = EMQ_NO_KEY;
    f->open_row = -1;
}

vm_key *emq_open_row(emq_frame *f, emq_item *item) {
    int32_t i = (int32_t)(item - f->items);
    item->next_open = f->open_row;
    f->open_row = i;
    return item->row = open_next(f, item->row_name, EMQ_KEY_ROW, i);
}

vm_key *emq_open_key(emq_frame *f, int key) {
    f->open |= 1u << key;
    return f->key[key] = open_next(f, emq_key_name(f, key), (uint8_t)key, -1);
}

vm_key *emq_open(emq_frame *f, emq_item *item, int key) {
    if (key == EMQ_KEY_ROW) return item->row ? item->row : emq_open_row(f, item);
    return f->key[key] ? f->key[key] : emq_open_key(f, key);
}

/* Closes all but those of some keys, as bits, and one item's row; -1: all rows. */
static void close_but(emq_frame *f, uint32_t keys, int32_t row) {
    for (int32_t i = f->open_row, next; i >= 0; i = next) {
        emq_item *item = &f->items[i];
        next = item->next_open;
        if (i == row) continue;
        vm_CloseKey(item->row);
        item->row = NULL;
    }
    for (uint32_t others = f->open & ~keys; others; others &= others - 1) {
        int key = __builtin_ctz(others);
        vm_CloseKey(f->key[key]);
        f->key[key] = NULL;
    }
    f->open = keys;
    f->open_row = row;
}

void emq_close_keys(emq_frame *f) {
    if (f->first_key == EMQ_NO_KEY) return;
    close_but(f, 0, -1);
    emq_start_opening(f);
}

/* Closes all keys except the given one, and that too unless it was opened first. */
static void close_others(emq_frame *f, emq_item *item, int key) {
    if (f->first_key != key || (key == EMQ_KEY_ROW && &f->items[f->first_row] != item)) {
        emq_close_keys(f);
    } else if (key != EMQ_KEY_ROW) {
        close_but(f, 1u << key, -1);
    } else {
        close_but(f, 0, f->first_row);
        item->next_open = -1;
    }
}

vm_key *emq_open_or_make(emq_frame *f, emq_item *item, int key) {
    vm_key *there = emq_open(f, item, key);
    if (vm_KeyType(there) != VM_TYPE_EMPTY) return there;
    close_others(f, item, key);
    return emq_open(f, item, key);
}
