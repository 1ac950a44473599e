package waiting

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// place is a queue of a database.
type place struct {
	db int
	q  wire.Queue
}

// world is what a random history knows about the server: which clients wait where, and which jobs can be claimed.
type world struct {
	*bed
	*rand.Rand
	members []*member
	joined  int // number of calls that began to wait
	jobs    int
	pending map[place]map[string]bool
	tokens  map[string]int64 // how often a job was granted
	leased  map[string]place
	paused  bool
	log     []string
}

// member is a client of the history, in the one database that it has selected.
type member struct {
	*claimant
	db     int
	queues []wire.Queue // for which it waits; none if it does not wait
	since  int          // its place among the waiting clients
}

// Random histories: whatever happens, in whatever order, jobs go to waiting clients in the order of their waiting, no
// job is missed or left over, and each call has one reply.
func TestHistories(t *testing.T) {
	seed := store.Seed(t)
	b := begin(t)
	for round := range store.Rounds(t, 30, 1500) {
		b.Must("FLUSHALL")
		w := &world{bed: b, Rand: rand.New(rand.NewPCG(seed, uint64(round))), pending: map[place]map[string]bool{}, tokens: map[string]int64{}, leased: map[string]place{}}
		w.identify()
		for range 2 + w.IntN(6) {
			w.members = append(w.members, w.newMember())
		}
		for range 60 {
			w.step()
			if t.Failed() {
				break
			}
		}
		if w.paused {
			b.Must("CLIENT UNPAUSE")
		}
		for _, m := range w.members {
			_ = m.Close()
		}
		b.waiting(0)
	}
}

func (w *world) identify() {
	w.Must("SELECT 1", "SET "+wire.Identity+" "+wire.Wire6, "SELECT 0", "SET "+wire.Identity+" "+wire.Wire6)
}

func (w *world) newMember() *member {
	m := &member{claimant: named(w.bed, wire.DialTCP(w.t, w.Addr())), db: w.IntN(2)}
	m.Must("SELECT " + strconv.Itoa(m.db))
	return m
}

func (w *world) queue() wire.Queue { return []wire.Queue{q, r, s}[w.IntN(3)] }
func (w *world) place() place      { return place{w.IntN(2), w.queue()} }

func (w *world) idle() (idle []*member) {
	for _, m := range w.members {
		if m.queues == nil {
			idle = append(idle, m)
		}
	}
	return idle
}

func (w *world) waiters() (waiters []*member) {
	for _, m := range w.members {
		if m.queues != nil {
			waiters = append(waiters, m)
		}
	}
	slices.SortFunc(waiters, func(a, b *member) int { return a.since - b.since })
	return waiters
}

// stands reports whether a client waits in the line of a queue.
func (m *member) stands(p place) bool { return m.db == p.db && slices.Contains(m.queues, p.q) }

// says logs commands for the report of a failure.
func (w *world) says(commands ...[]string) [][]string {
	for _, args := range commands {
		w.log = append(w.log, wire.Line(args))
	}
	return commands
}

// came notes that a job can be claimed.
func (w *world) came(p place, id string) {
	if w.pending[p] == nil {
		w.pending[p] = map[string]bool{}
	}
	w.pending[p][id] = true
}

// enqueues are commands for the place's database that make jobs claimable in one of the possible ways.
func (w *world) enqueues(p place) (commands [][]string) {
	id := func() string { w.jobs++; id := fmt.Sprintf("JOB%05d", w.jobs); w.came(p, id); return id }
	add := func(as ...string) []string {
		job := id()
		commands = append(commands, []string{"HSET", p.q.Row(job), "state", "pending", "attempts", "0", "payload", "x"})
		return append(as, "ZADD", p.q.Pending(), "0", job)
	}
	switch w.IntN(4) {
	case 0:
		commands = append(commands, add())
	case 1:
		commands = append(commands, add("EVAL", "return redis.call(unpack(ARGV))", "0"))
	case 2:
		batch := []string{"EMQ.MENQUEUE", p.q.Base()}
		for range 1 + w.IntN(3) {
			batch = append(batch, id(), "x")
		}
		commands = append(commands, batch)
	default:
		commands = append(commands, p.q.Enqueue(id(), "x"))
	}
	return commands
}

