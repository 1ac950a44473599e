package commands

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/lease"
	"emq/test/model"
	contents "emq/test/store"
	"emq/test/wire"
)

// The model of the contract (emq/test/model) says once what each verb does to a queue. Its own tests compare it with a real
// server in random histories; the tests here compare it with the decisions, without a server.

// queue is the queue in every store.
const queue = wire.Queue("q")

// modelled are the verbs that the model knows.
var modelled = slices.Concat(
	[]Verb{Enqueue, Claim, Complete, Fail, Schedule, Extend, Promote, Reap, Release, Requeue, Remove, Pause, Resume, Limit}, batches)

// keyspace is the content of a server that has this store.
func (s *store) keyspace() contents.Keyspace {
	foreign, k := contents.Other{Type: "stream"}, contents.Keyspace{}
	put := func(key string, is, own Type, value any) {
		switch is {
		case None:
		case own:
			k[key] = value
		default:
			k[key] = foreign
		}
	}
	hash := func(r row) contents.Hash {
		h := contents.Hash{}
		for f, value := range r {
			h[FieldName[f]] = value
		}
		return h
	}
	put(wire.Identity, s.fence, String, contents.String(s.identity))
	for id, r := range s.rows {
		put(queue.Row(id), map[bool]Type{true: String, false: Hash}[r == nil], Hash, hash(r))
	}
	for set := KeyPending; set <= KeyDead; set++ {
		entries := contents.ZSet{}
		for id, score := range s.sets[set] {
			entries[id] = float64(score)
		}
		put(queue.Base()+set.Suffix(), s.types[set], SortedSet, entries)
	}
	for _, counter := range []Key{KeyCompleted, KeyFailed} {
		put(queue.Base()+counter.Suffix(), s.types[counter], Hash, hash(row{FieldCount: s.count}))
	}
	put(queue.Meta(), s.types[KeyMeta], Hash, hash(s.meta))
	return k
}

// world is the model of that server; clock is the clock of both.
func (s *store) world() *model.World {
	w := model.New("run")
	w.Contents[0] = s.keyspace()
	return w
}

func (s *store) clock() model.Clock { return model.Clock{From: s.now, To: s.now} }

// reply is the reply to a call about some jobs, in the bytes that module/reply.c sends.
func (s *store) reply(ids []string, o *Outcome) string {
	job := func(i int) string {
		payload, ok := s.rows[ids[i]][FieldPayload]
		if !ok {
			return wire.Array(wire.Bulk(ids[i]), wire.Nil, wire.Integer(o.Marks[i].Token))
		}
		return wire.Claimed(ids[i], payload, o.Marks[i].Token)
	}
	with := func(dispositions ...Disposition) (list []string) {
		for i, m := range o.Marks {
			if slices.Contains(dispositions, m.Disposition) {
				list = append(list, ids[i])
			}
		}
		return list
	}
	if o.TextLen > 0 {
		return "-" + text(o) + "\r\n"
	}
	switch o.Reply.Kind {
	case ReplyInteger:
		return wire.Integer(o.Reply.N)
	case ReplyConst:
		return wire.Bulk(ConstText[o.Reply.N])
	case ReplyOK:
		return wire.OK
	case ReplyEmpty:
		return wire.Empty
	case ReplyJob:
		return job(len(o.Marks) - 1)
	case ReplyJobs:
		var jobs []string
		for i, m := range o.Marks {
			if m.Result == ResultClaimed {
				jobs = append(jobs, job(i))
			}
		}
		return wire.Array(jobs...)
	case ReplyStatuses:
		var list []int64
		for _, status := range statuses(o) {
			list = append(list, int64(status))
		}
		return wire.Statuses(list...)
	case ReplyLists:
		return wire.Reaped(with(Returned, Stalled), with(Buried))
	}
	panic("no such reply")
}

// meetsModel decides a call and lets the model execute it: the replies and the contents of the store must then be the
// same. INFO must have a name for the result of each job.
func meetsModel(t testing.TB, verb Verb, s *store, args []string, window int) {
	t.Helper()
	w, ids := s.world(), s.ids(verb, append([]string{""}, args...))
	o := s.run(t, verb, args, window)
	want := w.Do(0, append([]string{Table[verb].Name}, args...), s.clock())
	got := s.reply(ids, o)
	require.True(t, model.Matches(want, got), "%s %q: %q should be %q", Table[verb].Name, args, got, want)
	require.Empty(t, w.Contents[0].Diff(s.keyspace()), "%s %q", Table[verb].Name, args)
	if o.TextLen > 0 {
		require.True(t, o.Result >= ResultArgument || o.Refusal == RefusedGone, "a refusal is counted as one")
		return
	}
	named := func(r Result) {
		require.True(t, r == NoResult || slices.Contains(Table[verb].Results, r), "INFO has no name for %d", r)
	}
	named(o.Result)
	for _, m := range o.Marks {
		named(m.Result)
	}
}

