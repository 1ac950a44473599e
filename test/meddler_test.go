package test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

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
			require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", c.event, c.key}, c.meddle...)...))
			require.Equal(t, c.want, st.Do(c.do...))
			require.Equal(t, c.pending, st.Members(good.Pending()))
			require.Equal(t, c.active, st.Members(good.Active()))
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
			require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", "expired", good.Row("JOB1")}, meddle...)...))
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
	require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", "new", good.Dead()}, good.Claim(60000)...)...))
	require.Equal(t, claimed("JOB2", "x", 1), st.Do(good.Claim(60000)...))
	require.Equal(t, []string{"JOB2", "JOB3"}, st.Members(good.Active()))
	require.Equal(t, []string{"JOB1"}, st.Members(good.Dead()))
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
			require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", c.event, c.key}, c.meddle...)...))
			require.Equal(t, c.want, st.Do(c.do...))
			for key, want := range map[string][]string{good.Pending(): c.pending, good.Dead(): c.dead, good.Active(): c.active, good.Schedule(): c.scheduled} {
				require.ElementsMatch(t, want, st.Members(key), key)
			}
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
			require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", "expired", good.Pending()}, meddle...)...))
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
		require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", "set", "other"}, wire.BClaim(60000, 0, good)...)...))
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
