package commands

import "emq/fence"

// EMQ.ENQUEUE 2 row pending id payload
//
//	Keys     row, pending
//	Reply    1: enqueued; 0: the row exists, nothing changes
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET row state attempts payload · ZADD pending 0 id
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE; the server adds OOM
//	See      WIRE6 §3, §4

func (v *Command) admitEnqueue(c *Call, o *Outcome) bool {
	return c.admitNew(o, KeyPending) && c.typedRow(o)
}

func (v *Command) decideEnqueue(c *Call, j *Job, o *Outcome) Next {
	result := v.create(c, j, o, ConstPending, ResultEnqueued)
	if result == ResultEnqueued {
		o.zadd(KeyPending, 0)
	}
	return o.created(result)
}

// admitNew makes the checks of a call that creates jobs in a set. The store may be unclaimed.
func (c *Call) admitNew(o *Outcome, set Key) bool {
	if c.verdict() == fence.Foreign {
		o.refuseForeign(c)
		return false
	}
	return c.fits(set) || o.refuseType()
}

// create writes the row of a new job, unless it exists. The verb adds the job to a set. On an unclaimed store it asks
// the host to claim the identity.
func (v *Command) create(c *Call, j *Job, o *Outcome, state Const, created Result) Result {
	if j.Type != None {
		return ResultDuplicate
	}
	if c.verdict() == fence.Absent {
		o.ClaimIdentity = true
	}
	o.hset().
		set(FieldState, constant(state)).
		set(FieldAttempts, constant(ConstZero)).
		set(FieldPayload, v.argument(j, RolePayload))
	return created
}

// checkPayloads checks the payloads of new jobs, if the verb creates any, against emq.max-payload-bytes.
func (v *Command) checkPayloads(c *Call, o *Outcome) bool {
	payload := v.At(RolePayload)
	if payload == 0 {
		return true
	}
	for at := payload; at < v.end(c, payload); at += v.step() {
		if n := len(c.Args[at]); int64(n) > c.MaxPayload {
			o.refusePayload(n, int(c.MaxPayload))
			return false
		}
	}
	return true
}

// created replies for one job.
func (o *Outcome) created(result Result) Next {
	n := int64(1)
	if result == ResultDuplicate {
		n = 0
	}
	return o.answer(result, ReplyInteger, n)
}
