// Package faults answers one question: what is left of a queue when things go wrong? It starts real servers, lets many
// clients use a queue, kills, cuts, pauses and fails over, and compares what is stored afterwards with what the clients
// were promised: no job lost, none done twice, no lease ended early (ledger_test.go).
package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

const (
	// breath is how long a client pauses when it got no job.
	breath = 2 * time.Millisecond
	// backlog is the number of waiting jobs at which the producers pause.
	backlog = 600
	// The number of failures at which a job is dead; the longest delay and the longest lease, in ms.
	maxFailures, maxDelay, maxLease = 3, 20, 150
	// longestWait is how long a worker waits in the server, in ms.
	longestWait = 200
)

// crowd is a load on one queue: producers that enqueue, workers that claim and then extend, complete, fail or abandon
// the job, and one client that promotes and reaps, unless the servers' pumps do. Some workers are too late, or use a
// token that they do not hold. It is stopped and started again around a fault; a worker that was stopped before it got
// the reply to a request repeats the request, as a real worker would.
type crowd struct {
	*ledger
	q       wire.Queue
	fault   string // what the load goes through
	rounds  int    // how often it has been through that
	pumped  bool   // the pump promotes and reaps
	waits   bool   // the workers wait for jobs in the server
	confirm bool   // a reply is a promise only once a replica has the write (WAIT 1)
	seed    uint64
	client  atomic.Pointer[redis.UniversalClient]

	members  uint64 // number of clients so far: each has its own dice
	ids      atomic.Int64
	open     atomic.Int64 // jobs under way, roughly
	quit     chan struct{}
	running  sync.WaitGroup
	owedLock sync.Mutex
	owed     []claim // their COMPLETE got no reply and must be repeated
}

// member is one client of the crowd.
type member struct {
	*crowd
	*rand.Rand
	quit <-chan struct{}
}

// pause lets a client do nothing for a while, at most until the load ends.
func (m *member) pause(d time.Duration) {
	select {
	case <-m.quit:
	case <-time.After(d):
	}
}

// ways are the two ways in which lapsed jobs are returned: by a client of the crowd, or by the servers' pumps.
var ways = []struct {
	name   string
	server func(args ...string) valkey.Options
	pumped bool
}{
	{"sweep.lua", store.Module, false},
	{"the pump", func(args ...string) valkey.Options {
		return store.Pumped(append([]string{"--emq.pump-interval-ms", "10"}, args...)...)
	}, true},
}

// newCrowd makes a crowd for a fault, which gets a row in the table however the test ends.
func newCrowd(t testing.TB, fault string, client redis.UniversalClient) *crowd {
	t.Helper()
	c := &crowd{ledger: newLedger(), q: "faults", fault: fault, seed: store.Seed(t)}
	c.use(client)
	t.Cleanup(func() {
		c.stop()
		report(t, c)
	})
	return c
}

// use makes all clients talk to another server from their next request on.
func (c *crowd) use(client redis.UniversalClient) { c.client.Store(&client) }

// dial returns a client with the simplest protocol, and without retries of its own.
func dial(t testing.TB, network, address string) redis.UniversalClient {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Network: network, Addr: address, Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 1000,
		ReadTimeout: wire.Patience, WriteTimeout: wire.Patience, PoolTimeout: wire.Patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// start starts the clients.
func (c *crowd) start(producers, workers int) {
	c.quit = make(chan struct{})
	for range producers {
		c.run((*member).produce)
	}
	for range workers {
		c.run((*member).work)
	}
	if !c.pumped {
		c.run((*member).sweep)
	}
}

func (c *crowd) run(what func(*member)) {
	c.members++
	m := &member{c, rand.New(rand.NewPCG(c.seed, c.members)), c.quit}
	c.running.Go(func() {
		for {
			select {
			case <-m.quit:
				return
			default:
				what(m)
			}
		}
	})
}

// stop lets every client finish the request that it is in.
func (c *crowd) stop() {
	if c.quit != nil {
		close(c.quit)
		c.quit = nil
	}
	c.running.Wait()
}

// more waits until n more promises were made.
func (c *crowd) more(t testing.TB, n int) {
	t.Helper()
	c.moreOf(t, &c.kept, n, "promises")
}

// moreOf waits until one of the ledger's numbers has grown by n.
func (c *crowd) moreOf(t testing.TB, number *int, n int, what string) {
	t.Helper()
	target := c.count(number) + n
	c.until(t, fmt.Sprintf("%d more %s", n, what), func() bool { return c.count(number) >= target })
}

// until waits until something has happened under the load, or a promise is broken.
func (c *crowd) until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	store.WaitFor(t, what, func() bool { return happened() || c.findings() > 0 })
	c.verdict(t)
}

