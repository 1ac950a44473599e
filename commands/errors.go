package commands

import "emq/fence"

// Refusal is an entry of the error catalogue.
type Refusal uint8

// The refusals, in the order in which WIRE6 §2 checks them. The server itself adds the wrong number of arguments
// (ERR), OOM and NOPERM before a verb is reached.
const (
	NotRefused Refusal = iota
	RefusedNumkeys
	RefusedKind
	RefusedKey
	RefusedLength
	RefusedWord
	RefusedNumber
	RefusedCursor
	RefusedRate
	RefusedPayload
	RefusedReplica
	RefusedFence
	RefusedType
	RefusedGone
	RefusedScript
	RefusedToken
	RefusedInternal
	NumRefusals
)

// Catalogue is the complete list of the errors of the verbs. The first word of an error reply is its class: it is part of
// the contract, and INFO errorstats counts by it.
var Catalogue = [NumRefusals]struct {
	// Class is the reply's first word.
	Class string
	// When says when the error is returned.
	When string
	// Then says what the caller can do about it.
	Then string
}{
	RefusedNumkeys:  {"ERR", "numkeys is not, byte for byte, the verb's number of keys", "send the count that the verb's table gives"},
	RefusedKind:     {"EMQKIND", "the id does not start with JOB", "mint ids in the JOB namespace"},
	RefusedKey:      {"EMQKEY", "a key, rowprefix or base is not the exact name it must be, or names another queue", "build every name from the one queue"},
	RefusedLength:   {"ERR", "a list has more than 1000 jobs or 100 queues", "send it in parts; some 100 jobs a call serve best"},
	RefusedWord:     {"ERR", "a keyword is not one that the verb knows", "send what the text names, byte for byte"},
	RefusedNumber:   {"ERR", "a number is no canonical decimal integer in its range", "send digits alone, in the range the text names"},
	RefusedCursor:   {"ERR", "the cursor was not returned by EMQ.AUDIT", "start again with 0"},
	RefusedRate:     {"ERR", "of max and duration_ms one is 0 and the other is not", "give both, or 0 for both"},
	RefusedPayload:  {"ERR", "a payload is longer than emq.max-payload-bytes", "store it elsewhere and send where it is"},
	RefusedReplica:  {"READONLY", "the server follows another, writable or not", "send it to the primary"},
	RefusedFence:    {"EMQFENCE", "the store belongs to another wire, or is unclaimed and may not be claimed by this call or this user", "point the client at a store of this wire; see the fence"},
	RefusedType:     {"WRONGTYPE", "a key that the verb needs holds another type", "find who wrote that key"},
	RefusedGone:     {"EMQSTALE", "FAIL or RELEASE of a job that has no row: it was completed or removed", "drop the work; it is settled"},
	RefusedScript:   {"EMQSCRIPT", "the row belongs to a lane (group) or a flow (parent)", "settle it with the lane or flow scripts"},
	RefusedToken:    {"EMQSTALE", "the token is not that of the job's holder: the lease was lost to a later claim, or given back", "drop the work; the job is another's"},
	RefusedInternal: {"ERR", "a fault in the module; no job was changed", "report it with the stack from the server's log"},
}

// HostText numbers the refusals that the host finds outside a decision.
type HostText uint8

const (
	// HostPanicked: a decision panicked (RefusedInternal).
	HostPanicked HostText = iota
	// HostUnclaimed: an unclaimed store could not be claimed (RefusedFence).
	HostUnclaimed
	// HostForked: the verb was called in a forked child of the server, where Go can't run (RefusedInternal).
	HostForked
	// HostUnscanned: SCAN or ZSCAN failed (RefusedInternal).
	HostUnscanned
	NumHostTexts
)

// HostTexts holds the whole texts of those refusals.
var HostTexts = [NumHostTexts]string{
	HostPanicked:  "ERR internal error in the EMQ module: no job was changed, see the server's log",
	HostUnclaimed: "EMQFENCE " + fence.Key + " is absent and could not be claimed with this user's rights",
	HostForked:    "ERR internal error in the EMQ module: its verbs do not run in a forked child",
	HostUnscanned: "ERR SCAN or ZSCAN does not run under its name on this server (see rename-command)",
}

// maxShown is the largest number of bytes of a foreign value that a text shows (WIRE6 §2).
const maxShown = 64

// refuse makes the outcome a refusal, whose text is the concatenation of the parts. A refusal has no effects: those of
// earlier jobs of the same call are dropped too.
//
//go:noinline
func (o *Outcome) refuse(why Refusal, parts ...string) {
	o.Refusal, o.Result, o.Effects, o.Next, o.TextLen = why, resultOf[why], o.Effects[:0], NextFinish, 0
	for _, p := range parts {
		o.text(p)
	}
}

// text appends to a refusal and keeps it NUL-terminated.
func (o *Outcome) text(s string) {
	o.TextLen += int32(copy(o.Text[o.TextLen:MaxText-1], s))
	o.Text[o.TextLen] = 0
}

