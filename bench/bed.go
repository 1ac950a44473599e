package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"emq/bench/load"
	"emq/test/valkey"
)

const queueName = "bench"

// bed is what one axis is measured on: a server with both modules in it, and for each executor a database with a
// queue of the same content.
type bed struct {
	axis    axis
	server  *valkey.Server
	replica *valkey.Server
	control map[*executor]*redis.Client
	load    map[*executor]*load.Generator
	done    map[*executor]int64 // jobs completed since the beginning
}

// modules are the libraries under measurement.
type modules struct{ emq, debug, floor string }

func makeBed(ctx context.Context, m modules, a axis, who []*executor) (_ *bed, err error) {
	b := &bed{axis: a, control: map[*executor]*redis.Client{}, load: map[*executor]*load.Generator{}, done: map[*executor]int64{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	b.server, err = valkey.Start(valkey.Options{Module: m.emq, Args: append([]string{"--loadmodule", m.floor}, a.Settings...)})
	if err != nil {
		return nil, err
	}
	if a.Replica {
		if err := b.follow(ctx); err != nil {
			return nil, err
		}
	}
	for _, e := range who {
		b.control[e] = control(b.server, e.db)
		if err := e.prepare(ctx, b.control[e]); err != nil {
			return nil, err
		}
		if err := b.fill(ctx, e); err != nil {
			return nil, err
		}
		if b.load[e], err = load.Dial(b.options(e, a.Conns, a.Depth, a.Backlog+held)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// control is a client for what is not measured.
func control(s *valkey.Server, db int) *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: s.Socket, DB: db, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
}

// fill gives an executor's queue its backlog and the jobs that stay leased.
func (b *bed) fill(ctx context.Context, e *executor) error {
	filler, err := load.Dial(b.options(e, 4, 8, 0))
	if err != nil {
		return err
	}
	defer filler.Close()
	if _, err := filler.Run(ctx, b.axis.Backlog+held, load.Enqueue); err != nil {
		return err
	}
	if _, err := filler.Run(ctx, held, load.Claim); err != nil {
		return err
	}
	return b.check(ctx, e)
}

func (b *bed) options(e *executor, conns, depth, minted int) load.Options {
	return load.Options{
		Socket: b.server.Socket, DB: e.db, Queue: queueName, Opening: e.open,
		Payload: b.axis.Payload, Conns: conns, Depth: depth, Minted: int64(minted),
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
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
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

// check asserts that an executor has left its queue as it must: every job accounted for, so that no executor wins by
// doing less.
func (b *bed) check(ctx context.Context, e *executor) error {
	c := b.control[e]
	base := "emq:{" + queueName + "}:"
	pipe := c.Pipeline()
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
	rows := int64(b.axis.Backlog + held)
	sets := int64(3) // pending, active and the identity
	if b.done[e] > 0 {
		sets++ // the counter
	}
	want := state{int64(b.axis.Backlog), held, 0, 0, b.done[e], rows + sets}
	if got != want {
		return fmt.Errorf("%s on axis %s has left %+v, expected %+v", e.Name, b.axis.Name, got, want)
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
	for _, g := range b.load {
		if g != nil {
			err = errors.Join(err, g.Close())
		}
	}
	for _, c := range b.control {
		err = errors.Join(err, c.Close())
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
