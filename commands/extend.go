package commands

import "emq/lease"

// EMQ.EXTEND 2 active row id token lease_ms
//
//	Keys     active, row
//	Reply    1: extended; -1: there is no row
//	Effects  HSET row lease_epoch · ZADD active now+lease_ms id
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE, EMQSCRIPT, EMQSTALE
//	See      WIRE6 §6
//
// A lease can't be extended once REAP has returned the job to pending, although its holder may still settle the job.

func (v *Command) admitExtend(c *Call, o *Outcome) bool {
	return c.admitRow(o, answerGone) && c.typedRow(o) && (c.fits(KeyActive) || o.refuseType())
}

func (v *Command) decideExtend(c *Call, j *Job, o *Outcome) Next {
	if j.Type == None {
		answerGone(o)
		return NextFinish
	}
	if ok, next := j.settles(o, v.arg(c, RoleToken), "extend"); !ok {
		return next
	}
	if !j.in(KeyActive) {
		o.refuseToken("extend")
		return NextFinish
	}
	o.extend(c, v.number(o, RoleLease))
	return o.answer(ResultExtended, ReplyInteger, 1)
}

// extend gives a held job a new deadline.
func (o *Outcome) extend(c *Call, leaseMillis int64) {
	o.hset().set(FieldLeaseEpoch, epoch())
	o.zadd(KeyActive, lease.Deadline(c.Now, leaseMillis))
}

func answerGone(o *Outcome) { o.answer(ResultGone, ReplyInteger, -1) }
