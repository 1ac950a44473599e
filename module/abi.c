/* Resolution of the module API, by name. */
#include "abi.h"

#define VM_DEFINE(result, name, args) result(*vm_##name) args;
VM_FUNCTIONS(VM_DEFINE)
#undef VM_DEFINE

const char *vm_resolve(vm_ctx *ctx) {
    int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
    const char *missing = NULL;
#define VM_RESOLVE(result, name, args)                                                                                 \
    if (get("ValkeyModule_" #name, &vm_##name) != VM_OK && !missing) missing = "ValkeyModule_" #name;
    VM_FUNCTIONS(VM_RESOLVE)
#undef VM_RESOLVE
    return missing;
}
