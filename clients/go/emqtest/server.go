// Package emqtest runs handlers without a server. Its store is a few maps of Go, and what happens in it is decided by the
// very code that decides in the server: leases, tokens, retries, dead letters, pauses and limits are the same. A test needs
// nothing but this package; its time can be moved.
//
//	s := emqtest.New()
//	mails := emq.NewQueue[Mail](s.Client(), "mails")
//	…                             // enqueue
//	s.Work(t, worker)             // until nothing is left to do now
//	s.Advance(time.Hour)          // retries are due
//
// What it has not: persistence, replicas, rights, and EMQ.AUDIT.
package emqtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"emq/clients/go"
	"emq/commands"
)

// Server is a store of jobs in memory. It is safe for concurrent use.
type Server struct {
	mu      sync.Mutex
	store   store
	ahead   time.Duration
	changed chan struct{} // closed at a change
	waiters map[string]chan struct{}
	lastID  int
	client  *emq.Client
}

// New is an empty store.
func New() *Server {
	s := &Server{changed: make(chan struct{}), waiters: map[string]chan struct{}{}}
	s.store = store{hashes: map[string]map[string]string{}, sets: map[string]*zset{}}
	s.client = emq.Use(s)
	return s
}

// Client is a client of the store.
func (s *Server) Client() *emq.Client { return s.client }

// Advance moves the store's clock forward: jobs become due, leases run out. Handlers and workers keep the real time.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	s.pump()
	s.wake()
}

// Work runs a worker until no job of the store is pending or active, and stops it. It fails the test if that takes longer than a
// minute, or if the worker can't run.
func (s *Server) Work(t testing.TB, w *emq.Worker) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	deadline := time.After(time.Minute)
	for {
		changed := s.next() // before the look, or a change between the two would be missed
		if s.idle() {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("emqtest: the worker ended: %v", err)
		case <-deadline:
			t.Fatal("emqtest: there are jobs that the worker does not do")
		case <-changed:
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("emqtest: the worker ended: %v", err)
	}
}

func (s *Server) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.store.sets {
		if strings.HasSuffix(key, "}:pending") || strings.HasSuffix(key, "}:active") {
			return false
		}
	}
	return true
}

// next is closed at the next change.
func (s *Server) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) now() int64 { return time.Now().Add(s.ahead).UnixMilli() }

// pump moves what is due, as the server does by itself.
func (s *Server) pump() {
	for key := range s.store.sets {
		i := strings.Index(key, "}:")
		base := key[:i+2]
		switch key[i+2:] {
		case "schedule":
			_, _, _ = s.store.run(commands.Promote, []string{"EMQ.PROMOTE", "2", key, base + "pending", base, "10000"}, s.now())
		case "active":
			_, _, _ = s.store.run(commands.Reap, []string{"EMQ.REAP", "3", key, base + "pending", base + "dead", base, "3", "10000"}, s.now())
		}
	}
}

var verbs = func() map[string]commands.Verb {
	m := map[string]commands.Verb{}
	for v := range commands.NumVerbs {
		m[commands.Table[v].Name] = v
	}
	return m
}()

// Do implements [emq.Conn].
func (s *Server) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	return s.do(ctx, "", args)
}

// Dedicate implements [emq.Conn].
func (s *Server) Dedicate(context.Context) (emq.Dedicated, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	return dedicated{s, strconv.Itoa(s.lastID)}, nil
}

// Close implements [emq.Conn]; the store stays as it is.
func (s *Server) Close() {}

type dedicated struct {
	s  *Server
	id string
}

func (d dedicated) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	return d.s.do(ctx, d.id, args)
}
func (d dedicated) Close() {}

