package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// ledger records what the clients of a load asked for and what they were promised. Compared with a store after a fault,
// it shows whether a promise was broken.
//
// A request without a reply may have been executed or not. A reply is a promise when it arrives or, depending on the
// load, when a replica has confirmed it (crowd.confirm).
type ledger struct {
	sync.Mutex
	clock  func() time.Time
	deeds  int64 // what the clients did so far; orders a request after an answer
	kept   int   // replies that are promises
	jobs   map[string]*job
	broken [breaches]map[string]bool // by id, or by what was found where there is none
	wrong  []string                  // each of them in words

	// What a load must have met to be conclusive: the kinds of replies to settlements, the number of late ones, and the
	// number of requests without a reply.
	answers     map[answer]int
	late, doubt int
}

// breach is a kind of broken promise. Each has a column in the table that `make proof` prints.
type breach int

const (
	lost       breach = iota // promised to be there, gone, and no COMPLETE can have taken it
	doubled                  // back after its end, ended twice, held by two at once, or settled by a former holder
	robbed                   // refused to its holder before the end of the lease
	stranded                 // not in the one set that its state names, or left in a drained queue
	miscounted               // a counter that is not the number of the jobs that ended so
	odd                      // a reply that no client of the load may get
	breaches
)

var breachNames = [breaches]string{"lost", "doubled", "robbed", "stranded", "miscounted", "odd"}

// job is one id.
type job struct {
	promised  moment   // to exist
	completes int      // requests to complete it that were executed, or may have been
	completed bool     // one of them was answered 1
	ended     moment   // promised to be completed or dead
	dead      bool     // that end is the dead set
	grants    []*grant // claims that got a reply
}

// grant is the reply to one claim.
type grant struct {
	token   int64
	came    moment
	kept    bool
	until   time.Time // the lease lasts at least until then, by all that the holder knows
	settled moment    // the first COMPLETE or FAIL went out: from here on the lease may be over
	fails   int       // requests to fail that were executed, or may have been
	failed  moment    // one of them was executed: the lease was given back
}

// moment is the place of an event in the order of what the clients did, and its time. The clock is also the servers',
// since all run on one machine, so that setting it does not make a lease seem to end early.
type moment struct {
	n  int64
	at time.Time
}

func (m moment) never() bool          { return m.n == 0 }
func (m moment) before(o moment) bool { return !m.never() && m.n < o.n }
func (m moment) lease(ms int64) time.Time {
	return m.at.Add(time.Duration(ms)*time.Millisecond - slack)
}

// slack is by how much a lease may seem too short: a server's clock has no fractions of a millisecond.
const slack = 2 * time.Millisecond

// claim is a job that a worker holds or, if grant is nil, pretends to hold.
type claim struct {
	id    string
	token int64
	grant *grant
}

// verb is a settlement verb, by its word in a refusal.
type verb string

const (
	complete verb = "complete"
	fail     verb = "retry"
	extend   verb = "extend"
)

// settlement is a request to settle that was sent.
type settlement struct {
	verb
	claim
	sent  moment
	lease int64 // for EXTEND, in ms
}

// outcome is the result of a settlement.
type outcome int

const (
	unanswered outcome = iota
	done               // carried out
	over               // executed, and the job is completed or dead
	gone               // there is no such job
	refused            // because the caller is not the holder
	unheard            // anything else
)

// answer is a kind of reply to a settlement.
type answer struct {
	verb
	outcome
}

func (v verb) outcome(reply any) outcome {
	if refusal, ok := reply.(error); ok {
		switch refusal.Error() {
		case "EMQSTALE " + string(v) + " token mismatch":
			return refused
		case "EMQSTALE job gone":
			if v == fail {
				return gone
			}
		}
		return unheard
	}
	can := map[verb]map[any]outcome{
		complete: {int64(1): over, int64(0): gone},
		fail:     {"scheduled": done, "dead": over},
		extend:   {int64(1): done, int64(-1): gone},
	}[v]
	if _, list := reply.([]any); list || can[reply] == unanswered {
		return unheard
	}
	return can[reply]
}

func newLedger() *ledger {
	l := &ledger{clock: func() time.Time { return time.Now().Round(0) }, jobs: map[string]*job{}, answers: map[answer]int{}}
	for b := range l.broken {
		l.broken[b] = map[string]bool{}
	}
	return l
}

// now is the next moment. The lock must be held.
func (l *ledger) now() moment { l.deeds++; return moment{l.deeds, l.clock()} }

