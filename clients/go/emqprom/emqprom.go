// Package emqprom counts what workers of package emq do, for Prometheus.
package emqprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"emq/clients/go"
)

// Observe is an option for workers that counts their jobs:
//
//	emq_jobs_total{queue, outcome}      jobs that a worker was done with
//	emq_job_seconds{queue, outcome}     how long each was in hand, from its claim to its handler's answer
//
// One registry takes the workers of a program together. It panics if the names are taken by others.
func Observe(r prometheus.Registerer) emq.WorkerOption {
	jobs := register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "emq_jobs_total", Help: "Jobs that a worker was done with.",
	}, []string{"queue", "outcome"}))
	seconds := register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "emq_job_seconds", Help: "Seconds from a job's claim to its handler's answer.",
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min
	}, []string{"queue", "outcome"}))
	return emq.Observe(func(e emq.Event) {
		jobs.WithLabelValues(e.Queue, e.Outcome.String()).Inc()
		seconds.WithLabelValues(e.Queue, e.Outcome.String()).Observe(e.Took.Seconds())
	})
}

// register returns what is registered already, if another worker of the program has come first.
func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if err := r.Register(c); err != nil {
		already, ok := err.(prometheus.AlreadyRegisteredError)
		if !ok {
			panic(err)
		}
		return already.ExistingCollector.(C)
	}
	return c
}