// show appends foreign bytes to a refusal, truncated and escaped like Go's %q, without the quotes.
func (o *Outcome) show(s string) {
	const hex = "0123456789abcdef"
	cut := len(s) > maxShown
	if cut {
		s = s[:maxShown]
	}
	for i := 0; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			o.text("\\")
			o.text(s[i : i+1])
		case b >= 0x20 && b < 0x7f:
			o.text(s[i : i+1])
		default:
			o.text("\\x")
			o.text(hex[b>>4 : b>>4+1])
			o.text(hex[b&15 : b&15+1])
		}
	}
	if cut {
		o.text("...")
	}
}

// quote appends foreign bytes as show does, in quotes.
func (o *Outcome) quote(s string) {
	o.text(`"`)
	o.show(s)
	o.text(`"`)
}

// refuseKind refuses an id that is no job's.
//
//go:noinline
func (o *Outcome) refuseKind() { o.refuse(RefusedKind, "EMQKIND job id must be JOB-namespaced") }

func (o *Outcome) refuseNumkeys(v *Command, got string) {
	o.refuse(RefusedNumkeys, "ERR numkeys must be ", v.Numkeys(), ", got ")
	o.quote(got)
}

func (o *Outcome) refuseKey(v *Command, c *Call, arg int, queue string) {
	a := v.argAt(arg + 1)
	o.refuse(RefusedKey, "EMQKEY ", a.Name, ` must be "`)
	if queue == "" {
		o.text(basePrefix + "q" + baseEnd)
	} else {
		o.show(queue)
	}
	switch {
	case a.Role == RoleRowPrefix:
		o.text(keySuffix[KeyRow])
	case a.Role == RoleKey && a.Key == KeyRow:
		o.text(keySuffix[KeyRow])
		o.show(c.Args[v.At(RoleID)])
	case a.Role == RoleKey:
		o.text(keySuffix[a.Key])
	}
	o.text(`"`)
	if queue == "" {
		o.text(", with q not empty and without braces and NUL")
	}
	o.text(", got ")
	o.quote(c.Args[arg+1])
}

func (o *Outcome) refuseNumber(a *Arg, got string) {
	o.refuse(RefusedNumber, "ERR ", a.Name, " must be an integer from ", a.Range.minText, " to ", a.Range.maxText, ", got ")
	o.quote(got)
}

func (o *Outcome) refuseLength(a *Arg, most string, n int) {
	o.refuse(RefusedLength, "ERR ", a.Name, " must be given 1 to ", most, " times, got ")
	o.decimal(n)
}

func (o *Outcome) refusePayload(n, most int) {
	o.refuse(RefusedPayload, "ERR payload has ")
	o.decimal(n)
	o.text(" bytes, more than emq.max-payload-bytes (")
	o.decimal(most)
	o.text(")")
}

// decimal appends a number, which must not be negative.
func (o *Outcome) decimal(n int) {
	const digits = "0123456789"
	if n >= 10 {
		o.decimal(n / 10)
	}
	o.text(digits[n%10 : n%10+1])
}

func (o *Outcome) refuseWord(a *Arg, got string) {
	o.refuse(RefusedWord, "ERR ", a.Name, ` must be "`)
	for i, word := range a.Words {
		switch {
		case i > 0 && i == len(a.Words)-1:
			o.text(`" or "`)
		case i > 0:
			o.text(`", "`)
		}
		o.text(word)
	}
	o.text(`", got `)
	o.quote(got)
}

func (o *Outcome) refuseOption(a *Arg, got string) {
	o.refuse(RefusedWord, "ERR ", a.Name, ` must be "`, a.Words[0], `" or left out, got `)
	o.quote(got)
}

func (o *Outcome) refuseCursor(a *Arg, got string) {
	o.refuse(RefusedCursor, "ERR ", a.Name, ` must be "0" or what the last call gave, got `)
	o.quote(got)
}

// Short refusals are not inlined, because that would make the path without a refusal longer.

//go:noinline
func (o *Outcome) refuseReplica() {
	o.refuse(RefusedReplica, "READONLY You can't write against a read only replica.")
}

// refuseForeign refuses a store of another wire.
func (o *Outcome) refuseForeign(c *Call) {
	o.refuse(RefusedFence, "EMQFENCE "+fence.Key+" is ")
	if c.IdentityType == String {
		o.quote(c.Identity)
	} else {
		o.text("a ")
		o.text(c.IdentityType.String())
	}
	o.text(`, this executor speaks "` + fence.Identity + `"`)
}

// refuseUnclaimed refuses a store that holds the given kind of key under no identity.
//
//go:noinline
func (o *Outcome) refuseUnclaimed(what string) {
	o.refuse(RefusedFence, "EMQFENCE "+fence.Key+" is absent, yet ", what,
		` is there; this executor speaks "`+fence.Identity+`"`)
}

// refuseType returns false, for the check that has failed.
//
//go:noinline
func (o *Outcome) refuseType() bool {
	o.refuse(RefusedType, "WRONGTYPE Operation against a key holding the wrong kind of value")
	return false
}

//go:noinline
func (o *Outcome) refuseGone() { o.refuse(RefusedGone, "EMQSTALE job gone") }

//go:noinline
func (o *Outcome) refuseToken(verb string) {
	o.refuse(RefusedToken, "EMQSTALE ", verb, " token mismatch")
}

//go:noinline
func (o *Outcome) refuseScript(f Field) {
	o.refuse(RefusedScript, "EMQSCRIPT the row has a ", FieldName[f], ": settle it with the scripts that own it")
}
