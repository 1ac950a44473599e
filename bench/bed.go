package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"emq/bench/load"
	"emq/test/valkey"
)

const queueName = "bench"

// bed is what one axis is measured on: a server with the executors' modules in it, and for each executor a database
// with a queue of the same content.
type bed struct {
	axis    axis
	server  *valkey.Server
	replica *valkey.Server
	runners []*runner
}

// runner is an executor at work on a bed.
type runner struct {
	*executor
	bed     *bed
	control *redis.Client
	load    *load.Generator
	done    int64 // jobs completed since the beginning
}

// modules are the libraries under measurement, by their names; "debug" is that of emq for the tests.
type modules map[string]string

// start starts a server with the modules of some executors in it. The pump is still: it would work on the native jobs in
// everybody's turn.
func (m modules) start(who []*executor, settings ...string) (*valkey.Server, error) {
	o := valkey.Options{Still: true, Args: slices.Clone(settings)}
	seen := map[string]bool{"": true}
	for _, e := range who {
		if seen[e.module] {
			continue
		}
		seen[e.module] = true
		if e.module == "emq" || e.module == "debug" {
			o.Module = m[e.module]
		} else {
			o.Args = append(o.Args, "--loadmodule", m[e.module])
		}
	}
	return valkey.Start(o)
}

func makeBed(ctx context.Context, m modules, a axis, who []*executor) (_ *bed, err error) {
	b := &bed{axis: a}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.server, err = m.start(who, a.Settings...); err != nil {
		return nil, err
	}
	if a.Replica {
		if err := b.follow(ctx); err != nil {
			return nil, err
		}
	}
	for _, e := range who {
		r := &runner{executor: e, bed: b, control: control(b.server, e.db)}
		b.runners = append(b.runners, r)
		if err := e.prepare(ctx, r.control); err != nil {
			return nil, err
		}
		if err := r.fill(ctx); err != nil {
			return nil, err
		}
		o := r.options(a.Conns, e.pipeline(a)/max(e.batch, 1), a.Backlog+held)
		o.Batch = e.batch
		if r.load, err = load.Dial(o); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// control is a client for what is not measured.
func control(s *valkey.Server, db int) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket, DB: db, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
}

// fill gives the queue its backlog and the jobs that stay leased.
func (r *runner) fill(ctx context.Context) error {
	filler, err := load.Dial(r.options(4, 8, 0))
	if err != nil {
		return err
	}
	defer filler.Close()
	if _, err := filler.Run(ctx, r.bed.axis.Backlog+held, load.Enqueue); err != nil {
		return err
	}
	if _, err := filler.Run(ctx, held, load.Claim); err != nil {
		return err
	}
	return r.check(ctx)
}

func (r *runner) options(conns, depth, minted int) load.Options {
	return load.Options{
		Socket: r.bed.server.Socket, DB: r.db, Queue: queueName, Opening: r.open,
		Payload: r.bed.axis.Payload, Conns: conns, Depth: depth, Minted: int64(minted),
	}
}

// follow starts a replica, without any module, and waits until it is in step.
func (b *bed) follow(ctx context.Context) error {
	host, port, err := net.SplitHostPort(b.server.Addr())
	if err != nil {
		return err
	}
	b.replica, err = valkey.Start(valkey.Options{Args: []string{"--replicaof", host + " " + port, "--propagation-error-behavior", "panic"}})
	if err != nil {
		return err
	}
	return b.inStep(ctx)
}

// inStep waits until the replica has everything.
func (b *bed) inStep(ctx context.Context) error {
	if b.replica == nil {
		return nil
	}
	offset := func(s *valkey.Server, field string) (string, error) {
		c := control(s, 0)
		defer c.Close()
		info, err := c.Info(ctx, "replication").Result()
		if strings.Contains(info, "master_link_status:down") {
			return "", err
		}
		return infoField(info, field), err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		has, err := offset(b.replica, "slave_repl_offset")
		if err != nil {
			return err
		}
		wants, err := offset(b.server, "master_repl_offset")
		if err != nil {
			return err
		}
		if has == wants && has != "" {
			return nil
		}
	}
	return errors.New("the replica does not catch up")
}

// check asserts that the queue is as it must be: every job accounted for, so that no executor wins by doing less.
func (r *runner) check(ctx context.Context) error {
	base := "emq:{" + queueName + "}:"
	pipe := r.control.Pipeline()
	pending, active := pipe.ZCard(ctx, base+"pending"), pipe.ZCard(ctx, base+"active")
	scheduled, dead := pipe.ZCard(ctx, base+"schedule"), pipe.ZCard(ctx, base+"dead")
	completed := pipe.HGet(ctx, base+"metrics:completed", "count")
	keys := pipe.DBSize(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	count := int64(0)
	if completed.Err() == nil {
		var err error
		if count, err = completed.Int64(); err != nil {
			return err
		}
	}
	type state struct{ pending, active, scheduled, dead, completed, keys int64 }
	got := state{pending.Val(), active.Val(), scheduled.Val(), dead.Val(), count, keys.Val()}
	a := r.bed.axis
	rows := int64(a.Backlog + held)
	sets := int64(3) // pending, active and the identity
	if r.done > 0 {
		sets++ // the counter
	}
	want := state{int64(a.Backlog), held, 0, 0, r.done, rows + sets}
	if got != want {
		return fmt.Errorf("%s on axis %s has left %+v, expected %+v", r.Name, a.Name, got, want)
	}
	return nil
}

// checkReplica asserts that the replica holds what the server holds.
func (b *bed) checkReplica(ctx context.Context) error {
	if b.replica == nil {
		return nil
	}
	if err := b.inStep(ctx); err != nil {
		return err
	}
	digest := func(s *valkey.Server) (string, error) {
		c := control(s, 0)
		defer c.Close()
		return c.Do(ctx, "DEBUG", "DIGEST").Text()
	}
	ours, err := digest(b.server)
	if err != nil {
		return err
	}
	theirs, err := digest(b.replica)
	if err == nil && ours != theirs {
		err = errors.New("the replica holds something else than the server")
	}
	return err
}

func (b *bed) close() (err error) {
	for _, r := range b.runners {
		if r.load != nil {
			err = errors.Join(err, r.load.Close())
		}
		err = errors.Join(err, r.control.Close())
	}
	for _, s := range []*valkey.Server{b.replica, b.server} {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
	}
	return err
}

// infoField is the value of a field of INFO, "" if it is not there.
func infoField(info, name string) string {
	for line := range strings.SplitSeq(info, "\r\n") {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return value
		}
	}
	return ""
}
