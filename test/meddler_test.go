package test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// meddle makes another module run a command at the next event of a key.
func (st *fixture) meddle(event, key string, command []string) {
	st.t.Helper()
	require.Equal(st.t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", event, key}, command...)...))
}

// meddled does so while a command runs, and checks the command's reply and what the sets contain afterwards.
func (st *fixture) meddled(event, key string, meddle, do []string, want string, sets map[string][]string) {
	st.t.Helper()
	st.meddle(event, key, meddle)
	require.Equal(st.t, want, st.Do(do...))
	st.reply("+done\r\n", "MEDDLER.LEFT")
	for _, set := range []string{good.Pending(), good.Active(), good.Schedule(), good.Dead()} {
		require.ElementsMatch(st.t, sets[set], st.Members(set), set)
	}
}

// Another module may write from a keyspace event, in the middle of a verb. The server's docs warn against that, but its
// own commands survive it, so the verbs must too: the server stays up, no key that the other module changed is used,
// and no job is lost or handed out twice.
func TestAnotherModuleWritesInTheMiddle(t *testing.T) {
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	claim := good.Claim(60000)
	const lost = ": state pending, in []"

	for name, c := range map[string]struct {
		event, key string
		meddle, do []string
		want       string // the reply
		pending    []string
		active     []string
		damage     []string
	}{
		"a claim within a claim": {"hset", good.Row("JOB1"), claim, claim, claimed("JOB1", "x", 1),
			[]string{"JOB3"}, []string{"JOB1", "JOB2"}, nil},
		"pending goes while a claim is announced": {"zrem", good.Pending(), []string{"DEL", good.Pending()}, claim,
			claimed("JOB1", "x", 1), []string{}, []string{"JOB1"},
			[]string{good.Row("JOB2") + lost, good.Row("JOB3") + lost}},
		"a claim as a row is made": {"new", good.Row("JOB4"), claim, good.Enqueue("JOB4", "x"), integer(1),
			[]string{"JOB2", "JOB3", "JOB4"}, []string{"JOB1"}, nil},
		"pending goes as a row is made": {"new", good.Row("JOB4"), []string{"DEL", good.Pending()}, good.Enqueue("JOB4", "x"), integer(1),
			[]string{"JOB4"}, []string{}, []string{good.Row("JOB1") + lost, good.Row("JOB2") + lost,
				good.Row("JOB3") + lost}},
		"the identity goes as it is claimed": {"set", "{emq}:version", []string{"DEL", "{emq}:version"}, good.Enqueue("JOB4", "x"),
			"-EMQFENCE {emq}:version is absent and could not be claimed with this user's rights\r\n",
			[]string{"JOB1", "JOB2", "JOB3"}, []string{}, []string{"emq:{q}:: rows without an identity"}},
		"a job comes as the identity is claimed": {"set", "{emq}:version", good.Enqueue("JOB0", "x"), good.Enqueue("JOB4", "x"),
			integer(1), []string{"JOB0", "JOB1", "JOB2", "JOB3", "JOB4"}, []string{}, nil},
		"the same job comes as the identity is claimed": {"set", "{emq}:version", good.Enqueue("JOB4", "y"), good.Enqueue("JOB4", "x"),
			integer(0), []string{"JOB1", "JOB2", "JOB3", "JOB4"}, []string{}, nil},
		"a claim as active is made": {"new", good.Active(), claim, claim, claimed("JOB1", "x", 1),
			[]string{"JOB3"}, []string{"JOB1", "JOB2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			st.damaged(c.damage...)
			for _, id := range []string{"JOB1", "JOB2", "JOB3"} {
				require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
			}
			if c.event == "set" {
				st.Must("DEL {emq}:version")
			}
			st.meddled(c.event, c.key, c.meddle, c.do, c.want, map[string][]string{good.Pending(): c.pending, good.Active(): c.active})
		})
	}

	// When the server expires a key that a verb opens, callbacks run too.
	for name, meddle := range map[string][]string{
		"a claim":                  claim,
		"the next entry goes":      {"ZREM", good.Pending(), "JOB1"},
		"pending goes":             {"DEL", good.Pending()},
		"pending becomes a string": {"SET", good.Pending(), "x"},
		"the identity goes":        {"DEL", "{emq}:version"},
	} {
		t.Run("as a row expires: "+name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
			for _, id := range []string{"JOB1", "JOB2", "JOB3"} {
				require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
			}
			st.expired(good.Row("JOB1"))
			st.meddle("expired", good.Row("JOB1"), meddle)
			require.Equal(t, claimed("JOB2", "x", 1), st.Do(claim...), "an expired row counts as absent")
			require.Equal(t, "$-1\r\n", st.Do("GET", good.Row("JOB1")), "the row is met, and its event sent")
			st.Do(good.Complete("JOB1", "1")...)
			st.Do(good.Complete("JOB2", "1")...)
			st.Must("DEBUG SET-ACTIVE-EXPIRE 1", "FLUSHALL") // the other module left damage
		})
	}
}