// step does one thing, reads the replies, and checks them against the rules.
func (w *world) step() {
	w.t.Helper()
	lines := w.waiters()
	before := map[place]map[string]bool{}
	gone := map[*member]string{} // the replies to clients that leave by this step
	for p, ids := range w.pending {
		before[p] = maps.Clone(ids)
	}
	run := func(commands ...[]string) {
		w.t.Helper()
		for i, reply := range w.Pipeline(w.says(commands...)) {
			require.False(w.t, wire.IsError(reply), "%s: %s", wire.Line(commands[i]), reply)
		}
	}
	in := func(db int, commands ...[]string) [][]string {
		all := append([][]string{{"SELECT", strconv.Itoa(db)}}, commands...)
		return append(all, []string{"SELECT", "0"})
	}
	// leaves is a command that makes a client leave.
	leaves := func() []string {
		m := lines[w.IntN(len(lines))]
		if _, ok := gone[m]; ok {
			return []string{"PING"}
		}
		switch w.IntN(3) {
		case 0:
			gone[m] = "end"
			return []string{"CLIENT", "KILL", "ID", m.id}
		case 1:
			gone[m] = wire.Empty
			return []string{"CLIENT", "UNBLOCK", m.id}
		default:
			gone[m] = unblocked
			return []string{"CLIENT", "UNBLOCK", m.id, "ERROR"}
		}
	}
	hidden, apart := false, false
	switch dice := w.IntN(20); {
	case dice < 6: // someone begins to wait, and may be served at once
		idle := w.idle()
		if len(idle) == 0 || w.paused {
			return
		}
		w.wait(idle[w.IntN(len(idle))])
		return
	case dice < 11:
		p := w.place()
		if w.paused {
			return
		}
		run(in(p.db, w.enqueues(p)...)...)
		apart = true
	case dice < 14: // several things in one transaction
		if w.paused {
			return
		}
		var commands [][]string
		for range 1 + w.IntN(4) {
			if len(lines) > 0 && w.IntN(3) == 0 {
				commands = append(commands, leaves())
			} else {
				p := w.place()
				commands = append(commands, in(p.db, w.enqueues(p)...)...)
			}
		}
		if w.IntN(4) == 0 {
			commands = append([][]string{{"CLIENT", "PAUSE", "600000", "WRITE"}}, commands...)
			w.paused = true
		}
		run(exec(commands...)...)
	case dice < 16:
		if len(lines) == 0 {
			return
		}
		if w.IntN(3) == 0 {
			m := lines[w.IntN(len(lines))]
			w.log = append(w.log, "RST of "+m.id)
			m.Reset()
			gone[m] = "end"
			store.WaitFor(w.t, "a reset to be seen", func() bool { return !strings.Contains(w.Do("CLIENT", "LIST"), "id="+m.id+" ") })
		} else {
			run(leaves())
		}
	case dice < 17:
		if w.paused {
			return
		}
		run([]string{"SWAPDB", "0", "1"})
		swapped := map[place]map[string]bool{}
		for p, ids := range w.pending {
			swapped[place{1 - p.db, p.q}] = ids
		}
		w.pending = swapped
		for id, p := range w.leased {
			w.leased[id] = place{1 - p.db, p.q}
		}
	case dice < 18:
		if w.paused {
			return
		}
		db := w.IntN(2)
		run(in(db, []string{"FLUSHDB"}, []string{"SET", wire.Identity, wire.Wire6})...)
		maps.DeleteFunc(w.pending, func(p place, _ map[string]bool) bool { return p.db == db })
		maps.DeleteFunc(w.leased, func(_ string, p place) bool { return p.db == db })
	case dice < 19: // a lease is lost, or pending comes by a RENAME
		if w.paused {
			return
		}
		for id, p := range w.leased {
			run(in(p.db, []string{"ZADD", p.q.Active(), "1", id}, p.q.Reap(0, 10))...)
			delete(w.leased, id)
			w.came(p, id)
			break
		}
		if p := w.place(); len(w.pending[p]) == 0 {
			w.jobs++
			id := fmt.Sprintf("JOB%05d", w.jobs)
			run(in(p.db, []string{"HSET", p.q.Row(id), "state", "pending", "attempts", "0", "payload", "x"}, []string{"ZADD", "other", "0", id},
				[]string{"RENAME", "other", p.q.Pending()})...)
			w.came(p, id)
			hidden = w.hidden()
		}
		apart = true
	default:
		if w.paused {
			run([]string{"CLIENT", "UNPAUSE"})
			w.paused = false
			hidden = true // in the next turn
		}
	}
	w.settle(lines, gone, hidden, apart)
}

