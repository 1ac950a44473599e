/* INFO emq: the module's version, and counters since the load of the verbs' calls and results and of the pump. They are in
 * plain memory: the server calls this in a crash report too, so it must not run Go, open a key or take a lock. */
#include "emq.h"

static void add(vm_info_ctx *ctx, const char *field, uint64_t n) { vm_InfoAddFieldULongLong(ctx, field, n); }

static void tell_wire(vm_info_ctx *ctx) {
    if (vm_InfoAddSection(ctx, "wire") != VM_OK) return;
    for (int i = 0; i < EMQ_NUM_ABOUT; i++)
        if (emq_about[i][0]) vm_InfoAddFieldCString(ctx, emq_about[i][0], emq_about[i][1]);
    if (emq_run_id) vm_InfoAddFieldString(ctx, "run_id", emq_run_id);
    add(ctx, "version_number", EMQ_VERSION);
    add(ctx, "abi_version", VM_APIVER);
}

static void tell_verb(vm_info_ctx *ctx, const emq_count_names *name, const emq_count *count) {
    add(ctx, name->calls, count->calls);
    for (int i = 0; i < EMQ_NUM_RESULTS; i++)
        if (name->results[i]) add(ctx, name->results[i], count->results[i]);
    for (int i = 0; i < EMQ_NUM_DISPOSITIONS; i++)
        if (name->dispositions[i]) add(ctx, name->dispositions[i], count->dispositions[i]);
}

static void tell_commands(vm_info_ctx *ctx) {
    if (vm_InfoAddSection(ctx, "commands") != VM_OK) return;
    add(ctx, "identity_claims", emq_identity_claims);
    add(ctx, "panics", emq_panics);
    for (int verb = 0; verb < EMQ_NUM_VERBS; verb++)
        if (emq_counted[verb].calls) tell_verb(ctx, &emq_counted[verb], &emq_counts[verb]);
}

static void tell_waiting(vm_info_ctx *ctx) {
    if (vm_InfoAddSection(ctx, "waiting") != VM_OK) return;
    add(ctx, "waiting_clients", emq_waiting_clients());
    add(ctx, "waiting_queues", emq_waiting_queues());
}

static void tell_pump(vm_info_ctx *ctx) {
    if (vm_InfoAddSection(ctx, "pump") != VM_OK) return;
    add(ctx, "queues_known", emq_queues_count());
    add(ctx, "queues_bytes", emq_queues_bytes());
    add(ctx, "pump_ticks", emq_pump.ticks);
    add(ctx, "pump_slices", emq_pump.slices);
    add(ctx, "pump_time_us", emq_pump.time_us);
    add(ctx, "pump_skipped", emq_pump.skipped);
    add(ctx, "pump_lag_ms", (uint64_t)emq_pump.last_lag_ms);
    add(ctx, "pump_jobs_promoted", emq_pump.promoted);
    add(ctx, "pump_leases_returned", emq_pump.returned);
    add(ctx, "pump_leases_stalled", emq_pump.stalled);
    add(ctx, "pump_jobs_buried", emq_pump.buried);
    add(ctx, "pump_entries_dropped", emq_pump.dropped);
    add(ctx, "pump_entries_left", emq_pump.left);
}

void emq_info(vm_info_ctx *ctx, int for_crash_report) {
    (void)for_crash_report;
    tell_wire(ctx);
    tell_commands(ctx);
    tell_waiting(ctx);
    tell_pump(ctx);
}
