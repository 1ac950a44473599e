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
// This package only checks the call. If it is valid, the host claims as CLAIM does, from one queue after the other, and
// blocks the client if none has a job.

// maxQueues bounds the number of queues in one call.
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

// decideBclaim checks one queue. A key of the wrong type is refused only after all queues were checked, because an unclaimed
// store takes precedence.
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
