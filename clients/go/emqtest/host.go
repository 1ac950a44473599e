package emqtest

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"emq/clients/go"
	"emq/commands"
	"emq/fence"
)

// zset is a sorted set: its scores, and its members in order.
type zset struct {
	score map[string]float64
	order []string
}

func (z *zset) place(id string, score float64) int {
	i, _ := slices.BinarySearchFunc(z.order, id, func(at, id string) int {
		return cmp.Or(cmp.Compare(z.score[at], score), strings.Compare(at, id))
	})
	return i
}

func (z *zset) add(id string, score float64) {
	z.remove(id)
	z.order = slices.Insert(z.order, z.place(id, score), id)
	z.score[id] = score
}

func (z *zset) remove(id string) bool {
	score, ok := z.score[id]
	if ok {
		i := z.place(id, score)
		z.order = slices.Delete(z.order, i, i+1)
		delete(z.score, id)
	}
	return ok
}

// store is what the module has in the server's keys. An empty hash or set is no key.
type store struct {
	claimed bool // {emq}:version is there
	hashes  map[string]map[string]string
	sets    map[string]*zset
}

func (s *store) typeOf(key string) commands.Type {
	switch {
	case s.hashes[key] != nil:
		return commands.Hash
	case s.sets[key] != nil:
		return commands.SortedSet
	}
	return commands.None
}

// frame is one call of a verb, from what is read for it to its reply: the Go side of module/command.c.
type frame struct {
	*store
	verb commands.Verb
	v    *commands.Command
	base string
	call commands.Call
	out  commands.Outcome
	jobs []commands.Job // all that were read, by their places
	next int            // of the set that is walked
}

const epoch = "emqtest"

// run carries a verb out. wait tells that it is BCLAIM's turn to claim or to wait.
func (s *store) run(verb commands.Verb, args []string, now int64) (r emq.Reply, err error, wait bool) {
	f := s.prepare(verb, args, now)
	if f.out.ClaimIdentity {
		s.claimed = true
		f = s.prepare(verb, args, now)
	}
	switch {
	case f.out.TextLen > 0:
		return r, &emq.Error{Text: string(f.out.Text[:f.out.TextLen])}, false
	case f.out.Next == commands.NextClaim:
		return r, nil, true
	case f.out.Next == commands.NextList:
		return s.queues(args), nil, false
	case f.out.Next == commands.NextScan:
		return r, &emq.Error{Text: "ERR emqtest does not scan"}, false
	}
	f.apply()
	return f.reply(), nil, false
}

// queues lists the bases of the queues, behind one of them and at most so many.
func (s *store) queues(args []string) (r emq.Reply) {
	after, most := args[commands.Table[commands.Queues].At(commands.RoleAfter)], args[commands.Table[commands.Queues].At(commands.RoleCount)]
	bases := map[string]bool{}
	note := func(key string) {
		base, name, _ := strings.Cut(key, "}:")
		if base += "}:"; base > after && !strings.HasPrefix(name, commands.KeyRow.Suffix()) && !strings.HasPrefix(name, "metrics:") {
			bases[base] = true
		}
	}
	for key := range s.sets {
		note(key)
	}
	for key := range s.hashes {
		note(key)
	}
	sorted := slices.Sorted(maps.Keys(bases))
	n, _ := strconv.Atoi(most)
	for _, base := range sorted[:min(n, len(sorted))] {
		r.List = append(r.List, emq.Reply{Str: base})
	}
	return r
}

func (s *store) prepare(verb commands.Verb, args []string, now int64) *frame {
	f := &frame{store: s, verb: verb, v: &commands.Table[verb]}
	c := &f.call
	c.Args, c.Epoch, c.Now, c.IdentityType = args, epoch, now, commands.None
	if s.claimed {
		c.Identity, c.IdentityType = fence.Identity, commands.String
	}
	for _, arg := range args {
		if i := strings.Index(arg, "}:"); i > 0 && strings.HasPrefix(arg, "emq:{") {
			f.base = arg[:i+2]
			break
		}
	}
	plan := &f.v.Plan
	for _, key := range plan.Keys {
		c.Types[key] = s.typeOf(f.base + key.Suffix())
	}
	if !plan.LateProbes {
		f.readProbes()
	}
	if active := s.sets[f.base+commands.KeyActive.Suffix()]; plan.Gated && active != nil {
		c.NumActive = int64(len(active.order))
	}
	if plan.Figures {
		f.readFigures()
	}
	c.Ended = plan.Jobs == commands.NoJobs || plan.Jobs == commands.NamedJob
	switch plan.Jobs {
	case commands.NamedJob:
		f.add(f.row(args[f.v.At(commands.RoleID)]))
	case commands.ListedJobs, commands.ListedQueues:
		f.read(commands.Window)
	case commands.WalkedJobs:
		f.read(1)
	}
	for {
		f.out.Effects = slices.Grow(f.out.Effects, commands.Window*commands.MaxEffects)
		for len(f.out.Marks) < len(f.jobs) {
			f.out.Marks = append(f.out.Marks, commands.Mark{})
		}
		commands.Decide(verb, c, &f.out)
		c.Step += f.out.Done
		c.First += f.out.Done
		c.Jobs = c.Jobs[f.out.Done:]
		switch f.out.Next {
		case commands.NextLook:
			f.look(&c.Jobs[0])
		case commands.NextMore:
			f.read(int(f.out.Want))
		default:
			return f
		}
	}
}

