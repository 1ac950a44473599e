package model_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/model"
	"emq/test/store"
	"emq/test/wire"
)

// told is what the replies of one step say about a row.
type told struct {
	created, completed, failed bool
	claimed, extended          int
	caps                       []int64 // of the failures that ended in dead
	reaped                     int     // how often a reap took the lease back, whatever became of the job then
	stalledOut                 []int64 // caps of the reaps that ended in dead
	gone, known, refused       bool    // an EXTEND answered -1, 1, EMQSTALE
}

// lawful returns how a step broke the wire's promises for the jobs of an undamaged store. It looks at the replies, and
// at what was stored before and after, not at how a verb works:
//
//   - a token rises by one at each granted claim, and never falls within a row's life;
//   - a dead job stays dead, and a job becomes dead only by a FAIL or a REAP at its cap;
//   - stalled grows by one for each lost lease that this server granted, and a FAIL clears it;
//   - EXTEND replies -1 if and only if there is no row.
//
// A step with direct writes, RELEASE or verbs for operators is not checked.
func lawful(before, after *model.World, said [model.Clients][]answered) (broken []string) {
	var rows [store.Databases]map[string]*told
	calls := 0
	for client, list := range said {
		db := before.Selected[client]
		if rows[db] == nil {
			rows[db] = map[string]*told{}
		}
		for _, c := range list {
			if !strings.HasPrefix(c.args[0], "EMQ.") || slices.Contains([]string{"EMQ.RELEASE", "EMQ.REQUEUE", "EMQ.REMOVE"}, c.args[0]) {
				return nil
			}
			hear(rows[db], c)
			calls++
		}
	}
	for db, heard := range rows {
		for key, saying := range heard {
			was, _ := before.Contents[db][key].(store.Hash)
			is, _ := after.Contents[db][key].(store.Hash)
			note := func(format string, args ...any) {
				broken = append(broken, fmt.Sprintf("db %d: %s: ", db, wire.Show(key))+fmt.Sprintf(format, args...))
			}
			if calls == 1 && (saying.gone && was != nil || (saying.known || saying.refused) && was == nil) {
				note("EXTEND did not answer what is there")
			}
			if was != nil && !saying.completed {
				saying.hold(before.RunID, was, is, note)
			}
		}
		for key, value := range before.Contents[db] { // without a reply about it: time passes, and PROMOTE names no jobs
			was, ok := value.(store.Hash)
			if q, rest, isKey := wire.Split(key); !ok || !isKey || !strings.HasPrefix(q.Base()+rest, q.RowPrefix()) {
				continue
			}
			is, _ := after.Contents[db][key].(store.Hash)
			if heard[key] != nil {
				continue
			}
			state := maps.Clone(was)
			if was["state"] == "scheduled" && is["state"] == "pending" {
				state["state"] = "pending"
			}
			if !maps.Equal(state, is) {
				broken = append(broken, fmt.Sprintf("db %d: %s changed, and no reply tells of it", db, wire.Show(key)))
			}
		}
	}
	slices.Sort(broken)
	return broken
}

