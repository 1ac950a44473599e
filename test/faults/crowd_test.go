// Package faults asks one question: what is left of a queue when things go wrong? It starts real servers, has many
// clients work on a queue, kills, cuts, pauses and fails over, and holds what is stored afterwards against what the
// clients were promised: no job lost, none done twice (ledger_test.go).
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
	// patience bounds every wait, so that a hang is a failure. Nothing is asserted about speed.
	patience = 120 * time.Second
	// breath is how long a client waits that had no luck.
	breath = 2 * time.Millisecond
	// backlog is how many jobs may wait before the producers hold back.
	backlog = 600
	// Jobs that failed this often are dead; a delay or a lease is at most this long, in ms.
	maxFailures, maxDelay, maxLease = 3, 20, 150
)

// crowd is a load on one queue: producers that enqueue, workers that claim and then complete, fail, or walk away, and
// one client that brings back what lapsed, unless the servers' pumps do. It is stopped and started again around a fault; a worker that was stopped
// between a request and its answer asks again, as a worker of a user would.
type crowd struct {
	*ledger
	q       wire.Queue
	pumped  bool // the pump brings back what lapsed
	confirm bool // an answer is a promise when a replica has it (WAIT 1), else at once
	seed    uint64
	client  atomic.Pointer[redis.UniversalClient]

	clients  uint64 // how many there were: each has its own dice
	ids      atomic.Int64
	open     atomic.Int64 // jobs under way, roughly
	quit     chan struct{}
	running  sync.WaitGroup
	owedLock sync.Mutex
	owed     []claim // settlements that were not answered
}

// claim is what a worker holds.
type claim struct {
	id    string
	token int64
}

// ways are the two in which lapsed jobs come back: a client of the crowd's, or the pump of the servers.
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

func newCrowd(t testing.TB, client redis.UniversalClient) *crowd {
	t.Helper()
	c := &crowd{ledger: newLedger(), q: "faults", seed: store.Seed(t)}
	c.use(client)
	t.Cleanup(c.stop)
	return c
}

// use has all clients speak to another server from their next request on.
func (c *crowd) use(client redis.UniversalClient) { c.client.Store(&client) }

