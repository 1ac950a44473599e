package commands

import (
	"strconv"
	"strings"

	"emq/lease"
)

// EMQ.AUDIT base cursor count [FIX]
//
//	Keys     pending, active, schedule, dead; the row of each entry that is looked at
//	Reply    [next cursor, [[finding, id, where, remedy, 1 if it was applied], …]]
//	Effects  with FIX: ZREM of the sets that the id is to leave · HSET row [state] [lease_epoch] [last_error] · ZADD of the
//	         one that it is to be in
//	Refuses  ERR, EMQKEY, READONLY, EMQFENCE, WRONGTYPE
//	See      WIRE6 §1, §4
//
// A job is where it should be if its id is in the one set that its state names. The audit goes through the four sets and
// then through the rows, as far in each call as one of the server's own scans; what it decides on an entry, it decides on
// what is there now. Rows of lanes (group) are their scripts' and are passed over.
const (
	auditCursor = 2
	AuditCount  = 3 // the host hands it to the scan as it is
	auditFix    = 4

	tokenFix = "FIX"
)

// Scan is a part of the audit: the place in the server's scan of a set, or of the rows.
type Scan struct {
	// At is the server's cursor.
	At uint64
	// Key is the set; KeyRow for the rows; NoKey when the audit is at its end.
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

// next is the part that comes when the server's scan has come to a cursor of its own.
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

// What is found, where, and what is to be done about it.
const (
	NoWord Word = iota
	WordNoJob
	WordNoRow
	WordNoHash
	WordAttempts
	WordTwoSets
	WordState
	WordNoSet
	WordPending
	WordActive
	WordSchedule
	WordDead
	WordRows
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
	WordPending:  "pending",
	WordActive:   "active",
	WordSchedule: "schedule",
	WordDead:     "dead",
	WordRows:     "rows",
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

func decideAudit(r *Request, o *Outcome) {
	scan, _ := parseScan(r.Args[auditCursor])
	if sets := audited[:len(audited)-1]; !r.admitQueue(o, sets, answerAudited) || !r.typed(o, sets...) {
		return
	}
	switch {
	case !r.Scanned:
		o.Next, o.Scan = MakeScan, scan
	case r.HasEntry:
		o.Next = NextEntry
		r.audit(o, scan.Key)
	default:
		o.Scan = scan.next(r.ScannedTo)
		answerAudited(o)
	}
}

// answerAudited gives the next cursor and what was found.
func answerAudited(o *Outcome) {
	result := ResultClean
	if o.Tally.Taken > 0 {
		result = ResultFound
	}
	o.answer(result, ReplyAudit, 0)
}

// audit looks at one entry of a set, or at one row.
func (r *Request) audit(o *Outcome, at Key) {
	if at == KeyRow {
		r.auditRow(o)
		return
	}
	switch {
	case r.Member&(1<<at) == 0: // it has gone since it was scanned
	case !IsJob(r.Entry):
		r.dropEntry(o, WordNoJob, at)
	case r.Types[KeyRow] == None:
		r.dropEntry(o, WordNoRow, at)
	case r.Types[KeyRow] != Hash:
		r.dropEntry(o, WordNoHash, at)
	case !r.has(FieldGroup):
		r.putRight(o, at)
	}
}

// auditRow looks at a row that no set holds; the others are looked at in their sets. A key under a row's name with a
// further colon may be no row: other speakers' scripts keep some there.
func (r *Request) auditRow(o *Outcome) {
	colon := strings.IndexByte(r.Entry, ':') >= 0
	switch {
	case r.Member != 0 || r.Types[KeyRow] == None || r.has(FieldGroup):
	case r.Types[KeyRow] != Hash:
		if IsJob(r.Entry) && !colon {
			r.find(o, Finding{What: WordNoHash, Where: WordRows, Remedy: WordLeave})
		}
	case colon && !r.has(FieldState):
	case !IsJob(r.Entry):
		r.find(o, Finding{What: WordNoJob, Where: WordRows, Remedy: WordLeave})
	default:
		r.putRight(o, KeyRow)
	}
}

// find notes a finding, and reports whether its remedy is to be applied.
func (r *Request) find(o *Outcome, f Finding) bool {
	f.Applied = r.Args[auditFix] == tokenFix && f.Remedy != WordLeave
	o.Finding, o.Fate = f, Reported
	o.Tally.Taken++
	if f.Applied {
		o.Fate = Repaired
		o.Tally.Moved++
	}
	return f.Applied
}

func (r *Request) dropEntry(o *Outcome, what Word, at Key) {
	if r.find(o, Finding{what, AuditParts[at], WordDrop, false}) {
		o.zrem(at, NoKey)
	}
}

// putRight looks at a job that was met in a set, or in none (KeyRow), and has its id in the one set where it is to be
// and its state say so.
func (r *Request) putRight(o *Outcome, at Key) {
	to, what := r.place(), WordState
	switch named := r.home(NoKey); {
	case to == at && named == to:
		return // the other sets that hold it, if any, are where that is found
	case r.Member == 0:
		what = WordNoSet
	case !r.sound() && named != KeyDead || named == KeyActive && !r.claimed():
		what = WordAttempts
	case r.Member&(r.Member-1) != 0:
		what = WordTwoSets
	}
	if to == NoKey {
		r.find(o, Finding{what, AuditParts[at], WordLeave, false})
		return
	}
	if !r.find(o, Finding{what, AuditParts[at], AuditParts[to], false}) {
		return
	}
	for _, set := range audited[:len(audited)-1] {
		if set != to && r.Member&(1<<set) != 0 {
			o.zrem(set, NoKey)
		}
	}
	if unsaid, lapsed := r.home(NoKey) != to, to == KeyActive && r.Member&(1<<to) == 0; unsaid || lapsed {
		row := o.hset(KeyRow)
		if unsaid {
			row.set(state(stateIn[to]))
		}
		if lapsed { // the deadline is ours, not the holder's: it must not count as a lost lease
			row.set(FieldLeaseEpoch, constant(ConstAudit))
		}
		if unsaid && !r.sound() {
			row.set(FieldLastError, constant(ConstBadAttempts))
		}
	}
	if r.Member&(1<<to) == 0 {
		score := int64(0)
		if to == KeyActive || to == KeySchedule {
			score = r.Now
		}
		o.zadd(to, score)
	}
}

// stateIn is the state of a job in each set.
var stateIn = [NumKeys]Const{
	KeyPending: ConstPending, KeyActive: ConstActive, KeySchedule: ConstScheduled, KeyDead: ConstDead,
}

// claimed tells that the job was claimed, so that there may be a holder.
func (r *Request) claimed() bool {
	token, ok := lease.Decimal(r.Row[FieldAttempts])
	return ok && token > 0
}

// sound tells that the job can be claimed, or has a holder: the last token of all can't be counted up, and is one.
func (r *Request) sound() bool {
	attempts := r.Row[FieldAttempts]
	_, ok := lease.NextToken(attempts)
	return ok || lease.Held(r.Row[FieldState], attempts, attempts, r.has(FieldLeaseEpoch))
}

// place is the set in which a job is to be; NoKey where only others can know. Where set and state disagree it is the set
// that counts, as it does for the verbs, but no holder loses its job by it (WIRE6 §4, the holder): an active job is put
// into active as one whose lease of another server has lapsed, so that REAP takes it back, uncounted, while the holder may
// still settle it.
func (r *Request) place() Key {
	in := func(set Key) bool { return r.Member&(1<<set) != 0 }
	named, returned := r.home(NoKey), r.has(FieldLeaseEpoch)
	switch {
	case !r.sound(): // as CLAIM does
		return KeyDead
	case named == KeyActive && !r.claimed(): // nobody can hold it
		return KeyPending
	case r.Member == 0 && named == NoKey && r.Row[FieldState] != "":
		return NoKey // a state of other speakers' scripts: the job may be waiting for something
	case r.Member == 0 && named == NoKey:
		return KeyPending
	case r.Member == 0 || in(named):
		return named
	case named == KeyActive && !(in(KeyPending) && returned):
		return KeyActive
	case named == KeyPending && returned && r.claimed():
		return KeyPending
	case in(KeyPending):
		return KeyPending
	case in(KeyActive) && named == NoKey && r.claimed():
		return KeyActive
	case in(KeyActive): // as REAP does
		return KeyPending
	case in(KeySchedule):
		return KeySchedule
	default:
		return KeyDead
	}
}
