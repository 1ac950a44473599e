/* The settings emq.*: the server checks their bounds, answers CONFIG and rewrites its file; the values are here. */
#include "emq.h"

long long emq_pump_interval_ms, emq_pump_budget_us, emq_max_stalled, emq_max_payload_bytes;
int emq_config_changed;

static long long get(const char *name, void *value) {
    (void)name;
    return *(long long *)value;
}

static int set(const char *name, long long to, void *value, vm_string **error) {
    (void)name, (void)error;
    *(long long *)value = to;
    emq_config_changed = 1;
    return VM_OK;
}

int emq_load_config(vm_ctx *ctx, int again) {
    static const struct {
        const char *name;
        long long value, min, max;
        long long *at;
    } settings[] = {
        {"pump-interval-ms", 1000, 0, 3600000, &emq_pump_interval_ms},
        {"pump-budget-us", 2000, 100, 1000000, &emq_pump_budget_us},
        {"max-stalled", 3, 0, INT32_MAX, &emq_max_stalled},
        {"max-payload-bytes", 0, 0, INT32_MAX, &emq_max_payload_bytes},
    };
    enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };
    long long kept[SETTINGS];
    for (int i = 0; i < SETTINGS; i++) {
        kept[i] = *settings[i].at;
        if (vm_RegisterNumericConfig(ctx, settings[i].name, settings[i].value, 0, settings[i].min, settings[i].max, get,
                                     set, NULL, settings[i].at) != VM_OK)
            return 0;
    }
    if (vm_LoadConfigs(ctx) != VM_OK) return 0;
    for (int i = 0; again && i < SETTINGS; i++) *settings[i].at = kept[i];
    return 1;
}
