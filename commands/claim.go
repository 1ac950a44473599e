package commands

import "emq/lease"

// EMQ.CLAIM 2 pending active rowprefix lease_ms
//
//	Keys     pending, active, meta; the entry's row; schedule and dead where an entry is broken
//	Reply    [id, payload, token], or an empty array; payload is null if the row has none
//	Effects  granted: ZREM pending id · HSET row state attempts lease_epoch · ZADD active now+lease_ms id [· HSET meta window used]
//	         dropped: ZREM pending id; a bad row also HSET row state last_error · ZADD dead 0 id
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §4
//
// It takes pending's first entry. An entry that can't be handed out never blocks the queue: it is dropped, and the next
// one is tried. One call drops at most maxDropped.
const maxDropped = 100

func (v *Command) admitClaim(c *Call, o *Outcome) bool {
	return c.admit(o, v.empty, KeyPending) && (c.fits(KeyPending) && c.fits(KeyActive) || o.refuseType()) &&
		c.admitThroughGates(o, v.empty)
}

func (v *Command) decideClaim(c *Call, j *Job, o *Outcome) Next {
	switch c.grant(j, o, v.number(o, RoleLease)) {
	case ResultClaimed:
		c.spend(o, 1)
		return o.answer(ResultClaimed, ReplyJob, 0)
	case NoResult:
		return NextLook
	}
	if c.Step+o.Done+1 < maxDropped {
		return NextMore
	}
	answerEmpty(o)
	return NextFinish
}

func answerEmpty(o *Outcome) { o.answer(ResultEmpty, ReplyEmpty, 0) }

func (v *Command) finishClaim(_ *Call, o *Outcome) { answerEmpty(o) }

// grant hands out the entry's job (ResultClaimed), or drops the entry if the job can't be handed out (ResultEmpty). NoResult
// asks for a look at the other sets first.
func (c *Call) grant(j *Job, o *Outcome, leaseMillis int64) Result {
	token, ok := lease.NextToken(j.field(FieldAttempts))
	if !ok || j.Looked || !j.isJob() || j.field(FieldState) != lease.Pending {
		if result := c.suspect(j, o, ok); result != ResultClaimed {
			return result
		}
	}
	o.zrem(KeyPending, NoKey)
	o.hset().
		set(FieldState, constant(ConstActive)).
		set(FieldAttempts, integer(token)).
		set(FieldLeaseEpoch, epoch())
	o.zadd(KeyActive, lease.Deadline(c.Now, leaseMillis))
	m := o.mark()
	m.Result, m.Token = ResultClaimed, token
	return ResultClaimed
}

// suspect judges an entry that is not as it should be, and returns what grant returns. counts says whether the token can be
// incremented.
//
//go:noinline
func (c *Call) suspect(j *Job, o *Outcome, counts bool) Result {
	switch {
	case !j.isJob():
		o.drop()
	case !j.Looked:
		return NoResult
	case j.elsewhere(KeyPending):
		o.drop()
	case !counts:
		c.bury(o)
	default:
		return ResultClaimed
	}
	return ResultEmpty
}

// drop takes the entry out of pending.
func (o *Outcome) drop() {
	o.mark().Disposition = Dropped
	o.zrem(KeyPending, NoKey)
}

// bury moves a job whose token can't be incremented to the dead letters, without counting it as failed. If dead is not a
// sorted set, only the row's state says so.
func (c *Call) bury(o *Outcome) {
	o.drop()
	o.mark().Disposition = Buried
	o.hset().
		set(FieldState, constant(ConstDead)).
		set(FieldLastError, constant(ConstBadAttempts))
	if c.fits(KeyDead) {
		o.zadd(KeyDead, 0)
	}
}