// A bad row is buried in a set that must be created, and another claim runs in the callback: only one of the two claims
// gets the next job.
func TestAnotherModuleClaimsAsABadRowIsBuried(t *testing.T) {
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	st := s.fresh(t)
	st.put(good, "JOB1", "pending", "attempts", "x")
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB2", "x")...))
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB3", "x")...))
	st.meddled("new", good.Dead(), good.Claim(60000), good.Claim(60000), claimed("JOB2", "x", 1),
		map[string][]string{good.Active(): {"JOB2", "JOB3"}, good.Dead(): {"JOB1"}})
	require.Equal(t, "1", st.row(good, "JOB2")["attempts"])
	require.Equal(t, "1", st.row(good, "JOB3")["attempts"])
}

// The same while PROMOTE or REAP moves several jobs: whatever the other module does, only jobs that it removed itself
// are gone, and no job is in two sets.
func TestAnotherModuleWritesInTheMiddleOfASweep(t *testing.T) {
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	claim, promote, reap := good.Claim(60000), good.Promote(10), good.Reap(2, 10)
	lost := func(id, state string) string { return good.Row(id) + ": state " + state + ", in []" }

	// Two jobs are due and one is not; two leases have expired, one of them for the second time, and one has not.
	for name, c := range map[string]struct {
		event, key    string
		meddle, do    []string
		want          string
		pending, dead []string
		active        []string
		scheduled     []string
		damage        []string
	}{
		"a claim as pending is made": {"new", good.Pending(), claim, promote, integer(2),
			[]string{"JOB1", "JOB2"}, nil, []string{"JOB4", "JOB5", "JOB6"}, []string{"JOB3"}, nil},
		"a promote within a promote, as pending is made": {"new", good.Pending(), promote, promote, integer(2),
			[]string{"JOB1", "JOB2"}, nil, []string{"JOB4", "JOB5", "JOB6"}, []string{"JOB3"}, nil},
		"a promote within a promote, as a row is announced": {"hset", good.Row("JOB1"), promote, promote, integer(2),
			[]string{"JOB1", "JOB2"}, nil, []string{"JOB4", "JOB5", "JOB6"}, []string{"JOB3"}, nil},
		"a claim as a promoted row is announced": {"hset", good.Row("JOB1"), claim, promote, integer(2),
			[]string{"JOB2"}, nil, []string{"JOB1", "JOB4", "JOB5", "JOB6"}, []string{"JOB3"}, nil},
		"a job comes back as a promote is announced": {"zrem", good.Schedule(), good.ScheduleAt("JOB7", "x", 1), promote, integer(2),
			[]string{"JOB1", "JOB2"}, nil, []string{"JOB4", "JOB5", "JOB6"}, []string{"JOB7", "JOB3"}, nil},
		"schedule goes as pending is made": {"new", good.Pending(), []string{"DEL", good.Schedule()}, promote, integer(2),
			[]string{"JOB1", "JOB2"}, nil, []string{"JOB4", "JOB5", "JOB6"}, nil, []string{lost("JOB3", "scheduled")}},
		"pending goes as a promote is announced": {"zrem", good.Schedule(), []string{"DEL", good.Pending()}, promote, integer(2),
			nil, nil, []string{"JOB4", "JOB5", "JOB6"}, []string{"JOB3"}, []string{lost("JOB1", "pending"), lost("JOB2", "pending")}},
		"a reap within a reap, as dead is made": {"new", good.Dead(), reap, reap, reaped([]string{"JOB4"}, []string{"JOB5"}),
			[]string{"JOB4"}, []string{"JOB5"}, []string{"JOB6"}, []string{"JOB1", "JOB2", "JOB3"}, nil},
		"a reap within a reap, as pending is made": {"new", good.Pending(), reap, reap, reaped([]string{"JOB4"}, []string{"JOB5"}),
			[]string{"JOB4"}, []string{"JOB5"}, []string{"JOB6"}, []string{"JOB1", "JOB2", "JOB3"}, nil},
		"a claim as dead is made": {"new", good.Dead(), claim, reap, reaped([]string{"JOB4"}, []string{"JOB5"}),
			nil, []string{"JOB5"}, []string{"JOB4", "JOB6"}, []string{"JOB1", "JOB2", "JOB3"}, nil},
		"an extend as pending is made": {"new", good.Pending(), good.Extend("JOB4", "1", 1000), reap, reaped([]string{"JOB4"}, []string{"JOB5"}),
			[]string{"JOB4"}, []string{"JOB5"}, []string{"JOB6"}, []string{"JOB1", "JOB2", "JOB3"}, nil},
		"the holder completes as pending is made": {"new", good.Pending(), good.Complete("JOB6", "1"), reap, reaped([]string{"JOB4"}, []string{"JOB5"}),
			[]string{"JOB4"}, []string{"JOB5"}, nil, []string{"JOB1", "JOB2", "JOB3"}, nil},
		"active goes as a reap is announced": {"hset", good.Row("JOB5"), []string{"DEL", good.Active()}, reap, reaped([]string{"JOB4"}, []string{"JOB5"}),
			[]string{"JOB4"}, []string{"JOB5"}, nil, []string{"JOB1", "JOB2", "JOB3"}, []string{lost("JOB6", "active")}},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			st.damaged(c.damage...)
			for i, state := range []string{"scheduled", "scheduled", "scheduled", "active", "active", "active"} {
				id := "JOB" + string(rune('1'+i))
				st.put(good, id, state, "attempts", "1")
				if i%3 != 2 {
					st.lapse(good, id)
				}
			}
			st.Must("HSET emq:{q}:job:JOB5 stalled 1")
			st.meddled(c.event, c.key, c.meddle, c.do, c.want,
				map[string][]string{good.Pending(): c.pending, good.Dead(): c.dead, good.Active(): c.active, good.Schedule(): c.scheduled})
		})
	}
	for name, meddle := range map[string][]string{
		"a claim": claim, "a promote": promote, "schedule goes": {"DEL", good.Schedule()}, "schedule becomes a string": {"SET", good.Schedule(), "x"},
		"a row goes": {"DEL", good.Row("JOB1")}, "the identity goes": {"DEL", "{emq}:version"},
	} {
		t.Run("as pending expires: "+name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
			for _, id := range []string{"JOB1", "JOB2"} {
				st.put(good, id, "scheduled", "attempts", "1")
				st.lapse(good, id)
			}
			st.put(good, "JOB3", "pending", "attempts", "1")
			st.expired(good.Pending())
			st.meddle("expired", good.Pending(), meddle)
			st.Do(promote...)
			st.reply("+PONG\r\n", "PING")
			st.Must("DEBUG SET-ACTIVE-EXPIRE 1", "FLUSHALL") // the other module left damage
		})
	}
}