// send notes that a request is sent.
func (l *ledger) send() moment {
	l.Lock()
	defer l.Unlock()
	return l.now()
}

// job returns the entry of an id. The lock must be held.
func (l *ledger) job(id string) *job {
	j := l.jobs[id]
	if j == nil {
		j = &job{}
		l.jobs[id] = j
	}
	return j
}

// note writes a broken promise down. The lock must be held.
func (l *ledger) note(b breach, id, format string, args ...any) {
	l.broken[b][id] = true
	l.wrong = append(l.wrong, id+": "+breachNames[b]+": "+fmt.Sprintf(format, args...))
}

// enqueued notes a reply to ENQUEUE.
func (l *ledger) enqueued(id string, reply any, kept bool) {
	l.Lock()
	defer l.Unlock()
	j := l.job(id)
	switch {
	case reply != int64(1):
		l.note(odd, id, "a new id was enqueued: %v", reply)
	case kept:
		j.promised = l.now()
		l.kept++
	}
}

// granted notes a reply to CLAIM. A token must be granted only once, and a job neither after its end nor while somebody
// holds it.
func (l *ledger) granted(id string, token int64, sent moment, lease int64, kept bool) claim {
	l.Lock()
	defer l.Unlock()
	j := l.job(id)
	g := &grant{token: token, came: l.now(), kept: kept, until: sent.lease(lease)}
	if j.ended.before(sent) {
		l.note(doubled, id, "claimed with token %d after its end", token)
	}
	for _, e := range j.grants {
		// A grant that was not promised may be lost with its primary, and repeated by the next one.
		if e.token == token && e.kept && (kept || e.came.before(sent)) {
			l.note(doubled, id, "token %d was granted twice", token)
		}
		if e.token > token && e.kept && e.came.before(sent) {
			l.note(doubled, id, "token %d was granted after %d", token, e.token)
		}
	}
	j.grants = append(j.grants, g)
	l.apart(id, j, g)
	if kept {
		l.kept++
		if j.promised.never() {
			j.promised = g.came
		}
	}
	return claim{id, token, g}
}

// apart checks that this grant does not make two holders at once: that no claim got a reply before the lease of an
// earlier token can have ended, unless its holder had asked to settle. The lock must be held.
func (l *ledger) apart(id string, j *job, by *grant) {
	for _, g := range j.grants {
		a, b := g, by
		if a.token > b.token {
			a, b = b, a
		}
		if a.kept && a.token < b.token && b.came.at.Before(a.until) && (a.settled.never() || b.came.before(a.settled)) {
			l.note(doubled, id, "token %d was granted while %d had %v of its lease left", b.token, a.token, a.until.Sub(b.came.at))
		}
	}
}

// settling notes that a settlement is sent. An EXTEND may also shorten the lease.
func (l *ledger) settling(v verb, held claim, lease int64) settlement {
	l.Lock()
	defer l.Unlock()
	s := settlement{v, held, l.now(), lease}
	if v == complete {
		l.job(held.id).completes++
	}
	g := held.grant
	if g == nil {
		return s
	}
	if end := s.sent.lease(lease); v == extend && end.Before(g.until) {
		g.until = end
	}
	if v != extend && g.settled.never() {
		g.settled = s.sent
	}
	if v == fail {
		g.fails++
	}
	return s
}

// answered notes the reply to a settlement.
func (l *ledger) answered(s settlement, reply any, kept bool) outcome {
	l.Lock()
	defer l.Unlock()
	j, came, is := l.job(s.id), l.now(), s.outcome(reply)
	l.answers[answer{s.verb, is}]++
	switch is {
	case done, over:
		l.carriedOut(j, s, is, kept)
		if is == over && kept {
			j.ended = came
		}
		if kept {
			l.kept++
		}
		return is
	case unheard:
		l.note(odd, s.id, "%s with token %d was answered %v", s.verb, s.token, reply)
		return is
	}
	if s.verb == complete {
		j.completes-- // it was none of those that took the job
	}
	if s.verb == fail && s.grant != nil {
		s.grant.fails--
	}
	switch {
	case is == gone && j.completes == 0 && !j.promised.never():
		l.note(lost, s.id, "gone, as %s says, and nobody else had asked to complete it", s.verb)
	case is == gone && s.verb == complete && kept:
		j.ended = came
		l.kept++
	case is == refused && s.grant != nil && !j.gaveBack(s.token):
		l.late++
		if left := s.grant.until.Sub(came.at); s.grant.kept && left > 0 {
			l.note(robbed, s.id, "%s with token %d was refused %v before the end of the lease", s.verb, s.token, left)
		}
	}
	return is
}

