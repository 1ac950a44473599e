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
// attempts and lease_epoch stay: the old holder may settle until the next claim fences it. A job whose dead letters
// can't take it, because that key is no sorted set or only a script may end its flow, is returned for ever.
const (
	reapMaxStalled = 6
	reapLimit      = 7
)

func decideReap(r *Request, o *Outcome) {
	if !r.admit(o, KeyActive, answerReaped) || !r.typed(o, KeyActive, KeyPending) {
		return
	}
	if r.sweep(o, KeyActive, reapLimit) {
		r.takeBack(o)
	}
	answerReaped(o)
}

func (r *Request) takeBack(o *Outcome) {
	o.zrem(KeyActive, NoKey)
	if r.innocent() {
		o.Fate = Returned
		o.hset(KeyRow).set(state(ConstPending))
		o.zadd(KeyPending, 0)
		return
	}
	stalled, over := lease.Stall(r.Row[FieldStalled], number(r, reapMaxStalled))
	if !over || r.has(FieldParent) || !r.fits(KeyDead) {
		o.Fate = Stalled
		o.hset(KeyRow).set(state(ConstPending)).set(FieldStalled, integer(stalled))
		o.zadd(KeyPending, 0)
		return
	}
	o.Fate = Buried
	o.hset(KeyRow).
		set(state(ConstDead)).
		set(FieldStalled, integer(stalled)).
		set(FieldLastError, constant(ConstStalled))
	o.zadd(KeyDead, 0)
	o.count(r, KeyFailed)
}

// innocent tells that the holder could not have kept the lease: another server granted it, or this one did not serve
// when it ended. A score of 0 or less is no such time, it is a foreign writer's.
func (r *Request) innocent() bool {
	return r.has(FieldLeaseEpoch) && r.Row[FieldLeaseEpoch] != r.Epoch ||
		r.ServedSince > 0 && r.Deadline <= float64(r.ServedSince)
}

func answerReaped(o *Outcome) { o.answer(o.swept(ResultReaped), ReplyReaped, 0) }
