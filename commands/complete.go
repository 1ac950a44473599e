package commands

// EMQ.COMPLETE 2 active row id token base
//
//	Keys     active, row; pending and metrics:completed of the same queue
//	Reply    1: settled; 0: there is no row
//	Effects  ZREM active id, or else pending · DEL row · HINCRBY metrics:completed count 1
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE, EMQSCRIPT, EMQSTALE
//	See      WIRE6 §4

func (v *Command) admitComplete(c *Call, o *Outcome) bool {
	return c.admitRow(o, answerNoRow) && c.typedRow(o) && (c.fits(KeyActive) && c.fits(KeyPending) || o.refuseType())
}

func (v *Command) decideComplete(c *Call, j *Job, o *Outcome) Next {
	if j.Type == None {
		answerNoRow(o)
		return NextFinish
	}
	if ok, next := j.settles(o, v.arg(c, RoleToken), "complete"); !ok {
		return next
	}
	o.zrem(KeyActive, KeyPending)
	o.del()
	o.count(c, KeyCompleted, 1)
	return o.answer(ResultCompleted, ReplyInteger, 1)
}

func answerNoRow(o *Outcome) { o.answer(ResultGone, ReplyInteger, 0) }
