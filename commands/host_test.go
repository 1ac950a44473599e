package commands

import "strings"

// request is what a host has for one decision: a call that has come to one job. It is comparable.
type request struct {
	Args         [MaxArgs]string
	Argc         int32
	Entry        string // the id of the job
	HasEntry     bool   // false where a walk or a scan has come to its end
	Identity     string
	IdentityType Type
	Epoch        string
	Row          [NumRowFields]string
	Present      uint32
	Types        [NumKeys]Type // the row's included
	Counts       [NumKeys]string
	Counted      uint32 // the counters that have a count, as bits
	Now          int64
	Deadline     float64
	ServedSince  int64
	Figures      Figures
	HasFigures   bool
	Scanned      bool
	ScannedTo    uint64
	Step, Slice  int32
	Tally        Tally // of the jobs before
	Replica      bool
	Looked       bool
	Member       uint8
}

func (r *request) has(f Field) bool { return r.Present&(1<<f) != 0 }

func (r *request) count(key Key, count string) {
	r.Types[key], r.Counts[key] = Hash, count
	r.Counted |= 1 << key
}

// decision is the outcome, without what the host does not look at. It is comparable too.
type decision struct {
	Effects       [MaxEffects]Effect
	NumEffects    int
	ClaimIdentity bool
	Reply         Reply
	Text          string
	Refusal       Refusal
	Next          Next
	Disposition   Disposition
	Token         int64
	Result        Result
	Status        Result // of the job, where the verb answers job by job
	Finding       Finding
	Tally         Tally
	Scan          Scan
	Numbers       [MaxNumbers]int64
}

// call returns a call and an outcome as the host passes them, with `dirt` in all that it does not clear.
func (r *request) call(verb Verb, dirt bool) (*Call, *Outcome) {
	v := &Table[verb]
	c := &Call{
		Args: r.Args[:r.Argc], Identity: r.Identity, IdentityType: r.IdentityType, Epoch: r.Epoch, Now: r.Now,
		ServedSince: r.ServedSince, Scanned: r.Scanned, ScannedTo: r.ScannedTo, Step: r.Step, Slice: r.Slice,
		Types: r.Types, Replica: r.Replica, Probes: make([]string, MaxProbes),
	}
	job := Job{ID: r.Entry, Row: r.Row, Deadline: r.Deadline, Present: r.Present, Type: r.Types[KeyRow], Member: r.Member, Looked: r.Looked}
	switch {
	case v.Plan.Jobs == NamedJob || v.Plan.Jobs == ListedJobs: // a list of one
		job.ID = r.Args[v.At(RoleID)]
		c.Jobs, c.Ended = []Job{job}, true
	case v.Plan.Jobs == NoJobs:
		c.Ended = true
	case r.HasEntry:
		c.Jobs = []Job{job}
	default:
		c.Ended = v.Plan.Jobs == WalkedJobs || r.Scanned
	}
	if r.HasFigures {
		c.Figures = &r.Figures
	}
	for i, p := range v.Plan.Probes {
		if r.Counted&(1<<p.Key) != 0 {
			c.Probes[i] = r.Counts[p.Key]
			c.Probed |= 1 << i
		}
	}
	c.Types[KeyRow] = Unread
	o := &Outcome{Effects: make([]Effect, 0, MaxEffects), Marks: make([]Mark, 1), Tally: r.Tally}
	if !dirt {
		return c, o
	}
	for i := range MaxEffects {
		o.Effects[:MaxEffects][i] = Effect{Job: 99, Op: 99, Key: 99, OrElse: 99, N: 99, Score: 99}
	}
	for i := range o.Text {
		o.Text[i] = 'x'
	}
	for i := range o.Numbers {
		o.Numbers[i] = 99
	}
	for i := range o.given {
		o.given[i] = 99
	}
	o.Marks[0] = Mark{99, 99, 99, Finding{99, 99, 99, true}, true}
	return c, o
}

// decideOne decides a request and returns the valid part of the outcome.
func decideOne(verb Verb, r *request, dirt bool) *decision {
	c, o := r.call(verb, dirt)
	Decide(verb, c, o)
	d := &decision{
		NumEffects: len(o.Effects), ClaimIdentity: o.ClaimIdentity, Reply: o.Reply, Text: string(o.Text[:o.TextLen]),
		Refusal: o.Refusal, Next: o.Next, Result: o.Result, Tally: o.Tally, Scan: o.Scan,
	}
	if o.TextLen > 0 && o.Text[o.TextLen] != 0 {
		panic("C reads a text to its NUL")
	}
	if o.TextLen > 0 && (len(o.Effects) > 0 || o.ClaimIdentity) {
		panic("a refusal writes something")
	}
	if o.Admitted && len(c.Jobs) > 0 && (o.Done == 1) == (o.Next == NextLook) {
		panic("the job was decided and is not, or the other way round")
	}
	if o.Admitted && o.Done > 0 {
		d.Disposition, d.Token, d.Finding = o.Marks[0].Disposition, o.Marks[0].Token, o.Marks[0].Finding
		d.Status = o.Marks[0].Result
	}
	if o.Reply.Kind == ReplyNumbers {
		d.Numbers = o.Numbers
	}
	for i, e := range o.Effects {
		clear(e.Fields[e.N:])
		clear(e.Kinds[e.N:])
		clear(e.Values[e.N:])
		if e.Op != OpZadd {
			e.Score = 0
		}
		e.Changed, e.Emptied = 0, false
		d.Effects[i] = e
	}
	return d
}

// counterOf is the counter that a verb adds to, or NoKey.
func counterOf(verb Verb) Key {
	if p := Table[verb].Plan.Probes; len(p) == 1 {
		return p[0].Key
	}
	return NoKey
}

// value is the new value of an effect's field.
func (e *Effect) value(i int) Value { return Value{e.Kinds[i], e.Values[i]} }

// describe writes an effect as its plain command.
func (e Effect) describe(r *request) string {
	words := []string{[...]string{"HSET", "HDEL", "ZADD", "ZREM", "DEL", "HINCRBY"}[e.Op], strings.TrimSuffix(e.Key.Suffix(), ":")}
	if e.Op == OpZadd {
		words = append(words, integerText(e.Score))
	}
	if e.OrElse != NoKey {
		words = append(words, "or", e.OrElse.Suffix())
	}
	for i := range e.N {
		words = append(words, FieldName[e.Fields[i]])
		if e.Op == OpHdel {
			continue
		}
		switch v := e.value(int(i)); v.Kind {
		case ValueConst:
			words = append(words, "="+ConstText[v.N])
		case ValueArg:
			words = append(words, "="+r.Args[v.N])
		case ValueInt:
			words = append(words, "="+integerText(v.N))
		case ValueEpoch:
			words = append(words, "=EPOCH")
		}
	}
	return strings.Join(words, " ")
}

func integerText(n int64) string { return between(n, n).minText }

// shown are a call's effects as plain commands, with the id if there are several jobs.
func shown(o *Outcome, ids ...string) (effects []string) {
	if o.ClaimIdentity {
		effects = append(effects, "SET identity")
	}
	for _, e := range o.Effects {
		text := e.describe(&request{})
		if len(ids) > 1 {
			text = ids[e.Job] + ": " + text
		}
		effects = append(effects, text)
	}
	return effects
}
