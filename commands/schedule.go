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
// The job is due at ms, a Unix time, or in ms from now.
const (
	schedulePayload = 5
	scheduleMode    = 6
	scheduleMillis  = 7

	scheduleAt = "at"
	scheduleIn = "in"
)

func decideSchedule(r *Request, o *Outcome) {
	if !r.create(o, KeySchedule, ConstScheduled, schedulePayload, ResultScheduled) {
		return
	}
	due := number(r, scheduleMillis)
	if r.Args[scheduleMode] == scheduleIn {
		due = lease.Deadline(r.Now, due)
	}
	o.zadd(KeySchedule, due)
}
