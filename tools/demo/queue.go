package main

import (
	"context"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	lease = 30 * time.Second // how long a worker may hold a job before it could be taken for lost
	block = time.Second      // how long a claim waits for a job
)

// queue speaks the verbs for one queue. All of its keys share a hash tag.
type queue struct {
	client valkey.Client
	base   string // "emq:{name}:"
}

// job is a claimed job. Its token proves that this claim is the latest one.
type job struct {
	id, payload, token string
}

func (q queue) key(name string) string { return q.base + name }
func (q queue) row(id string) string   { return q.base + "job:" + id }

// enqueue adds a job. It reports false if a job of that id is there already.
func (q queue) enqueue(ctx context.Context, id, payload string) (bool, error) {
	return q.client.Do(ctx, q.client.B().Arbitrary("EMQ.ENQUEUE", "2").
		Keys(q.row(id), q.key("pending")).Args(id, payload).Build()).AsBool()
}

// claim takes the oldest pending job, waits for one if there is none, and reports false if none came. Blocking gives the call
// a connection for as long as it waits, and no timeout.
func (q queue) claim(ctx context.Context) (job, bool, error) {
	reply, err := q.client.Do(ctx, q.client.B().Arbitrary("EMQ.BCLAIM", milliseconds(lease), milliseconds(block)).
		Keys(q.base).Blocking()).ToArray()
	if err != nil || len(reply) == 0 {
		return job{}, false, err
	}
	var j job
	if j.id, err = reply[1].ToString(); err != nil {
		return job{}, false, err
	}
	if j.payload, err = reply[2].ToString(); err != nil {
		return job{}, false, err
	}
	token, err := reply[3].AsInt64()
	j.token = strconv.FormatInt(token, 10)
	return j, err == nil, err
}

// complete ends a job well: its row goes, the counter of completed jobs goes up.
func (q queue) complete(ctx context.Context, j job) error {
	return q.client.Do(ctx, q.client.B().Arbitrary("EMQ.COMPLETE", "2").
		Keys(q.key("active"), q.row(j.id)).Args(j.id, j.token, q.base).Build()).Error()
}

// fail gives a job back: it is scheduled to be tried again after the delay, or dead at its last failure. The answer
// says which: "scheduled" or "dead".
func (q queue) fail(ctx context.Context, j job, delay time.Duration, maxFailures int, reason string) (string, error) {
	return q.client.Do(ctx, q.client.B().Arbitrary("EMQ.FAIL", "4").
		Keys(q.key("active"), q.key("schedule"), q.key("dead"), q.row(j.id)).
		Args(j.id, j.token, milliseconds(delay), strconv.Itoa(maxFailures), reason, q.base).Build()).ToString()
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
