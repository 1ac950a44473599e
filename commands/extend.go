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
// A lease that lapsed and was returned can't be extended, though its holder may still settle the job.
const (
	extendToken = 5
	extendLease = 6
)

func decideExtend(r *Request, o *Outcome) {
	if !r.admit(o, KeyRow, answerGone) || !r.typed(o, KeyRow, KeyActive) {
		return
	}
	if r.Types[KeyRow] == None {
		answerGone(o)
		return
	}
	if !r.held(o, extendToken, "extend") {
		return
	}
	if r.Member&(1<<KeyActive) == 0 {
		o.refuseToken("extend")
		return
	}
	o.hset(KeyRow).set(FieldLeaseEpoch, epoch())
	o.zadd(KeyActive, lease.Deadline(r.Now, number(r, extendLease)))
	o.answer(ResultExtended, ReplyInteger, 1)
}

func answerGone(o *Outcome) { o.answer(ResultGone, ReplyInteger, -1) }
