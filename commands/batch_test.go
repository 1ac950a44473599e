package commands

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/fence"
)

// store is the part of a server's data about one queue that verbs look at. A nil row is a key of another type.
type store struct {
	identity string
	fence    Type
	rows     map[string]row
	sets     [NumKeys]map[string]int64
	types    [NumKeys]Type // of the sets and the counters
	count    string        // of the counter, if that is a hash; "" is none
	meta     row           // the gates, if that is a hash
	now      int64
}

func newStore() *store {
	s := &store{identity: fence.Identity, fence: String, rows: map[string]row{}, now: now}
	for k := KeyPending; k < NumKeys; k++ {
		s.types[k] = None
	}
	for k := KeyPending; k <= KeyDead; k++ {
		s.sets[k] = map[string]int64{}
	}
	return s
}

func (s *store) clone() *store {
	c := *s
	c.rows = map[string]row{}
	for id, r := range s.rows {
		c.rows[id] = maps.Clone(r)
	}
	for k := range c.sets {
		c.sets[k] = maps.Clone(s.sets[k])
	}
	c.meta = maps.Clone(s.meta)
	return &c
}

// put adds a job to the set of its state.
func (s *store) put(id string, r row, sets ...Key) {
	s.rows[id] = r
	for _, k := range sets {
		s.add(k, id, now+5000)
	}
}

func (s *store) add(k Key, id string, score int64) {
	if s.types[k] == None {
		s.types[k] = SortedSet
	}
	s.sets[k][id] = score
}

// read returns a job as a host reads it for a verb.
func (s *store) read(verb Verb, id string, looked bool) Job {
	plan := &Table[verb].Plan
	j := Job{ID: id, Type: None, Looked: looked}
	r, there := s.rows[id]
	switch {
	case there && r == nil:
		j.Type = String
	case there:
		j.Type = Hash
		fields := plan.Values
		if looked {
			fields = slices.Concat(fields, plan.Late)
		}
		for _, f := range fields {
			if value, ok := r[f]; ok {
				j.Row[f] = value
				j.Present |= 1 << f
			}
		}
	}
	for k := KeyPending; k <= KeyDead; k++ {
		_, in := s.sets[k][id]
		if in && s.types[k] == SortedSet && (k == plan.Member || looked && plan.Jobs == WalkedJobs) {
			j.Member |= 1 << k
		}
	}
	return j
}

// call returns a call as a host begins it.
func (s *store) call(verb Verb, args []string) *Call {
	c := &Call{Args: append([]string{Table[verb].Name}, args...), Epoch: "run", Now: s.now, IdentityType: s.fence, Probes: make([]string, MaxProbes)}
	if s.fence == String {
		c.Identity = s.identity
	}
	for _, k := range Table[verb].Plan.Keys {
		c.Types[k] = s.types[k]
	}
	for i, p := range Table[verb].Plan.Probes {
		value, there := s.count, s.count != ""
		if p.Key == KeyMeta {
			value, there = s.meta[p.Field]
		}
		if c.Types[p.Key] == Hash && there {
			c.Probes[i] = value
			c.Probed |= 1 << i
		}
	}
	if Table[verb].Plan.Gated && s.types[KeyMeta] == Hash && s.types[KeyActive] == SortedSet {
		c.NumActive = int64(len(s.sets[KeyActive]))
	}
	return c
}

// entries are the members of a set in their order.
func (s *store) entries(k Key) []string {
	return slices.SortedFunc(maps.Keys(s.sets[k]), func(a, b string) int {
		if d := s.sets[k][a] - s.sets[k][b]; d != 0 {
			return int(d)
		}
		return strings.Compare(a, b)
	})
}

// ids are the ids of the jobs that a call is about, in their order.
func (s *store) ids(verb Verb, args []string) (ids []string) {
	v := &Table[verb]
	switch v.Plan.Jobs {
	case NamedJob:
		ids = []string{args[v.At(RoleID)]}
	case ListedJobs:
		for at := v.At(RoleID); at < len(args); at += len(v.List) {
			ids = append(ids, args[at])
		}
	case WalkedJobs:
		if k := v.Plan.Walk; s.types[k] == SortedSet {
			ids = slices.DeleteFunc(s.entries(k), func(id string) bool { return v.Plan.Due && s.sets[k][id] > s.now })
		}
	}
	return ids
}

