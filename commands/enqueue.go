package commands

import "emq/fence"

// EMQ.ENQUEUE 2 row pending id payload
//
//	Keys     row, pending
//	Reply    1: enqueued; 0: the row exists, nothing changes
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET row state attempts payload · ZADD pending 0 id
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE; the server adds OOM
//	See      WIRE6 §3, §4
const (
	enqueuePayload = 5
)

func decideEnqueue(r *Request, o *Outcome) {
	verdict := r.verdict()
	if verdict == fence.Foreign {
		o.refuseForeign(r)
		return
	}
	if !r.typed(o, KeyRow, KeyPending) {
		return
	}
	if r.Types[KeyRow] != None {
		o.answer(ReplyInteger, 0)
		return
	}
	if verdict == fence.Absent {
		o.claimIdentity()
	}
	o.hset(KeyRow).
		set(state(ConstPending)).
		set(FieldAttempts, constant(ConstZero)).
		set(FieldPayload, argument(enqueuePayload))
	o.zadd(KeyPending, 0)
	o.answer(ReplyInteger, 1)
}