// carriedOut compares an executed settlement with the grants: only the holder's may be executed. The lock must be held.
func (l *ledger) carriedOut(j *job, s settlement, is outcome, kept bool) {
	for _, g := range j.grants {
		if g.token > s.token && g.kept && g.came.before(s.sent) {
			l.note(doubled, s.id, "%s with token %d after %d was granted", s.verb, s.token, g.token)
		}
		if g.token == s.token && g.failed.before(s.sent) {
			l.note(doubled, s.id, "%s with token %d after that was given back", s.verb, s.token)
		}
	}
	if is == over && (j.dead || j.completed) {
		l.note(doubled, s.id, "ended twice")
	}
	if !kept {
		return
	}
	switch s.verb {
	case complete:
		j.completed = true
	case fail:
		j.dead = j.dead || is == over
		if s.grant != nil {
			s.grant.failed = l.now()
		}
	case extend:
		if s.grant != nil {
			s.grant.until = s.sent.lease(s.lease)
			l.apart(s.id, j, s.grant)
		}
	}
}

// gaveBack reports whether a FAIL may have ended the lease of a token.
func (j *job) gaveBack(token int64) bool {
	return slices.ContainsFunc(j.grants, func(g *grant) bool { return g.token == token && g.fails > 0 })
}

// unanswered notes that a request got no reply.
func (l *ledger) unanswered() {
	l.Lock()
	defer l.Unlock()
	l.doubt++
}

// unexpected notes a reply that no client of the load may get.
func (l *ledger) unexpected(args []string, what any) {
	l.Lock()
	defer l.Unlock()
	l.note(odd, wire.Line(args), "%v", what)
}