// A call from another module that does not allow blocking gets a job or the empty array at once.
func TestAnotherModuleDoesNotWait(t *testing.T) {
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	st := s.fresh(t)
	call := func() {
		st.meddle("set", "other", wire.BClaim(60000, 0, good))
		st.Must("SET other x")
	}
	call()
	require.Equal(t, "1", st.Info("emq_bclaim_empty"))
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	call()
	require.Equal(t, "1", st.Info("emq_bclaim_claimed"))
	require.Equal(t, "0", st.Info("emq_waiting_clients"))
	require.Equal(t, []string{"JOB1"}, st.Members(good.Active()))
}

// Another module may write from the callback of a new row or set.
func TestAnotherModuleWritesInTheMiddleOfABatch(t *testing.T) {
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	claim := good.Mclaim(60000, 10)
	two := func(st *fixture) {
		st.put(good, "JOB1", "active", "attempts", "1")
		st.put(good, "JOB2", "active", "attempts", "1")
	}
	for name, c := range map[string]struct {
		given      func(*fixture)
		event, key string
		meddle, do []string
		want       string
		pending    []string
		active     []string
		dead       []string
		schedule   []string
	}{
		"a claim as the first row is made":       {nil, "new", good.Row("JOB1"), claim, good.Menqueue("JOB1", "x", "JOB2", "y"), status(1, 1), []string{"JOB1", "JOB2"}, nil, nil, nil},
		"a claim as the second row is made":      {nil, "new", good.Row("JOB2"), claim, good.Menqueue("JOB1", "x", "JOB2", "y"), status(1, 1), []string{"JOB1", "JOB2"}, nil, nil, nil},
		"a claim as pending is made":             {nil, "new", good.Pending(), claim, good.Menqueue("JOB1", "x", "JOB2", "y"), status(1, 1), []string{"JOB1", "JOB2"}, nil, nil, nil},
		"a claim as the first row is announced":  {nil, "hset", good.Row("JOB1"), claim, good.Menqueue("JOB1", "x", "JOB2", "y"), status(1, 1), nil, []string{"JOB1", "JOB2"}, nil, nil},
		"the same job comes as a row is made":    {nil, "new", good.Row("JOB1"), good.Enqueue("JOB2", "z"), good.Menqueue("JOB1", "x", "JOB2", "y"), status(1, 1), []string{"JOB1", "JOB2"}, nil, nil, nil},
		"another comes as a row is made":         {nil, "new", good.Row("JOB1"), good.Menqueue("JOB7", "z", "JOB8", "z"), good.Menqueue("JOB1", "x", "JOB2", "y"), status(1, 1), []string{"JOB1", "JOB2", "JOB7", "JOB8"}, nil, nil, nil},
		"a promote as a scheduled row is made":   {nil, "new", good.Row("JOB2"), good.Promote(10), good.Mschedule("at", "JOB1", "1", "x", "JOB2", "1", "y"), status(1, 1), nil, nil, nil, []string{"JOB1", "JOB2"}},
		"a claim within a claim":                 {func(st *fixture) { st.Do(good.Menqueue("JOB1", "x", "JOB2", "y", "JOB3", "z")...) }, "hset", good.Row("JOB1"), claim, good.Mclaim(60000, 2), array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 1)), nil, []string{"JOB1", "JOB2", "JOB3"}, nil, nil},
		"a claim as active is made":              {func(st *fixture) { st.Do(good.Menqueue("JOB1", "x", "JOB2", "y", "JOB3", "z")...) }, "new", good.Active(), claim, good.Mclaim(60000, 2), array(claimed("JOB1", "x", 1), claimed("JOB2", "y", 1)), nil, []string{"JOB1", "JOB2", "JOB3"}, nil, nil},
		"a batch within a batch, settling":       {two, "zrem", good.Active(), good.Mcomplete("JOB1", "1", "JOB2", "1"), good.Mfail(1, "JOB1", "1", "0", "why"), status(2), nil, nil, []string{"JOB1"}, nil},
		"the others are settled as dead is made": {two, "new", good.Dead(), good.Mcomplete("JOB1", "1", "JOB2", "1"), good.Mfail(1, "JOB1", "1", "0", "why"), status(2), nil, nil, []string{"JOB1"}, nil},
		"the same is settled as the counter is made": {two, "new", good.Completed(), good.Mcomplete("JOB1", "1", "JOB2", "1"),
			good.Mcomplete("JOB1", "1"), status(1), nil, nil, nil, nil},
		"jobs come back as they are announced gone": {two, "del", good.Row("JOB1"), good.Menqueue("JOB1", "again", "JOB2", "again"), good.Mcomplete("JOB1", "1", "JOB2", "1"), status(1, 1), []string{"JOB1", "JOB2"}, nil, nil, nil},
		"they are settled as they are announced":    {two, "hset", good.Row("JOB1"), good.Mcomplete("JOB1", "1", "JOB2", "1"), good.Mextend(1000, "JOB1", "1", "JOB2", "1"), status(1, 1), nil, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			if c.given != nil {
				c.given(st)
			}
			st.meddled(c.event, c.key, c.meddle, c.do, c.want,
				map[string][]string{good.Pending(): c.pending, good.Active(): c.active, good.Dead(): c.dead, good.Schedule(): c.schedule})
		})
	}
}

