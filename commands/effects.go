package commands

import "math"

// Op is one kind of write. There are no others: a verb is a sequence of these, and the interpreter in module/ applies,
// propagates and announces each as the plain command of that name would (WIRE6 §5).
type Op uint8

const (
	// OpHset writes N fields of Key.
	OpHset Op = iota
	// OpHdel removes those of N fields that Key has. Key must exist.
	OpHdel
	// OpZadd adds the job's id to Key at Score.
	OpZadd
	// OpZrem removes the job's id from Key, or from OrElse if Key does not hold it.
	OpZrem
	// OpDel removes Key.
	OpDel
	// OpHincrby adds Values[1] to a counter's `count`; Values[0] is the sum.
	OpHincrby
	NumOps
)

// MaxFields bounds the fields of one HSET or HDEL.
const MaxFields = 5

// ValueKind tells where the bytes of a value are.
type ValueKind uint8

const (
	// ValueConst: the constant number N of ConstText.
	ValueConst ValueKind = iota
	// ValueArg: argument number N, as sent.
	ValueArg
	// ValueInt: N in decimal.
	ValueInt
	// ValueEpoch: the run_id of this server.
	ValueEpoch
)

// Value is the new value of a field.
type Value struct {
	Kind ValueKind
	N    int64
}

// Const is a value or reply that never varies.
type Const uint8

// The constants of this wire.
const (
	ConstPending Const = iota
	ConstActive
	ConstScheduled
	ConstDead
	ConstZero
	ConstOne
	ConstBadAttempts
	ConstStalled
	ConstAudit
	NumConsts
)

// ConstText holds the constants' exact bytes.
var ConstText = [NumConsts]string{
	ConstPending:     "pending",
	ConstActive:      "active",
	ConstScheduled:   "scheduled",
	ConstDead:        "dead",
	ConstZero:        "0",
	ConstOne:         "1",
	ConstBadAttempts: "bad row: attempts is missing or is no integer that can be counted up",
	ConstStalled:     "stalled",
	ConstAudit:       "audit",
}

// Effect is one write, as data. The C mirror is emq_effect.
type Effect struct {
	Values [MaxFields]int64
	// Score is a time in Unix ms, or 0; always exact as a double.
	Score int64
	// Job is the place in Marks of the job whose row the effect changes, or whose id ZADD or ZREM takes.
	Job    int32
	Fields [MaxFields]Field
	Kinds  [MaxFields]ValueKind
	Op     Op
	Key    Key
	OrElse Key
	// N is the number of valid Fields.
	N uint8
	// Changed and Emptied are set by the host: the key that was changed, and whether the change removed it.
	Changed Key
	Emptied bool
}

func (o *Outcome) add(op Op, key Key) *Effect {
	effects := o.Effects[:len(o.Effects)+1]
	o.Effects = effects
	e := &effects[len(effects)-1]
	e.Op, e.Key, e.OrElse, e.N, e.Job = op, key, NoKey, 0, o.job
	return e
}

func (e *Effect) set(f Field, v Value) *Effect {
	e.Fields[e.N], e.Kinds[e.N], e.Values[e.N] = f, v.Kind, v.N
	e.N++
	return e
}

func (o *Outcome) hset() *Effect             { return o.add(OpHset, KeyRow) }
func (o *Outcome) zadd(key Key, score int64) { o.add(OpZadd, key).Score = score }
func (o *Outcome) zrem(key, or Key)          { o.add(OpZrem, key).OrElse = or }
func (o *Outcome) del()                      { o.add(OpDel, KeyRow) }

// hdel removes those of the given fields that the row has.
func (o *Outcome) hdel(fields ...Field) {
	e := o.add(OpHdel, KeyRow)
	for _, f := range fields {
		e.set(f, Value{})
	}
}

// count adds by, which is at least 1, to the counter of the plan's first probe. A counter that HINCRBY could not increment
// is not changed (WIRE6 §4, the holder): it must not keep a job from being settled.
func (o *Outcome) count(c *Call, key Key, by int32) {
	if t := c.Types[key]; t != None && t != Hash {
		return
	}
	n := int64(0)
	if count, there := c.probe(0); there {
		var ok bool
		if n, ok = counter(count); !ok || n > math.MaxInt64-int64(o.Tally.Counted)-int64(by) {
			return
		}
	}
	o.Tally.Counted += by
	e := o.add(OpHincrby, key).set(FieldCount, integer(n+int64(o.Tally.Counted)))
	e.Values[1] = int64(by)
}

// counter reads a number as HINCRBY does, and reports whether 1 can be added to it.
func counter(s string) (int64, bool) {
	digits, negative := s, false
	if len(s) > 1 && s[0] == '-' {
		digits, negative = s[1:], true
	}
	const maxDigits = 19 // of 2^63−1
	if len(digits) == 0 || len(digits) > maxDigits || (digits[0] == '0' && (negative || len(digits) > 1)) {
		return 0, false
	}
	var n uint64
	for i := 0; i < len(digits); i++ {
		d := digits[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint64(d)
	}
	if negative {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n < 1<<63-1
}

func constant(c Const) Value { return Value{ValueConst, int64(c)} }
func integer(n int64) Value  { return Value{ValueInt, n} }
func epoch() Value           { return Value{ValueEpoch, 0} }

// ReplyKind is the shape of a reply.
type ReplyKind int64

const (
	// ReplyInteger: the integer N.
	ReplyInteger ReplyKind = iota
	// ReplyConst: the constant N as a bulk string.
	ReplyConst
	// ReplyOK: the simple string OK.
	ReplyOK
	// ReplyEmpty: an empty array.
	ReplyEmpty
	// ReplyJob: [id, payload, token] of the job that was claimed; payload is null if the row has none. ReplyJobs: an array
	// of them.
	ReplyJob
	ReplyJobs
	// ReplyStatuses: an integer for each job of the list, from Statuses by its result.
	ReplyStatuses
	// ReplyLists: [[ids returned or stalled], [ids buried]].
	ReplyLists
	// ReplyNumbers: a map of the verb's Fields to the first N of Numbers.
	ReplyNumbers
	// ReplyFindings: [the cursor for Scan, [the findings]].
	ReplyFindings
)

// MaxNumbers bounds the numbers of one reply; NoNumber is null there.
const (
	MaxNumbers = 15
	NoNumber   = math.MinInt64
)

// Reply is the reply to a verb that was not refused, as data.
type Reply struct {
	Kind ReplyKind
	N    int64
}

// answer finishes the call.
func (o *Outcome) answer(result Result, kind ReplyKind, n int64) Next {
	o.Result, o.Reply = result, Reply{kind, n}
	return NextFinish
}