// FuzzModel compares any call on any queue with the model. A sound queue stays sound: each job is only in the set that
// its row names, and nothing else is wrong.
func FuzzModel(f *testing.F) {
	for v := range modelled {
		f.Add(uint8(v), []byte{})
	}
	f.Fuzz(func(t *testing.T, v uint8, data []byte) {
		d := dice(data)
		fuzzModel(t, modelled[int(v)%len(modelled)], &d)
	})
}

func fuzzModel(t testing.TB, verb Verb, d *dice) {
	sound := d.below(3) == 0
	s := d.store(verb, sound)
	if sound {
		require.Empty(t, s.keyspace().Check(wire.Wire6))
	}
	args := d.words(verb)
	if d.below(24) == 23 {
		args[d.below(len(args))] = d.word("", "2", "01", "GRP1", "emq:{q}:", "emq:{q}:pending")
		if q, _, ok := wire.Split(args[0]); ok && q != queue {
			return // the store has one queue
		}
	}
	meetsModel(t, verb, s, args, []int{32, 1, 2, 3}[d.below(4)])
	if sound {
		require.Empty(t, s.keyspace().Check(wire.Wire6), "%s %q", Table[verb].Name, args)
	}
}

// TestModel is FuzzModel on random bytes with a fixed seed.
func TestModel(t *testing.T) {
	for i, verb := range modelled {
		onDice(t, uint64(i), 1500, func(t testing.TB, d *dice) { fuzzModel(t, verb, d) })
	}
}

// store generates a queue of few jobs, so that calls meet them. With sound, nothing is wrong in it.
func (d *dice) store(verb Verb, sound bool) *store {
	s := newStore()
	rarely := func(n int) bool { return !sound && d.below(n) == n-1 }
	either := func(good, bad []string) string {
		if sound {
			bad = nil
		}
		from := slices.Concat(good, bad)
		return from[d.below(len(from))]
	}
	switch {
	case rarely(16):
		s.fence = None
	case rarely(16):
		s.fence = List
	case rarely(16):
		s.identity = "echomq:4.0.0"
	}
	for k := KeyPending; k <= KeyDead; k++ {
		if rarely(24) {
			s.types[k] = String
		}
	}
	for i := range d.below(12) {
		id := fmt.Sprintf("JOB%d", i)
		if rarely(8) {
			s.rows[id] = nil
			continue
		}
		state := either([]string{lease.Active, lease.Active, lease.Active, lease.Pending, lease.Scheduled, lease.Dead}, []string{"odd"})
		r := row{FieldState: state, FieldAttempts: either([]string{"1", "1", "1", "2"}, []string{"0", "x", "9007199254740991"}), FieldPayload: "p"}
		for _, field := range []struct {
			f  Field
			in int
		}{{FieldLeaseEpoch, 2}, {FieldFailures, 3}, {FieldStalled, 4}, {FieldLastError, 4}, {FieldGroup, 12}, {FieldParent, 12}} {
			if d.below(field.in) == field.in-1 {
				r[field.f] = "2"
			}
		}
		if _, leased := r[FieldLeaseEpoch]; leased && d.below(2) == 1 {
			r[FieldLeaseEpoch] = "run"
		}
		for _, f := range []Field{FieldAttempts, FieldState, FieldPayload} {
			if rarely(24) {
				delete(r, f)
			}
		}
		s.rows[id] = r
		for k := KeyPending; k <= KeyDead; k++ {
			home := map[string]Key{lease.Pending: KeyPending, lease.Active: KeyActive, lease.Scheduled: KeySchedule, lease.Dead: KeyDead}[state] == k
			if rarely(16) != home && (s.types[k] == None || s.types[k] == SortedSet) {
				score := int64(0)
				if k == KeyActive || k == KeySchedule {
					score = now + int64(d.below(4)) - 2
				}
				s.add(k, id, score)
			}
		}
	}
	for k := KeyPending; k <= KeyDead; k++ {
		for rarely(4) && s.types[k] != String {
			s.add(k, d.word("JOBnone", "GRP1", "JOBx"), int64(d.below(2)))
		}
	}
	if k := counterOf(verb); k != NoKey {
		s.types[k] = []Type{None, Hash, Hash}[d.below(3)]
		if rarely(8) {
			s.types[k] = String
		}
		if s.types[k] == Hash {
			s.count = either([]string{"7", "9223372036854775807", "9223372036854775805"}, []string{"-3", "x"})
		}
	}
	if d.below(2) == 1 {
		at := func(ms int64) string { return strconv.FormatInt(now+ms, 10) }
		meta := row{}
		for f, from := range [][]string{
			probePaused: {"1"}, probePausedUntil: {at(1), at(0), at(-5)}, probeConcurrency: {"1", "3", "9"}, probeMax: {"1", "2", "9"},
			probeDuration: {"1000", "1"}, probeWindow: {at(0), at(-1), at(-1000), at(1)}, probeUsed: {"0", "1", "2", "9"},
		} {
			if d.below(3) > 0 && (f != probePaused || d.below(3) == 0) {
				meta[gateProbes[f].Field] = either(from, []string{"x", "0", "01"})
			}
		}
		if _, rated := meta[FieldMax]; sound && rated {
			meta[FieldDuration] = "1000"
		} else if sound {
			delete(meta, FieldDuration)
		}
		if len(meta) > 0 {
			s.gate(meta)
		}
		if rarely(12) {
			s.types[KeyMeta] = String
		}
	}
	return s
}

