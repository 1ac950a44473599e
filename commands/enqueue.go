package commands

import "emq/fence"

// EMQ.ENQUEUE 2 row pending id payload
//
//	Keys     row, pending
//	Reply    1: enqueued; 0: the row exists, nothing changes
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET row state attempts payload · ZADD pending 0 id
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE; the server adds OOM
//	See      WIRE6 §3, §4
const enqueuePayload = 5

func decideEnqueue(r *Request, o *Outcome) {
	if r.create(o, KeyPending, ConstPending, enqueuePayload, ResultEnqueued) {
		o.zadd(KeyPending, 0)
	}
}

// create decides the birth of a job but for its entry in a set, and reports whether there is to be one. Only here a
// store is claimed.
func (r *Request) create(o *Outcome, set Key, born Const, payload int, created Result) bool {
	verdict := r.verdict()
	if verdict == fence.Foreign {
		o.refuseForeign(r)
		return false
	}
	if !r.typed(o, KeyRow, set) {
		return false
	}
	if r.Types[KeyRow] != None {
		o.answer(ResultDuplicate, ReplyInteger, 0)
		return false
	}
	if verdict == fence.Absent {
		o.claimIdentity()
	}
	o.hset(KeyRow).
		set(state(born)).
		set(FieldAttempts, constant(ConstZero)).
		set(FieldPayload, argument(payload))
	o.answer(created, ReplyInteger, 1)
	return true
}
