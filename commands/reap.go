package commands

import "emq/lease"

// EMQ.REAP 3 active pending dead base max_stalled limit
//
//	Keys     active, pending, dead; metrics:failed; each expired entry's row; schedule where a row says that it is there
//	Reply    [[ids returned to pending], [ids buried in dead]]
//	Effects  returned: ZREM active id · HSET row state [stalled] · ZADD pending 0 id
//	         buried: ZREM active id · HSET row state stalled last_error · ZADD dead 0 id · HINCRBY metrics:failed count 1
//	         dropped: ZREM active id
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §6
//
// attempts and lease_epoch stay: the old holder may settle the job until the next claim fences it. A job that can't become a
// dead letter, because dead is not a sorted set or only a script may end its flow, is returned again and again.

func (v *Command) admitReap(c *Call, o *Outcome) bool {
	return c.admit(o, answerReaped, KeyActive) && c.typed(o, KeyActive, KeyPending)
}

func (v *Command) decideReap(c *Call, j *Job, o *Outcome) Next {
	next := v.sweep(c, j, o)
	if o.mark().Disposition == Returned {
		v.takeBack(c, j, o)
	}
	return next
}

// takeBack ends the lease of an entry that sweep has marked Returned.
func (v *Command) takeBack(c *Call, j *Job, o *Outcome) {
	o.zrem(KeyActive, NoKey)
	if c.uncounted(j) {
		o.hset().set(FieldState, constant(ConstPending))
		o.zadd(KeyPending, 0)
		return
	}
	stalled, over := lease.Stall(j.field(FieldStalled), v.number(o, RoleMaxStalled))
	if !over || j.has(FieldParent) || !c.fits(KeyDead) {
		o.mark().Disposition = Stalled
		o.hset().set(FieldState, constant(ConstPending)).set(FieldStalled, integer(stalled))
		o.zadd(KeyPending, 0)
		return
	}
	o.mark().Disposition = Buried
	o.hset().
		set(FieldState, constant(ConstDead)).
		set(FieldStalled, integer(stalled)).
		set(FieldLastError, constant(ConstStalled))
	o.zadd(KeyDead, 0)
	o.count(c, KeyFailed, 1)
}

// uncounted reports whether the lost lease does not count against the job, because the holder could not have extended
// it: another server granted it, or this one was not serving when it expired. Where ServedSince is not known, it must
// not match a foreign writer's score of 0 or less.
func (c *Call) uncounted(j *Job) bool {
	return j.has(FieldLeaseEpoch) && j.field(FieldLeaseEpoch) != c.Epoch ||
		c.ServedSince > 0 && j.Deadline <= float64(c.ServedSince)
}

func (v *Command) finishReap(_ *Call, o *Outcome) { answerReaped(o) }

func answerReaped(o *Outcome) { o.answer(o.swept(ResultReaped), ReplyLists, 0) }