func (f *frame) readProbes() {
	f.call.Probes = make([]string, len(f.v.Plan.Probes))
	for i, p := range f.v.Plan.Probes {
		if value, ok := f.hashes[f.base+p.Key.Suffix()][commands.FieldName[p.Field]]; ok {
			f.call.Probes[i] = value
			f.call.Probed |= 1 << i
		}
	}
}

func (f *frame) readFigures() {
	f.call.Figures = &commands.Figures{}
	for key := range commands.NumKeys {
		set := f.sets[f.base+key.Suffix()]
		if set == nil {
			continue
		}
		f.call.Figures.Sizes[key] = int64(len(set.order))
		f.call.Figures.Next[key] = set.score[set.order[0]]
		if key == commands.KeyPending {
			f.call.Figures.Oldest = set.order[0]
		}
	}
}

// row reads a job's row.
func (f *frame) row(id string) commands.Job {
	key := f.base + commands.KeyRow.Suffix() + id
	j := commands.Job{ID: id, Type: f.typeOf(key)}
	for _, field := range f.v.Plan.Values {
		if value, ok := f.hashes[key][commands.FieldName[field]]; ok {
			j.Row[field] = value
			j.Present |= 1 << field
		}
	}
	if set := f.v.Plan.Member; set != commands.NoKey && f.holds(set, id) {
		j.Member = 1 << set
	}
	return j
}

func (f *frame) holds(set commands.Key, id string) bool {
	z := f.sets[f.base+set.Suffix()]
	if z == nil {
		return false
	}
	_, ok := z.score[id]
	return ok
}

func (f *frame) add(j commands.Job) {
	f.jobs = append(f.jobs, j)
	f.call.Jobs = append(f.call.Jobs, j)
}

// read reads up to so many further jobs.
func (f *frame) read(want int) {
	f.call.Jobs = nil
	args := f.call.Args
	for range want {
		i := len(f.jobs)
		switch f.v.Plan.Jobs {
		case commands.ListedJobs:
			shift := i * len(f.v.List)
			if at := f.v.At(commands.RoleID) + shift; at < len(args) {
				j := f.row(args[at])
				j.Shift = int32(shift)
				first := slices.IndexFunc(f.jobs, func(before commands.Job) bool { return before.ID == j.ID })
				j.Twin = int32(first) + 1
				f.add(j)
				continue
			}
		case commands.ListedQueues:
			if at := f.v.At(commands.RoleBase) + i; at < len(args) {
				f.add(commands.Job{ID: args[at], Type: f.typeOf(args[at] + commands.KeyPending.Suffix()),
					Active: f.typeOf(args[at] + commands.KeyActive.Suffix())})
				continue
			}
		default:
			set := f.sets[f.base+f.v.Plan.Walk.Suffix()]
			if set != nil && f.next < len(set.order) {
				if id := set.order[f.next]; !f.v.Plan.Due || set.score[id] <= float64(f.call.Now) {
					f.next++
					j := f.row(id)
					j.Deadline = set.score[id]
					f.add(j)
					continue
				}
			}
		}
		f.call.Ended = true
		return
	}
}

// look reads what a decision asks for beside the plan.
func (f *frame) look(j *commands.Job) {
	j.Looked = true
	if f.v.Plan.Jobs >= commands.WalkedJobs {
		j.Member = 0
		for _, set := range []commands.Key{commands.KeyPending, commands.KeyActive, commands.KeySchedule, commands.KeyDead} {
			f.call.Types[set] = f.typeOf(f.base + set.Suffix())
			if f.holds(set, j.ID) {
				j.Member |= 1 << set
			}
		}
		return
	}
	for _, field := range f.v.Plan.Late {
		if _, ok := f.hashes[f.base+commands.KeyRow.Suffix()+j.ID][commands.FieldName[field]]; ok {
			j.Present |= 1 << field
		}
	}
	if f.v.Plan.LateProbes {
		for _, p := range f.v.Plan.Probes {
			f.call.Types[p.Key] = f.typeOf(f.base + p.Key.Suffix())
		}
		f.readProbes()
	}
}

