package commands

import (
	"math"

	"emq/fence"
	"emq/lease"
)

// Gates hold back all clients' claims from a queue: a pause, a limit on the number of active jobs, and a rate limit.
// They are fields of the queue's meta (WIRE6 §7.5). A field that is not a canonical integer in its range is ignored, so
// that a broken gate never stops a queue.

// The probes of meta, numbered from the first one in the plan.
const (
	probePaused = iota
	probePausedUntil
	probeConcurrency
	probeMax
	probeDuration
	probeWindow
	probeUsed
)

var gateProbes = []Probe{
	probePaused: {KeyMeta, FieldPaused, 6}, probePausedUntil: {KeyMeta, FieldPausedUntil, 5},
	probeConcurrency: {KeyMeta, FieldConcurrency, 4}, probeMax: {KeyMeta, FieldMax, 3}, probeDuration: {KeyMeta, FieldDuration, 2},
	probeWindow: {KeyMeta, FieldWindow, 1}, probeUsed: {KeyMeta, FieldUsed, 0},
}

var gatePlan = Plan{Keys: []Key{KeyMeta}, Walk: NoKey, Probes: gateProbes, Member: NoKey}

// gates are those of one queue, as its claims see them.
type gates struct {
	// paused is set during a pause. until is its end in Unix ms, or 0 if only RESUME ends it.
	paused bool
	until  int64
	// concurrency limits the active jobs, and max those handed out within duration ms; 0 means no such limit.
	concurrency, max, duration int64
	// window is when the rate limit's current window began, in Unix ms, and used is the number of jobs handed out in it.
	// begun is false if there is no current window.
	window, used int64
	begun        bool
}

// gateRanges bounds the values of the fields of meta. paused can only be 1.
var gateRanges = [...]struct{ least, most int64 }{
	probePaused: {1, 1}, probePausedUntil: {0, lease.MaxStored}, probeConcurrency: {1, lease.MaxAttempts},
	probeMax: {1, lease.MaxAttempts}, probeDuration: {1, lease.MaxMillis},
	probeWindow: {0, lease.MaxStored}, probeUsed: {0, lease.MaxStored},
}

// gate is the value of a field of meta; ok is false unless it exists and is a canonical integer in its range. The probes of
// meta begin at place `at` in the plan.
func (c *Call) gate(at, i int) (n int64, ok bool) {
	text, there := c.probe(at + i)
	if !there {
		return 0, false
	}
	n, ok = lease.Decimal(text)
	return n, ok && n >= gateRanges[i].least && n <= gateRanges[i].most
}

// gates reads the gates. The probes of meta begin at place `at` in the plan.
func (c *Call) gates(at int) (g gates) {
	if c.Types[KeyMeta] != Hash {
		return g
	}
	if _, paused := c.gate(at, probePaused); paused {
		_, timed := c.probe(at + probePausedUntil)
		until, ok := c.gate(at, probePausedUntil)
		switch {
		case !timed:
			g.paused = true
		case ok && until > c.Now:
			g.paused, g.until = true, until
		}
	}
	if n, ok := c.gate(at, probeConcurrency); ok {
		g.concurrency = n
	}
	most, hasMax := c.gate(at, probeMax)
	duration, hasDuration := c.gate(at, probeDuration)
	if !hasMax || !hasDuration {
		return g
	}
	g.max, g.duration = most, duration
	window, ok := c.gate(at, probeWindow)
	if ok && window <= c.Now && c.Now-window < duration {
		g.begun, g.window = true, window
		if used, ok := c.gate(at, probeUsed); ok {
			g.used = used
		}
	}
	return g
}

// brokenGates has a bit for each field of meta that exists and has no effect: a value out of its range, a pause whose end is
// broken, and one of max and duration without the other. Removing these fields does not change any gate.
func (c *Call) brokenGates() (fields uint32) {
	for i := range gateRanges {
		_, there := c.probe(i)
		if _, ok := c.gate(0, i); there && !ok {
			fields |= 1 << i
		}
	}
	if fields&(1<<probePausedUntil) != 0 {
		fields |= c.Probed & (1 << probePaused)
	}
	_, hasMax := c.gate(0, probeMax)
	if _, hasDuration := c.gate(0, probeDuration); hasMax != hasDuration {
		fields |= c.Probed & (1<<probeMax | 1<<probeDuration)
	}
	return fields
}

// room is the number of jobs that may be handed out now. If it is 0, opens is the time, in Unix ms, at which the gate opens
// by itself, or 0 if time alone does not open it.
func (g *gates) room(c *Call) (n, opens int64) {
	n = math.MaxInt64
	if g.paused {
		return 0, g.until
	}
	if g.concurrency > 0 {
		if n = g.concurrency - c.NumActive; n <= 0 {
			return 0, 0
		}
	}
	if g.max > 0 {
		if n = min(n, g.max-g.used); n <= 0 {
			return 0, g.window + g.duration
		}
	}
	return n, 0
}

// admitThroughGates makes the last check of a claim: if the queue's gates are shut, the reply is that of an empty queue.
// Otherwise it sets the outcome's Room.
func (c *Call) admitThroughGates(o *Outcome, empty func(*Outcome)) bool {
	o.Room = math.MaxInt64
	return c.Types[KeyMeta] != Hash || c.askGates(o, empty)
}

