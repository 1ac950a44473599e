package commands

import (
	"math/bits"
	"strconv"
	"strings"

	"emq/lease"
)

// EMQ.AUDIT base cursor count [FIX]
//
//	Keys     pending, active, schedule, dead, meta; the row of each entry that is looked at
//	Reply    [next cursor, [[finding, id, where, remedy, 1 if it was applied], …]]
//	Effects  with FIX: ZREM of the sets that the id is to leave · HSET row [state] [lease_epoch] [last_error] · ZADD of the
//	         one that it is to be in; HDEL meta of what is broken there
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §1, §4, §7.5
//
// A job is where it should be if its id is in the one set that its state names. The audit goes through the four sets
// and then through the rows, as far in each call as one of the server's own scans; what it decides on an entry, it
// decides on what is there now. Rows of lanes (group) are their scripts' and are passed over. The call that begins the
// audit looks at the gates as well.
const tokenFix = "FIX"

// Scan is a part of the audit: the place in the server's scan of a set, or of the rows.
type Scan struct {
	// At is the server's cursor.
	At uint64
	// Key is the set, KeyRow for the rows, or NoKey if the audit is at its end.
	Key Key
}

// audited are the parts of the audit in their order.
var audited = [...]Key{KeyPending, KeyActive, KeySchedule, KeyDead, KeyRow}

// parseScan reads a cursor: 0, or the word of the part, a colon and the server's cursor.
func parseScan(cursor string) (Scan, bool) {
	if cursor == "0" {
		return Scan{Key: audited[0]}, true
	}
	part, digits, _ := strings.Cut(cursor, ":")
	at, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || digits[0] == '+' || digits[0] == '0' && len(digits) > 1 {
		return Scan{}, false
	}
	for _, key := range audited {
		if part == WordText[AuditParts[key]] {
			return Scan{at, key}, true
		}
	}
	return Scan{}, false
}

// next is where the audit continues after the server's scan has returned a cursor.
func (s Scan) next(at uint64) Scan {
	if at != 0 {
		return Scan{at, s.Key}
	}
	for i, key := range audited[:len(audited)-1] {
		if key == s.Key {
			return Scan{Key: audited[i+1]}
		}
	}
	return Scan{Key: NoKey}
}

// Word is a word of the audit's reply.
type Word uint8

// What was found, where, and the remedy.
const (
	NoWord Word = iota
	WordNoJob
	WordNoRow
	WordNoHash
	WordAttempts
	WordTwoSets
	WordState
	WordNoSet
	WordGate
	WordPending
	WordActive
	WordSchedule
	WordDead
	WordRows
	WordMeta
	WordDrop
	WordLeave
	NumWords
)

// WordText holds the words' exact bytes.
var WordText = [NumWords]string{
	WordNoJob:    "no-job",
	WordNoRow:    "no-row",
	WordNoHash:   "no-hash",
	WordAttempts: "attempts",
	WordTwoSets:  "two-sets",
	WordState:    "state",
	WordNoSet:    "no-set",
	WordGate:     "gate",
	WordPending:  "pending",
	WordActive:   "active",
	WordSchedule: "schedule",
	WordDead:     "dead",
	WordRows:     "rows",
	WordMeta:     "meta",
	WordDrop:     "drop",
	WordLeave:    "leave",
}

// AuditParts names the parts of the audit.
var AuditParts = [NumKeys]Word{
	KeyRow: WordRows, KeyPending: WordPending, KeyActive: WordActive, KeySchedule: WordSchedule, KeyDead: WordDead,
}

// Finding is one thing that is wrong. The C mirror is emq_finding.
type Finding struct {
	What, Where, Remedy Word
	Applied             bool
}

// admitAudit makes the checks, and then asks for the scan.
func (v *Command) admitAudit(c *Call, o *Outcome) bool {
	sets := audited[:len(audited)-1]
	if !c.admit(o, answerNoFindings, v.Plan.Keys...) || !c.typed(o, sets...) {
		return false
	}
	if !c.Scanned {
		o.Next, o.Scan = NextScan, v.part(c)
	}
	return c.Scanned
}

