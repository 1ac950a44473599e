package commands

import "emq/fence"

// Verbs for many jobs in a call (WIRE6 §7.1). Each job is judged as the verb for one job would judge it, in the order sent,
// and the reply has a status for each. A status other than 1 for one job does not affect the others.

// Statuses has the status that is the reply for one job of a list, by its result.
var Statuses = [NumResults]int8{
	ResultEnqueued:  1,
	ResultScheduled: 1,
	ResultCompleted: 1,
	ResultExtended:  1,
	ResultRequeued:  1,
	ResultRemoved:   1,
	ResultDead:      2,
	ResultStale:     -1,
	ResultScript:    -2,
}

// listed notes the result for one job of a list and continues with the next, unless the call was refused. NoResult asks for
// a look at this job first.
func (o *Outcome) listed(j *Job, result Result) Next {
	switch result {
	case NoResult:
		return NextLook
	case ResultFence:
		return NextFinish
	}
	o.mark().Result = result
	if Statuses[result] > 0 {
		o.first(j).Changed = true
	}
	return NextMore
}

// first is the mark of the first job of the list with the same id.
func (o *Outcome) first(j *Job) *Mark {
	if j.Twin > 0 {
		return &o.Marks[j.Twin-1]
	}
	return o.mark()
}

// finishList replies with the statuses of all jobs of a list.
func (v *Command) finishList(_ *Call, o *Outcome) { o.answer(NoResult, ReplyStatuses, 0) }

// admitList makes the checks of a call that settles or extends listed jobs. On an unclaimed store it passes, because the
// call is refused only if one of the rows exists: see settleListed.
func (c *Call) admitList(o *Outcome, sets ...Key) bool {
	switch c.verdict() {
	case fence.Foreign:
		o.refuseForeign(c)
		return false
	case fence.Absent:
		return true
	}
	return c.typed(o, sets...)
}

// settleListed judges a listed job before it is settled. If ok is false, the result is final; NoResult asks for a look
// first. On an unclaimed store, the call is refused if the row exists.
func (v *Command) settleListed(c *Call, j *Job, o *Outcome) (ok bool, result Result) {
	if c.verdict() != fence.Ours {
		if j.Type != None {
			o.refuseUnclaimed("the job's row")
			return false, ResultFence
		}
		return false, ResultGone
	}
	if j.Type != Hash {
		return false, ResultGone
	}
	switch j.judge(v.of(c, j, RoleToken)) {
	case unseen:
		return false, NoResult
	case stale:
		return false, ResultStale
	case scripted:
		return false, ResultScript
	}
	return true, NoResult
}

// EMQ.MENQUEUE base id payload [id payload …]
//
//	Keys     pending; the rows
//	Reply    a status for each job: 1 enqueued, 0 the row exists
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET row state attempts payload · ZADD pending 0 id …
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE; the server adds OOM
//	See      WIRE6 §7.1

func (v *Command) admitMenqueue(c *Call, o *Outcome) bool { return c.admitNew(o, KeyPending) }

func (v *Command) decideMenqueue(c *Call, j *Job, o *Outcome) Next {
	if o.first(j).Changed {
		return o.listed(j, ResultDuplicate)
	}
	result := v.create(c, j, o, ConstPending, ResultEnqueued)
	if result == ResultEnqueued {
		o.zadd(KeyPending, 0)
	}
	return o.listed(j, result)
}

// EMQ.MSCHEDULE base at|in id ms payload [id ms payload …]
//
//	Keys     schedule; the rows
//	Reply    a status for each job: 1 scheduled, 0 the row exists
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET row state attempts payload · ZADD schedule due id …
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE; the server adds OOM
//	See      WIRE6 §7.1

func (v *Command) admitMschedule(c *Call, o *Outcome) bool { return c.admitNew(o, KeySchedule) }

func (v *Command) decideMschedule(c *Call, j *Job, o *Outcome) Next {
	if o.first(j).Changed {
		return o.listed(j, ResultDuplicate)
	}
	result := v.create(c, j, o, ConstScheduled, ResultScheduled)
	if result == ResultScheduled {
		o.zadd(KeySchedule, v.due(c, j))
	}
	return o.listed(j, result)
}

// EMQ.MCLAIM base lease_ms count
//
//	Keys     pending, active; the entries' rows; schedule and dead where an entry is broken
//	Reply    an array of [id, payload, token], empty if there is no job
//	Effects  ZREM pending id … · HSET row … for each · ZADD active now+lease_ms id … · ZADD dead 0 id …
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §4, §7.1
//
// It ends after count jobs, at the end of pending, or after maxDropped entries that can't be handed out.