// words generates the arguments of a call on it.
func (d *dice) words(verb Verb) []string {
	pick := func(from ...string) string { return from[d.below(len(from))] }
	number := func(from ...int64) int64 { return from[d.below(len(from))] }
	id := func() string { return fmt.Sprintf("JOB%d", d.below(14)) }
	token := func() string { return pick("1", "1", "1", "2", "x", "") }
	lease := func() int64 { return number(1, 30_000, 1<<52-1) }
	delay := func() int64 { return number(0, 1, 1000, 1<<52-1) }
	decimal := func(n int64) string { return strconv.FormatInt(n, 10) }
	list := func(job func() []string) (words []string) {
		for range 1 + d.below([]int{1, 2, 5, 40, 100}[d.below(5)]) {
			words = append(words, job()...)
		}
		return words
	}
	var call []string
	switch verb {
	case Enqueue:
		call = queue.Enqueue(id(), "data")
	case Claim:
		call = queue.Claim(lease())
	case Complete:
		call = queue.Complete(id(), token())
	case Fail:
		call = queue.Fail(id(), token(), delay(), number(1, 2, 3, 4), "why")
	case Schedule:
		call = wire.With(queue.ScheduleAt(id(), "data", delay()), 6, pick(scheduleAt, scheduleIn))
	case Extend:
		call = queue.Extend(id(), token(), lease())
	case Promote:
		call = queue.Promote(number(1, 2, 3, 10_000))
	case Reap:
		call = queue.Reap(number(0, 1, 2, 3), number(1, 2, 3, 10_000))
	case Release:
		call = queue.Release(id(), token(), delay())
	case Requeue:
		call = queue.Requeue(pick("dead", "scheduled"), list(func() []string { return []string{id()} })...)
	case Remove:
		call = queue.Remove(pick(Table[Remove].Args[1].Words...), list(func() []string { return []string{id()} })...)
	case Pause:
		call = queue.Pause(delay())
	case Resume:
		call = queue.Resume()
	case Limit:
		call = queue.Limit(number(0, 1, 3), number(0, 1, 2), number(0, 1, 1000))
	case Menqueue:
		call = queue.Menqueue(list(func() []string { return []string{id(), fmt.Sprint("payload", d.below(5))} })...)
	case Mschedule:
		call = queue.Mschedule(pick(scheduleIn, scheduleAt), list(func() []string { return []string{id(), decimal(delay()), "data"} })...)
	case Mclaim:
		call = queue.Mclaim(lease(), number(1, 2, 3, 10, 1000))
	case Mcomplete:
		call = queue.Mcomplete(list(func() []string { return []string{id(), token()} })...)
	case Mextend:
		call = queue.Mextend(lease(), list(func() []string { return []string{id(), token()} })...)
	case Mfail:
		call = queue.Mfail(number(1, 2, 3, 4), list(func() []string { return []string{id(), token(), decimal(delay()), fmt.Sprint("why", d.below(5))} })...)
	}
	return call[1:]
}
