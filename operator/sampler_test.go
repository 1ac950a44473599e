package operator

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emq "emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

// sampling runs a sampler that is faster than the default.
func sampling(t *testing.T, s *Server, often time.Duration) *Sampler {
	t.Helper()
	p := s.Sampler()
	p.often = often
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return p
}

// until watches until a sample is good.
func until(t *testing.T, p *Sampler, what string, good func(*Sample) bool, queues ...string) (found *Sample) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for s := range p.Watch(ctx, queues...) {
		if found = s; good(s) {
			return s
		}
	}
	require.Fail(t, "waited too long for: "+what, "%+v", found)
	return nil
}

func (s *Sample) queue(name string) Sampled {
	for _, q := range s.Queues {
		if q.Name == name {
			return q
		}
	}
	return Sampled{}
}

// The queues in trouble come first, each with the reason, and a published sample does not change. The server stops and
// comes back.
func TestSampler(t *testing.T) {
	p, c, s := serve(t, "--appendonly", "yes", "--appendfsync", "always")
	old := string(emq.LeastID(time.UnixMilli(c.Now()).Add(-time.Hour)))
	must(t, c, wire.Queue("lying").Enqueue(old, "x"), wire.Queue("paused").Enqueue(old, "x"), wire.Queue("paused").Pause(0),
		wire.Queue("busy").Enqueue(old, "x"), wire.Queue("busy").Enqueue(old+"2", "x"), wire.Queue("busy").Claim(1<<40), wire.Queue("busy").Limit(1, 0, 0))
	c.Must("SET emq:{broken}:dead x", "ZADD emq:{broken}:pending 0 JOB1")
	fill(t, c, "dying", "", ids(3))
	bury(t, c, "dying", "boom")
	bury(t, c, "dying", "boom")
	sampler := sampling(t, s, 5*time.Millisecond)
	require.NotNil(t, sampler.Latest())
	first := until(t, sampler, "the work that lies about", func(s *Sample) bool { return s.queue("lying").Trouble == Critical && len(s.Queues) == 5 })
	require.NoError(t, first.Err)
	require.Equal(t, Critical, first.queue("broken").Trouble)
	require.Contains(t, first.queue("broken").Why, "WRONGTYPE")
	require.Equal(t, "1 job to do, the oldest for 1h0m, and no worker", first.queue("lying").Why)
	require.Equal(t, "paused", first.queue("paused").Why)
	require.Equal(t, "at its limit of 1 at a time", first.queue("busy").Why)
	require.Equal(t, "2 dead letters", first.queue("dying").Why, "they were there when the sampler came")
	for i, q := range first.Queues {
		require.Equal(t, i < 2, q.Trouble == Critical, q.Name)
	}
	copied := fmt.Sprintf("%+v", *first)

	bury(t, c, "dying", "boom")
	grown := until(t, sampler, "dead letters to grow", func(s *Sample) bool { return s.queue("dying").Trouble == Warning })
	require.Equal(t, "dying", grown.Queues[2].Name)
	until(t, sampler, "the checks", func(s *Sample) bool {
		for _, c := range s.Checks {
			if c.Name == "dead" && c.Status == Warning {
				return strings.Contains(c.Text, `"dying" has 3 dead letters`)
			}
		}
		return false
	})
	require.Equal(t, copied, fmt.Sprintf("%+v", *first))

	// Idle queues stay, watched or not; a queue that does not exist is not shown although it is named.
	must(t, c, wire.Queue("lying").Remove("any", old))
	until(t, sampler, "the queue to be idle", func(s *Sample) bool {
		return s.queue("lying").Name != "" && s.queue("lying").Pending == 0 && s.queue("lying").Trouble == OK
	}, "none", "a{b")
	require.Empty(t, sampler.Latest().queue("none").Name)
	require.Empty(t, sampler.Latest().queue("a{b").Name)

	p.Crash()
	down := until(t, sampler, "the server's end", func(s *Sample) bool { return s.Err != nil })
	require.Len(t, down.Queues, 5)
	require.Equal(t, Critical, down.Checks[0].Status)
	p.Start()
	up := until(t, sampler, "the server's return", func(s *Sample) bool { return s.Err == nil && s.At.After(down.At) })
	require.EqualValues(t, 1, up.queue("busy").Active)
}

// One sampler asks for all viewers, and less often without viewers.
func TestWatchers(t *testing.T) {
	_, c, s := serve(t)
	for i := range 700 {
		must(t, c, wire.Queue("q"+strconv.Itoa(i)).Enqueue("JOBx", "x"))
	}
	sampler := sampling(t, s, time.Hour) // by itself it asks once
	full := func(s *Sample) bool { return len(s.Queues) == 700 }
	for range 50 {
		until(t, sampler, "a sample", full, "q1", "q2")
	}
	require.Equal(t, 700, calls64(t, c, "EMQ.STATS"))
	require.Equal(t, 1, calls64(t, c, "EMQ.QUEUES"))
	require.Empty(t, sampler.watched)
	require.Zero(t, sampler.watchers)

	// A round asks for all watched queues, and of the others for those that were not asked for the longest time.
	turns := s.Sampler()
	now := time.Now()
	require.NoError(t, turns.list(t.Context(), now, 0))
	require.Len(t, turns.turn(), 700, "all are new")
	for i := range 700 {
		turns.queues["q"+strconv.Itoa(i)].at = now.Add(time.Duration(i) * time.Second)
	}
	defer turns.watch([]string{"q699", "other"}, 1)()
	names := turns.turn()
	require.Len(t, names, round)
	require.ElementsMatch(t, []string{"q699", "other"}, names[:2])
	require.Equal(t, "q0", names[2])
	require.Equal(t, "q"+strconv.Itoa(round-3), names[round-1])

	// A queue that is gone for more than an hour is forgotten.
	must(t, c, wire.Queue("q5").Remove("any", "JOBx"))
	require.NoError(t, turns.list(t.Context(), now.Add(59*time.Minute), 0))
	require.Contains(t, turns.queues, "q5")
	require.NoError(t, turns.list(t.Context(), now.Add(2*time.Hour), 0))
	require.NotContains(t, turns.queues, "q5")
	require.Contains(t, turns.queues, "q6")
}

