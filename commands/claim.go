package commands

import "emq/lease"

// EMQ.CLAIM 2 pending active rowprefix lease_ms
//
//	Keys     pending, active; the entry's row; schedule and dead where an entry is broken
//	Reply    [id, payload, token], or an empty array; payload is null if the row has none
//	Effects  granted: ZREM pending id · HSET row state attempts lease_epoch · ZADD active now+lease_ms id
//	         dropped: ZREM pending id; a bad row also HSET row state last_error · ZADD dead 0 id
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §4
//
// Pending's first entry is taken. One that can't be handed out never blocks the queue: it is dropped and the next is
// looked at, at most maxDropped in one call.
const (
	claimLease = 5
	maxDropped = 100
)

func decideClaim(r *Request, o *Outcome) {
	if !r.admit(o, KeyPending, answerEmpty) || !r.typed(o, KeyPending, KeyActive) {
		return
	}
	switch {
	case !r.HasEntry:
		answerEmpty(o)
	case !r.isJob():
		r.drop(o)
	default:
		r.grant(o)
	}
}

// grant hands the entry's job out, unless its row says otherwise.
func (r *Request) grant(o *Outcome) {
	token, ok := lease.NextToken(r.Row[FieldAttempts])
	if !r.Looked && (!ok || r.Row[FieldState] != lease.Pending) {
		o.Next = Look
		return
	}
	if r.elsewhere(KeyPending) {
		r.drop(o)
		return
	}
	if !ok {
		r.bury(o)
		return
	}
	o.zrem(KeyPending, NoKey)
	o.hset(KeyRow).
		set(state(ConstActive)).
		set(FieldAttempts, integer(token)).
		set(FieldLeaseEpoch, epoch())
	o.zadd(KeyActive, lease.Deadline(r.Now, number(r, claimLease)))
	o.answer(ResultClaimed, ReplyJob, token)
}

// drop takes the entry out of pending and goes on to the next.
func (r *Request) drop(o *Outcome) {
	o.Fate = Dropped
	o.zrem(KeyPending, NoKey)
	if r.Step+1 < maxDropped {
		o.Next = NextEntry
	} else {
		answerEmpty(o)
	}
}

// bury moves a bad row, whose token can't be counted up, to the dead letters, uncounted; where dead is no sorted set
// the row's state alone says so.
func (r *Request) bury(o *Outcome) {
	r.drop(o)
	o.Fate = Buried
	o.hset(KeyRow).
		set(state(ConstDead)).
		set(FieldLastError, constant(ConstBadAttempts))
	if r.fits(KeyDead) {
		o.zadd(KeyDead, 0)
	}
}

func answerEmpty(o *Outcome) { o.answer(ResultEmpty, ReplyEmpty, 0) }
