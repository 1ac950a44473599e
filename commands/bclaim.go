package commands

import "emq/fence"

// EMQ.BCLAIM lease_ms timeout_ms base [base …]
//
//	Keys     pending and active of each queue
//	Reply    [base, id, payload, token]; at the timeout, and where waiting is denied, an empty array
//	Effects  those of CLAIM
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE; NOPERM if rights are lost while it waits
//	See      WIRE6 §4, §7.2
//
// Here the call as a whole is judged. If it is sound, the host claims as CLAIM does from one queue after the other, and
// waits if none has a job.

// maxQueues bounds the queues that one call waits for.
const maxQueues = 100

func (v *Command) admitBclaim(c *Call, o *Outcome) bool {
	if n := v.listed(c); n > maxQueues {
		o.refuseLength(&v.List[0], maxQueuesText, n)
		return false
	}
	if c.verdict() == fence.Foreign {
		o.refuseForeign(c)
		return false
	}
	return true
}

// decideBclaim looks at one queue. A key of another type refuses only when all queues have been looked at: an unclaimed
// store comes first.
func (v *Command) decideBclaim(c *Call, j *Job, o *Outcome) Next {
	if c.verdict() == fence.Absent && j.Type != None {
		o.refuseUnclaimed("the queue's pending")
		return NextFinish
	}
	fits := func(t Type) bool { return t == None || t == SortedSet }
	if !fits(j.Type) || !fits(j.Active) {
		o.Tally.Taken++
	}
	return NextMore
}

func (v *Command) finishBclaim(_ *Call, o *Outcome) {
	if o.Tally.Taken > 0 {
		o.refuseType()
		return
	}
	o.Next = NextClaim
}