// run decides a call as the host does, in windows of the given size, and applies its effects: in the order of the jobs or,
// if the verb merges them, in the order of WIRE6 §7.
func (s *store) run(t testing.TB, verb Verb, args []string, window int) *Outcome {
	t.Helper()
	v := &Table[verb]
	c := s.call(verb, args)
	ids := s.ids(verb, c.Args)
	at := map[string]int32{}
	var all []Job
	for i, id := range ids {
		j := s.read(verb, id, false)
		j.Shift = int32(i * len(v.List))
		if v.Plan.Jobs == ListedJobs {
			if j.Twin = at[id]; j.Twin == 0 {
				at[id] = int32(i) + 1
			}
		}
		all = append(all, j)
	}
	o := &Outcome{Effects: make([]Effect, 0, MaxEffects*(len(ids)+1)), Marks: make([]Mark, 0, len(ids)+1)}
	want := window
	if v.Plan.Jobs == WalkedJobs {
		want = 1
	}
	next := 0
	for round := 0; ; round++ {
		if len(c.Jobs) == 0 && !c.Ended {
			n := min(want, len(all)-next)
			c.Jobs = all[next : next+n]
			next += n
			c.Ended = n < want || v.Plan.Jobs == NamedJob
		}
		o.Marks = o.Marks[:int(c.First)+len(c.Jobs)]
		Decide(verb, c, o)
		require.Less(t, round, 3*len(ids)+5, "the call does not end")
		c.First += o.Done
		c.Step += o.Done
		c.Jobs = c.Jobs[o.Done:]
		switch o.Next {
		case NextLook:
			j := s.read(verb, c.Jobs[0].ID, true)
			j.Shift, j.Twin = c.Jobs[0].Shift, c.Jobs[0].Twin
			c.Jobs[0] = j
			if v.Plan.Jobs == WalkedJobs {
				for _, k := range []Key{KeyPending, KeyActive, KeySchedule, KeyDead} {
					c.Types[k] = s.types[k]
				}
			}
			if v.Plan.LateProbes {
				late := *s.call(verb, args)
				c.Types[counterOf(verb)] = s.types[counterOf(verb)]
				if c.Types[counterOf(verb)] == Hash && s.count != "" {
					late.Probes[0], late.Probed = s.count, 1
				}
				c.Probes, c.Probed = late.Probes, late.Probed
			}
			continue
		case NextMore:
			require.Empty(t, c.Jobs)
			require.Positive(t, o.Want)
			require.LessOrEqual(t, int(o.Want), Window)
			want = min(int(o.Want), window)
			continue
		}
		break
	}
	o.Marks = o.Marks[:c.First]
	if o.TextLen > 0 {
		require.Empty(t, o.Effects, "%s", o.Text[:o.TextLen])
		return o
	}
	if o.ClaimIdentity {
		s.fence, s.identity = String, fence.Identity
	}
	s.carryOut(t, c, o, ids, v.Plan.Merged)
	return o
}

// merged is the rank of an effect in the order of WIRE6 §7; effects of the same rank keep their order.
func merged(e Effect) int {
	switch e.Op {
	case OpZrem:
		return 0
	case OpHset, OpHdel:
		return 1
	case OpDel:
		return 2
	case OpZadd:
		return 3
	}
	return 4
}

// hash is the row of a job, or meta.
func (s *store) hash(k Key, id string) (r row, there bool) {
	if k == KeyMeta {
		return s.meta, s.types[KeyMeta] == Hash
	}
	r, there = s.rows[id]
	return r, there
}

func (s *store) makeHash(k Key, id string) row {
	r := row{}
	if k == KeyMeta {
		s.types[KeyMeta], s.meta = Hash, r
	} else {
		s.rows[id] = r
	}
	return r
}

// gate gives the queue the fields of a meta.
func (s *store) gate(meta row) *store {
	s.types[KeyMeta], s.meta = Hash, meta
	return s
}

