package exporter

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// series is a metric about queues.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	field string  // of STATS
	scale float64 // of the field's unit to the metric's
	label string  // the value of the second label, if there is one
}

func (s series) of(value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
}

func own(name, help string) series {
	return series{desc: prometheus.NewDesc(name, help, nil, nil), kind: prometheus.GaugeValue}
}

var (
	up     = own("emq_up", "1 if the last sample was taken, 0 if the server could not be asked.")
	took   = own("emq_sample_seconds", "How long the last sample took.")
	queues = own("emq_queues", "How many queues have jobs or gates and may be read by the exporter's user.")
	build  = prometheus.NewDesc("emq_build_info", "What runs in the server: always 1.", []string{"version", "build", "go", "wire"}, nil)

	jobs = prometheus.NewDesc("emq_queue_jobs", "Jobs of the queue by state.", []string{"queue", "state"}, nil)
)

// perQueue are the metrics of a queue, by the fields of STATS.
var perQueue = []series{
	{jobs, prometheus.GaugeValue, "pending", 1, "pending"},
	{jobs, prometheus.GaugeValue, "active", 1, "active"},
	{jobs, prometheus.GaugeValue, "scheduled", 1, "scheduled"},
	{jobs, prometheus.GaugeValue, "dead", 1, "dead"},
	counter("completed", "emq_queue_completed_total", "Jobs of the queue that were completed."),
	counter("failed", "emq_queue_failed_total", "Jobs of the queue that became dead letters by FAIL or by lost leases."),
	gauge("waiting", 1, "emq_queue_waiting_clients", "Clients of this server that wait for a job of the queue."),
	gauge("oldest_pending_age_ms", 1e-3, "emq_queue_oldest_pending_age_seconds", "How long ago the first pending job was made, if its id tells."),
	gauge("next_due_ms", 1e-3, "emq_queue_next_due_timestamp_seconds", "When the earliest scheduled job is due."),
	gauge("next_expiry_ms", 1e-3, "emq_queue_next_expiry_timestamp_seconds", "When the earliest lease ends."),
	gauge("paused", 1, "emq_queue_paused", "1 if the queue is paused; of the rest, how many are."),
	gauge("paused_until_ms", 1e-3, "emq_queue_paused_until_timestamp_seconds", "When the pause ends, if it does so by itself."),
	gauge("concurrency", 1, "emq_queue_limit_concurrency", "How many jobs of the queue may be active at a time, if there is such a limit."),
	gauge("rate_max", 1, "emq_queue_limit_rate_jobs", "How many jobs of the queue may be claimed in a window, if there is such a limit."),
	gauge("rate_duration_ms", 1e-3, "emq_queue_limit_rate_window_seconds", "How long that window is."),
}

func gauge(field string, scale float64, name, help string) series {
	return series{prometheus.NewDesc(name, help, []string{"queue"}, nil), prometheus.GaugeValue, field, scale, ""}
}

func counter(field, name, help string) series {
	s := gauge(field, 1, name, help)
	s.kind = prometheus.CounterValue
	return s
}

// metrics are the metrics of one queue; nulls are left out.
func (f figures) metrics(queue string) []prometheus.Metric {
	var list []prometheus.Metric
	for _, s := range perQueue {
		n, ok := f[s.field]
		switch {
		case !ok:
		case s.label != "":
			list = append(list, s.of(float64(n)*s.scale, queue, s.label))
		default:
			list = append(list, s.of(float64(n)*s.scale, queue))
		}
	}
	return list
}

// gauges are the numbers of INFO emq that can decrease, or do not count. All others only grow.
var gauges = map[string]bool{
	"emq_queues_known": true, "emq_queues_bytes": true, "emq_waiting_clients": true, "emq_waiting_queues": true, "emq_pump_lag_ms": true,
	"emq_version_number": true, "emq_abi_version": true,
}

// numbers are the metrics for the numbers of INFO emq: gauges by their names, counters with _total appended.
func numbers(info string) []prometheus.Metric {
	var list []prometheus.Metric
	text := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil || name == "emq_build" { // a commit may look like a number
			text[name] = value
			continue
		}
		kind, help := prometheus.GaugeValue, "As in INFO emq."
		if !gauges[name] {
			name, kind, help = name+"_total", prometheus.CounterValue, "As in INFO emq, where it is "+name+"."
		}
		list = append(list, prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, nil, nil), kind, float64(n)))
	}
	if len(text) > 0 {
		list = append(list, prometheus.MustNewConstMetric(build, prometheus.GaugeValue, 1, text["emq_version"], text["emq_build"], text["emq_go"], text["emq_identity"]))
	}
	return list
}
