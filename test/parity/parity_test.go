package parity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

const (
	maxTime = 1<<52 - 1 // of a lease or a delay, ms
	maxCap  = 1<<31 - 1 // of attempts
)

// TestParity runs random histories of the ordinary path through both executors. After each step the replies are equal,
// and so is everything stored except the two fields that wire 6 added; the stores are sound, and each deadline is as
// far from its call as the call said.
func TestParity(t *testing.T) {
	server := store.Serve(t)
	seed := store.Seed(t)
	answers := map[string]int{}
	for round := range store.Histories(t, 60, 1000, answers,
		"EMQ.ENQUEUE :1", "EMQ.ENQUEUE :0", "EMQ.ENQUEUE -EMQKIND", "EMQ.CLAIM *3", "EMQ.CLAIM *0",
		"EMQ.COMPLETE :1", "EMQ.COMPLETE :0", "EMQ.COMPLETE -EMQSTALE", "EMQ.COMPLETE -EMQKIND",
		"EMQ.FAIL $9", "EMQ.FAIL $4", "EMQ.FAIL -EMQSTALE", "EMQ.FAIL -EMQKIND",
	) {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			h := &history{
				pair: open(t, server), rng: rand.New(rand.NewPCG(seed, uint64(round))),
				deadlines: map[string]span{}, answers: answers,
			}
			h.run(100)
		})
	}
}

// history is one random run.
type history struct {
	*pair
	rng       *rand.Rand
	keys      store.Keyspace  // what the native store holds
	deadlines map[string]span // by set and id
	lines     []string        // what was done
	answers   map[string]int  // how often a verb gave each kind of reply, over all histories
}

// span is where a deadline may be.
type span struct{ from, to int64 }

func (h *history) run(steps int) {
	h.tellIfFailed()
	for range steps {
		h.step()
	}
}

func (h *history) tellIfFailed() {
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Logf("the history:\n%s", strings.Join(h.lines, "\n"))
		}
	})
}

// step does one thing, chosen at random, to both stores.
func (h *history) step() {
	q := pick(h.rng, []wire.Queue{"q", "\xff :job:\r\n"})
	for _, args := range h.choose(q) {
		h.lines = append(h.lines, wire.Line(args))
		from := h.reader.Now()
		native, scripted := h.both(args...)
		to := h.reader.Now()
		require.Equal(h.t, scripted, native, "the replies to %s", wire.Line(args))
		h.answers[args[0]+" "+strings.Fields(native)[0]]++
		h.expect(q, args, native, span{from, to})
	}
	h.compare()
}

// choose picks what happens next in a queue: mostly one verb, sometimes the plain commands by which a script moves a
// job, or a loss of the loaded scripts.
func (h *history) choose(q wire.Queue) [][]string {
	one := func(args []string) [][]string { return [][]string{args} }
	switch n := h.rng.IntN(100); {
	case n < 30:
		return one(q.Enqueue("JOB"+h.bytes(4), h.bytes(pick(h.rng, []int{0, 10, 100, 3000}))))
	case n < 55:
		return one(q.Claim(h.millis(1)))
	case n < 65:
		if id, row, ok := h.find(q, held); ok {
			return one(q.Complete(id, row["attempts"]))
		}
	case n < 80:
		if id, row, ok := h.find(q, heldFirst); ok {
			return one(q.Fail(id, row["attempts"], h.millis(0), pick(h.rng, []int64{1, 2, 3, maxCap}), h.bytes(10)))
		}
	case n < 84:
		if id, _, ok := h.find(q, in("scheduled")); ok {
			return q.Move(id, "scheduled", "pending")
		}
	case n < 88:
		if id, _, ok := h.find(q, in("active")); ok {
			return q.Move(id, "active", "pending")
		}
	case n < 91:
		if id, _, ok := h.find(q, every); ok {
			return one(q.Enqueue(id, "another"))
		}
	case n < 95: // not the holder's token, whatever the row's state
		if id, row, ok := h.find(q, every); ok {
			n := number(row["attempts"])
			tokens := []string{strconv.Itoa(n - 1), strconv.Itoa(n + 1), "", "0" + row["attempts"], h.bytes(5)}
			return one(h.settle(q, id, pick(h.rng, tokens)))
		}
	case n < 97:
		return one(h.settle(q, "JOBnobody", "1"))
	case n < 98:
		return one(pick(h.rng, [][]string{q.Enqueue("XYZ1", "x"), h.settle(q, "XYZ1", "1"), h.settle(q, "", "1")}))
	default:
		return [][]string{{"SCRIPT", "FLUSH"}}
	}
	return one(q.Enqueue("JOB"+h.bytes(2), "x"))
}

// The rows that a step may choose.

func every(store.Hash) bool { return true }

func in(state string) func(store.Hash) bool {
	return func(row store.Hash) bool { return row["state"] == state }
}