func (s *store) carryOut(t testing.TB, c *Call, o *Outcome, ids []string, merge bool) {
	t.Helper()
	effects := slices.Clone(o.Effects)
	if merge {
		slices.SortStableFunc(effects, func(a, b Effect) int { return merged(a) - merged(b) })
	}
	for _, e := range effects {
		id := ""
		if e.Key != KeyMeta {
			id = ids[e.Job]
		}
		switch e.Op {
		case OpHset:
			r, there := s.hash(e.Key, id)
			require.False(t, there && r == nil, "%s is no hash", id)
			if !there {
				r = s.makeHash(e.Key, id)
			}
			for i, f := range e.Fields[:e.N] {
				switch v := e.value(i); v.Kind {
				case ValueConst:
					r[f] = ConstText[v.N]
				case ValueArg:
					r[f] = c.Args[v.N]
				case ValueInt:
					r[f] = strconv.FormatInt(v.N, 10)
				case ValueEpoch:
					r[f] = c.Epoch
				}
			}
		case OpHdel:
			r, _ := s.hash(e.Key, id)
			for _, f := range e.Fields[:e.N] {
				delete(r, f)
			}
			if e.Key == KeyMeta && len(r) == 0 {
				s.types[KeyMeta] = None
			}
		case OpDel:
			delete(s.rows, id)
		case OpZadd:
			s.add(e.Key, id, e.Score)
		case OpZrem:
			require.True(t, e.OrElse == NoKey || KeyPending <= e.OrElse && e.OrElse <= KeyDead, "a set")
			for _, k := range []Key{e.Key, e.OrElse} {
				if k == NoKey {
					continue
				}
				if _, in := s.sets[k][id]; in {
					delete(s.sets[k], id)
					if len(s.sets[k]) == 0 {
						s.types[k] = None
					}
					break
				}
			}
		case OpHincrby:
			n, _ := strconv.ParseInt(s.count, 10, 64)
			s.types[e.Key], s.count = Hash, strconv.FormatInt(n+e.Values[1], 10)
			require.Equal(t, s.count, strconv.FormatInt(e.Values[0], 10), "the sum")
		}
	}
}

// statuses are the reply to a list.
func statuses(o *Outcome) []int8 {
	list := []int8{}
	for _, m := range o.Marks {
		list = append(list, Statuses[m.Result])
	}
	return list
}

func text(o *Outcome) string { return string(o.Text[:o.TextLen]) }

// groups splits the arguments of a call of a list into those of the call and those of each job.
func groups(verb Verb, args []string) (head []string, jobs [][]string) {
	n := len(Table[verb].Args)
	return args[:n], slices.Collect(slices.Chunk(args[n:], len(Table[verb].List)))
}

// claimed are the ids and tokens of the jobs that a claim hands out.
func claimed(s *store, entries []string, o *Outcome) (list []string) {
	for i, m := range o.Marks {
		if m.Result == ResultClaimed {
			list = append(list, fmt.Sprint(entries[i], " ", m.Token))
		}
	}
	return list
}

var batches = []Verb{Menqueue, Mschedule, Mclaim, Mcomplete, Mextend, Mfail}

// TestStatuses checks the statuses of WIRE6 §7's table: all of them in one call, and those of ids that are listed twice.
func TestStatuses(t *testing.T) {
	jobs := func() *store {
		s := newStore()
		s.put("JOBheld", held(nil), KeyActive)
		s.put("JOBlapsed", held(row{FieldState: "pending"}), KeyPending)
		s.put("JOBpending", row{FieldState: "pending", FieldAttempts: "3"}, KeyPending)
		s.put("JOBlane", held(row{FieldGroup: "g"}), KeyActive)
		s.put("JOBflow", held(row{FieldParent: "p", FieldState: "dead"}), KeyDead)
		s.put("JOBstring", nil)
		s.put("JOBlast", held(row{FieldFailures: "4"}), KeyActive)
		s.put("JOBnowhere", held(nil))
		return s
	}
	for _, c := range []struct {
		verb Verb
		args string
		want []int8
	}{
		{Menqueue, "emq:{q}: JOBnew a JOBheld b JOBstring c JOBnew d JOBother e", []int8{1, 0, 0, 0, 1}},
		{Mschedule, "emq:{q}: at JOBnew 1 a JOBheld 1 b JOBstring 1 c JOBnew 2 d JOBother 3 e", []int8{1, 0, 0, 0, 1}},
		{Mcomplete, "emq:{q}: JOBheld 2 JOBheld 3 JOBheld 3 JOBlapsed 3 JOBpending 3 JOBlane 3 JOBflow 9 JOBstring 3 JOBnone 3 JOBnowhere 3",
			[]int8{-1, 1, 0, 1, -1, -2, -2, 0, 0, 1}},
		{Mextend, "emq:{q}: 30000 JOBheld 3 JOBheld 2 JOBheld 3 JOBlapsed 3 JOBpending 3 JOBlane 3 JOBflow 9 JOBstring 3 JOBnone 3 JOBnowhere 3",
			[]int8{1, -1, 1, -1, -1, -2, -2, 0, 0, -1}},
		{Mfail, "emq:{q}: 5 JOBheld 3 1 a JOBheld 3 1 b JOBlapsed 3 1 c JOBlast 3 1 d JOBlast 3 1 e JOBpending 3 1 f JOBlane 3 1 g JOBflow 9 1 h JOBstring 3 1 i JOBnone 3 1 j",
			[]int8{1, -1, 1, 2, -1, -1, -2, -2, 0, 0}},
	} {
		for _, window := range []int{Window, 1} {
			o := jobs().run(t, c.verb, strings.Fields(c.args), window)
			require.Empty(t, text(o))
			assert.Equal(t, c.want, statuses(o), Table[c.verb].Name)
			meetsModel(t, c.verb, jobs(), strings.Fields(c.args), window)
		}
	}
}