// round ends a round of the fault: it compares what is stored with what was promised before.
func (c *crowd) round(t testing.TB, k store.Keyspace, promised map[string]job) {
	t.Helper()
	c.rounds++
	c.check(k, c.q, promised)
	c.verdict(t)
}

// again restarts a server that has ended, and finishes the round.
func (c *crowd) again(t testing.TB, s *store.Place) {
	t.Helper()
	c.stop()
	s.Start()
	c.round(t, s.Keyspace(), c.copy())
}

// drain lets the workers empty the queue, without new jobs. The checks find the jobs that remain.
func (c *crowd) drain() {
	c.stop()
	c.start(0, 8)
	store.Await(func() bool {
		left, err := c.ask([]string{
			"EVAL", "local n = redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]) return n",
			"3", c.q.Pending(), c.q.Active(), c.q.Schedule(),
		})
		return err == nil && left.each[0] == int64(0)
	})
	c.stop()
}

// end checks a load that was drained. Unconfirmed writes may be lost with their primary, and jobs counted there.
func (c *crowd) end(t testing.TB, k store.Keyspace) {
	t.Helper()
	c.drained(k, c.q)
	if !c.confirm {
		c.counted(k, c.q)
	}
	c.verdict(t)
}

// replies are the replies to the requests of one pipeline. An error reply is an error.
type replies struct {
	each []any
	kept bool
}

var errDoubt = errors.New("no answer")

// ask sends requests in one pipeline. errDoubt says that at least one got no reply, or none from a server in service.
func (c *crowd) ask(requests ...[]string) (replies, error) {
	pipe := (*c.client.Load()).Pipeline()
	ctx, cancel := context.WithTimeout(context.Background(), wire.Patience)
	defer cancel()
	send := func(args []string) *redis.Cmd {
		words := make([]any, len(args))
		for i, word := range args {
			words[i] = word
		}
		return pipe.Do(ctx, words...)
	}
	commands := make([]*redis.Cmd, len(requests))
	for i, args := range requests {
		commands[i] = send(args)
	}
	wait := send([]string{"PING"})
	if c.confirm {
		wait = send([]string{"WAIT", "1", "1000"})
	}
	_, _ = pipe.Exec(ctx)
	a := replies{kept: true}
	for _, command := range commands {
		reply, err := command.Result()
		var refusal redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			reply = nil
		case errors.As(err, &refusal) && !outOfService(refusal.Error()):
			reply = refusal
		case err != nil:
			c.unanswered()
			return replies{}, errDoubt
		}
		a.each = append(a.each, reply)
	}
	if c.confirm {
		replicas, err := wait.Int()
		a.kept = err == nil && replicas >= 1
	}
	return a, nil
}

// outOfService reports whether a refusal is from a server that serves nobody at the moment.
func outOfService(refusal string) bool {
	class, _, _ := strings.Cut(refusal, " ")
	switch class {
	case "LOADING", "READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS":
		return true
	}
	return false
}

