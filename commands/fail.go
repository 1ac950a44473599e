package commands

import "emq/lease"

// EMQ.FAIL 4 active schedule dead row id token delay_ms max error base
//
//	Keys     active, schedule, dead, row; pending and metrics:failed of the same queue
//	Reply    scheduled: the job is due again in delay_ms; dead: it failed max times
//	Effects  ZREM active id, or else pending · HSET row state failures last_error · HDEL row lease_epoch stalled ·
//	         ZADD schedule now+delay_ms id, or ZADD dead 0 id · HINCRBY metrics:failed count 1
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE, EMQSTALE, EMQSCRIPT
//	See      WIRE6 §4
//
// The lease is given back, so the token is void from here on. Only failures count against max, not claims that ended in a
// lost lease.

func (v *Command) admitFail(c *Call, o *Outcome) bool {
	return c.admitRow(o, (*Outcome).refuseGone) && c.typedRow(o) &&
		(c.fits(KeyActive) && c.fits(KeyPending) && c.fits(KeySchedule) && c.fits(KeyDead) || o.refuseType())
}

func (v *Command) decideFail(c *Call, j *Job, o *Outcome) Next {
	if j.Type == None {
		o.refuseGone()
		return NextFinish
	}
	if ok, next := j.settles(o, v.arg(c, RoleToken), "retry"); !ok {
		return next
	}
	switch result := v.fail(c, j, o); result {
	case NoResult:
		return NextLook // at the counter
	case ResultDead:
		o.count(c, KeyFailed, 1)
		return o.answer(result, ReplyConst, int64(ConstDead))
	default:
		return o.answer(result, ReplyConst, int64(ConstScheduled))
	}
}

// fail gives a held job back: ResultScheduled, or ResultDead, which the caller must count. NoResult asks for a look at the
// counter first, if the plan reads it late.
func (v *Command) fail(c *Call, j *Job, o *Outcome) Result {
	failures := lease.Count(j.field(FieldFailures)) + 1
	dead := failures >= v.number(o, RoleMax)
	if dead && v.Plan.LateProbes && !j.Looked {
		return NoResult
	}
	to := ConstScheduled
	if dead {
		to = ConstDead
	}
	o.zrem(KeyActive, KeyPending)
	o.hset().
		set(FieldState, constant(to)).
		set(FieldFailures, integer(failures)).
		set(FieldLastError, v.argument(j, RoleError))
	o.hdel(FieldLeaseEpoch, FieldStalled)
	if dead {
		o.zadd(KeyDead, 0)
		return ResultDead
	}
	o.zadd(KeySchedule, lease.Deadline(c.Now, v.numberOf(c, j, RoleDelay)))
	return ResultScheduled
}