// TestWindows checks that a call of many windows is decided as one: equal ids far apart, and one sum for the counter.
func TestWindows(t *testing.T) {
	for _, n := range []int{1, 31, 32, 33, 64, 65, 999, 1000} {
		s := newStore()
		enqueue, claim, complete, want := []string{"emq:{q}:"}, []string{}, []string{"emq:{q}:"}, []int8{}
		for i := range n {
			enqueue = append(enqueue, fmt.Sprintf("JOB%04d", i%min(n, 900)), strconv.Itoa(i))
			want = append(want, 1)
			if i >= 900 {
				want[i] = 0
			}
		}
		o := s.run(t, Menqueue, enqueue, Window)
		require.Equal(t, want, statuses(o), n)
		for id := range s.sets[KeyPending] {
			claim = append(claim, id)
		}
		slices.Sort(claim)
		o = s.run(t, Mclaim, []string{"emq:{q}:", "1000", "1000"}, Window)
		require.Len(t, claimed(s, claim, o), min(n, 900))
		require.Equal(t, ReplyJobs, o.Reply.Kind)
		for i := range n {
			complete = append(complete, fmt.Sprintf("JOB%04d", i%min(n, 900)), "1")
		}
		o = s.run(t, Mcomplete, complete, Window)
		require.Equal(t, want, statuses(o), n)
		require.Equal(t, strconv.Itoa(min(n, 900)), s.count)
		require.Empty(t, s.rows)
	}
}

// TestMclaimEnds checks where MCLAIM ends: at count, at the end of pending, at the 100th broken entry.
func TestMclaimEnds(t *testing.T) {
	for _, c := range []struct{ good, bad, count, want, left int }{
		{5, 0, 5, 5, 0}, {5, 0, 4, 4, 1}, {5, 0, 6, 5, 0}, {1000, 0, 1000, 1000, 0}, {40, 0, 1, 1, 39}, {0, 0, 5, 0, 0},
		{5, 99, 5, 5, 0}, {5, 100, 5, 0, 5}, {5, 101, 5, 0, 6}, {0, 99, 5, 0, 0}, {0, 250, 5, 0, 150},
	} {
		s := newStore()
		for i := range c.bad {
			s.add(KeyPending, fmt.Sprintf("JOBa%04d", i), 0)
		}
		for i := range c.good {
			id := fmt.Sprintf("JOBb%04d", i)
			s.rows[id] = row{FieldState: "pending", FieldAttempts: "0"}
			s.add(KeyPending, id, 0)
		}
		entries := s.entries(KeyPending)
		args := []string{"emq:{q}:", "1000", strconv.Itoa(c.count)}
		meetsModel(t, Mclaim, s.clone(), args, Window)
		o := s.run(t, Mclaim, args, Window)
		assert.Len(t, claimed(s, entries, o), c.want, "%v", c)
		assert.Len(t, s.sets[KeyPending], c.left, "%v", c)
		result := map[bool]Result{true: ResultEmpty, false: NoResult}[c.want == 0]
		assert.Equal(t, result, o.Result, "%v", c)
	}
}

// TestUnclaimed checks the fence of batches: on an unclaimed store a row anywhere in the list refuses the call, and a
// refusal drops what was decided before it.
func TestUnclaimed(t *testing.T) {
	for _, verb := range []Verb{Mcomplete, Mextend, Mfail} {
		head, jobs := groups(verb, valid(verb))
		for _, at := range []int{-1, 0, 1, 40} {
			s := newStore()
			s.fence = None
			s.put("JOBrow", held(nil), KeyActive)
			args := slices.Clone(head)
			for i := range 50 {
				job := slices.Clone(jobs[0])
				if job[0] = fmt.Sprint("JOBnone", i); i == at {
					job[0] = "JOBrow"
				}
				args = append(args, job...)
			}
			o := s.run(t, verb, args, Window)
			if at < 0 {
				assert.Equal(t, make([]int8, 50), statuses(o), Table[verb].Name)
				continue
			}
			assert.Equal(t, `EMQFENCE {emq}:version is absent, yet the job's row is there; this executor speaks "echomq:6.0.0"`, text(o))
			assert.Equal(t, ResultFence, o.Result)
		}
	}
	s := newStore()
	s.fence = None
	s.put(id, held(nil), KeyActive)
	o := s.run(t, Menqueue, []string{"emq:{q}:", id, "x", id, "y"}, Window)
	assert.False(t, o.ClaimIdentity, "duplicates claim nothing")
	o = s.run(t, Menqueue, []string{"emq:{q}:", id, "x", "JOBnew", "y"}, Window)
	assert.True(t, o.ClaimIdentity)
}

