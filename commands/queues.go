package commands

import "emq/fence"

// EMQ.QUEUES after count
//
//	Keys     none declared; of each queue that is listed, the five that make it one
//	Reply    an array of bases `emq:{q}:` in byte order, each greater than after; fewer than count: the end
//	Effects  none; nothing expires, nothing counts as looked at
//	Refuses  ERR, EMQFENCE
//	See      WIRE6 §7.4
//
// A queue is listed while its pending, active, schedule, dead or meta is there, and only if the caller may read its base.

func (v *Command) admitQueues(c *Call, o *Outcome) bool {
	if c.verdict() == fence.Foreign {
		o.refuseForeign(c)
		return false
	}
	return true
}

func (v *Command) finishQueues(_ *Call, o *Outcome) { o.Next, o.Result = NextList, ResultOK }
