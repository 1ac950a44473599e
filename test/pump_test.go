package test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

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
			require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", c.event, c.key}, c.meddle...)...))
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