//go:noinline
func (c *Call) askGates(o *Outcome, empty func(*Outcome)) bool {
	g := c.gates(0)
	if o.Room, o.Opens = g.room(c); o.Room > 0 {
		return true
	}
	o.Gated = true
	empty(o)
	return false
}

// spend counts jobs that were handed out against the rate limit.
func (c *Call) spend(o *Outcome, jobs int64) {
	if c.Types[KeyMeta] == Hash && jobs > 0 {
		c.spendRate(o, jobs)
	}
}

//go:noinline
func (c *Call) spendRate(o *Outcome, jobs int64) {
	g := c.gates(0)
	if g.max == 0 {
		return
	}
	e := o.add(OpHset, KeyMeta)
	if !g.begun {
		e.set(FieldWindow, integer(c.Now))
	}
	e.set(FieldUsed, integer(g.used+jobs))
}

// admitGate makes the checks of a verb that sets gates. The store may be unclaimed.
func (v *Command) admitGate(c *Call, o *Outcome) bool {
	if c.verdict() == fence.Foreign {
		o.refuseForeign(c)
		return false
	}
	if t := c.Types[KeyMeta]; t != None && t != Hash {
		o.refuseType()
		return false
	}
	return true
}

// metaChange collects what a verb writes to meta. A field that has the wanted value already is not written.
type metaChange struct {
	c        *Call
	set, del [MaxFields]Field
	value    [MaxFields]int64
	sets     int
	dels     int
}

// put sets a field to a number, or removes it where n is 0.
func (m *metaChange) put(probe int, n int64) {
	f := gateProbes[probe].Field
	text, there := m.c.probe(probe)
	is, ok := lease.Decimal(text)
	switch {
	case n == 0 && there:
		m.del[m.dels] = f
		m.dels++
	case n > 0 && !(there && ok && is == n):
		m.set[m.sets], m.value[m.sets] = f, n
		m.sets++
	}
}

// apply writes the change, if there is one. The first write claims an unclaimed store.
func (m *metaChange) apply(o *Outcome) {
	if m.sets > 0 {
		e := o.add(OpHset, KeyMeta)
		for i := range m.sets {
			e.set(m.set[i], integer(m.value[i]))
		}
	}
	if m.dels > 0 {
		e := o.add(OpHdel, KeyMeta)
		for _, f := range m.del[:m.dels] {
			e.set(f, Value{})
		}
	}
	if m.sets+m.dels > 0 && m.c.verdict() == fence.Absent {
		o.ClaimIdentity = true
	}
}

// EMQ.PAUSE base ms
//
//	Keys     meta
//	Reply    OK
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET meta paused [paused_until] · HDEL meta paused_until
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §7.5
//
// No claim hands out a job for ms, or with 0 until RESUME. A field that has the wanted value already is not written.

func (v *Command) finishPause(c *Call, o *Outcome) {
	m := metaChange{c: c}
	m.put(probePaused, 1)
	until := v.number(o, RolePause)
	if until > 0 {
		until = lease.Deadline(c.Now, until)
	}
	m.put(probePausedUntil, until)
	m.apply(o)
	o.answer(ResultPaused, ReplyOK, 0)
}

// EMQ.RESUME base
//
//	Keys     meta
//	Reply    1: resumed; 0: it was not paused
//	Effects  [SET {emq}:version, on an unclaimed store] · HDEL meta paused paused_until
//	Refuses  EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §7.5
//
// The pump runs it too, to remove a timed pause that is over. From the pump it leaves any other pause alone.

func (v *Command) finishResume(c *Call, o *Outcome) {
	g := c.gates(0)
	_, timed := c.gate(0, probePausedUntil)
	if ofPump := c.Slice > 0; !ofPump || timed && !g.paused {
		m := metaChange{c: c}
		m.put(probePaused, 0)
		m.put(probePausedUntil, 0)
		m.apply(o)
	}
	if g.paused {
		o.answer(ResultResumed, ReplyInteger, 1)
	} else {
		o.answer(ResultNotPaused, ReplyInteger, 0)
	}
}

// EMQ.LIMIT base concurrency max duration_ms
//
//	Keys     meta
//	Reply    OK
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET meta those not 0 · HDEL meta the others, window and used
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §7.5
//
// At most concurrency jobs are active at a time, and at most max are handed out in any window of duration_ms; 0 means no
// such limit. A new window begins with the next claim.

// checkLimit checks that max and duration_ms are both 0 or both more.
func (v *Command) checkLimit(c *Call, o *Outcome) bool {
	if (v.number(o, RoleRateMax) == 0) == (v.number(o, RoleRateDuration) == 0) {
		return true
	}
	o.refuse(RefusedRate, "ERR max and duration_ms must both be 0 or both be more")
	return false
}

func (v *Command) finishLimit(c *Call, o *Outcome) {
	m := metaChange{c: c}
	m.put(probeConcurrency, v.number(o, RoleConcurrency))
	m.put(probeMax, v.number(o, RoleRateMax))
	m.put(probeDuration, v.number(o, RoleRateDuration))
	m.put(probeWindow, 0)
	m.put(probeUsed, 0)
	m.apply(o)
	o.answer(ResultLimited, ReplyOK, 0)
}
