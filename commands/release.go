package commands

import "emq/lease"

// EMQ.RELEASE base id token delay_ms
//
//	Keys     row, active, pending, schedule
//	Reply    pending: it can be claimed at once; scheduled: it is due in delay_ms
//	Effects  ZREM active id, or else pending · HSET row state · HDEL row lease_epoch stalled · ZADD pending 0 id, or ZADD
//	         schedule now+delay_ms id; what already is so is left
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE, EMQSTALE, EMQSCRIPT
//	See      WIRE6 §7.3
//
// The holder gives the job back without counting anything: because the worker stops, or the job has to wait.

func (v *Command) admitRelease(c *Call, o *Outcome) bool {
	return c.admitRow(o, (*Outcome).refuseGone) && c.typedRow(o) &&
		(c.fits(KeyActive) && c.fits(KeyPending) && c.fits(KeySchedule) || o.refuseType())
}

func (v *Command) decideRelease(c *Call, j *Job, o *Outcome) Next {
	if j.Type == None {
		o.refuseGone()
		return NextFinish
	}
	if ok, next := j.settles(o, v.arg(c, RoleToken), "release"); !ok {
		return next
	}
	delay, to, set, score := v.number(o, RoleDelay), ConstPending, KeyPending, int64(0)
	if delay > 0 {
		to, set, score = ConstScheduled, KeySchedule, lease.Deadline(c.Now, delay)
	}
	switch {
	case j.in(KeyActive):
		o.zrem(KeyActive, NoKey)
	case set != KeyPending:
		o.zrem(KeyPending, NoKey)
	}
	if j.field(FieldState) != ConstText[to] {
		o.hset().set(FieldState, constant(to))
	}
	o.hdel(FieldLeaseEpoch, FieldStalled)
	o.zadd(set, score)
	return o.answer(ResultReleased, ReplyConst, int64(to))
}
