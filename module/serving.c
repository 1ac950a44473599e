/* Whether the server would accept a write from the module itself now. */
#include "emq.h"

#include <string.h>

static int import_known, importing;

/* Whether import-mode is on: another system is filling the store, so keys that are missing may still come. The server
 * itself lets no key expire then. The value is read with CONFIG GET because the server's event names the setting
 * without its value. */
static int is_importing(vm_ctx *ctx) {
    if (import_known) return importing;
    importing = 0;
    vm_reply *reply = vm_Call(ctx, "CONFIG", "cc", "GET", "import-mode");
    if (reply && vm_CallReplyType(reply) == VM_REPLY_ARRAY) {
        size_t n = 0;
        vm_reply *value = vm_CallReplyArrayElement(reply, 1); /* none before Valkey 8.1 */
        const char *p = value ? vm_CallReplyStringPtr(value, &n) : NULL;
        importing = p && n == 3 && !memcmp(p, "yes", n);
    }
    if (reply) vm_FreeCallReply(reply);
    import_known = 1;
    return importing;
}

static void on_config(vm_ctx *ctx, vm_event event, uint64_t sub, void *data) {
    (void)ctx, (void)event, (void)sub;
    const vm_config_change *change = data;
    for (uint32_t i = 0; i < change->count; i++)
        if (!strcmp(change->names[i], "import-mode")) import_known = 0;
}

/* A dry run finds conditions that the server checks only for a command: too few replicas, a failing disk. */
int emq_may_write(vm_ctx *ctx) {
    if (emq_is_replica || vm_AvoidReplicaTraffic() || vm_GetContextFlags(ctx) & (VM_CTX_LOADING | VM_CTX_ASYNC_LOADING))
        return 0;
    if (is_importing(ctx)) return 0;
    vm_reply *reply = vm_Call(ctx, "DEL", "SDEs", emq_identity_key);
    int refused = reply && vm_CallReplyType(reply) == VM_REPLY_ERROR;
    if (reply) vm_FreeCallReply(reply);
    return !refused;
}

int emq_serving_subscribe(vm_ctx *ctx) {
    import_known = 0;
    return vm_SubscribeToServerEvent(ctx, (vm_event){VM_EVENT_CONFIG, VM_EVENT_VERSION}, on_config) == VM_OK;
}
