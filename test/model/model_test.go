package model_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/test/model"
	"emq/test/store"
	"emq/test/wire"
)

// TestHistories runs random histories of several clients on a real server and compares it with the model after every
// step: each reply, and every key of every database. In half of them nobody damages anything, and the keyspace must
// stay sound. A history that fails is shrunk to a short one, which can be kept in testdata.
func TestHistories(t *testing.T) {
	r := newRig(t)
	seed := store.Seed(t)
	for round := range store.Histories(t, 240, 5000, r.answers,
		"EMQ.ENQUEUE :1", "EMQ.ENQUEUE :0", "EMQ.ENQUEUE -EMQKIND", "EMQ.ENQUEUE -EMQKEY", "EMQ.ENQUEUE -EMQFENCE",
		"EMQ.ENQUEUE -WRONGTYPE", "EMQ.CLAIM *3", "EMQ.CLAIM *0", "EMQ.CLAIM -ERR", "EMQ.CLAIM -EMQKEY", "EMQ.CLAIM -EMQFENCE",
		"EMQ.CLAIM -WRONGTYPE", "EMQ.COMPLETE :1", "EMQ.COMPLETE :0", "EMQ.COMPLETE -EMQSTALE", "EMQ.COMPLETE -EMQSCRIPT",
		"EMQ.COMPLETE -EMQFENCE", "EMQ.COMPLETE -WRONGTYPE", "EMQ.FAIL $9", "EMQ.FAIL $4", "EMQ.FAIL -EMQSTALE",
		"EMQ.FAIL -EMQSCRIPT", "EMQ.FAIL -EMQFENCE", "EMQ.FAIL -WRONGTYPE", "EMQ.SCHEDULE :1", "EMQ.SCHEDULE :0",
		"EMQ.SCHEDULE -ERR", "EMQ.SCHEDULE -EMQFENCE", "EMQ.SCHEDULE -WRONGTYPE", "EMQ.EXTEND :1", "EMQ.EXTEND :-1",
		"EMQ.EXTEND -EMQSTALE", "EMQ.EXTEND -EMQSCRIPT", "EMQ.EXTEND -EMQFENCE", "EMQ.EXTEND -WRONGTYPE", "EMQ.PROMOTE :0",
		"EMQ.PROMOTE :1", "EMQ.PROMOTE :2", "EMQ.PROMOTE -EMQFENCE", "EMQ.PROMOTE -WRONGTYPE", "EMQ.REAP *2",
		"EMQ.REAP -EMQFENCE", "EMQ.REAP -WRONGTYPE", "EMQ.MENQUEUE 1", "EMQ.MENQUEUE 0", "EMQ.MENQUEUE -EMQKIND", "EMQ.MENQUEUE -EMQFENCE",
		"EMQ.MENQUEUE -WRONGTYPE", "EMQ.MSCHEDULE 1", "EMQ.MSCHEDULE 0", "EMQ.MSCHEDULE -ERR", "EMQ.MSCHEDULE -EMQFENCE", "EMQ.MCLAIM job",
		"EMQ.MCLAIM none", "EMQ.MCLAIM -EMQFENCE", "EMQ.MCLAIM -WRONGTYPE", "EMQ.MCOMPLETE 1", "EMQ.MCOMPLETE 0", "EMQ.MCOMPLETE -1",
		"EMQ.MCOMPLETE -2", "EMQ.MCOMPLETE -EMQFENCE", "EMQ.MCOMPLETE -WRONGTYPE", "EMQ.MEXTEND 1", "EMQ.MEXTEND 0", "EMQ.MEXTEND -1",
		"EMQ.MEXTEND -2", "EMQ.MEXTEND -EMQFENCE", "EMQ.MFAIL 1", "EMQ.MFAIL 2", "EMQ.MFAIL 0", "EMQ.MFAIL -1", "EMQ.MFAIL -2",
		"EMQ.MFAIL -EMQFENCE", "EMQ.MFAIL -WRONGTYPE", "EMQ.RELEASE $7", "EMQ.RELEASE $9", "EMQ.RELEASE -EMQSTALE", "EMQ.RELEASE -EMQSCRIPT",
		"EMQ.RELEASE -EMQFENCE", "EMQ.RELEASE -WRONGTYPE", "EMQ.REQUEUE 1", "EMQ.REQUEUE 0", "EMQ.REQUEUE -2", "EMQ.REQUEUE -EMQFENCE",
		"EMQ.REQUEUE -WRONGTYPE", "EMQ.REMOVE 1", "EMQ.REMOVE 0", "EMQ.REMOVE -2", "EMQ.REMOVE -EMQFENCE", "EMQ.REMOVE -WRONGTYPE", "EMQ.PAUSE +OK",
		"EMQ.PAUSE -EMQFENCE", "EMQ.PAUSE -WRONGTYPE", "EMQ.RESUME :1", "EMQ.RESUME :0", "EMQ.LIMIT +OK", "EMQ.LIMIT -ERR", "EMQ.LIMIT -WRONGTYPE",
	) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(round))), wild: round%2 == 1}
		if h, problem := r.explore(g, 60); problem != "" {
			t.Logf("round %d: %s", round, problem)
			report(t, h, r.replay)
		}
	}
}

// explore generates a history step by step and returns how it failed, or "".
func (r *rig) explore(g *generator, steps int) (h history, problem string) {
	r.t.Helper()
	defer func() { // a server that has crashed ends the test here
		if r.t.Failed() {
			r.t.Logf("the history that was under way:\n\n%s", h)
		}
	}()
	g.w = r.reset()
	for range steps {
		s := g.step()
		h = append(h, s)
		before := g.w
		if g.w, problem = r.step(before, s); problem != "" {
			return h, problem
		}
		if g.wild {
			continue
		}
		require.Empty(r.t, lawful(before, g.w, r.said), "what the step broke: %s", history{s})
		for db := range g.w.Contents {
			require.Empty(r.t, g.w.Contents[db].Check(wire.Wire6), "the keyspace of database %d", db)
		}
	}
	return h, ""
}

