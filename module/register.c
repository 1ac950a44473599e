/* Registers a verb with the server: the command, its ACL categories and its documentation, all from the command table in
 * package commands. */
#include "emq.h"

#include <errno.h>
#include <string.h>

static const vm_info_version info_version = {
    .version = 1,
    .sizeof_history = sizeof(vm_history),
    .sizeof_key_spec = sizeof(vm_key_spec),
    .sizeof_arg = sizeof(vm_arg),
};

const char *emq_add_category(vm_ctx *ctx, const char *name) {
    /* EBUSY: an earlier load added it; categories stay as long as the server runs. */
    if (vm_AddACLCategory(ctx, name) == VM_OK || errno == EBUSY) return NULL;
    return "AddACLCategory failed";
}

const char *emq_register(vm_ctx *ctx, int verb, const char *flags, const char *categories, const char *summary,
                         const char *complexity, const char *since, const char *tips, const char *const *arg_names,
                         const uint8_t *arg_types, const char *option) {
    const emq_verb *v = &emq_verbs[verb];
    vm_arg args[EMQ_MAX_ARGS + 1], block[EMQ_MAX_ARGS + 1], *end = args + v->num_args - 1 + v->list_len;
    vm_key_spec specs[EMQ_NUM_KEYS + 1];
    memset(args, 0, sizeof(args));
    memset(specs, 0, sizeof(specs));
    int num_specs = 0;
    for (vm_arg *arg = args; arg < end; arg++) {
        int i = (int)(arg - args) + 1;
        *arg = (vm_arg){.name = arg_names[i], .type = arg_types[i], .key_spec = -1};
        if (!v->access[i]) continue;
        arg->key_spec = num_specs;
        /* Each key has a fixed position, so that the ACL sees the keys whatever numkeys says. */
        specs[num_specs++] = (vm_key_spec){.flags = v->access[i],
                                           .begin = VM_BEGIN_INDEX,
                                           .bs.index.pos = i,
                                           .find = VM_FIND_RANGE,
                                           .fk.range = {v->list_at && i >= v->list_at ? -1 : 0, 1, 0}};
    }
    if (option) {
        end[-1].token = option;
        end[-1].flags = VM_ARG_OPTIONAL;
    }
    if (v->list_len == 1) end[-1].flags = VM_ARG_MULTIPLE;
    if (v->list_len > 1) { /* the arguments of each job form a block */
        vm_arg *first = end - v->list_len;
        memcpy(block, first, sizeof(*first) * (size_t)(v->list_len + 1));
        memset(first, 0, sizeof(*first) * (size_t)v->list_len);
        *first =
            (vm_arg){.name = "job", .type = VM_ARG_BLOCK, .key_spec = -1, .flags = VM_ARG_MULTIPLE, .subargs = block};
    }
    vm_command_info info = {
        .version = &info_version,
        .summary = summary,
        .complexity = complexity,
        .since = since,
        .tips = *tips ? tips : NULL,
        .arity = v->list_at || v->least < v->num_args ? -v->least : v->num_args,
        .key_specs = specs,
        .args = args,
    };
    if (vm_CreateCommand(ctx, v->name, emq_trampolines[verb], flags, 0, 0, 0) != VM_OK) return "CreateCommand failed";
    vm_command *command = vm_GetCommand(ctx, v->name);
    if (!command) return "GetCommand failed";
    if (vm_SetCommandInfo(command, &info) != VM_OK) return "SetCommandInfo failed";
    if (vm_SetCommandACLCategories(command, categories) != VM_OK) return "SetCommandACLCategories failed";
    return NULL;
}