// The traffic is computed from totals and counters, which may be reset.
func TestTrack(t *testing.T) {
	at := time.Unix(60*1000, 0)
	var track track
	read := func(after time.Duration, s emq.Stats) Sampled {
		at = at.Add(after)
		track.read(Queue{Name: "q", Stats: s}, at)
		return track.sampled(at)
	}
	s := read(0, emq.Stats{Pending: 100, Completed: 1000})
	require.Zero(t, s.In+s.Out)
	require.Empty(t, s.Hour)
	s = read(10*time.Second, emq.Stats{Pending: 80, Dead: 5, Completed: 1040, Failed: 5})
	require.InDelta(t, 2.5, s.In, 1e-9, "25 came, 40 were done, 5 died and are still there")
	require.InDelta(t, 4.5, s.Out, 1e-9)
	require.Equal(t, Warning, s.Trouble)
	s = read(10*time.Second, emq.Stats{Pending: 85, Completed: 1040, Failed: 5})
	require.Zero(t, s.In, "the dead were requeued")
	s = read(10*time.Second, emq.Stats{Pending: 10, Completed: 0})
	require.Zero(t, s.In+s.Out, "the server lost its data")
	s = read(30*time.Second, emq.Stats{Pending: 10, Completed: 60, Waiting: 1})
	require.InDelta(t, 2, s.In, 1e-9)
	require.Equal(t, []Minute{{Jobs: 10, In: 25 + 30, Out: 45 + 30}}, s.Hour, "parted between the minute that is over and the new one")
	shared := s.Hour
	s = read(3*time.Minute, emq.Stats{Pending: 9, Completed: 61, Waiting: 1})
	require.Len(t, s.Hour, 4)
	require.EqualValues(t, 76, s.Hour[0].Out+s.Hour[1].Out+s.Hour[2].Out+s.Hour[3].Out+track.open.Out-30-0)
	require.Equal(t, []Minute{{Jobs: 10, In: 55, Out: 75}}, shared)
	for range 200 {
		s = read(time.Minute, emq.Stats{Pending: 9, Completed: 61, Waiting: 1})
		require.LessOrEqual(t, len(s.Hour), 60)
	}
	require.Len(t, s.Hour, 60)
	s = read(5*time.Hour, emq.Stats{Pending: 9, Completed: 61})
	require.Len(t, s.Hour, 60)
	require.Equal(t, OK, s.Trouble)
	s = read(30*time.Second, emq.Stats{Pending: 9, Completed: 61})
	require.Equal(t, OK, s.Trouble, "for half a minute")
	s = read(61*time.Second, emq.Stats{Pending: 9, Completed: 61})
	require.Equal(t, Critical, s.Trouble)
	s = read(time.Second, emq.Stats{Pending: 9, Completed: 62})
	require.Equal(t, OK, s.Trouble, "somebody worked")
}

// TestLoad measures the load of a sampler on its server, with EMQ_LOAD queues. It asserts nothing.
func TestLoad(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("EMQ_LOAD"))
	if n == 0 {
		t.Skip("EMQ_LOAD is not set")
	}
	_, c, s := serve(t)
	var commands [][]string
	for i := range n {
		commands = append(commands, wire.Queue("queue-"+strconv.Itoa(i)).Enqueue("JOBx", "x"))
	}
	must(t, c, commands...)
	spent := func() float64 {
		user, err1 := strconv.ParseFloat(c.Info("used_cpu_user"), 64)
		system, err2 := strconv.ParseFloat(c.Info("used_cpu_sys"), 64)
		require.NoError(t, err1)
		require.NoError(t, err2)
		return user + system
	}
	measure := func(what string, d time.Duration) {
		before, calls := spent(), calls64(t, c, "EMQ.STATS")
		time.Sleep(d)
		t.Logf("%s: %.3f %% of a core, %d EMQ.STATS in %s", what, (spent()-before)/d.Seconds()*100, calls64(t, c, "EMQ.STATS")-calls, d)
	}
	measure("alone", 20*time.Second)
	sampler := sampling(t, s, often)
	store.WaitFor(t, "the first sample", func() bool { return len(sampler.Latest().Queues) == n })
	measure("nobody watches", 30*time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 50 {
		go func() {
			for range sampler.Watch(ctx, "queue-1") {
			}
		}()
	}
	measure("50 watch", 60*time.Second)
}