// apply does what was decided; where several jobs are changed, what adds to a set or a counter comes last.
func (f *frame) apply() {
	late := func(e *commands.Effect) bool {
		return e.Op == commands.OpZadd || e.Op == commands.OpHincrby || e.Key == commands.KeyMeta
	}
	for _, turn := range []bool{false, true} {
		for i := range f.out.Effects {
			if e := &f.out.Effects[i]; late(e) == turn {
				f.applyOne(e)
			}
		}
	}
}

func (f *frame) applyOne(e *commands.Effect) {
	key, id := f.base+e.Key.Suffix(), ""
	if len(f.jobs) > 0 {
		id = f.jobs[e.Job].ID
	}
	if e.Key == commands.KeyRow {
		key += id
	}
	switch e.Op {
	case commands.OpHset, commands.OpHincrby:
		if f.hashes[key] == nil {
			f.hashes[key] = map[string]string{}
		}
		for i := range e.N {
			f.hashes[key][commands.FieldName[e.Fields[i]]] = f.value(e, int(i))
		}
	case commands.OpHdel:
		for i := range e.N {
			delete(f.hashes[key], commands.FieldName[e.Fields[i]])
		}
		if len(f.hashes[key]) == 0 {
			delete(f.hashes, key)
		}
	case commands.OpDel:
		delete(f.hashes, key)
	case commands.OpZadd:
		if f.sets[key] == nil {
			f.sets[key] = &zset{score: map[string]float64{}}
		}
		f.sets[key].add(id, float64(e.Score))
	case commands.OpZrem:
		if !f.zrem(key, id) && e.OrElse != commands.NoKey {
			f.zrem(f.base+e.OrElse.Suffix(), id)
		}
	}
}

func (f *frame) zrem(key, id string) bool {
	z := f.sets[key]
	if z == nil || !z.remove(id) {
		return false
	}
	if len(z.order) == 0 {
		delete(f.sets, key)
	}
	return true
}

func (f *frame) value(e *commands.Effect, i int) string {
	switch n := e.Values[i]; e.Kinds[i] {
	case commands.ValueConst:
		return commands.ConstText[n]
	case commands.ValueArg:
		return f.call.Args[n]
	case commands.ValueEpoch:
		return epoch
	default:
		return decimal(n)
	}
}

func (f *frame) reply() (r emq.Reply) {
	switch n := f.out.Reply.N; f.out.Reply.Kind {
	case commands.ReplyInteger:
		r.Int = n
	case commands.ReplyConst:
		r.Str = commands.ConstText[n]
	case commands.ReplyOK:
		r.Str = "OK"
	case commands.ReplyJob:
		return f.granted()[0]
	case commands.ReplyJobs:
		r.List = f.granted()
	case commands.ReplyStatuses:
		for i := range f.jobs {
			r.List = append(r.List, emq.Reply{Int: int64(commands.Statuses[f.out.Marks[i].Result])})
		}
	case commands.ReplyNumbers:
		for i, name := range f.v.Fields[:n] {
			value := emq.Reply{Int: f.out.Numbers[i], Null: f.out.Numbers[i] == commands.NoNumber}
			r.List = append(r.List, emq.Reply{Str: name}, value)
		}
	case commands.ReplyLists:
		r.List = make([]emq.Reply, 2)
		for i, j := range f.jobs {
			switch f.out.Marks[i].Disposition {
			case commands.Returned, commands.Stalled:
				r.List[0].List = append(r.List[0].List, emq.Reply{Str: j.ID})
			case commands.Buried:
				r.List[1].List = append(r.List[1].List, emq.Reply{Str: j.ID})
			}
		}
	}
	return r
}

func (f *frame) granted() (list []emq.Reply) {
	for i, j := range f.jobs {
		if f.out.Marks[i].Result != commands.ResultClaimed {
			continue
		}
		payload := emq.Reply{Str: j.Row[commands.FieldPayload], Null: j.Present&(1<<commands.FieldPayload) == 0}
		list = append(list, emq.Reply{List: []emq.Reply{{Str: j.ID}, payload, {Int: f.out.Marks[i].Token}}})
	}
	return list
}