// hear notes what a reply says.
func hear(rows map[string]*told, c answered) {
	words := c.args
	of := func(key string) *told {
		if rows[key] == nil {
			rows[key] = &told{}
		}
		return rows[key]
	}
	one := c.reply == wire.Integer(1)
	// each notes the status of each job of a list that begins at a word and has n words for each job.
	each := func(from, n int, status func(row *told, status int64)) {
		list, _ := wire.Value(c.reply).([]any)
		for i := range list {
			status(of(words[1]+"job:"+words[from+i*n]), list[i].(int64))
		}
	}
	switch words[0] {
	case "EMQ.MENQUEUE", "EMQ.MSCHEDULE":
		from, n := 2, 2
		if words[0] == "EMQ.MSCHEDULE" {
			from, n = 3, 3
		}
		each(from, n, func(row *told, status int64) { row.created = row.created || status == 1 })
	case "EMQ.MCLAIM":
		list, _ := wire.Value(c.reply).([]any)
		for _, job := range list {
			of(words[1]+"job:"+job.([]any)[0].(string)).claimed++
		}
	case "EMQ.MCOMPLETE":
		each(2, 2, func(row *told, status int64) { row.completed = row.completed || status == 1 })
	case "EMQ.MEXTEND":
		each(3, 2, func(row *told, status int64) {
			switch status {
			case 1:
				row.extended++
				row.known = true
			case 0:
				row.gone = true
			case -1:
				row.refused = true
			}
		})
	case "EMQ.MFAIL":
		each(3, 4, func(row *told, status int64) {
			row.failed = row.failed || status > 0
			if status == 2 {
				limit, _ := strconv.ParseInt(words[2], 10, 64)
				row.caps = append(row.caps, limit)
			}
		})
	case "EMQ.ENQUEUE", "EMQ.SCHEDULE":
		if one {
			of(words[2]).created = true
		}
	case "EMQ.CLAIM":
		if job, _ := wire.Value(c.reply).([]any); len(job) > 0 {
			of(words[4]+job[0].(string)).claimed++
		}
	case "EMQ.COMPLETE":
		if one {
			of(words[3]).completed = true
		}
	case "EMQ.FAIL":
		switch c.reply {
		case wire.Bulk("dead"):
			limit, _ := strconv.ParseInt(words[9], 10, 64)
			of(words[5]).caps = append(of(words[5]).caps, limit)
			of(words[5]).failed = true
		case wire.Bulk("scheduled"):
			of(words[5]).failed = true
		}
	case "EMQ.EXTEND":
		switch {
		case one:
			of(words[3]).extended++
			of(words[3]).known = true
		case c.reply == wire.Integer(-1):
			of(words[3]).gone = true
		case c.reply == wire.Stale("extend"):
			of(words[3]).refused = true
		}
	case "EMQ.REAP":
		lists, ok := wire.Value(c.reply).([]any)
		if !ok {
			return
		}
		limit, _ := strconv.ParseInt(words[6], 10, 64)
		for i, list := range lists {
			for _, id := range list.([]any) {
				row := of(words[5] + "job:" + id.(string))
				row.reaped++
				if i == 1 {
					row.stalledOut = append(row.stalledOut, limit)
				}
			}
		}
	}
}

// hold checks a row that existed before the step and was not completed in it.
func (s *told) hold(runID string, was, is store.Hash, note func(string, ...any)) {
	if is == nil {
		note("is gone, and nobody completed it")
		return
	}
	if s.created {
		note("was created, and was there before")
	}
	count := func(row store.Hash, field string) int64 {
		n, _ := strconv.ParseInt(row[field], 10, 64)
		return n
	}
	if got, want := count(is, "attempts"), count(was, "attempts")+int64(s.claimed); got != want {
		note("attempts is %d after %d claims, it was %s", got, s.claimed, was["attempts"])
	}
	died := is["state"] == "dead"
	switch {
	case was["state"] == "dead":
		if !maps.Equal(was, is) {
			note("was dead, and changed")
		}
		return
	case died && len(s.caps) > 0:
		if count(is, "failures") < s.caps[0] {
			note("is dead after %s failures, below the cap of %d", is["failures"], s.caps[0])
		}
	case died && len(s.stalledOut) > 0:
		if limit := s.stalledOut[0]; limit < 1 || count(is, "stalled") < limit || is["last_error"] != "stalled" {
			note("is dead after %s lost leases with a cap of %d: %s", is["stalled"], limit, is["last_error"])
		}
	case died:
		note("is dead, and no verb said so")
	case len(s.caps) > 0 || len(s.stalledOut) > 0:
		note("is %s, and a verb said that it is dead", is["state"])
	}
	epoch, leased := was["lease_epoch"]
	innocent := leased && epoch != runID && s.claimed+s.extended == 0
	switch grown := count(is, "stalled") - count(was, "stalled"); {
	case s.failed && s.reaped == 0:
		if _, ok := is["stalled"]; ok {
			note("failed, and stalled stayed")
		}
	case s.failed:
	case grown < 0 || grown > int64(s.reaped) || grown > 0 && innocent:
		note("stalled went from %q to %q by %d reaps, leased by %q", was["stalled"], is["stalled"], s.reaped, epoch)
	case s.reaped > 0 && !innocent && s.claimed+s.extended == 0 && grown != int64(s.reaped):
		note("stalled went from %q to %q by %d reaps of this server's leases", was["stalled"], is["stalled"], s.reaped)
	}
	if _, ok := is["lease_epoch"]; ok && s.failed && s.claimed+s.extended == 0 {
		note("failed, and lease_epoch stayed")
	}
}