// Another module may write from the callback of a new key.
func TestAnotherModuleWritesInTheMiddleOfAnOperator(t *testing.T) {
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	for name, c := range map[string]struct {
		given      func(*fixture)
		event, key string
		meddle, do []string
		want       string
		sets       map[string][]string
	}{
		"the job is claimed as pending is made": {func(st *fixture) { st.put(good, "JOB1", "active", "attempts", "1") }, "new", good.Pending(), good.Claim(60000),
			good.Release("JOB1", "1", 0), bulk("pending"), map[string][]string{good.Pending(): {"JOB1"}}},
		"it is claimed as it is announced": {func(st *fixture) { st.put(good, "JOB1", "active", "attempts", "1") }, "zadd", good.Pending(), good.Claim(60000),
			good.Release("JOB1", "1", 0), bulk("pending"), map[string][]string{good.Active(): {"JOB1"}}},
		"dead jobs are removed as pending is made": {func(st *fixture) {
			st.put(good, "JOB1", "dead", "attempts", "1")
			st.put(good, "JOB2", "dead", "attempts", "1")
		}, "new", good.Pending(), good.Remove("dead", "JOB1", "JOB2"), good.Requeue("dead", "JOB1", "JOB2"), status(1, 1), map[string][]string{good.Pending(): {"JOB1", "JOB2"}}},
		"a job comes back as it is announced gone": {func(st *fixture) { st.put(good, "JOB1", "active", "attempts", "1") }, "del", good.Row("JOB1"), good.Enqueue("JOB1", "again"),
			good.Remove("any", "JOB1"), status(1), map[string][]string{good.Pending(): {"JOB1"}}},
		"the queue is resumed as meta is made": {nil, "new", good.Meta(), good.Resume(), good.Pause(0), "+OK\r\n", nil},
		"a claim spends as active is made": {func(st *fixture) {
			st.Do(good.Menqueue("JOB1", "x", "JOB2", "x")...)
			st.Do(good.Limit(0, 1, 60000)...)
		}, "new", good.Active(), good.Claim(60000), good.Claim(60000), claimed("JOB1", "x", 1), map[string][]string{good.Active(): {"JOB1", "JOB2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			if c.given != nil {
				c.given(st)
			}
			st.meddled(c.event, c.key, c.meddle, c.do, c.want, c.sets)
		})
	}
}

