package commands

import (
	"emq/fence"
	"emq/lease"
)

// check makes the checks that are the same for every verb, steps 2 to 6 of WIRE6 §2, and reports whether they pass. Step 1,
// the arity, is checked by the server, from the same table.
//
//go:noinline
func (v *Command) check(c *Call, o *Outcome) bool {
	if v.digit > 0 {
		if got := c.Args[1]; len(got) != 1 || got[0] != v.digit {
			o.refuseNumkeys(v, got)
			return false
		}
	}
	if id := v.At(RoleID); id > 0 && (!IsJob(c.Args[id]) || v.listAt > 0 && !v.areJobs(c)) {
		o.refuseKind()
		return false
	}
	if arg, queue, ok := v.layout(c); !ok {
		o.refuseKey(v, c, arg, queue)
		return false
	}
	if v.particular && !v.checkParticulars(c, o) || len(v.numbers) > 0 && !v.particular && !v.checkNumbers(c, o) {
		return false
	}
	if c.MaxPayload > 0 && !v.checkPayloads(c, o) {
		return false
	}
	if c.Replica && !v.ReadOnly() {
		o.refuseReplica()
		return false
	}
	v.assertRead(c)
	return true
}

// checkParticulars makes the checks of verbs that have more than numbers to check: the length of a list, keywords, the
// numbers, and the verb's own check, in this order.
func (v *Command) checkParticulars(c *Call, o *Outcome) bool {
	if v.Plan.Jobs == ListedJobs && v.listed(c) > MaxList {
		o.refuseLength(&v.List[0], maxListText, v.listed(c))
		return false
	}
	if v.worded && !v.checkWords(c, o) {
		return false
	}
	if !v.checkNumbers(c, o) || len(v.listNumbers) > 0 && !v.checkListNumbers(c, o) {
		return false
	}
	return v.checkMore == nil || v.checkMore(v, c, o)
}

// checkNumbers checks the numbers and stores them in given.
func (v *Command) checkNumbers(c *Call, o *Outcome) bool {
	for _, i := range v.numbers {
		n, ok := v.Args[i-1].admits(c.Args[i], o)
		if !ok {
			return false
		}
		o.given[i] = n
	}
	return true
}

// areJobs reports whether all ids of a list are in the namespace of jobs.
func (v *Command) areJobs(c *Call) bool {
	for at := v.At(RoleID); at < len(c.Args); at += len(v.List) {
		if !IsJob(c.Args[at]) {
			return false
		}
	}
	return true
}

// end bounds the places of an argument: an argument of a list occurs once for each job, any other once.
func (v *Command) end(c *Call, at int) int {
	if v.isListed(at) {
		return len(c.Args)
	}
	return at + 1
}

// step is the distance of the arguments of adjacent jobs of a list.
func (v *Command) step() int { return max(1, len(v.List)) }

// checkListNumbers checks the numbers of each job of a list.
func (v *Command) checkListNumbers(c *Call, o *Outcome) bool {
	for shift := 0; v.listAt+shift < len(c.Args); shift += len(v.List) {
		for _, i := range v.listNumbers {
			if _, ok := v.argAt(i).admits(c.Args[i+shift], o); !ok {
				return false
			}
		}
	}
	return true
}

// admits parses a number and refuses it if it is not in the argument's range.
func (a *Arg) admits(text string, o *Outcome) (n int64, ok bool) {
	n, ok = lease.Decimal(text)
	if ok = ok && n >= a.Range.min && n <= a.Range.max; !ok {
		o.refuseNumber(a, text)
	}
	return n, ok
}

// checkWords is the part of check for the few verbs that have a keyword, an option or a cursor.
func (v *Command) checkWords(c *Call, o *Outcome) bool {
	if i := v.At(RoleWord); i > 0 && !v.Args[i-1].knows(c.Args[i]) {
		o.refuseWord(&v.Args[i-1], c.Args[i])
		return false
	}
	if i := v.At(RoleOption); i > 0 && len(c.Args) > i && c.Args[i] != v.Args[i-1].Words[0] {
		o.refuseOption(&v.Args[i-1], c.Args[i])
		return false
	}
	if i := v.At(RoleCursor); i > 0 {
		if _, ok := parseScan(c.Args[i]); !ok {
			o.refuseCursor(&v.Args[i-1], c.Args[i])
			return false
		}
	}
	return true
}