// missing are the kinds of replies that the load has not met.
func (l *ledger) missing() (kinds []answer) {
	l.Lock()
	defer l.Unlock()
	for _, kind := range []answer{
		{complete, over}, {complete, refused}, {fail, done}, {fail, over}, {fail, refused}, {extend, done}, {extend, refused},
	} {
		if l.answers[kind] == 0 {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// count reads one of the ledger's numbers while the load is running.
func (l *ledger) count(number *int) int {
	l.Lock()
	defer l.Unlock()
	return *number
}

// findings is the number of broken promises so far.
func (l *ledger) findings() int {
	l.Lock()
	defer l.Unlock()
	return len(l.wrong)
}

// copy returns the promises as they are now.
func (l *ledger) copy() map[string]job {
	l.Lock()
	defer l.Unlock()
	jobs := make(map[string]job, len(l.jobs))
	for id, j := range l.jobs {
		jobs[id] = *j
	}
	return jobs
}

// check compares a keyspace with promises that were made before it was read. A job may be gone if somebody has asked to
// complete it since.
func (l *ledger) check(k store.Keyspace, q wire.Queue, promised map[string]job) {
	l.Lock()
	defer l.Unlock()
	for _, line := range k.Check(wire.Wire6) {
		l.note(stranded, line, "by what is stored")
	}
	for _, id := range slices.Sorted(maps.Keys(promised)) {
		j := promised[id]
		row, there := k[q.Row(id)].(store.Hash)
		token, _ := strconv.ParseInt(row["attempts"], 10, 64)
		switch {
		case !j.promised.never() && l.jobs[id].completes == 0 && !there:
			l.note(lost, id, "promised to be there, never completed, gone")
		case j.dead && row["state"] != "dead":
			l.note(doubled, id, "dead, and now %v", row)
		case !j.ended.never() && !j.dead && there:
			l.note(doubled, id, "completed, and back: %v", row)
		}
		for _, g := range j.grants {
			if g.kept && there && g.token > token {
				l.note(doubled, id, "token %d was granted, the row has %v", g.token, row)
			}
		}
	}
}

// drained checks a queue after all work has ended: only dead letters are left in it.
func (l *ledger) drained(k store.Keyspace, q wire.Queue) {
	l.check(k, q, l.copy())
	l.Lock()
	defer l.Unlock()
	for id := range l.jobs {
		if row, there := k[q.Row(id)].(store.Hash); there && row["state"] != "dead" {
			l.note(stranded, id, "left in a drained queue: %v", row)
		}
	}
}

// counted checks the counters of such a queue, if it never lost unconfirmed writes: each job was counted once.
func (l *ledger) counted(k store.Keyspace, q wire.Queue) {
	l.Lock()
	defer l.Unlock()
	completed, dead := 0, 0
	for id, j := range l.jobs {
		row, there := k[q.Row(id)].(store.Hash)
		if row["state"] == "dead" {
			dead++
		}
		if !there && j.completes > 0 {
			completed++
		}
	}
	for key, want := range map[string]int{q.Completed(): completed, q.Failed(): dead} {
		counter, _ := k[key].(store.Hash)
		if got := counter["count"]; got != strconv.Itoa(want) && (want != 0 || got != "") {
			l.note(miscounted, key, "%q, want %d", got, want)
		}
	}
}

// tally is the number of jobs, and the number of broken promises of each kind.
func (l *ledger) tally() (jobs int, broken [breaches]int) {
	l.Lock()
	defer l.Unlock()
	for _, j := range l.jobs {
		if !j.promised.never() {
			jobs++
		}
	}
	for b, found := range l.broken {
		broken[b] = len(found)
	}
	return jobs, broken
}

// verdict fails the test if a promise was broken.
func (l *ledger) verdict(t testing.TB) {
	t.Helper()
	l.Lock()
	defer l.Unlock()
	if len(l.wrong) > 0 {
		require.Fail(t, "a promise was broken", "%d findings, the first of them:\n%s", len(l.wrong), strings.Join(l.wrong[:min(len(l.wrong), 20)], "\n"))
	}
}

// The ledger must find each kind of broken promise, and nothing where all is well. Only `wait` advances the time of
// these tests; a lease has 100 ms.
func TestLedgerFinds(t *testing.T) {
	q := wire.Queue("q")
	row := func(state, attempts string) store.Keyspace {
		k := store.Keyspace{wire.Identity: store.String(wire.Wire6)}
		if state != "" {
			k[q.Row("JOB1")] = store.Hash{"state": state, "attempts": attempts, "payload": "x"}
			k[q.Set(state)] = store.ZSet{"JOB1": map[string]float64{"active": 5, "scheduled": 5}[state]}
		}
		return k
	}
	type deed func(*ledger)
	mismatch := func(v verb) error { return fmt.Errorf("EMQSTALE %s token mismatch", v) }
	errGone := errors.New("EMQSTALE job gone")
	held := func(l *ledger, token int64) claim { // by the last worker to which it was granted
		h := claim{id: "JOB1", token: token}
		for _, g := range l.job("JOB1").grants {
			if g.token == token {
				h.grant = g
			}
		}
		return h
	}
	var (
		enqueue = func(l *ledger) { l.enqueued("JOB1", int64(1), true) }
		wait    = func(ms int64) deed {
			return func(l *ledger) {
				at := l.clock().Add(time.Duration(ms) * time.Millisecond)
				l.clock = func() time.Time { return at }
			}
		}
		claimAs = func(token int64, kept bool) deed {
			return func(l *ledger) { l.granted("JOB1", token, l.send(), 100, kept) }
		}
		claim  = func(token int64) deed { return claimAs(token, true) }
		settle = func(v verb, token int64, reply any) deed {
			return func(l *ledger) { l.answered(l.settling(v, held(l, token), 100), reply, true) }
		}
		ask = func(v verb, lease int64) deed { // without a reply
			return func(l *ledger) { l.settling(v, held(l, 1), lease) }
		}
		dies, fails = settle(fail, 1, "dead"), settle(fail, 1, "scheduled")
		completes   = settle(complete, 1, int64(1))
		extends     = settle(extend, 1, int64(1))
		stale       = settle(complete, 1, mismatch(complete))
	)
	for _, tt := range []struct {
		name  string
		deeds []deed
		k     store.Keyspace
		found map[breach]string // with its text
	}{
		{"all well", []deed{enqueue}, row("pending", "0"), nil},
		{"completed", []deed{enqueue, claim(1), completes}, row("", ""), nil},
		{"perhaps completed", []deed{enqueue, claim(1), ask(complete, 0)}, row("", ""), nil},
		{"perhaps not", []deed{enqueue, claim(1), ask(complete, 0)}, row("active", "1"), nil},
		{"dead", []deed{enqueue, claim(1), dies}, row("dead", "1"), nil},
		{"failed, and claimed again", []deed{enqueue, claim(1), fails, claim(2)}, row("active", "2"), nil},
		{"perhaps failed, and claimed again", []deed{enqueue, claim(1), ask(fail, 0), claim(2), stale}, row("active", "2"), nil},
		{"asked twice", []deed{enqueue, claim(1), ask(complete, 0), settle(complete, 1, int64(0))}, row("", ""), nil},
		{"asked twice, the second answer came first", []deed{enqueue, claim(1), func(l *ledger) {
			first := l.settling(complete, held(l, 1), 0)
			settle(complete, 1, int64(0))(l)
			l.answered(first, int64(1), true)
		}}, row("", ""), nil},
		{"extended", []deed{enqueue, claim(1), wait(90), extends, wait(90), completes}, row("", ""), nil},
		{"refused after its end", []deed{enqueue, claim(1), wait(100), stale}, row("pending", "1"), nil},
		{"refused after it was perhaps made shorter", []deed{enqueue, claim(1), ask(extend, 10), wait(10), stale}, row("pending", "1"), nil},
		{"refused after it was given back", []deed{enqueue, claim(1), fails, stale}, row("scheduled", "1"), nil},
		{"claimed after its end", []deed{enqueue, claim(1), wait(100), claim(2), stale}, row("active", "2"), nil},
		{"claimed after it was perhaps given back", []deed{enqueue, claim(1), ask(fail, 0), claim(2)}, row("active", "2"), nil},
		{"a claim that was not promised", []deed{enqueue, claimAs(1, false), stale, claim(1)}, row("active", "1"), nil},

		{"lost", []deed{enqueue}, row("", ""), map[breach]string{lost: "gone"}},
		{"lost under a claim", []deed{claim(1)}, row("", ""), map[breach]string{lost: "gone"}},
		{"lost, as COMPLETE says", []deed{enqueue, claim(1), settle(complete, 1, int64(0))}, row("", ""), map[breach]string{lost: "nobody else"}},
		{"lost, as FAIL says", []deed{enqueue, claim(1), settle(fail, 1, errGone)}, row("pending", "1"), map[breach]string{lost: "as retry says"}},
		{"lost, as EXTEND says", []deed{enqueue, claim(1), settle(extend, 1, int64(-1))}, row("pending", "1"), map[breach]string{lost: "as extend says"}},
		{"lost after a COMPLETE that was refused", []deed{enqueue, claim(1), wait(100), stale}, row("", ""), map[breach]string{lost: "gone"}},
		{"back", []deed{enqueue, claim(1), completes}, row("active", "1"), map[breach]string{doubled: "back"}},
		{"back from the dead", []deed{enqueue, claim(1), dies}, row("pending", "1"), map[breach]string{doubled: "and now"}},
		{"completed twice", []deed{enqueue, claim(1), completes, completes}, row("", ""), map[breach]string{doubled: "ended twice"}},
		{"died twice", []deed{enqueue, claim(1), dies, wait(100), claim(2), settle(fail, 2, "dead")}, row("dead", "2"), map[breach]string{doubled: "ended twice"}},
		{"claimed when it was done", []deed{enqueue, claim(1), completes, claim(2)}, row("", ""), map[breach]string{doubled: "after its end"}},
		{"a token twice", []deed{enqueue, claim(1), claim(1)}, row("active", "1"), map[breach]string{doubled: "twice"}},
		{"a token back", []deed{enqueue, claim(2), claim(1)}, row("active", "2"), map[breach]string{doubled: "after 2"}},
		{"a claim forgotten", []deed{enqueue, claim(1)}, row("pending", "0"), map[breach]string{doubled: "the row has"}},
		{"no fence for COMPLETE", []deed{enqueue, claim(1), wait(100), claim(2), completes}, row("", ""), map[breach]string{doubled: "complete with token 1 after 2"}},
		{"no fence for FAIL", []deed{enqueue, claim(1), wait(100), claim(2), fails}, row("scheduled", "2"), map[breach]string{doubled: "retry with token 1 after 2"}},
		{"no fence for EXTEND", []deed{enqueue, claim(1), wait(100), claim(2), extends}, row("active", "2"), map[breach]string{doubled: "extend with token 1 after 2"}},
		{"a token that nobody was granted", []deed{enqueue, claim(1), settle(fail, 0, "scheduled")}, row("scheduled", "1"), map[breach]string{doubled: "retry with token 0 after 1"}},
		{"failed twice", []deed{enqueue, claim(1), fails, fails}, row("scheduled", "1"), map[breach]string{doubled: "given back"}},
		{"extended when it was given back", []deed{enqueue, claim(1), fails, extends}, row("active", "1"), map[breach]string{doubled: "given back"}},
		{"two holders", []deed{enqueue, claim(1), wait(90), claim(2)}, row("active", "2"), map[breach]string{doubled: "8ms of its lease left"}},
		{"two holders, the first heard of it later", []deed{enqueue, func(l *ledger) {
			sent := l.send()
			claim(2)(l)
			l.granted("JOB1", 1, sent, 100, true)
		}}, row("active", "2"), map[breach]string{doubled: "of its lease left"}},
		{"two holders after an EXTEND", []deed{enqueue, claim(1), wait(90), extends, wait(90), claim(2)}, row("active", "2"), map[breach]string{doubled: "8ms of its lease left"}},
		{"two holders, told by the EXTEND", []deed{enqueue, claim(1), func(l *ledger) {
			wait(90)(l)
			s := l.settling(extend, held(l, 1), 100)
			wait(20)(l)
			claim(2)(l)
			l.answered(s, int64(1), true)
		}}, row("active", "2"), map[breach]string{doubled: "78ms of its lease left"}},
		{"robbed of a COMPLETE", []deed{enqueue, claim(1), wait(90), stale}, row("pending", "1"), map[breach]string{robbed: "8ms before"}},
		{"robbed of a FAIL", []deed{enqueue, claim(1), settle(fail, 1, mismatch(fail))}, row("pending", "1"), map[breach]string{robbed: "98ms before"}},
		{"robbed of an EXTEND", []deed{enqueue, claim(1), settle(extend, 1, mismatch(extend))}, row("pending", "1"), map[breach]string{robbed: "98ms before"}},
		{"robbed of what was extended", []deed{enqueue, claim(1), wait(90), extends, wait(90), stale}, row("pending", "1"), map[breach]string{robbed: "8ms before"}},
		{"robbed of what it had asked to complete", []deed{enqueue, claim(1), ask(complete, 0), stale}, row("pending", "1"), map[breach]string{robbed: "98ms before"}},
		{"in two sets", []deed{enqueue}, func() store.Keyspace {
			k := row("pending", "0")
			k[q.Dead()] = store.ZSet{"JOB1": 0}
			return k
		}(), map[breach]string{stranded: "in [dead pending]"}},
		{"an id that was there", []deed{func(l *ledger) { l.enqueued("JOB1", int64(0), true) }}, row("", ""), map[breach]string{odd: "new id"}},
		{"another verb's refusal", []deed{enqueue, claim(1), settle(fail, 1, mismatch(complete))}, row("active", "1"), map[breach]string{odd: "answered EMQSTALE complete"}},
		{"gone, as only FAIL may say", []deed{enqueue, claim(1), settle(extend, 1, errGone)}, row("active", "1"), map[breach]string{odd: "answered EMQSTALE job gone"}},
		{"an answer of another kind", []deed{enqueue, claim(1), settle(complete, 1, []any{})}, row("active", "1"), map[breach]string{odd: "answered []"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.clock = func() time.Time { return time.Unix(1, 0) }
			for _, d := range tt.deeds {
				d(l)
			}
			l.check(tt.k, q, l.copy())
			_, broken := l.tally()
			for b, n := range broken {
				want, ok := tt.found[breach(b)]
				require.Equal(t, ok, n == 1, "%s: %q", breachNames[b], l.wrong)
				require.Contains(t, strings.Join(l.wrong, "\n"), want)
			}
		})
	}
	ended := func(deeds ...deed) *ledger {
		l := newLedger()
		for _, d := range append([]deed{enqueue, claim(1)}, deeds...) {
			d(l)
		}
		return l
	}
	t.Run("counted", func(t *testing.T) {
		for _, tt := range []struct {
			name, counter string
			end           deed
			k             store.Keyspace
		}{{"completed", q.Completed(), completes, row("", "")}, {"dead", q.Failed(), dies, row("dead", "1")}} {
			l := ended(tt.end)
			tt.k[tt.counter] = store.Hash{"count": "1"}
			l.drained(tt.k, q)
			l.counted(tt.k, q)
			require.Empty(t, l.wrong)
			tt.k[tt.counter] = store.Hash{"count": "2"}
			l.counted(tt.k, q)
			require.Equal(t, map[string]bool{tt.counter: true}, l.broken[miscounted])
		}
	})
	t.Run("left over", func(t *testing.T) {
		l := ended()
		l.drained(row("pending", "1"), q)
		require.Equal(t, map[string]bool{"JOB1": true}, l.broken[stranded])
	})
}
