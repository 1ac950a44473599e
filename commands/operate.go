package commands

import (
	"emq/fence"
	"emq/lease"
)

// Verbs for operators, on lists of jobs (WIRE6 §7.4). They act only on jobs in the state that the caller names; for any
// other job the status is 0.

// stateAny matches every state.
const stateAny = "any"

var (
	operatorSets = []Key{KeyPending, KeyActive, KeySchedule, KeyDead}
	operatorPlan = Plan{
		Keys:   operatorSets,
		Jobs:   ListedJobs,
		Walk:   NoKey,
		Values: []Field{FieldState, FieldGroup, FieldParent},
		Member: NoKey,
		Merged: true,
	}
)

// admitOperator makes the checks of the call. On an unclaimed store no job is found, and the call is refused if a set
// exists.
func (v *Command) admitOperator(c *Call, o *Outcome) bool {
	switch c.verdict() {
	case fence.Foreign:
		o.refuseForeign(c)
		return false
	case fence.Absent:
		for _, k := range operatorSets {
			if c.Types[k] != None {
				o.refuseUnclaimed("the queue's " + keySuffix[k])
				return false
			}
		}
		return true
	}
	return c.typed(o, operatorSets...)
}

// finds reports whether the verb acts on a listed job, and if not, the result.
func (v *Command) finds(c *Call, j *Job, o *Outcome) (ok bool, result Result) {
	state := v.arg(c, RoleWord)
	switch {
	case o.first(j).Changed || c.verdict() != fence.Ours || j.Type != Hash:
		return false, ResultGone
	case j.has(FieldGroup) || j.has(FieldParent):
		return false, ResultScript
	case state != stateAny && j.field(FieldState) != state:
		return false, ResultGone
	}
	return true, NoResult
}

// EMQ.REQUEUE base dead|scheduled id [id …]
//
//	Keys     the four sets; the rows
//	Reply    a status for each job: 1 moved, 0 not found in that state, -2 a lane's or flow's row
//	Effects  ZREM the state's set id … · HSET row state, HDEL row, for each · ZADD pending 0 id …
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §7.4
//
// A dead job starts afresh: its failures, lost leases and last error are removed, and its lease_epoch, so that no former
// holder can settle it. attempts stays.

func (v *Command) decideRequeue(c *Call, j *Job, o *Outcome) Next {
	ok, result := v.finds(c, j, o)
	if !ok {
		return o.listed(j, result)
	}
	from := KeySchedule
	if v.arg(c, RoleWord) == lease.Dead {
		from = KeyDead
	}
	o.zrem(from, NoKey)
	o.hset().set(FieldState, constant(ConstPending))
	if from == KeyDead {
		o.hdel(FieldFailures, FieldStalled, FieldLastError, FieldLeaseEpoch)
	}
	o.zadd(KeyPending, 0)
	return o.listed(j, ResultRequeued)
}

// EMQ.REMOVE base pending|active|scheduled|dead|any id [id …]
//
//	Keys     the four sets; the rows
//	Reply    a status for each job: 1 removed, 0 not found in that state, -2 a lane's or flow's row
//	Effects  ZREM of each of the four sets that has it · DEL row
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §7.4
//
// No counter changes. Removing a running job stops it: its holder's next EXTEND replies -1.

func (v *Command) decideRemove(c *Call, j *Job, o *Outcome) Next {
	ok, result := v.finds(c, j, o)
	if !ok {
		return o.listed(j, result)
	}
	for _, set := range operatorSets {
		o.zrem(set, NoKey)
	}
	o.del()
	return o.listed(j, ResultRemoved)
}
