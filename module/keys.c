/* The open keys of a command. */
#include "emq.h"

/* Other modules' callbacks run when a key expires under OpenKey, and they may do anything to the keys of the frame. So
 * only the first key is opened that way, with no other open; one that has expired counts as absent for the rest. */
static vm_key *open_next(emq_frame *f, vm_string *name, uint8_t key, int32_t item) {
    vm_key *opened = vm_OpenKey(f->ctx, name, f->mode);
    if (f->first_key != EMQ_NO_KEY) return opened;
    f->first_key = key;
    f->first_row = item;
    f->mode |= VM_OPEN_NOEXPIRE;
    return opened;
}

void emq_start_opening(emq_frame *f) {
    f->mode = f->verb->readonly ? VM_READ | VM_OPEN_UNSEEN : VM_READ | VM_WRITE;
    f->first_key = EMQ_NO_KEY;
    f->open_row = f->first_row = -1;
}

vm_key *emq_open_anew(emq_frame *f, emq_item *item, int key) {
    if (key != EMQ_KEY_ROW) {
        f->open |= 1u << key;
        return f->key[key] = open_next(f, emq_name(f, item, key), (uint8_t)key, -1);
    }
    int32_t i = (int32_t)(item - f->items);
    item->row = open_next(f, item->row_name, EMQ_KEY_ROW, i);
    item->next_open = f->open_row;
    f->open_row = i;
    return item->row;
}

/* Closes all but the key that was opened first, if that one is to stay. */
static void close_keys(emq_frame *f, int first_stays) {
    int32_t stays = first_stays ? f->first_row : -1;
    for (int32_t i = f->open_row, next; i >= 0; i = next) {
        next = f->items[i].next_open;
        if (i == stays) continue;
        vm_CloseKey(f->items[i].row);
        f->items[i].row = NULL;
    }
    uint32_t kept = first_stays && stays < 0 ? f->open & 1u << f->first_key : 0;
    for (uint32_t keys = f->open & ~kept; keys; keys &= keys - 1) {
        int key = __builtin_ctz(keys);
        vm_CloseKey(f->key[key]);
        f->key[key] = NULL;
    }
    f->open = kept;
    if (first_stays) {
        f->open_row = stays;
        if (stays >= 0) f->items[stays].next_open = -1;
    } else {
        emq_start_opening(f);
    }
}

void emq_close_keys(emq_frame *f) {
    if (f->first_key != EMQ_NO_KEY) close_keys(f, 0);
}

vm_key *emq_open_or_make(emq_frame *f, emq_item *item, int key) {
    vm_key *there = emq_open(f, item, key);
    if (vm_KeyType(there) != VM_TYPE_EMPTY) return there;
    close_keys(f, f->first_key == key && (key != EMQ_KEY_ROW || f->first_row == item - f->items));
    return emq_open(f, item, key);
}