func (a *Arg) knows(word string) bool {
	for _, w := range a.Words {
		if w == word {
			return true
		}
	}
	return false
}

// admit makes step 7, the fence, for a verb that does not create rows: it passes only under our identity. On an unclaimed
// store it refuses if one of the given keys exists, and otherwise gives the verb's empty reply.
func (c *Call) admit(o *Outcome, empty func(*Outcome), keys ...Key) bool {
	switch c.verdict() {
	case fence.Ours:
		return true
	case fence.Foreign:
		o.refuseForeign(c)
		return false
	}
	for _, k := range keys {
		if c.Types[k] != None {
			o.refuseUnclaimed("the queue's " + keySuffix[k])
			return false
		}
	}
	empty(o)
	return false
}

// admitRow is admit for a verb about the one job that the caller names.
func (c *Call) admitRow(o *Outcome, empty func(*Outcome)) bool {
	switch c.verdict() {
	case fence.Ours:
		return true
	case fence.Foreign:
		o.refuseForeign(c)
	default:
		if c.Jobs[0].Type == None {
			empty(o)
		} else {
			o.refuseUnclaimed("the job's row")
		}
	}
	return false
}

func (c *Call) verdict() fence.Verdict {
	return fence.Judge(c.IdentityType != None, c.IdentityType == String, c.Identity)
}

// typed makes step 8 for some sets: each must be absent or a sorted set.
func (c *Call) typed(o *Outcome, sets ...Key) bool {
	for _, k := range sets {
		if !c.fits(k) {
			return o.refuseType()
		}
	}
	return true
}

// typedRow makes step 8 for the row of the one job that the caller names.
func (c *Call) typedRow(o *Outcome) bool {
	t := c.Jobs[0].Type
	return t == None || t == Hash || o.refuseType()
}

// fits reports whether a key is absent or a sorted set.
func (c *Call) fits(set Key) bool {
	t := c.Types[set]
	return t == None || t == SortedSet
}

// holding says whether the caller holds the job.
type holding uint8

const (
	holds holding = iota
	// unseen: the epoch must be read first. It matters only for a job that went back to pending.
	unseen
	// stale: the token is not the holder's.
	stale
	// scripted: the row belongs to a lane or a flow, whose scripts settle it.
	scripted
)

// judge makes the holder's check of WIRE6 §4 for a row that exists.
func (j *Job) judge(token string) holding {
	switch state := j.field(FieldState); {
	case j.Present&(1<<FieldGroup|1<<FieldParent) != 0:
		return scripted
	case state == lease.Pending && !j.Looked:
		return unseen
	case !lease.Held(state, j.field(FieldAttempts), token, j.has(FieldLeaseEpoch)):
		return stale
	}
	return holds
}

// settles reports whether the caller of a verb about one job holds it. If not, it refuses or asks for a look. verb is the
// word that the text of the scripts has for the verb.
func (j *Job) settles(o *Outcome, token, verb string) (ok bool, next Next) {
	switch j.judge(token) {
	case unseen:
		return false, NextLook
	case stale:
		o.refuseToken(verb)
	case scripted:
		f := FieldGroup
		if !j.has(f) {
			f = FieldParent
		}
		o.refuseScript(f)
	default:
		return true, NextFinish
	}
	return false, NextFinish
}

// assertRead panics if the host has not read what the plan names. The host reads nothing on a replica, or if the names can't
// belong to one queue; but such calls have been refused before this, so the host and this package would disagree.
func (v *Command) assertRead(c *Call) {
	if c.IdentityType == Unread || v.Plan.Figures && c.Figures == nil || v.Plan.Jobs == NamedJob && c.Jobs[0].Type == Unread {
		v.unread()
	}
	for _, k := range v.Plan.Keys {
		if c.Types[k] == Unread {
			v.unread()
		}
	}
}

//go:noinline
func (v *Command) unread() { panic("commands: the plan of " + v.Name + " was not read") }