// held reports whether somebody holds the job, possibly with an expired lease.
func held(row store.Hash) bool {
	_, leased := row["lease_epoch"]
	return row["state"] == "active" || row["state"] == "pending" && leased
}

// heldFirst is held for a job none of whose earlier claims ended in a lost lease: the scripts count claims against the
// cap, but wire 6 counts failures.
func heldFirst(row store.Hash) bool {
	return held(row) && number(row["attempts"]) == number(row["failures"])+1
}

func (h *history) settle(q wire.Queue, id, token string) []string {
	if h.rng.IntN(2) == 0 {
		return q.Complete(id, token)
	}
	return q.Fail(id, token, h.millis(0), 3, "why")
}

func (h *history) millis(least int64) int64 {
	return pick(h.rng, []int64{least, 30_000, h.rng.Int64N(1<<40) + least, maxTime})
}

func (h *history) bytes(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(h.rng.Uint32())
	}
	return string(b)
}

// find picks one of the queue's rows.
func (h *history) find(q wire.Queue, fits func(store.Hash) bool) (id string, row store.Hash, ok bool) {
	var ids []string
	for key := range h.keys {
		id, isRow := strings.CutPrefix(key, q.RowPrefix())
		if row, isHash := h.keys[key].(store.Hash); isRow && isHash && fits(row) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", nil, false
	}
	slices.Sort(ids) // so that the seed decides
	id = pick(h.rng, ids)
	return id, h.keys[q.Row(id)].(store.Hash), true
}

// expect notes the deadline that a call set.
func (h *history) expect(q wire.Queue, args []string, reply string, called span) {
	set := func(key, id, millis string) {
		ms, err := strconv.ParseInt(millis, 10, 64)
		require.NoError(h.t, err)
		h.deadlines[key+id] = span{called.from + ms, called.to + ms}
	}
	switch {
	case args[0] == "EMQ.CLAIM" && reply != wire.Empty:
		set(q.Active(), wire.Value(reply).([]any)[0].(string), args[5])
	case args[0] == "EMQ.FAIL" && reply == wire.Bulk("scheduled"):
		set(q.Schedule(), args[6], args[8])
	case args[0] == "EMQ.SCHEDULE" && args[6] == "in" && reply == wire.Integer(1):
		set(q.Schedule(), args[4], args[7])
	case args[0] == "EMQ.RELEASE" && reply == wire.Bulk("scheduled"):
		set(q.Schedule(), args[2], args[4])
	case args[0] == "EMQ.EXTEND" && reply == wire.Integer(1):
		set(q.Active(), args[4], args[6])
	}
	list, _ := wire.Value(reply).([]any)
	for i := range list {
		switch args[0] {
		case "EMQ.MCLAIM":
			set(q.Active(), list[i].([]any)[0].(string), args[2])
		case "EMQ.MSCHEDULE":
			if args[2] == "in" && list[i] == int64(1) {
				set(q.Schedule(), args[3+3*i], args[4+3*i])
			}
		case "EMQ.MEXTEND":
			if list[i] == int64(1) {
				set(q.Active(), args[3+2*i], args[2])
			}
		case "EMQ.MFAIL":
			if list[i] == int64(1) {
				set(q.Schedule(), args[3+4*i], args[5+4*i])
			}
		}
	}
}

// compare asserts that the stores are equal, and sound.
func (h *history) compare() {
	all := store.Read(h.t, h.reader)
	h.keys = all[h.native.db].Clone()
	for _, side := range []*side{h.native, h.scripted} {
		keys := all[side.db]
		require.Empty(h.t, keys.Check(side.identity), "what is wrong under %s", side.identity)
		require.Equal(h.t, store.String(side.identity), keys[wire.Identity])
		delete(keys, wire.Identity)
		for key, value := range keys {
			switch v := value.(type) {
			case store.ZSet:
				h.takeDeadlines(key, v)
			case store.Hash:
				if side == h.native {
					maps.DeleteFunc(v, func(field, _ string) bool { return field == "lease_epoch" || field == "failures" })
				}
			}
		}
	}
	require.Empty(h.t, all[h.scripted.db].Diff(all[h.native.db]), "want the scripts' store, got the native verbs'")
}

// takeDeadlines asserts that each score of a set is in its range, and makes the scores comparable.
func (h *history) takeDeadlines(key string, set store.ZSet) {
	if !strings.HasSuffix(key, ":active") && !strings.HasSuffix(key, ":schedule") {
		return
	}
	for id, score := range set {
		s, ok := h.deadlines[key+id]
		require.True(h.t, ok && float64(s.from) <= score && score <= float64(s.to),
			"%s of %s: %.0f is not from %d to %d", wire.Show(key), wire.Show(id), score, s.from, s.to)
		set[id] = 0
	}
}

// number parses a count of the native store; a missing one is 0.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil && text != "" {
		panic(fmt.Sprintf("no number: %q", text))
	}
	return n
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }
