package faults

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// ledger is what the clients of a load asked for and what they were promised. Held against what a store has after a
// fault, it tells whether a promise was broken.
//
// An answer that never came leaves both outcomes open; an answer that was kept leaves one. What makes an answer a
// promise depends on the load: that it came, or that a replica confirmed it (crowd.confirm).
type ledger struct {
	sync.Mutex
	clock int64 // counts what the clients did; orders a request after an answer
	kept  int   // answers that are promises
	jobs  map[string]*job
	lost  map[string]bool // jobs that were promised to be there, and are gone without having been settled
	twice map[string]bool // jobs that came back after their end, or that two clients held with one token
	wrong []string        // each of them, and every other answer that may not be, in words

	stale, doubt int // settlements that were refused, answers that never came: a fault without any proves little
}

// job is one id. The numbers are times of the ledger's clock; 0 is never.
type job struct {
	enqueued  int64   // promised to be there
	completes int64   // requests to complete it that have been sent
	completed bool    // one of them was answered 1
	ended     int64   // promised to be at its end, completed or dead
	dead      bool    // that end is the dead set
	grants    []grant // claims that were answered
}

// grant is one claim's answer.
type grant struct {
	token      int64
	sent, came int64
	kept       bool
}

func newLedger() *ledger {
	return &ledger{jobs: map[string]*job{}, lost: map[string]bool{}, twice: map[string]bool{}}
}

func (l *ledger) now() int64 { l.clock++; return l.clock }

// send notes that a request goes out.
func (l *ledger) send() int64 {
	l.Lock()
	defer l.Unlock()
	return l.now()
}

// job returns the entry of an id. The lock must be held.
func (l *ledger) job(id string) *job {
	j := l.jobs[id]
	if j == nil {
		j = &job{}
		l.jobs[id] = j
	}
	return j
}

func (l *ledger) note(set map[string]bool, id, format string, args ...any) {
	if set != nil {
		set[id] = true
	}
	l.wrong = append(l.wrong, id+": "+fmt.Sprintf(format, args...))
}

// enqueued notes an answer to ENQUEUE.
func (l *ledger) enqueued(id string, reply any, kept bool) {
	l.Lock()
	defer l.Unlock()
	j := l.job(id)
	switch {
	case reply != int64(1):
		l.note(nil, id, "a new id was enqueued: %v", reply)
	case kept:
		j.enqueued = l.now()
		l.kept++
	}
}

// granted notes an answer to CLAIM. A token is granted once, and no job after its end.
func (l *ledger) granted(id string, token, sent int64, kept bool) {
	l.Lock()
	defer l.Unlock()
	j := l.job(id)
	g := grant{token, sent, l.now(), kept}
	if j.ended != 0 && j.ended < sent {
		l.note(l.twice, id, "claimed with token %d after its end", token)
	}
	for _, e := range j.grants {
		// A grant that was not promised may be lost with its primary, and made again by the next one.
		if e.token == token && e.kept && (kept || e.came < sent) {
			l.note(l.twice, id, "token %d was granted twice", token)
		}
		if e.token > token && e.kept && e.came < sent {
			l.note(l.twice, id, "token %d was granted after %d", token, e.token)
		}
	}
	j.grants = append(j.grants, g)
	if kept {
		l.kept++
	}
}

// completing notes that a COMPLETE goes out.
func (l *ledger) completing(id string) int64 {
	l.Lock()
	defer l.Unlock()
	l.job(id).completes++
	return l.now()
}

// completed notes an answer to COMPLETE that went out at a time: 1, or 0 where the row was gone.
func (l *ledger) completed(id string, token, sent int64, reply any, kept bool) {
	l.Lock()
	defer l.Unlock()
	j := l.job(id)
	for _, g := range j.grants {
		if reply == int64(1) && g.token > token && g.kept && g.came < sent {
			l.note(l.twice, id, "completed with token %d after %d was granted", token, g.token)
		}
	}
	switch {
	case reply == int64(1) && (j.dead || j.completed):
		l.note(l.twice, id, "ended twice")
	case reply == int64(0) && j.completes == 1:
		l.note(l.lost, id, "gone, and nobody else had asked to complete it")
	case kept:
		j.ended = l.now()
		l.kept++
	}
	j.completed = j.completed || kept && reply == int64(1)
}

// failed notes an answer to FAIL.
func (l *ledger) failed(id, reply string, kept bool) {
	l.Lock()
	defer l.Unlock()
	j := l.job(id)
	if j.dead && reply == "dead" {
		l.note(l.twice, id, "died twice")
	}
	if kept {
		l.kept++
	}
	if kept && reply == "dead" {
		j.ended, j.dead = l.now(), true
	}
}

// refused notes an error of class EMQSTALE, or no answer at all.
func (l *ledger) refused(stale bool) {
	l.Lock()
	defer l.Unlock()
	if stale {
		l.stale++
	} else {
		l.doubt++
	}
}

// unexpected notes an answer that no client of the load may get.
func (l *ledger) unexpected(args []string, what any) {
	l.Lock()
	defer l.Unlock()
	l.note(nil, wire.Line(args), "%v", what)
}

// promises is how many answers are promises so far.
func (l *ledger) promises() int {
	l.Lock()
	defer l.Unlock()
	return l.kept
}

// copy returns the promises as they are now.
func (l *ledger) copy() map[string]job {
	l.Lock()
	defer l.Unlock()
	jobs := make(map[string]job, len(l.jobs))
	for id, j := range l.jobs {
		jobs[id] = *j
		j.grants = slices.Clone(j.grants)
	}
	return jobs
}

// check holds a keyspace against promises that were made before it was taken. A job that somebody has asked to complete
// since may be gone.
func (l *ledger) check(k store.Keyspace, q wire.Queue, promised map[string]job) {
	l.Lock()
	defer l.Unlock()
	for _, line := range k.Check(wire.Wire6) {
		l.note(nil, "keyspace", "%s", line)
	}
	for _, id := range slices.Sorted(maps.Keys(promised)) {
		j := promised[id]
		row, there := k[q.Row(id)].(store.Hash)
		token, _ := strconv.ParseInt(row["attempts"], 10, 64)
		switch {
		case j.enqueued != 0 && l.jobs[id].completes == 0 && !there:
			l.note(l.lost, id, "enqueued, never completed, gone")
		case j.dead && row["state"] != "dead":
			l.note(l.twice, id, "dead, and now %v", row)
		case j.ended != 0 && !j.dead && there:
			l.note(l.twice, id, "completed, and back: %v", row)
		}
		for _, g := range j.grants {
			if g.kept && there && g.token > token {
				l.note(l.twice, id, "token %d was granted, the row has %v", g.token, row)
			}
		}
	}
}

// drained checks a queue on which all work has ended, and which never lost what was not promised: each job went one way,
// and was counted once.
func (l *ledger) drained(k store.Keyspace, q wire.Queue) {
	l.check(k, q, l.copy())
	l.Lock()
	defer l.Unlock()
	completed, dead := 0, 0
	for id, j := range l.jobs {
		row, there := k[q.Row(id)].(store.Hash)
		if there && row["state"] == "dead" {
			dead++
		} else if there {
			l.note(nil, id, "left in a drained queue: %v", row)
		} else if j.completes > 0 {
			completed++
		}
	}
	count := func(key string, want int) {
		counter, _ := k[key].(store.Hash)
		if got := counter["count"]; got != strconv.Itoa(want) && (want != 0 || got != "") {
			l.note(nil, key, "%q, want %d", got, want)
		}
	}
	count(q.Completed(), completed)
	count(q.Failed(), dead)
}

// verdict fails the test if a promise was broken.
func (l *ledger) verdict(t testing.TB) {
	t.Helper()
	l.Lock()
	defer l.Unlock()
	if len(l.wrong) > 0 {
		require.Fail(t, fmt.Sprintf("%d lost, %d doubled", len(l.lost), len(l.twice)),
			"%d findings, the first of them:\n%s", len(l.wrong), strings.Join(l.wrong[:min(len(l.wrong), 20)], "\n"))
	}
}

// The ledger must be able to find each broken promise.
func TestLedgerFinds(t *testing.T) {
	q := wire.Queue("q")
	row := func(state, attempts string) store.Keyspace {
		k := store.Keyspace{wire.Identity: store.String(wire.Wire6)}
		if state != "" {
			k[q.Row("JOB1")] = store.Hash{"state": state, "attempts": attempts, "payload": "x"}
			k[q.Set(state)] = store.ZSet{"JOB1": map[string]float64{"active": 5, "scheduled": 5}[state]}
		}
		return k
	}
	enqueue := func(l *ledger) { l.enqueued("JOB1", int64(1), true) }
	claim := func(token int64) func(*ledger) {
		return func(l *ledger) { l.granted("JOB1", token, l.send(), true) }
	}
	complete := func(token int64, reply any) func(*ledger) {
		return func(l *ledger) { l.completed("JOB1", token, l.completing("JOB1"), reply, true) }
	}
	ask := func(l *ledger) { l.completing("JOB1") }
	dies := func(l *ledger) { l.failed("JOB1", "dead", true) }
	for _, tt := range []struct {
		name        string
		deeds       []func(*ledger)
		k           store.Keyspace
		lost, twice int
		wrong       string
	}{
		{"all well", []func(*ledger){enqueue}, row("pending", "0"), 0, 0, ""},
		{"completed", []func(*ledger){enqueue, claim(1), complete(1, int64(1))}, row("", ""), 0, 0, ""},
		{"perhaps completed", []func(*ledger){enqueue, claim(1), ask}, row("", ""), 0, 0, ""},
		{"perhaps not", []func(*ledger){enqueue, claim(1), ask}, row("active", "1"), 0, 0, ""},
		{"dead", []func(*ledger){enqueue, claim(1), dies}, row("dead", "1"), 0, 0, ""},
		{"asked twice", []func(*ledger){enqueue, claim(1), ask, complete(1, int64(0))}, row("", ""), 0, 0, ""},
		{"asked twice, the second answer came first", []func(*ledger){enqueue, claim(1), ask, complete(1, int64(0)), func(l *ledger) {
			l.completed("JOB1", 1, 1, int64(1), true)
		}}, row("", ""), 0, 0, ""},
		{"lost", []func(*ledger){enqueue}, row("", ""), 1, 0, "gone"},
		{"lost under a claim", []func(*ledger){enqueue, claim(1)}, row("", ""), 1, 0, "gone"},
		{"lost, as COMPLETE says", []func(*ledger){enqueue, claim(1), complete(1, int64(0))}, row("", ""), 1, 0, "nobody else"},
		{"back", []func(*ledger){enqueue, claim(1), complete(1, int64(1))}, row("active", "1"), 0, 1, "back"},
		{"back from the dead", []func(*ledger){enqueue, claim(1), dies}, row("pending", "1"), 0, 1, "and now"},
		{"completed twice", []func(*ledger){enqueue, claim(1), complete(1, int64(1)), complete(1, int64(1))}, row("", ""), 0, 1, "ended twice"},
		{"claimed after its end", []func(*ledger){enqueue, claim(1), complete(1, int64(1)), claim(2)}, row("", ""), 0, 1, "after its end"},
		{"a token twice", []func(*ledger){enqueue, claim(1), claim(1)}, row("active", "1"), 0, 1, "twice"},
		{"a token back", []func(*ledger){enqueue, claim(2), claim(1)}, row("active", "2"), 0, 1, "after 2"},
		{"no fence", []func(*ledger){enqueue, claim(1), claim(2), complete(1, int64(1))}, row("", ""), 0, 1, "after 2 was granted"},
		{"a claim forgotten", []func(*ledger){enqueue, claim(1)}, row("pending", "0"), 0, 1, "the row has"},
		{"in two sets", []func(*ledger){enqueue}, func() store.Keyspace {
			k := row("pending", "0")
			k[q.Dead()] = store.ZSet{"JOB1": 0}
			return k
		}(), 0, 0, "in [dead pending]"},
		{"an id that was there", []func(*ledger){func(l *ledger) { l.enqueued("JOB1", int64(0), true) }}, row("", ""), 0, 0, "new id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			for _, deed := range tt.deeds {
				deed(l)
			}
			l.check(tt.k, q, l.copy())
			require.Len(t, l.lost, tt.lost)
			require.Len(t, l.twice, tt.twice)
			if tt.wrong == "" {
				require.Empty(t, l.wrong)
			} else {
				require.Contains(t, strings.Join(l.wrong, "\n"), tt.wrong)
			}
		})
	}
	t.Run("counted wrong", func(t *testing.T) {
		l := newLedger()
		for _, deed := range []func(*ledger){enqueue, claim(1), complete(1, int64(1))} {
			deed(l)
		}
		k := row("", "")
		k[q.Completed()] = store.Hash{"count": "1"}
		l.drained(k, q)
		require.Empty(t, l.wrong)
		k[q.Completed()] = store.Hash{"count": "2"}
		l.drained(k, q)
		require.Len(t, l.wrong, 1)
	})
	t.Run("left over", func(t *testing.T) {
		l := newLedger()
		enqueue(l)
		l.drained(row("pending", "0"), q)
		require.Len(t, l.wrong, 1)
	})
}
