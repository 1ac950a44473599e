package commands

import (
	"emq/fence"
	"emq/lease"
)

// check makes the checks that are the same for every verb, steps 2 to 6 of WIRE6 §2, and reports whether the verb may
// go on. Step 1, the arity, is the server's, from the same table.
func (c *Command) check(r *Request, o *Outcome) bool {
	if got := r.Args[1]; c.numkeys != "" && (len(got) != 1 || got[0] != c.numkeys[0]) {
		o.refuseNumkeys(c, got)
		return false
	}
	if c.id > 0 && !IsJob(r.Args[c.id]) {
		o.refuse(RefusedKind, "EMQKIND job id must be JOB-namespaced")
		return false
	}
	if arg, queue, ok := c.layout(r); !ok {
		o.refuseKey(c, r, arg, queue)
		return false
	}
	if c.word+c.option+c.cursor > 0 && !c.checkWords(r, o) {
		return false
	}
	for _, i := range c.numbers {
		a := &c.Args[i-1]
		if n, ok := lease.Decimal(r.Args[i]); !ok || n < a.Range.min || n > a.Range.max {
			o.refuseNumber(a, r.Args[i])
			return false
		}
	}
	if r.Replica && !c.ReadOnly() {
		o.refuseReplica()
		return false
	}
	return r.read(c)
}

// checkWords is the part of check for the few verbs that have a keyword, an option or a cursor.
func (c *Command) checkWords(r *Request, o *Outcome) bool {
	if c.word > 0 && !c.Args[c.word-1].knows(r.Args[c.word]) {
		o.refuseWord(&c.Args[c.word-1], r.Args[c.word])
		return false
	}
	if c.option > 0 && int(r.Argc) > c.option && r.Args[c.option] != c.Args[c.option-1].Words[0] {
		o.refuseOption(&c.Args[c.option-1], r.Args[c.option])
		return false
	}
	if c.cursor > 0 {
		if _, ok := parseScan(r.Args[c.cursor]); !ok {
			o.refuseCursor(&c.Args[c.cursor-1], r.Args[c.cursor])
			return false
		}
	}
	return true
}

func (a *Arg) knows(word string) bool { return word == a.Words[0] || word == a.Words[1] }

// number is an argument that check has found to be in its range.
func number(r *Request, arg int) int64 {
	n, _ := lease.Decimal(r.Args[arg])
	return n
}

// admit makes step 7, the fence, for a verb that does not create rows: it goes on under our identity alone. On an
// unclaimed store it refuses if the key that the verb is about is there, and otherwise gives the verb's empty answer.
func (r *Request) admit(o *Outcome, key Key, empty func(*Outcome)) bool {
	switch r.verdict() {
	case fence.Ours:
		return true
	case fence.Foreign:
		o.refuseForeign(r)
	default:
		if r.Types[key] == None {
			empty(o)
		} else if key == KeyRow {
			o.refuseUnclaimed("the job's row")
		} else {
			o.refuseUnclaimed("the queue's " + keySuffix[key])
		}
	}
	return false
}

// admitQueue is admit for a verb that is about several of the queue's keys.
func (r *Request) admitQueue(o *Outcome, keys []Key, empty func(*Outcome)) bool {
	key := keys[0]
	for _, k := range keys {
		if r.Types[k] != None {
			key = k
			break
		}
	}
	return r.admit(o, key, empty)
}

func (r *Request) verdict() fence.Verdict {
	return fence.Judge(r.IdentityType != None, r.IdentityType == String, r.Identity)
}

// typed makes step 8 for some keys: each is absent or of its own type.
func (r *Request) typed(o *Outcome, keys ...Key) bool {
	for _, k := range keys {
		if !r.fits(k) {
			o.refuseType()
			return false
		}
	}
	return true
}

// fits tells that a row or a set is absent or of its own type.
func (r *Request) fits(k Key) bool {
	want := SortedSet
	if k == KeyRow {
		want = Hash
	}
	t := r.Types[k]
	return t == None || t == want
}

// held makes the holder's check of WIRE6 §4 for a row that is there; verb is the word of the scripts' own text. The epoch
// matters only for a job that went back to pending, so it is looked at only then.
func (r *Request) held(o *Outcome, token int, verb string) bool {
	if r.Present&(1<<FieldGroup|1<<FieldParent) != 0 {
		f := FieldGroup
		if !r.has(f) {
			f = FieldParent
		}
		o.refuseScript(f)
		return false
	}
	if r.Row[FieldState] == lease.Pending && !r.Looked {
		o.Next = Look
		return false
	}
	if !lease.Held(r.Row[FieldState], r.Row[FieldAttempts], r.Args[token], r.has(FieldLeaseEpoch)) {
		o.refuseToken(verb)
		return false
	}
	return true
}

// read asserts that the host has read what the plan names. It reads nothing on a replica, and nothing where the names
// can't be those of one queue; whoever comes here was refused by neither, so the host and this package disagree.
func (r *Request) read(c *Command) bool {
	if r.IdentityType == Unread || c.Plan.Figures && r.Figures == nil {
		c.unread()
	}
	for _, k := range c.Plan.Keys {
		if r.Types[k] == Unread {
			c.unread()
		}
	}
	return true
}

func (c *Command) unread() { panic("commands: the plan of " + c.Name + " was not read") }
