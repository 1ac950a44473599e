package commands

import "emq/lease"

// EMQ.SCHEDULE 2 row schedule id payload at|in ms
//
//	Keys     row, schedule
//	Reply    1: scheduled; 0: the row exists, nothing changes
//	Effects  [SET {emq}:version, on an unclaimed store] · HSET row state attempts payload · ZADD schedule due id
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE; the server adds OOM
//	See      WIRE6 §3, §6
//
// The job is due at ms, a Unix time, or ms from now.
const (
	scheduleAt = "at"
	scheduleIn = "in"
)

func (v *Command) admitSchedule(c *Call, o *Outcome) bool {
	return c.admitNew(o, KeySchedule) && c.typedRow(o)
}

func (v *Command) decideSchedule(c *Call, j *Job, o *Outcome) Next {
	result := v.create(c, j, o, ConstScheduled, ResultScheduled)
	if result == ResultScheduled {
		o.zadd(KeySchedule, v.due(c, j))
	}
	return o.created(result)
}

// due is the time at which a new job is due.
func (v *Command) due(c *Call, j *Job) int64 {
	ms := v.numberOf(c, j, RoleDue)
	if v.arg(c, RoleWord) == scheduleIn {
		return lease.Deadline(c.Now, ms)
	}
	return ms
}