func (m *member) produce() {
	if m.open.Load() > backlog {
		m.pause(breath)
		return
	}
	var ids []string
	var requests [][]string
	for range 1 + m.IntN(6) {
		id := fmt.Sprintf("JOB%07d", m.ids.Add(1))
		ids = append(ids, id)
		requests = append(requests, m.q.Enqueue(id, "payload of "+id))
	}
	inOne := m.IntN(3) == 0
	if inOne {
		var jobs []string
		for _, id := range ids {
			jobs = append(jobs, id, "payload of "+id)
		}
		requests = [][]string{m.q.Menqueue(jobs...)}
	}
	a, err := m.ask(requests...)
	if err != nil {
		// It is not known which of them were enqueued. They are not sent again: a job that was enqueued and completed
		// meanwhile would be done again (docs/guarantees.md).
		m.pause(breath)
		return
	}
	if inOne {
		list, ok := a.each[0].([]any)
		if !ok || len(list) != len(ids) {
			m.unexpected(requests[0], a.each[0])
			return
		}
		a.each = list
	}
	for i, reply := range a.each {
		m.enqueued(ids[i], reply, a.kept)
	}
	m.open.Add(int64(len(ids)))
}

func (m *member) work() {
	if held, ok := m.owes(); ok {
		m.settle(complete, held)
		return
	}
	if !m.waits && m.IntN(4) == 0 { // no verb waits for many jobs
		m.workOnMany()
		return
	}
	held, ok := m.claim()
	if !ok {
		m.pause(breath)
		return
	}
	if m.IntN(8) == 0 {
		m.pause(time.Duration(m.IntN(2*maxLease)) * time.Millisecond) // it may be too late then
	}
	if m.IntN(8) == 0 { // with anybody's stale token
		m.settle([]verb{complete, fail, extend}[m.IntN(3)], claim{id: held.id, token: held.token - 1})
	}
	for m.IntN(4) == 0 && m.settle(extend, held) == done {
	}
	switch n := m.IntN(20); {
	case n < 15:
		m.settle(complete, held)
	case n < 18:
		if m.settle(fail, held) == done && m.IntN(4) == 0 {
			m.settle([]verb{complete, fail, extend}[m.IntN(3)], held) // a job that it has given back
		}
	} // otherwise the worker abandons the job, as if it had died
}

// workOnMany is work on several jobs at once; sometimes one of the tokens is stale.
func (m *member) workOnMany() {
	held := m.claimMany()
	if len(held) == 0 {
		m.pause(breath)
		return
	}
	if m.IntN(8) == 0 {
		m.pause(time.Duration(m.IntN(2*maxLease)) * time.Millisecond)
	}
	if m.IntN(3) == 0 {
		m.settleMany(extend, held)
	}
	if i := m.IntN(len(held)); m.IntN(4) == 0 {
		fenced := append([]claim{{id: held[i].id, token: held[i].token - 1}}, held...)
		m.settleMany([]verb{complete, fail, extend}[m.IntN(3)], fenced)
	}
	switch n := m.IntN(20); {
	case n < 13:
		m.settleMany(complete, held)
	case n < 18:
		half := m.IntN(len(held) + 1)
		m.settleMany(complete, held[:half])
		m.settleMany(fail, held[half:])
	}
}

func (m *member) claim() (held claim, ok bool) {
	lease := 1 + m.Int64N(maxLease)
	request := m.q.Claim(lease)
	if m.waits {
		request = wire.BClaim(lease, longestWait, m.q)
	}
	sent := m.send()
	a, err := m.ask(request)
	if err != nil {
		return claim{}, false
	}
	job, ok := a.each[0].([]any)
	if ok && len(job) == 0 {
		return claim{}, false
	}
	if m.waits && len(job) == 4 && job[0] == m.q.Base() {
		a.each[0] = job[1:]
	}
	return m.takes(request, a.each[0], sent, lease, a.kept)
}

func (m *member) claimMany() (held []claim) {
	lease, most := 1+m.Int64N(maxLease), 1+m.Int64N(12)
	request := m.q.Mclaim(lease, most)
	sent := m.send()
	a, err := m.ask(request)
	if err != nil {
		return nil
	}
	jobs, ok := a.each[0].([]any)
	if !ok || int64(len(jobs)) > most {
		m.unexpected(request, a.each[0])
		return nil
	}
	for _, job := range jobs {
		if one, ok := m.takes(request, job, sent, lease, a.kept); ok {
			held = append(held, one)
		}
	}
	return held
}