func (v *Command) decideMclaim(c *Call, j *Job, o *Outcome) Next {
	switch c.grant(j, o, v.number(o, RoleLease)) {
	case NoResult:
		return NextLook
	case ResultClaimed:
		o.Tally.Moved++
	default:
		o.Tally.Taken++
	}
	if v.wanted(c, o) > 0 && o.Tally.Taken < maxDropped {
		return NextMore
	}
	v.finish(v, c, o)
	return NextFinish
}

// wanted is the number of jobs that MCLAIM may still hand out.
func (v *Command) wanted(c *Call, o *Outcome) int64 {
	return min(v.number(o, RoleCount), o.Room) - int64(o.Tally.Moved)
}

func (v *Command) wantMclaim(c *Call, o *Outcome) int32 { return int32(min(Window, v.wanted(c, o))) }

func (v *Command) finishMclaim(c *Call, o *Outcome) {
	c.spend(o, int64(o.Tally.Moved))
	result := NoResult // each job is counted
	if o.Tally.Moved == 0 {
		result = ResultEmpty
	}
	o.answer(result, ReplyJobs, 0)
}

func answerNoJobs(o *Outcome) { o.answer(ResultEmpty, ReplyJobs, 0) }

// EMQ.MCOMPLETE base id token [id token …]
//
//	Keys     active, pending, metrics:completed; the rows
//	Reply    a status for each job: 1 completed, 0 no row, -1 not the holder, -2 a lane's or flow's row
//	Effects  ZREM active id … · ZREM pending id … · DEL row … · HINCRBY metrics:completed count n
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §4, §7.1

func (v *Command) admitMcomplete(c *Call, o *Outcome) bool {
	return c.admitList(o, KeyActive, KeyPending)
}

func (v *Command) decideMcomplete(c *Call, j *Job, o *Outcome) Next {
	if o.first(j).Changed {
		return o.listed(j, ResultGone)
	}
	ok, result := v.settleListed(c, j, o)
	if ok {
		o.zrem(KeyActive, KeyPending)
		o.del()
		o.Tally.Moved++
		result = ResultCompleted
	}
	return o.listed(j, result)
}

func (v *Command) finishMcomplete(c *Call, o *Outcome) {
	if o.Tally.Moved > 0 {
		o.count(c, KeyCompleted, o.Tally.Moved)
	}
	v.finishList(c, o)
}

// EMQ.MEXTEND base lease_ms id token [id token …]
//
//	Keys     active; the rows
//	Reply    a status for each job: 1 extended, 0 no row, -1 where EXTEND answers EMQSTALE, -2 a lane's or flow's row
//	Effects  HSET row lease_epoch for each · ZADD active now+lease_ms id …
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §6, §7.1
//
// A job that is listed twice gets two statuses and is written once.

func (v *Command) admitMextend(c *Call, o *Outcome) bool { return c.admitList(o, KeyActive) }

func (v *Command) decideMextend(c *Call, j *Job, o *Outcome) Next {
	extended := o.first(j).Changed
	ok, result := v.settleListed(c, j, o)
	switch {
	case !ok:
	case !j.in(KeyActive):
		result = ResultStale
	default:
		result = ResultExtended
		if !extended {
			o.extend(c, v.number(o, RoleLease))
		}
	}
	return o.listed(j, result)
}

// EMQ.MFAIL base max id token delay_ms error [id token delay_ms error …]
//
//	Keys     active, pending, schedule, dead, metrics:failed; the rows
//	Reply    a status for each job: 1 scheduled, 2 dead, 0 no row, -1 not the holder, -2 a lane's or flow's row
//	Effects  ZREM active id … · ZREM pending id … · HSET row state failures last_error, HDEL row lease_epoch stalled, for each ·
//	         ZADD schedule now+delay_ms id … · ZADD dead 0 id … · HINCRBY metrics:failed count n
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §4, §7.1

func (v *Command) admitMfail(c *Call, o *Outcome) bool {
	return c.admitList(o, KeyActive, KeyPending, KeySchedule, KeyDead)
}

func (v *Command) decideMfail(c *Call, j *Job, o *Outcome) Next {
	if o.first(j).Changed {
		return o.listed(j, ResultStale)
	}
	ok, result := v.settleListed(c, j, o)
	if ok {
		if result = v.fail(c, j, o); result == ResultDead {
			o.Tally.Moved++
		}
	}
	return o.listed(j, result)
}

func (v *Command) finishMfail(c *Call, o *Outcome) {
	if o.Tally.Moved > 0 {
		o.count(c, KeyFailed, o.Tally.Moved)
	}
	v.finishList(c, o)
}
