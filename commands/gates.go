package commands

import (
	"math"

	"emq/fence"
	"emq/lease"
)

// Gates hold a queue's claims back, for all clients: a pause, a cap on the jobs that are active at a time, and a rate. They
// are fields of the queue's meta (WIRE6 §7.5). A field that is no canonical integer in range is no gate: a broken gate never
// stops a queue.

// The probes of meta, as a plan names them from some place on.
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
	// paused is set while the pause lasts, and until is its end in Unix ms, 0 where only RESUME ends it.
	paused bool
	until  int64
	// concurrency, and max within duration (ms), are 0 where there is no such gate.
	concurrency, max, duration int64
	// window is when the window of the rate began, in Unix ms, and used how many jobs were handed out in it. A window that
	// is over is forgotten: then begun is false.
	window, used int64
	begun        bool
}

// gateRanges bounds what each field of meta may say; that of paused is one number alone.
var gateRanges = [...]struct{ least, most int64 }{
	probePaused: {1, 1}, probePausedUntil: {0, lease.MaxStored}, probeConcurrency: {1, lease.MaxAttempts},
	probeMax: {1, lease.MaxAttempts}, probeDuration: {1, lease.MaxMillis},
	probeWindow: {0, lease.MaxStored}, probeUsed: {0, lease.MaxStored},
}

// gate is what a field of meta says, if it is there and is a canonical integer in its range. The fields' probes begin at the
// given place of the plan's.
func (c *Call) gate(at, i int) (n int64, ok bool) {
	text, there := c.probe(at + i)
	if !there {
		return 0, false
	}
	n, ok = lease.Decimal(text)
	return n, ok && n >= gateRanges[i].least && n <= gateRanges[i].most
}

// gates reads the gates, whose probes begin at the given place of the plan's.
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

// brokenGates are the fields of meta, by the bits of their probes, that are there and say nothing: those that are not in
// their range, a pause whose end is broken, and what one of max and duration is without the other. Without them every gate
// is as it was.
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

// room is how many jobs may be handed out now. Where that is none, opens tells when the gate opens by itself, in Unix ms;
// 0 where that is not a matter of time.
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

// admitThroughGates makes the last check of a claim: a queue whose gates are shut answers as an empty one. Otherwise the
// outcome has the room that the gates leave.
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

// spend counts jobs that were handed out against the rate.
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

// admitGate makes the checks of a verb that sets gates. Such a call may find the store unclaimed.
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

// metaChange collects what a verb writes to meta: fields that are so already are left.
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
// No claim hands a job out for ms, or with 0 until RESUME. What already is so is left.

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
// The pump sends it, too, to tidy away a pause whose time is over; it leaves any other.

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
// At most concurrency jobs are active at a time, and at most max are handed out in any window of duration_ms; 0 is no such
// limit. A new window begins with the next claim.

// checkLimit holds that max and duration_ms are both 0 or both not.
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