func (s *Server) do(ctx context.Context, client string, args []string) (emq.Reply, error) {
	if err := ctx.Err(); err != nil {
		return emq.Reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pump()
	verb, ok := verbs[args[0]]
	if !ok {
		return s.plain(client, args)
	}
	v := &commands.Table[verb]
	if least := v.Arity(); least > 0 && len(args) != least || least < 0 && len(args) < -least {
		return emq.Reply{}, &emq.Error{Text: "ERR wrong number of arguments for '" + strings.ToLower(args[0]) + "' command"}
	}
	r, err, wait := s.store.run(verb, args, s.now())
	if wait {
		return s.wait(ctx, client, args)
	}
	if err == nil && !v.ReadOnly() {
		s.wake()
	}
	return r, err
}

// wait claims from the first queue that has a job, or waits for one. The lock is held, but not while it waits.
func (s *Server) wait(ctx context.Context, client string, args []string) (emq.Reply, error) {
	unblock := make(chan struct{})
	if client != "" {
		s.waiters[client] = unblock
		defer delete(s.waiters, client)
	}
	ms, _ := strconv.ParseInt(args[2], 10, 64)
	var timeout <-chan time.Time
	if ms > 0 {
		timeout = time.After(time.Duration(ms) * time.Millisecond)
	}
	for {
		s.pump()
		for _, base := range args[3:] {
			r, err, _ := s.store.run(commands.Claim, []string{"EMQ.CLAIM", "2", base + "pending", base + "active", base + "job:", args[1]}, s.now())
			if err == nil && len(r.List) > 0 {
				s.wake()
				return emq.Reply{List: append([]emq.Reply{{Str: base}}, r.List...)}, nil
			}
		}
		changed := s.changed
		s.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-time.After(5 * time.Millisecond): // something may be due
		case <-timeout:
			over = true
		case <-unblock:
			over = true
		case <-ctx.Done():
			s.mu.Lock()
			return emq.Reply{}, ctx.Err()
		}
		if s.mu.Lock(); over {
			return emq.Reply{}, nil
		}
	}
}

// plain are those of the server's own commands that the package sends.
func (s *Server) plain(client string, args []string) (r emq.Reply, err error) {
	text := func(v string, ok bool) emq.Reply { return emq.Reply{Str: v, Null: !ok} }
	switch strings.Join(args[:min(2, len(args))], " ") {
	case "CLIENT ID":
		r.Int, _ = strconv.ParseInt(client, 10, 64)
		return r, nil
	case "CLIENT UNBLOCK":
		if w := s.waiters[args[2]]; w != nil {
			close(w)
			delete(s.waiters, args[2])
			r.Int = 1
		}
		return r, nil
	}
	hash, set := s.store.hashes[args[min(1, len(args)-1)]], s.store.sets[args[min(1, len(args)-1)]]
	if set == nil {
		set = &zset{}
	}
	switch args[0] {
	case "HGET":
		v, ok := hash[args[2]]
		return text(v, ok), nil
	case "HMGET":
		for _, field := range args[2:] {
			v, ok := hash[field]
			r.List = append(r.List, text(v, ok))
		}
	case "ZCARD":
		r.Int = int64(len(set.order))
	case "ZSCORE":
		score, ok := set.score[args[2]]
		return text(strconv.FormatFloat(score, 'f', -1, 64), ok), nil
	case "ZRANK":
		i := slices.Index(set.order, args[2])
		return emq.Reply{Int: int64(i), Null: i < 0}, nil
	case "ZRANGE":
		from, _ := strconv.Atoi(args[2])
		to, _ := strconv.Atoi(args[3])
		if len(args) > 4 { // BYLEX LIMIT 0 n
			n, _ := strconv.Atoi(args[7])
			from, _ = slices.BinarySearch(set.order, args[2][1:]+"\x00")
			to = from + n - 1
		}
		for i := from; i <= to && i < len(set.order); i++ {
			r.List = append(r.List, emq.Reply{Str: set.order[i]})
		}
	default:
		return r, &emq.Error{Text: "ERR unknown command '" + args[0] + "'"}
	}
	return r, nil
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