// report ends the test with a short history that fails.
func report(t *testing.T, h history, replay func(history) string) {
	t.Helper()
	problem := ""
	fails := func(h history) bool {
		for range 3 { // a failure that depends on the order of clients does not occur every time
			if p := replay(h); p != "" {
				problem = p
				return true
			}
		}
		return false
	}
	if !fails(h) {
		require.Fail(t, "a history failed, but not again", "\n\n%s", h)
	}
	h = shrink(h, fails)
	require.Fail(t, "the server differs from the model", "\n\n%s%s", h, problem)
}

// TestKept replays histories that once failed, or that show something.
func TestKept(t *testing.T) {
	files, err := filepath.Glob("testdata/*.history")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	r := newRig(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		h := parse(string(text))
		require.NotEmpty(t, h, file)
		assert.Empty(t, r.replay(h), file)
	}
}

// TestFindsADifference gives the model another run_id than the server's: histories must find that, and shrink to the
// two calls that show it.
func TestFindsADifference(t *testing.T) {
	r := newRig(t)
	r.runID = "another"
	g := &generator{Rand: rand.New(rand.NewPCG(1, 1))}
	h, problem := r.explore(g, 1000)
	require.Contains(t, problem, "lease_epoch=another")
	h = shrink(h, func(h history) bool { return r.replay(h) != "" })
	require.Len(t, h, 2)
	require.Equal(t, "EMQ.ENQUEUE", h[0][0].args[0])
	require.Equal(t, "EMQ.CLAIM", h[1][0].args[0])
}

// Checks a rule of the model that histories seldom need: a race has several outcomes, and the model allows each of them
// and no others.
func TestRace(t *testing.T) {
	q := wire.Queue("q")
	w := model.New("run")
	require.Equal(t, wire.Integer(1), w.Do(0, q.Enqueue("JOB1", "x"), model.Clock{}))
	won := [model.Clients][]answered{
		{{q.Claim(1), wire.Claimed("JOB1", "x", 1)}}, {{q.Claim(1), wire.Empty}},
	}
	seen := w.Clone()
	seen.Do(0, q.Claim(1), model.Clock{})
	explain := func(todo [model.Clients][]answered) *model.World {
		e := explanation{seen: seen.Contents}
		return e.order(w, todo, 0)
	}
	require.NotNil(t, explain(won))
	won[0], won[1] = won[1], won[0]
	require.NotNil(t, explain(won))
	won[1][0].reply = wire.Empty
	require.Nil(t, explain(won), "somebody must have won")
	won[0][0].reply = wire.Claimed("JOB1", "x", 1)
	won[1][0].reply = wire.Claimed("JOB1", "x", 2)
	require.Nil(t, explain(won), "not both can have won")
}

// It is not known which of two jobs that fail at the same time, without a delay, is due first, nor whether a lease of a
// millisecond has expired: the model allows either, and nothing else.
func TestUnseenTimes(t *testing.T) {
	q := wire.Queue("q")
	clock := model.Clock{From: 1000, To: 1002}
	known := model.New("run")
	for _, args := range [][]string{q.Enqueue("JOB1", "x"), q.Enqueue("JOB2", "x")} {
		require.Equal(t, wire.Integer(1), known.Do(0, args, clock))
	}
	for range 2 {
		known.Do(0, q.Claim(1<<40), clock)
	}
	known.See(known.Contents)
	explain := func(w *model.World, calls []answered, seen store.Keyspace) bool {
		e := explanation{clock: clock, seen: store.New()}
		e.seen[0] = seen
		return e.order(w, [model.Clients][]answered{calls}, 0) != nil
	}

	failed := []answered{
		{q.Fail("JOB2", "1", 0, 9, "why"), wire.Bulk("scheduled")}, {q.Fail("JOB1", "1", 0, 9, "why"), wire.Bulk("scheduled")},
		{q.Promote(1), wire.Integer(1)},
	}
	for _, promoted := range [][]string{{"JOB1"}, {"JOB2"}, {"JOB1", "JOB2"}, nil} {
		seen := known.Clone()
		for _, c := range failed[:2] {
			seen.Do(0, c.args, clock)
		}
		for _, id := range promoted {
			for _, args := range q.Move(id, "scheduled", "pending") {
				seen.Do(0, args, clock)
			}
		}
		require.Equal(t, len(promoted) == 1, explain(known, failed, seen.Contents[0]), "%q", promoted)
	}

	extended := answered{q.Extend("JOB1", "1", 1), wire.Integer(1)}
	seen := known.Clone()
	seen.Do(0, extended.args, clock)
	none := answered{q.Reap(9, 9), wire.Reaped(nil, nil)}
	require.True(t, explain(known, []answered{extended, none}, seen.Contents[0]))
	both := answered{q.Reap(9, 9), wire.Reaped([]string{"JOB1", "JOB2"}, nil)}
	require.False(t, explain(known, []answered{extended, both}, seen.Contents[0]))
	for _, args := range q.Move("JOB1", "active", "pending") {
		seen.Do(0, args, clock)
	}
	seen.Do(0, []string{"HSET", q.Row("JOB1"), "stalled", "1"}, clock)
	one := answered{q.Reap(9, 9), wire.Reaped([]string{"JOB1"}, nil)}
	require.True(t, explain(known, []answered{extended, one}, seen.Contents[0]))
	require.False(t, explain(known, []answered{extended, none}, seen.Contents[0]))
}
