package commands

import "emq/lease"

// EMQ.PROMOTE 2 schedule pending base limit
//
//	Keys     schedule, pending; each due entry's row; active and dead where a row says that it is there
//	Reply    the number of jobs moved
//	Effects  moved: ZREM schedule id · HSET row state · ZADD pending 0 id; dropped: ZREM schedule id
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §6
const promoteLimit = 5

func decidePromote(r *Request, o *Outcome) {
	if !r.admit(o, KeySchedule, answerPromoted) || !r.typed(o, KeySchedule, KeyPending) {
		return
	}
	if r.sweep(o, KeySchedule, promoteLimit) {
		o.Fate = Returned
		o.zrem(KeySchedule, NoKey)
		o.hset(KeyRow).set(state(ConstPending))
		o.zadd(KeyPending, 0)
	}
	answerPromoted(o)
}

func answerPromoted(o *Outcome) {
	o.answer(o.swept(ResultPromoted), ReplyInteger, int64(o.Tally.Moved))
}

// swept is the result of a walk: whether it moved any job so far.
func (o *Outcome) swept(moved Result) Result {
	if o.Tally.Moved == 0 {
		return ResultEmpty
	}
	return moved
}

// maxLooked bounds the entries that a call looks at, and with it every limit.
const maxLooked = 10000

// sweep decides on the next due entry of a set: it reports whether the job is to be moved, which the verb does, and
// otherwise drops the entry or leaves it. Then it has the walk go on until limit entries, an argument of the verb, were
// moved or dropped.
func (r *Request) sweep(o *Outcome, from Key, limit int) (move bool) {
	if !r.HasEntry {
		return false
	}
	switch {
	case r.Slice > 0 && r.awaited():
		o.Fate = Left
	case !r.isJob():
		o.Fate = Dropped
	case !r.Looked && r.home(from) != from:
		o.Next = Look
		return false
	case r.elsewhere(from):
		o.Fate = Dropped
	case r.has(FieldGroup):
		o.Fate = Left
	default:
		move = true
		o.Tally.Moved++
	}
	if o.Fate == Dropped {
		o.zrem(from, NoKey)
	}
	if o.Fate != Left {
		o.Tally.Taken++
	}
	looked := int32(maxLooked)
	if r.Slice > 0 {
		looked = r.Slice
	}
	if r.Step+1 < looked && int64(o.Tally.Taken) < number(r, limit) {
		o.Next = NextEntry
	}
	return move
}

// awaited tells that the entry names a job without a row. The row may be on its way, where a store is brought key by key,
// and no moment is known at which it is not: so only those drop the entry who were told to, and never the pump.
func (r *Request) awaited() bool { return IsJob(r.Entry) && r.Types[KeyRow] == None }

// isJob tells that the entry is in the namespace of jobs and has a row.
func (r *Request) isJob() bool { return IsJob(r.Entry) && r.Types[KeyRow] == Hash }

// home is the set in which a row of this state stands; for a row of no known state, that in which it was found.
func (r *Request) home(found Key) Key {
	switch r.Row[FieldState] {
	case lease.Pending:
		return KeyPending
	case lease.Active:
		return KeyActive
	case lease.Scheduled:
		return KeySchedule
	case lease.Dead:
		return KeyDead
	default:
		return found
	}
}

// elsewhere tells that the row's state is that of another set, and that set holds the job: the entry that was found is
// a leftover.
func (r *Request) elsewhere(found Key) bool {
	at := r.home(found)
	return at != found && r.Member&(1<<at) != 0
}