// TestListRefusals checks that a wrong argument of any job refuses the call, in the order of the checks, each of which goes
// from the first job to the last.
func TestListRefusals(t *testing.T) {
	for _, verb := range batches {
		v := &Table[verb]
		if v.List == nil {
			continue
		}
		head, jobs := groups(verb, valid(verb))
		list := func(n int) []string {
			args := slices.Clone(head)
			for i := range n {
				job := slices.Clone(jobs[0])
				job[0] = fmt.Sprint("JOB", i)
				args = append(args, job...)
			}
			return args
		}
		at := func(job, arg int) int { return len(head) + job*len(v.List) + arg }
		refused := func(want string, args []string) {
			t.Helper()
			s := newStore()
			o := s.run(t, verb, args, Window)
			assert.True(t, strings.HasPrefix(text(o), want), "%s: %q should be %q", v.Name, text(o), want)
		}
		refused("ERR id must be given 1 to 1000 times, got 1001", list(1001))
		assert.Empty(t, text(newStore().run(t, verb, list(1000), Window)), v.Name)
		for _, i := range []int{0, 1, 40, 99} {
			args := list(100)
			args[at(i, 0)] = "GRP1"
			refused("EMQKIND job id must be JOB-namespaced", args)
			args[0] = "emq:{q}"
			refused("EMQKIND", args)
			for j, a := range v.List {
				if !a.Role.IsNumber() {
					continue
				}
				args := list(100)
				args[at(i, j)] = "05"
				refused("ERR "+a.Name+" must be an integer from ", args)
				args[at(99, j)] = "-1"
				refused("ERR "+a.Name+" must be an integer from "+a.Range.minText+" to "+a.Range.maxText+`, got "05"`, append(args[:at(99, j)], append([]string{map[bool]string{true: "05", false: "-1"}[i == 99]}, args[at(99, j)+1:]...)...))
				args[0] = "emq:{q}"
				refused("EMQKEY base must be ", args)
			}
		}
		args := list(1001)
		args[at(1000, 0)] = "GRP1"
		refused("EMQKIND", args)
		args = list(1001)
		args[0] = "emq:{}:"
		refused("EMQKEY", args)
		if verb == Mschedule {
			args = list(1001)
			args[1] = "IN"
			refused("ERR id must be given", args)
			args = list(2)
			args[1], args[at(1, 1)] = "IN", "x"
			refused("ERR mode", args)
		}
		if verb == Mfail {
			args = list(2)
			args[1], args[at(0, 2)] = "0", "x"
			refused("ERR max", args)
		}
	}
}

// TestBatchNoAllocation checks that decisions on full windows allocate nothing.
func TestBatchNoAllocation(t *testing.T) {
	for _, verb := range batches {
		s := newStore()
		v := &Table[verb]
		var args []string
		if verb == Mclaim {
			args = valid(verb)
			args[2] = "1000"
		} else {
			head, jobs := groups(verb, valid(verb))
			args = slices.Clone(head)
			for i := range Window {
				job := slices.Clone(jobs[0])
				job[0] = fmt.Sprint("JOB", i/2)
				args = append(args, job...)
			}
		}
		c := s.call(verb, args)
		c.Ended = true
		for i := range Window {
			s.put(fmt.Sprint("JOB", i/2), held(row{FieldFailures: strconv.Itoa(i)}), KeyActive)
			if verb == Menqueue || verb == Mschedule {
				delete(s.rows, fmt.Sprint("JOB", i/2))
			}
			j := s.read(verb, fmt.Sprint("JOB", i/2), true)
			j.Shift, j.Twin = int32(i*len(v.List)), int32(i-i%2+1)*int32(i%2)
			c.Jobs = append(c.Jobs, j)
		}
		o := &Outcome{Effects: make([]Effect, 0, Window*MaxEffects), Marks: make([]Mark, Window)}
		fresh := *o
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			*o = fresh
			Decide(verb, c, o)
		}), v.Name)
		assert.NotEmpty(t, o.Effects, v.Name)
	}
}