// Another module may also write from the pump's events: the server stays up, nothing that the other module changed is
// used, and the remaining work is done.
func TestAnotherModuleWritesInTheMiddleOfThePump(t *testing.T) {
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	other := queue("other")
	for name, c := range map[string]struct {
		event, key string
		meddle     []string
		pending    []string // afterwards; nil: not to be told
		left       int64    // sets of jobs that are held or scheduled, or whose row is gone
	}{
		"all goes as a job is announced":       {"hset", good.Row("JOB2"), []string{"FLUSHALL", "SYNC"}, nil, 0},
		"the database goes":                    {"zrem", good.Active(), []string{"FLUSHDB", "SYNC"}, nil, 0},
		"databases are swapped":                {"zrem", good.Active(), []string{"SWAPDB", "0", "5"}, nil, 0},
		"active goes as pending is made":       {"new", good.Pending(), []string{"DEL", good.Active()}, []string{"JOB3", "JOB4"}, 0},
		"active comes back as it goes":         {"zrem", good.Active(), []string{"ZADD", good.Active(), "1", "JOB9"}, []string{"JOB1", "JOB2", "JOB3", "JOB4"}, 1},
		"pending goes":                         {"zadd", good.Pending(), []string{"DEL", good.Pending()}, []string{"JOB1", "JOB2"}, 0},
		"pending becomes a string":             {"zadd", good.Pending(), []string{"SET", good.Pending(), "x"}, nil, 0},
		"a row goes":                           {"new", good.Pending(), []string{"DEL", good.Row("JOB2")}, []string{"JOB1", "JOB3", "JOB4"}, 1},
		"a claim as pending is made":           {"zadd", good.Pending(), good.Claim(60000), []string{"JOB1", "JOB2", "JOB4"}, 1},
		"a reaper within the pump":             {"new", good.Pending(), []string{"EMQ.REAP", "3", good.Active(), good.Pending(), good.Dead(), good.Base(), "3", "100"}, []string{"JOB1", "JOB2", "JOB3", "JOB4"}, 0},
		"another queue's set is made":          {"zrem", good.Active(), []string{"ZADD", queue("new").Active(), "9000000000000", "JOB9"}, []string{"JOB1", "JOB2", "JOB3", "JOB4"}, 0},
		"the identity goes":                    {"zrem", good.Active(), []string{"DEL", "{emq}:version"}, nil, 0},
		"the pump is switched off and on":      {"zrem", good.Active(), []string{"CONFIG", "SET", "emq.pump-interval-ms", "20"}, []string{"JOB1", "JOB2", "JOB3", "JOB4"}, 0},
		"the queue comes and goes":             {"new", good.Pending(), []string{"RENAME", good.Schedule(), other.Schedule()}, []string{"JOB1", "JOB2", "JOB3", "JOB4"}, 0},
		"a server that may not write any more": {"zrem", good.Active(), []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			for i := range 4 {
				st.put(good, fmt.Sprintf("JOB%d", i+1), []string{"active", "scheduled"}[i/2], "attempts", "1", "lease_epoch", "other")
			}
			st.Must("ZADD emq:{q}:active XX 1 JOB1 1 JOB2", "ZADD emq:{q}:schedule XX 1 JOB3 1 JOB4")
			st.put(other, "JOB5", "active", "attempts", "1", "lease_epoch", "other")
			st.Must("ZADD " + other.Active() + " XX 1 JOB5")
			st.meddle(c.event, c.key, c.meddle)
			st.Must("CONFIG SET emq.pump-interval-ms 5")
			waitFor(t, "the other module", func() bool { return st.Do("MEDDLER.LEFT") == "+done\r\n" })
			if c.pending != nil {
				waitFor(t, "the pump", func() bool { return st.Do("EXISTS", good.Active(), good.Schedule(), other.Active()) == integer(c.left) })
				require.Equal(t, c.pending, st.Members(good.Pending()))
			}
			// Whatever became of the store, the pump is alive: it handles what comes now.
			st.Must("CONFIG SET min-replicas-to-write 0", "FLUSHALL", "SET {emq}:version "+wire6)
			st.put(good, "JOB6", "active", "attempts", "1", "lease_epoch", "other")
			st.Must("ZADD emq:{q}:active XX 1 JOB6")
			waitFor(t, "the pump to go on", func() bool { return len(st.Members(good.Pending())) == 1 })
			st.Must("CONFIG SET emq.pump-interval-ms 0", "FLUSHALL")
		})
	}
}