// part is the part of the audit that the cursor names.
func (v *Command) part(c *Call) Scan {
	scan, _ := parseScan(v.arg(c, RoleCursor))
	return scan
}

func (v *Command) decideAudit(c *Call, j *Job, o *Outcome) Next {
	if at := v.part(c).Key; at == KeyRow {
		v.auditRow(c, j, o)
	} else {
		v.auditEntry(c, j, o, at)
	}
	return NextMore
}

func (v *Command) finishAudit(c *Call, o *Outcome) {
	part := v.part(c)
	if part == (Scan{Key: audited[0]}) {
		v.auditGates(c, o)
	}
	o.Scan = part.next(c.ScannedTo)
	answerFindings(o)
}

// auditGates looks at meta. With FIX, broken gates are removed; a meta that is not a hash is not ours to remove.
func (v *Command) auditGates(c *Call, o *Outcome) {
	t := c.Types[KeyMeta]
	if t != None && t != Hash {
		o.Gates = Finding{What: WordNoHash, Where: WordMeta, Remedy: WordLeave}
		o.Tally.Taken++
		return
	}
	broken := c.brokenGates()
	if broken == 0 {
		return
	}
	o.Gates, o.BrokenGates = Finding{WordGate, WordMeta, WordDrop, v.fixes(c)}, broken
	o.Tally.Taken += int32(bits.OnesCount32(broken))
	if !o.Gates.Applied {
		return
	}
	e := o.add(OpHdel, KeyMeta)
	for i, probe := range gateProbes {
		if broken&(1<<i) == 0 {
			continue
		}
		if e.N == MaxFields {
			e = o.add(OpHdel, KeyMeta)
		}
		e.set(probe.Field, Value{})
	}
}

// answerFindings replies with the next cursor and the findings.
func answerFindings(o *Outcome) {
	result := ResultClean
	if o.Tally.Taken > 0 {
		result = ResultFound
	}
	o.answer(result, ReplyFindings, 0)
}

// answerNoFindings replies that the audit is at its end.
func answerNoFindings(o *Outcome) {
	o.Scan.Key = NoKey
	answerFindings(o)
}

// auditEntry looks at one entry of a set.
func (v *Command) auditEntry(c *Call, j *Job, o *Outcome, at Key) {
	switch {
	case !j.in(at): // it was removed after the scan
	case !IsJob(j.ID):
		v.dropEntry(c, o, WordNoJob, at)
	case j.Type == None:
		v.dropEntry(c, o, WordNoRow, at)
	case j.Type != Hash:
		v.dropEntry(c, o, WordNoHash, at)
	case !j.has(FieldGroup):
		v.repair(c, j, o, at)
	}
}

// auditRow looks at a row whose job is in no set; the others are audited in their sets. A key whose id has a colon may
// not be a row, because scripts of other clients of the wire keep keys of their own under such names.
func (v *Command) auditRow(c *Call, j *Job, o *Outcome) {
	colon := strings.IndexByte(j.ID, ':') >= 0
	switch {
	case j.Member != 0 || j.Type == None || j.has(FieldGroup):
	case j.Type != Hash:
		if IsJob(j.ID) && !colon {
			v.find(c, o, Finding{What: WordNoHash, Where: WordRows, Remedy: WordLeave})
		}
	case colon && !j.has(FieldState):
	case !IsJob(j.ID):
		v.find(c, o, Finding{What: WordNoJob, Where: WordRows, Remedy: WordLeave})
	default:
		v.repair(c, j, o, KeyRow)
	}
}

// fixes reports whether the call repairs what it finds.
func (v *Command) fixes(c *Call) bool { return v.arg(c, RoleOption) == tokenFix }

// find notes a finding, and reports whether to apply its remedy.
func (v *Command) find(c *Call, o *Outcome, f Finding) bool {
	f.Applied = v.fixes(c) && f.Remedy != WordLeave
	m := o.mark()
	m.Finding, m.Disposition = f, Reported
	o.Tally.Taken++
	if f.Applied {
		m.Disposition = Repaired
		o.Tally.Moved++
	}
	return f.Applied
}