// TestLawful breaks one promise at a time: exactly that must be found, and nothing where none is broken.
func TestLawful(t *testing.T) {
	const q = wire.Queue("q")
	type row = store.Hash
	of := func(pairs ...string) row {
		r := row{"state": "active", "attempts": "3", "payload": "x", "lease_epoch": "run"}
		for pair := range slices.Chunk(pairs, 2) {
			if r[pair[0]] = pair[1]; pair[1] == "-" {
				delete(r, pair[0])
			}
		}
		return r
	}
	back := wire.Reaped([]string{"JOB1"}, nil)
	died := wire.Reaped(nil, []string{"JOB1"})
	fail := q.Fail("JOB1", "3", 0, 2, "why")
	for _, tt := range []struct {
		name    string
		was, is row
		said    []answered
		want    string // the rest of the only complaint, or ""
	}{
		{
			"a claim", of("state", "pending"), of("attempts", "4"),
			[]answered{{q.Claim(1), wire.Claimed("JOB1", "x", 4)}}, "",
		},
		{
			"a token stays", of("state", "pending"), of(),
			[]answered{{q.Claim(1), wire.Claimed("JOB1", "x", 4)}}, "attempts is 3 after 1 claims",
		},
		{
			"a token falls", of(), of("attempts", "2"),
			[]answered{{q.Extend("JOB1", "3", 1), wire.Integer(1)}}, "attempts is 2 after 0 claims",
		},
		{"completed", of(), nil, []answered{{q.Complete("JOB1", "3"), wire.Integer(1)}}, ""},
		{"lost", of(), nil, []answered{{q.Extend("JOB1", "3", 1), wire.Integer(1)}}, "is gone, and nobody completed it"},
		{
			"born twice", of(), of(),
			[]answered{{q.Enqueue("JOB1", "x"), wire.Integer(1)}}, "was created, and was there before",
		},
		{"promoted", of("state", "scheduled"), of("state", "pending"), []answered{{q.Promote(1), wire.Integer(1)}}, ""},
		{
			"changed", of("state", "scheduled"), of("state", "pending", "payload", "y"),
			[]answered{{q.Promote(1), wire.Integer(1)}}, "changed, and no reply tells of it",
		},
		{
			"failed at the cap", of("failures", "1"), of("state", "dead", "failures", "2", "lease_epoch", "-"),
			[]answered{{fail, wire.Bulk("dead")}}, "",
		},
		{
			"failed below the cap", of(), of("state", "dead", "failures", "1", "lease_epoch", "-"),
			[]answered{{fail, wire.Bulk("dead")}}, "is dead after 1 failures, below the cap of 2",
		},
		{
			"not as said", of("failures", "1"), of("state", "scheduled", "failures", "2", "lease_epoch", "-"),
			[]answered{{fail, wire.Bulk("dead")}}, "is scheduled, and a verb said that it is dead",
		},
		{
			"died unheard", of(), of("state", "dead"),
			[]answered{{q.Extend("JOB1", "3", 1), wire.Integer(1)}}, "is dead, and no verb said so",
		},
		{"rose", of("state", "dead"), of(), []answered{{q.Reap(1, 1), back}}, "was dead, and changed"},
		{
			"the epoch stayed", of(), of("state", "scheduled", "failures", "1"),
			[]answered{{fail, wire.Bulk("scheduled")}}, "failed, and lease_epoch stayed",
		},
		{
			"stalled stayed", of("stalled", "1"), of("state", "scheduled", "stalled", "1", "lease_epoch", "-"),
			[]answered{{fail, wire.Bulk("scheduled")}}, "failed, and stalled stayed",
		},
		{"a lost lease", of(), of("state", "pending", "stalled", "1"), []answered{{q.Reap(2, 1), back}}, ""},
		{
			"a lost lease of the scripts", of("lease_epoch", "-"), of("lease_epoch", "-", "state", "pending", "stalled", "1"),
			[]answered{{q.Reap(2, 1), back}}, "",
		},
		{
			"the lease of another", of("lease_epoch", "other"), of("state", "pending", "lease_epoch", "other"),
			[]answered{{q.Reap(2, 1), back}}, "",
		},
		{
			"uncounted", of(), of("state", "pending"),
			[]answered{{q.Reap(2, 1), back}}, `stalled went from "" to "" by 1 reaps of this server's leases`,
		},
		{
			"counted twice", of(), of("state", "pending", "stalled", "2"),
			[]answered{{q.Reap(9, 1), back}}, `stalled went from "" to "2" by 1 reaps`,
		},
		{
			"counted for another", of("lease_epoch", "other"), of("state", "pending", "lease_epoch", "other", "stalled", "1"),
			[]answered{{q.Reap(2, 1), back}}, `stalled went from "" to "1" by 1 reaps, leased by "other"`,
		},
		{
			"died of lost leases", of("stalled", "1"), of("state", "dead", "stalled", "2", "last_error", "stalled"),
			[]answered{{q.Reap(2, 1), died}}, "",
		},
		{
			"died too early", of(), of("state", "dead", "stalled", "1", "last_error", "stalled"),
			[]answered{{q.Reap(2, 1), died}}, "is dead after 1 lost leases with a cap of 2",
		},
		{
			"died without a cap", of(), of("state", "dead", "stalled", "1", "last_error", "stalled"),
			[]answered{{q.Reap(0, 1), died}}, "is dead after 1 lost leases with a cap of 0",
		},
		{
			"claimed with others", of("state", "pending"), of(),
			[]answered{{q.Mclaim(1, 9), wire.Array(wire.Claimed("JOB0", "x", 1), wire.Claimed("JOB1", "x", 4))}}, "attempts is 3 after 1 claims",
		},
		{"completed with others", of(), nil, []answered{{q.Mcomplete("JOB0", "1", "JOB1", "3"), wire.Statuses(0, 1)}}, ""},
		{"lost with others", of(), nil, []answered{{q.Mcomplete("JOB0", "1", "JOB1", "4"), wire.Statuses(1, -1)}}, "is gone, and nobody completed it"},
		{"born twice in a batch", of(), of(), []answered{{q.Menqueue("JOB0", "x", "JOB1", "x"), wire.Statuses(1, 1)}}, "was created, and was there before"},
		{
			"scheduled twice in a batch", of(), of(),
			[]answered{{q.Mschedule("at", "JOB0", "1", "x", "JOB1", "1", "x"), wire.Statuses(1, 1)}}, "was created, and was there before",
		},
		{
			"failed in a batch below the cap", of(), of("state", "dead", "failures", "1", "lease_epoch", "-"),
			[]answered{{q.Mfail(2, "JOB0", "1", "0", "why", "JOB1", "3", "0", "why"), wire.Statuses(0, 2)}}, "is dead after 1 failures, below the cap of 2",
		},
		{
			"a row, gone for a batch", of(), of(),
			[]answered{{q.Mextend(1, "JOB0", "1", "JOB1", "3"), wire.Statuses(0, 0)}}, "EXTEND did not answer what is there",
		},
		{
			"no row, extended", nil, nil,
			[]answered{{q.Extend("JOB1", "3", 1), wire.Integer(1)}}, "EXTEND did not answer what is there",
		},
		{
			"a row, gone", of(), of(),
			[]answered{{q.Extend("JOB1", "3", 1), wire.Integer(-1)}}, "EXTEND did not answer what is there",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, after := model.New("run"), model.New("run")
			for w, r := range map[*model.World]row{before: tt.was, after: tt.is} {
				if r != nil {
					w.Contents[0][q.Row("JOB1")] = r
				}
			}
			broken := lawful(before, after, [model.Clients][]answered{tt.said})
			if tt.want == "" {
				require.Empty(t, broken)
				return
			}
			require.Len(t, broken, 1)
			require.True(t, strings.HasPrefix(broken[0], "db 0: emq:{q}:job:JOB1"), broken[0])
			require.Contains(t, broken[0], tt.want)
		})
	}
}