// takes notes a claimed job.
func (m *member) takes(request []string, reply any, sent moment, lease int64, kept bool) (held claim, ok bool) {
	job, ok := reply.([]any)
	if !ok || len(job) != 3 {
		m.unexpected(request, reply)
		return claim{}, false
	}
	id, token := job[0].(string), job[2].(int64)
	if job[1] != "payload of "+id {
		m.unexpected(request, job)
	}
	return m.granted(id, token, sent, lease, kept), true
}

// settleMany is settle for several jobs in one request.
func (m *member) settleMany(v verb, held []claim) {
	if len(held) == 0 {
		return
	}
	lease := 1 + m.Int64N(maxLease)
	var settlements []settlement
	var jobs []string
	for _, h := range held {
		settlements = append(settlements, m.settling(v, h, lease))
		jobs = append(jobs, h.id, strconv.FormatInt(h.token, 10))
		if v == fail {
			jobs = append(jobs, strconv.FormatInt(m.Int64N(maxDelay), 10), "why")
		}
	}
	request := map[verb][]string{complete: m.q.Mcomplete(jobs...), fail: m.q.Mfail(maxFailures, jobs...), extend: m.q.Mextend(lease, jobs...)}[v]
	a, err := m.ask(request)
	if err != nil {
		for _, h := range held {
			if v == complete && h.grant != nil {
				m.owe(h)
			}
		}
		m.pause(breath)
		return
	}
	statuses, ok := a.each[0].([]any)
	if !ok || len(statuses) != len(held) {
		m.unexpected(request, a.each[0])
		return
	}
	for i, status := range statuses {
		if is := m.answered(settlements[i], v.asOne(status), a.kept); is == over || is == gone && v == complete {
			m.open.Add(-1)
		}
	}
}

// asOne is a status as the reply of the verb for one job.
func (v verb) asOne(status any) any {
	if status == int64(-1) {
		return errors.New("EMQSTALE " + string(v) + " token mismatch")
	}
	as := map[verb]map[any]any{
		complete: {int64(1): int64(1), int64(0): int64(0)},
		fail:     {int64(1): "scheduled", int64(2): "dead", int64(0): errors.New("EMQSTALE job gone")},
		extend:   {int64(1): int64(1), int64(0): int64(-1)},
	}[v][status]
	if as == nil {
		return status
	}
	return as
}

// settle sends a settlement. A COMPLETE without a reply will be repeated; a FAIL was either executed, or the lease will
// lapse, and both are fine.
func (m *member) settle(v verb, held claim) outcome {
	token, lease := strconv.FormatInt(held.token, 10), 1+m.Int64N(maxLease)
	s := m.settling(v, held, lease)
	a, err := m.ask(map[verb][]string{
		complete: m.q.Complete(held.id, token),
		fail:     m.q.Fail(held.id, token, m.Int64N(maxDelay), maxFailures, "why"),
		extend:   m.q.Extend(held.id, token, lease),
	}[v])
	if err != nil {
		if v == complete && held.grant != nil {
			m.owe(held)
		}
		m.pause(breath)
		return unanswered
	}
	is := m.answered(s, a.each[0], a.kept)
	if is == over || is == gone && v == complete {
		m.open.Add(-1)
	}
	return is
}

func (c *crowd) owe(held claim) {
	c.owedLock.Lock()
	defer c.owedLock.Unlock()
	c.owed = append(c.owed, held)
}

func (c *crowd) owes() (held claim, ok bool) {
	c.owedLock.Lock()
	defer c.owedLock.Unlock()
	if ok = len(c.owed) > 0; ok {
		held, c.owed = c.owed[0], c.owed[1:]
	}
	return held, ok
}

// sweep promotes and reaps, as the docs advise. Leases are short here and workers die often, so no job may become dead
// by lost leases.
func (m *member) sweep() {
	promote, reap := m.q.Promote(1000), m.q.Reap(0, 1000)
	if a, err := m.ask(promote, reap); err == nil {
		if _, ok := a.each[0].(int64); !ok {
			m.unexpected(promote, a.each[0])
		}
		if lists, ok := a.each[1].([]any); !ok || len(lists) != 2 {
			m.unexpected(reap, a.each[1])
		}
	}
	m.pause(breath)
}
