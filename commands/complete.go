package commands

// EMQ.COMPLETE 2 active row id token base
//
//	Keys     active, row; pending and metrics:completed of the same queue
//	Reply    1: settled; 0: there is no row
//	Effects  ZREM active id, or else pending · DEL row · HINCRBY metrics:completed count 1
//	Refuses  ERR, EMQKIND, EMQKEY, READONLY, EMQFENCE, WRONGTYPE, EMQSCRIPT, EMQSTALE
//	See      WIRE6 §4
const completeToken = 5

func decideComplete(r *Request, o *Outcome) {
	if !r.admit(o, KeyRow, answerNoRow) || !r.typed(o, KeyRow, KeyActive, KeyPending) {
		return
	}
	if r.Types[KeyRow] == None {
		answerNoRow(o)
		return
	}
	if !r.held(o, completeToken, "complete") {
		return
	}
	o.zrem(KeyActive, KeyPending)
	o.del(KeyRow)
	o.count(r, KeyCompleted)
	o.answer(ResultCompleted, ReplyInteger, 1)
}

func answerNoRow(o *Outcome) { o.answer(ResultGone, ReplyInteger, 0) }