// wait makes a client call; if there is a job, it gets that at once.
func (w *world) wait(m *member) {
	w.t.Helper()
	queues := []wire.Queue{w.queue()}
	for w.IntN(2) == 0 {
		queues = append(queues, w.queue())
	}
	timeout := int64(0)
	if w.IntN(8) == 0 {
		timeout = 1
	}
	w.log = append(w.log, fmt.Sprintf("%s in %d: %s", m.id, m.db, wire.Line(wire.BClaim(lease, timeout, queues...))))
	m.Send(wire.BClaim(lease, timeout, queues...))
	for _, q := range queues {
		if p := (place{m.db, q}); len(w.pending[p]) > 0 {
			w.grant(m, m.Receive(), queues)
			return
		}
	}
	if timeout > 0 {
		require.Equal(w.t, wire.Empty, m.Receive(), w)
		return
	}
	m.blocked()
	w.joined++
	m.queues, m.since = queues, w.joined
}

// grant notes a job that a client got. It must be the first job of one of its queues and, if only is set, of the first
// of these that has one.
func (w *world) grant(m *member, reply string, queues []wire.Queue) (p place, id string) {
	w.t.Helper()
	job, ok := wire.Value(reply).([]any)
	require.True(w.t, ok && len(job) == 4, "%q\n%s", reply, w)
	from, _, _ := wire.Split(job[0].(string))
	p, id = place{m.db, from}, job[1].(string)
	require.Contains(w.t, queues, from, w)
	require.True(w.t, w.pending[p][id], "%s of %v was not to be had\n%s", id, p, w)
	delete(w.pending[p], id)
	w.tokens[id]++
	require.Equal(w.t, wire.BClaimed(from, id, "x", w.tokens[id]), reply, w)
	w.leased[id] = p
	return p, id
}

// blockedNow are the ids of the blocked clients, and of all clients.
func (w *world) blockedNow() (blocked, there map[string]bool) {
	blocked, there = map[string]bool{}, map[string]bool{}
	for line := range strings.SplitSeq(wire.Value(w.Do("CLIENT", "LIST")).(string), "\n") {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		there[id] = true
		_, flags, _ := strings.Cut(rest, " flags=")
		flags, _, _ = strings.Cut(flags, " ")
		blocked[id] = strings.Contains(flags, "b")
	}
	return blocked, there
}

// settle reads the replies. Hidden jobs are found after a while; all others must have been granted by now.
func (w *world) settle(lines []*member, gone map[*member]string, hidden, apart bool) {
	w.t.Helper()
	if w.paused {
		hidden = false
	}
	type given struct {
		to *member
		id string
	}
	grants := map[place][]given{}
	look := func() bool {
		blocked, _ := w.blockedNow()
		for _, m := range lines {
			if m.queues == nil || blocked[m.id] {
				continue
			}
			queues := m.queues
			m.queues = nil
			switch want := gone[m]; want {
			case "end":
				w.members[slices.Index(w.members, m)] = w.newMember()
				continue
			case "":
				require.False(w.t, w.paused, "a grant in a pause\n%s", w)
				p, id := w.grant(m, m.Receive(), queues)
				grants[p] = append(grants[p], given{m, id})
			default:
				require.Equal(w.t, want, m.Receive(), w)
			}
			require.Equal(w.t, "+PONG\r\n", m.Do("PING"), w)
		}
		if w.paused {
			return true
		}
		for p, ids := range w.pending {
			if len(ids) > 0 && slices.ContainsFunc(w.waiters(), func(m *member) bool { return m.stands(p) }) {
				return false
			}
		}
		return true
	}
	if hidden {
		store.WaitFor(w.t, "what was hidden", look)
	} else {
		require.True(w.t, look(), "a job is left over: %v\n%s", w.pending, w)
	}
	for m := range gone {
		require.Nil(w.t, m.queues, "it waits on\n%s", w)
	}
	for p, list := range grants {
		last := list[len(list)-1]
		for _, m := range w.waiters() {
			require.False(w.t, m.stands(p) && m.since < last.to.since, "%s of %v was granted before its turn\n%s", last.id, p, w)
		}
		if !apart && !hidden {
			require.True(w.t, slices.IsSortedFunc(list, func(a, b given) int { return strings.Compare(a.id, b.id) }), "%v\n%s", list, w)
		}
	}
	waiting := len(w.waiters())
	require.Equal(w.t, strconv.Itoa(waiting), w.Info("emq_waiting_clients"), w)
}

// String is the history so far.
func (w *world) String() string { return strings.Join(w.log, "\n") }