// dial returns a client that speaks as plainly as can be, and leaves every repetition to us.
func dial(t testing.TB, network, address string) redis.UniversalClient {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Network: network, Addr: address, Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, PoolSize: 1000,
		ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// start sets the clients to work.
func (c *crowd) start(producers, workers int) {
	c.quit = make(chan struct{})
	for range producers {
		c.run(c.produce)
	}
	for range workers {
		c.run(c.work)
	}
	if !c.pumped {
		c.run(c.sweep)
	}
}

func (c *crowd) run(what func(*rand.Rand)) {
	c.clients++
	dice, quit := rand.New(rand.NewPCG(c.seed, c.clients)), c.quit
	c.running.Go(func() {
		for {
			select {
			case <-quit:
				return
			default:
				what(dice)
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

// more waits until so many more promises were made.
func (c *crowd) more(t testing.TB, n int) {
	t.Helper()
	target := c.promises() + n
	store.WaitFor(t, fmt.Sprintf("%d more promises", n), func() bool { return c.promises() >= target })
}

// drain works the queue off, without new jobs.
func (c *crowd) drain(t testing.TB) {
	t.Helper()
	c.stop()
	c.start(0, 8)
	store.WaitFor(t, "the queue to be drained", func() bool {
		left, err := c.ask([]string{
			"EVAL", "local n = redis.call('ZCARD', KEYS[1]) + redis.call('ZCARD', KEYS[2]) + redis.call('ZCARD', KEYS[3]) return n",
			"3", c.q.Pending(), c.q.Active(), c.q.Schedule(),
		})
		return err == nil && left.replies[0] == int64(0)
	})
	c.stop()
}

// answer is what came back for the requests of one pipeline. A reply that is an error of the server's is an error.
type answer struct {
	replies []any
	kept    bool
}

var errDoubt = errors.New("no answer")

// ask sends requests in one go. errDoubt says that at least one was not answered, or not by a server that can.
func (c *crowd) ask(requests ...[]string) (answer, error) {
	pipe := (*c.client.Load()).Pipeline()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
	a := answer{kept: true}
	for _, command := range commands {
		reply, err := command.Result()
		var refusal redis.Error
		switch {
		case errors.Is(err, redis.Nil):
			reply = nil
		case errors.As(err, &refusal) && !outOfService(refusal.Error()):
			reply = refusal
		case err != nil:
			c.refused(false)
			return answer{}, errDoubt
		}
		a.replies = append(a.replies, reply)
	}
	if c.confirm {
		replicas, err := wait.Int()
		a.kept = err == nil && replicas >= 1
	}
	return a, nil
}

// outOfService tells the refusals of a server that serves nobody just now.
func outOfService(refusal string) bool {
	class, _, _ := strings.Cut(refusal, " ")
	switch class {
	case "LOADING", "READONLY", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS":
		return true
	}
	return false
}

func (c *crowd) produce(dice *rand.Rand) {
	if c.open.Load() > backlog {
		time.Sleep(breath)
		return
	}
	var ids []string
	var requests [][]string
	for range 1 + dice.IntN(6) {
		id := fmt.Sprintf("JOB%07d", c.ids.Add(1))
		ids = append(ids, id)
		requests = append(requests, c.q.Enqueue(id, "payload of "+id))
	}
	a, err := c.ask(requests...)
	if err != nil {
		// Which of them were enqueued is not known. They are not sent again: a job that was enqueued and done in the
		// meantime would be done once more (docs/guarantees.md).
		time.Sleep(breath)
		return
	}
	for i, reply := range a.replies {
		c.enqueued(ids[i], reply, a.kept)
	}
	c.open.Add(int64(len(ids)))
}

func (c *crowd) work(dice *rand.Rand) {
	if held, ok := c.owes(); ok {
		c.complete(held)
		return
	}
	request := c.q.Claim(1 + dice.Int64N(maxLease))
	sent := c.send()
	a, err := c.ask(request)
	if err != nil {
		time.Sleep(breath)
		return
	}
	job, ok := a.replies[0].([]any)
	switch {
	case !ok || len(job) != 0 && len(job) != 3:
		c.unexpected(request, a.replies[0])
		time.Sleep(breath)
		return
	case len(job) == 0:
		time.Sleep(breath)
		return
	}
	held := claim{job[0].(string), job[2].(int64)}
	if job[1] != "payload of "+held.id {
		c.unexpected(request, job)
	}
	c.granted(held.id, held.token, sent, a.kept)
	switch n := dice.IntN(20); {
	case n < 14:
		c.complete(held)
	case n < 17:
		c.fail(held, dice.Int64N(maxDelay))
	case n < 18:
		time.Sleep(time.Duration(dice.IntN(2*maxLease)) * time.Millisecond)
		c.complete(held) // perhaps too late
	} // else the worker dies, so to speak
}

func (c *crowd) complete(held claim) {
	request := c.q.Complete(held.id, strconv.FormatInt(held.token, 10))
	sent := c.completing(held.id)
	a, err := c.ask(request)
	if err != nil {
		c.owe(held)
		time.Sleep(breath)
		return
	}
	switch reply := a.replies[0].(type) {
	case int64:
		c.completed(held.id, held.token, sent, reply, a.kept)
		c.open.Add(-1)
	default:
		c.late(request, reply)
	}
}

func (c *crowd) fail(held claim, delay int64) {
	request := c.q.Fail(held.id, strconv.FormatInt(held.token, 10), delay, maxFailures, "why")
	a, err := c.ask(request)
	if err != nil {
		time.Sleep(breath) // the lease lapses, or it has failed: both are well
		return
	}
	switch reply := a.replies[0].(type) {
	case string:
		c.failed(held.id, reply, a.kept)
		if reply == "dead" {
			c.open.Add(-1)
		}
	default:
		c.late(request, reply)
	}
}

// late notes a settlement that was refused, which must be because the lease was lost.
func (c *crowd) late(request []string, reply any) {
	if refusal, ok := reply.(redis.Error); !ok || !strings.HasPrefix(refusal.Error(), "EMQSTALE ") {
		c.unexpected(request, reply)
	}
	c.refused(true)
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

// sweep brings back what is due or lost, as users are told to do. Leases are short here and workers die often, so that no
// job may die of that.
func (c *crowd) sweep(*rand.Rand) {
	promote, reap := c.q.Promote(1000), c.q.Reap(0, 1000)
	if a, err := c.ask(promote, reap); err == nil {
		if _, ok := a.replies[0].(int64); !ok {
			c.unexpected(promote, a.replies[0])
		}
		if lists, ok := a.replies[1].([]any); !ok || len(lists) != 2 {
			c.unexpected(reap, a.replies[1])
		}
	}
	time.Sleep(breath)
}
