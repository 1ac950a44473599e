package commands

import "emq/lease"

// EMQ.PROMOTE 2 schedule pending base limit
//
//	Keys     schedule, pending; each due entry's row; active and dead where a row says that it is there
//	Reply    the number of jobs moved
//	Effects  moved: ZREM schedule id · HSET row state · ZADD pending 0 id; dropped: ZREM schedule id
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §6

func (v *Command) admitPromote(c *Call, o *Outcome) bool {
	return c.admit(o, answerPromoted, KeySchedule) && c.typed(o, KeySchedule, KeyPending)
}

func (v *Command) decidePromote(c *Call, j *Job, o *Outcome) Next {
	next := v.sweep(c, j, o)
	if o.mark().Disposition == Returned {
		o.zrem(KeySchedule, NoKey)
		o.hset().set(FieldState, constant(ConstPending))
		o.zadd(KeyPending, 0)
	}
	return next
}

func (v *Command) finishPromote(_ *Call, o *Outcome) { answerPromoted(o) }

func answerPromoted(o *Outcome) {
	o.answer(o.swept(ResultPromoted), ReplyInteger, int64(o.Tally.Moved))
}

// swept is the result of a walk: moved if it has moved any job, else ResultEmpty.
func (o *Outcome) swept(moved Result) Result {
	if o.Tally.Moved == 0 {
		return ResultEmpty
	}
	return moved
}

// maxLooked bounds the number of entries that a call looks at, and so the limit that a caller may give.
const maxLooked = 10000

// sweep decides on the next due entry of the set that a verb walks: it drops the entry, leaves it, or marks it Returned for
// the verb to move the job. The walk ends when limit entries were moved or dropped.
func (v *Command) sweep(c *Call, j *Job, o *Outcome) Next {
	from, m := v.Plan.Walk, o.mark()
	switch {
	case c.Slice > 0 && j.awaitsRow():
		m.Disposition = Left
	case !j.isJob():
		m.Disposition = Dropped
	case !j.Looked && j.home(from) != from:
		return NextLook
	case j.elsewhere(from):
		m.Disposition = Dropped
	case j.has(FieldGroup):
		m.Disposition = Left
	default:
		m.Disposition = Returned
		o.Tally.Moved++
	}
	if m.Disposition == Dropped {
		o.zrem(from, NoKey)
	}
	if m.Disposition != Left {
		o.Tally.Taken++
	}
	if v.remaining(c, o, o.Done+1) <= 0 {
		v.finish(v, c, o)
		return NextFinish
	}
	return NextMore
}

// remaining is the number of entries that a sweep may still look at, after done entries of this window.
func (v *Command) remaining(c *Call, o *Outcome, done int32) int64 {
	looked := int32(maxLooked)
	if c.Slice > 0 {
		looked = c.Slice
	}
	return min(int64(looked-c.Step-done), v.number(o, RoleLimit)-int64(o.Tally.Taken))
}

// awaitsRow reports whether the entry names a job without a row. If a store is being migrated key by key, the row may still
// come, and nothing says when it no longer can. So only a call of a client drops such an entry, never the pump.
func (j *Job) awaitsRow() bool { return IsJob(j.ID) && j.Type == None }

// isJob reports whether the entry is in the namespace of jobs and has a row.
func (j *Job) isJob() bool { return IsJob(j.ID) && j.Type == Hash }

// home is the set where a job of this state belongs; if the state is unknown, the set where it was found.
func (j *Job) home(found Key) Key {
	switch j.field(FieldState) {
	case lease.Pending:
		return KeyPending
	case lease.Active:
		return KeyActive
	case lease.Scheduled:
		return KeySchedule
	case lease.Dead:
		return KeyDead
	default:
		return found
	}
}

// elsewhere reports whether the row's state names another set, and that set holds the job. Then the entry that was
// found is a leftover.
func (j *Job) elsewhere(found Key) bool {
	at := j.home(found)
	return at != found && j.in(at)
}
