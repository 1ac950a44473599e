package commands

import "math"

// Op is one kind of write. The set is closed: a verb is a sequence of these, and the one interpreter in module/
// applies, propagates and announces each as the plain command of that name would (WIRE6 §5).
type Op uint8

const (
	// OpSet claims the store's identity: SET fence.Key fence.Identity NX with the caller's own rights. It is the only
	// effect that can fail, so it comes first: if it does, nothing was written; if not, the host reads and decides anew,
	// in the same atomic step, on a store that is now ours.
	OpSet Op = iota
	// OpHSet writes N fields of Key.
	OpHSet
	// OpHDel removes those of N fields that Key has. Key must be there.
	OpHDel
	// OpZAdd adds the job's id to Key at Score.
	OpZAdd
	// OpZRem removes the job's id from Key, or from Else if Key does not hold it.
	OpZRem
	// OpDel removes Key.
	OpDel
	// OpHIncrBy adds 1 to a counter's `count`; Values[0] is the sum.
	OpHIncrBy
)

// MaxFields bounds the fields of one HSET or HDEL.
const MaxFields = 4

// ValueKind tells where the bytes of a value are.
type ValueKind int64

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

// Effect is one write, as data. The id of a ZADD or ZREM is that of the job decided on: the id argument, or the entry.
// The C mirror is emq_effect.
type Effect struct {
	Values [MaxFields]Value
	// Score is a time in Unix ms, or 0; always exact as a double.
	Score  int64
	Fields [MaxFields]Field
	Op     Op
	Key    Key
	Else   Key
	N      uint8
	_      [2]uint8 // the interpreter's own notes
}

func (o *Outcome) add(op Op, key Key) *Effect {
	e := &o.Effects[o.NumEffects]
	o.NumEffects++
	e.Op, e.Key, e.Else, e.N = op, key, NoKey, 0
	return e
}

func (e *Effect) set(f Field, v Value) *Effect {
	e.Fields[e.N], e.Values[e.N] = f, v
	e.N++
	return e
}

func (o *Outcome) claimIdentity()            { o.add(OpSet, NoKey) }
func (o *Outcome) hset(key Key) *Effect      { return o.add(OpHSet, key) }
func (o *Outcome) zadd(key Key, score int64) { o.add(OpZAdd, key).Score = score }
func (o *Outcome) zrem(key, or Key)          { o.add(OpZRem, key).Else = or }
func (o *Outcome) del(key Key)               { o.add(OpDel, key) }

// hdel removes those of the given fields that are there, if any.
func (o *Outcome) hdel(key Key, fields ...Field) {
	e := o.add(OpHDel, key)
	for _, f := range fields {
		e.set(f, Value{})
	}
}

// count adds 1 to a counter where HINCRBY would; a counter that cannot be incremented is left alone (WIRE6 §4, the
// holder): it must not keep a job from being settled.
func (o *Outcome) count(r *Request, key Key) {
	if t := r.Types[key]; t != None && t != Hash {
		return
	}
	n := int64(0)
	if r.HasCount {
		var ok bool
		if n, ok = counter(r.Count); !ok || n >= math.MaxInt64-int64(o.Tally.Counted) {
			return
		}
	}
	o.Tally.Counted++
	o.add(OpHIncrBy, key).set(FieldCount, integer(n+int64(o.Tally.Counted)))
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

func constant(c Const) Value       { return Value{ValueConst, int64(c)} }
func argument(i int) Value         { return Value{ValueArg, int64(i)} }
func integer(n int64) Value        { return Value{ValueInt, n} }
func epoch() Value                 { return Value{ValueEpoch, 0} }
func state(c Const) (Field, Value) { return FieldState, constant(c) }

// ReplyKind is the shape of a reply.
type ReplyKind int64

const (
	// ReplyInteger: the integer N.
	ReplyInteger ReplyKind = iota
	// ReplyConst: the constant N as a bulk string.
	ReplyConst
	// ReplyJob: [id, payload, N] of the entry decided on; payload is null if the row has none.
	ReplyJob
	// ReplyEmpty: an empty array.
	ReplyEmpty
	// ReplyReaped: [[ids returned], [ids buried]] of the entries that were walked.
	ReplyReaped
	// ReplyNumbers: a map of the verb's Fields to the first N of Numbers.
	ReplyNumbers
	// ReplyAudit: [the cursor for Scan, [the findings]].
	ReplyAudit
)

// MaxNumbers bounds the numbers of one reply; NoNumber is null there.
const (
	MaxNumbers = 9
	NoNumber   = math.MinInt64
)

// Reply is the answer to a verb that was not refused, as data.
type Reply struct {
	Kind ReplyKind
	N    int64
}

func (o *Outcome) answer(result Result, kind ReplyKind, n int64) {
	o.Result, o.Reply = result, Reply{kind, n}
}