func (v *Command) dropEntry(c *Call, o *Outcome, what Word, at Key) {
	if v.find(c, o, Finding{what, AuditParts[at], WordDrop, false}) {
		o.zrem(at, NoKey)
	}
}

// repair looks at a job that was found in a set, or in none (KeyRow). Its remedy leaves the id only in the set where it
// belongs, and sets the state accordingly.
func (v *Command) repair(c *Call, j *Job, o *Outcome, at Key) {
	to, what := j.place(), WordState
	switch named := j.home(NoKey); {
	case to == at && named == to:
		return // if other sets hold it too, the audit of those sets finds it
	case j.Member == 0:
		what = WordNoSet
	case !j.sound() && named != KeyDead || named == KeyActive && !j.claimed():
		what = WordAttempts
	case j.Member&(j.Member-1) != 0:
		what = WordTwoSets
	}
	if to == NoKey {
		v.find(c, o, Finding{what, AuditParts[at], WordLeave, false})
		return
	}
	if !v.find(c, o, Finding{what, AuditParts[at], AuditParts[to], false}) {
		return
	}
	for _, set := range audited[:len(audited)-1] {
		if set != to && j.in(set) {
			o.zrem(set, NoKey)
		}
	}
	if unsaid, lapsed := j.home(NoKey) != to, to == KeyActive && !j.in(to); unsaid || lapsed {
		row := o.hset()
		if unsaid {
			row.set(FieldState, constant(stateIn[to]))
		}
		if lapsed { // the deadline is not the one of the holder's lease, so its expiry must not count as a lost lease
			row.set(FieldLeaseEpoch, constant(ConstAudit))
		}
		if unsaid && !j.sound() {
			row.set(FieldLastError, constant(ConstBadAttempts))
		}
	}
	if !j.in(to) {
		score := int64(0)
		if to == KeyActive || to == KeySchedule {
			score = c.Now
		}
		o.zadd(to, score)
	}
}

// stateIn is the state of a job in each set.
var stateIn = [NumKeys]Const{
	KeyPending: ConstPending, KeyActive: ConstActive, KeySchedule: ConstScheduled, KeyDead: ConstDead,
}

// claimed reports whether the job was ever claimed, so that it may have a holder.
func (j *Job) claimed() bool {
	token, ok := lease.Decimal(j.field(FieldAttempts))
	return ok && token > 0
}

// sound reports whether the job can be claimed, or has a holder: the largest token can't be incremented, but may be held.
func (j *Job) sound() bool {
	attempts := j.field(FieldAttempts)
	_, ok := lease.NextToken(attempts)
	return ok || lease.Held(j.field(FieldState), attempts, attempts, j.has(FieldLeaseEpoch))
}

// place is the set in which a job belongs, or NoKey if only the scripts that own it know. If set and state disagree, the set
// counts, as it does for the verbs, except that no holder may lose its job (WIRE6 §4, the holder): an active job is put into
// active with an expired lease of another server, so that REAP returns it without counting, while the holder may still
// settle it.
func (j *Job) place() Key {
	named, returned := j.home(NoKey), j.has(FieldLeaseEpoch)
	switch {
	case !j.sound(): // as CLAIM does
		return KeyDead
	case named == KeyActive && !j.claimed(): // nobody can hold it
		return KeyPending
	case j.Member == 0 && named == NoKey && j.field(FieldState) != "":
		return NoKey // a state that the scripts of another client use: the job may be waiting for something
	case j.Member == 0 && named == NoKey:
		return KeyPending
	case j.Member == 0 || j.in(named):
		return named
	case named == KeyActive && !(j.in(KeyPending) && returned):
		return KeyActive
	case named == KeyPending && returned && j.claimed():
		return KeyPending
	case j.in(KeyPending):
		return KeyPending
	case j.in(KeyActive) && named == NoKey && j.claimed():
		return KeyActive
	case j.in(KeyActive): // as REAP does
		return KeyPending
	case j.in(KeySchedule):
		return KeySchedule
	default:
		return KeyDead
	}
}
