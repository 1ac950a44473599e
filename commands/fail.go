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
// The lease is given back, so the token is worth nothing from here on. Only failures count against max: claims that
// ended in a lost lease do not.
const (
	failToken = 7
	failDelay = 8
	failMax   = 9
	failError = 10
)

func decideFail(r *Request, o *Outcome) {
	if !r.admit(o, KeyRow, (*Outcome).refuseGone) ||
		!r.typed(o, KeyRow, KeyActive, KeyPending, KeySchedule, KeyDead) {
		return
	}
	if r.Types[KeyRow] == None {
		o.refuseGone()
		return
	}
	if !r.held(o, failToken, "retry") {
		return
	}
	failures := lease.Count(r.Row[FieldFailures]) + 1
	to := ConstScheduled
	if failures >= number(r, failMax) {
		if to = ConstDead; !r.Looked {
			o.Next = Look // at the counter
			return
		}
	}
	o.zrem(KeyActive, KeyPending)
	o.hset(KeyRow).
		set(state(to)).
		set(FieldFailures, integer(failures)).
		set(FieldLastError, argument(failError))
	o.hdel(KeyRow, FieldLeaseEpoch, FieldStalled)
	result := ResultScheduled
	if to == ConstDead {
		result = ResultDead
		o.zadd(KeyDead, 0)
		o.count(r, KeyFailed)
	} else {
		o.zadd(KeySchedule, lease.Deadline(r.Now, number(r, failDelay)))
	}
	o.answer(result, ReplyConst, int64(to))
}
