package test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A violation makes a good request bad, or prepares the store so that the request is refused.
type violation struct {
	check   string // the check that must find it
	want    string // how the refusal begins
	request func(args []string) []string
	given   []string
	broken  []string // the damage that it does to the store
}

// verbOrder is a verb's good request and its violations in the order of the checks; the job is held with the token 1.
type verbOrder struct {
	name       string
	request    []string
	violations []violation
}

// word returns a violation that replaces one word of the request.
func word(at int, text string) func([]string) []string {
	return func(args []string) []string { return with(args, at, text) }
}

var (
	onReplica = violation{check: "primary", want: "READONLY ", given: []string{"CONFIG SET replica-read-only no", "REPLICAOF 127.0.0.1 1"}}
	foreign   = violation{check: "identity", want: "EMQFENCE ", given: []string{"SET {emq}:version echomq:4.0.0"}, broken: []string{"emq:{q}:: rows under another identity"}}
	arity     = violation{check: "arity", want: "ERR wrong number of arguments", request: func(args []string) []string { return append(with(args, 0, args[0]), "more") }}
)

func numkeys(text string) violation {
	return violation{check: "numkeys", want: "ERR ", request: word(1, text)}
}

func wrongType(key string) violation {
	return violation{
		check: "types", want: wrongTypeText,
		given: []string{"DEL " + key, "SET " + key + " x"}, broken: []string{key + ": is a string"},
	}
}

// idAndRow gives the request an id of another kind, whose row key is right.
func idAndRow(id, row int) violation {
	return violation{check: "kind", want: "EMQKIND job id must be JOB-namespaced\r\n", request: func(args []string) []string {
		return with(with(args, id, "XYZ"), row, good.Row("XYZ"))
	}}
}

func layout(at int, key string) violation {
	return violation{check: "layout", want: "EMQKEY ", request: word(at, key)}
}

func number(at int) violation {
	return violation{check: "numbers", want: "ERR ", request: word(at, "05")}
}

var orders = []verbOrder{
	{"enqueue", good.Enqueue("JOB2", "x"), []violation{
		arity, numkeys("02"), idAndRow(4, 2), layout(3, "emq:{r}:pending"), onReplica, foreign, wrongType("emq:{q}:pending"),
	}},
	{"claim", good.Claim(1000), []violation{
		arity, numkeys("+2"), layout(3, "emq:{r}:active"), number(5), onReplica, foreign, wrongType("emq:{q}:pending"),
	}},
	{"complete", good.Complete("JOB1", "7"), []violation{
		arity, numkeys("0"), idAndRow(4, 3), layout(2, "emq:{r}:active"), onReplica, foreign, wrongType("emq:{q}:pending"),
		{check: "script", want: "EMQSCRIPT ", given: []string{"HSET emq:{q}:job:JOB1 group g"}},
		{check: "holder", want: "EMQSTALE complete token mismatch\r\n"},
	}},
	{"fail", good.Fail("JOB1", "7", 0, 3, "why"), []violation{
		arity, numkeys("2"), idAndRow(6, 5), layout(4, "emq:{r}:dead"), number(8), onReplica, foreign, wrongType("emq:{q}:schedule"),
		{check: "script", want: "EMQSCRIPT ", given: []string{"HSET emq:{q}:job:JOB1 parent JOB0"}},
		{check: "holder", want: "EMQSTALE retry token mismatch\r\n"},
	}},
	{"schedule", good.ScheduleIn("JOB2", "x", 1000), []violation{
		arity, numkeys("02"), idAndRow(4, 2), layout(3, "emq:{r}:schedule"), {check: "keyword", want: "ERR mode ", request: word(6, "IN")}, number(7),
		onReplica, foreign, wrongType("emq:{q}:schedule"),
	}},
	{"extend", good.Extend("JOB1", "7", 1000), []violation{
		arity, numkeys("3"), idAndRow(4, 3), layout(2, "emq:{r}:active"), number(6), onReplica, foreign,
		{check: "types", want: wrongTypeText, given: []string{"DEL emq:{q}:active", "SET emq:{q}:active x"},
			broken: []string{"emq:{q}:active: is a string", "emq:{q}:job:JOB1: state active, in []"}},
		{check: "script", want: "EMQSCRIPT ", given: []string{"HSET emq:{q}:job:JOB1 group g"}},
		{check: "holder", want: "EMQSTALE extend token mismatch\r\n"},
	}},
	{"promote", good.Promote(10), []violation{
		arity, numkeys("+2"), layout(3, "emq:{r}:pending"), number(5), onReplica, foreign, wrongType("emq:{q}:pending"),
	}},
	{"reap", good.Reap(1, 10), []violation{
		arity, numkeys("2"), layout(4, "emq:{r}:dead"), number(6), onReplica, foreign, wrongType("emq:{q}:pending"),
	}},
}

// notPairs removes the last word from the last job of a list.
func notPairs(request []string) violation {
	return violation{check: "arity", want: "ERR wrong number of arguments", request: func(args []string) []string { return args[:len(request)-1] }}
}

// inList replaces a word of a job in the middle of a list.
func inList(check, want string, at int, text string) violation {
	return violation{check: check, want: want, request: word(at, text)}
}

// tooMany makes the list longer than allowed; the list begins at word `from`, and a job has n words.
func tooMany(from, n int) violation {
	return violation{check: "length", want: "ERR id must be given 1 to 1000 times, got ", request: func(args []string) []string {
		args = slices.Clone(args)
		for len(args) < from+1001*n {
			args = append(args, args[from:from+n]...)
		}
		return args
	}}
}

// The verbs for many jobs declare the base as a key. A violation in any job comes before later checks, and nothing is
// done for the other jobs.
func init() {
	base, kind := layout(1, "emq:{q}"), "EMQKIND job id must be JOB-namespaced\r\n"
	enqueue, schedule := good.Menqueue("JOB2", "x", "JOB3", "y", "JOB4", "z"), good.Mschedule("in", "JOB2", "1", "x", "JOB3", "2", "y", "JOB4", "3", "z")
	complete, extend := good.Mcomplete("JOB0", "7", "JOB1", "1", "JOB2", "3"), good.Mextend(1000, "JOB0", "7", "JOB1", "1", "JOB2", "3")
	fail := good.Mfail(3, "JOB0", "7", "0", "why", "JOB1", "1", "0", "why", "JOB2", "3", "0", "why")
	orders = append(orders,
		verbOrder{"menqueue", enqueue, []violation{
			notPairs(enqueue), inList("kind", kind, 4, "XYZ"), base, tooMany(2, 2), onReplica, foreign, wrongType("emq:{q}:pending"),
		}},
		verbOrder{"mschedule", schedule, []violation{
			notPairs(schedule), inList("kind", kind, 6, "XYZ"), base, tooMany(3, 3), {check: "keyword", want: "ERR mode ", request: word(2, "IN")},
			inList("numbers", "ERR ms ", 7, "05"), onReplica, foreign, wrongType("emq:{q}:schedule"),
		}},
		verbOrder{"mclaim", good.Mclaim(1000, 10), []violation{
			arity, base, {check: "lease", want: "ERR lease_ms ", request: word(2, "0")}, {check: "count", want: "ERR count ", request: word(3, "1001")},
			onReplica, foreign, wrongType("emq:{q}:pending"),
		}},
		verbOrder{"mcomplete", complete, []violation{
			notPairs(complete), inList("kind", kind, 6, "XYZ"), base, tooMany(2, 2), onReplica, foreign, wrongType("emq:{q}:pending"),
		}},
		verbOrder{"mextend", extend, []violation{
			notPairs(extend), inList("kind", kind, 5, "XYZ"), base, tooMany(3, 2), number(2), onReplica, foreign,
			{check: "types", want: wrongTypeText, given: []string{"DEL emq:{q}:active", "SET emq:{q}:active x"},
				broken: []string{"emq:{q}:active: is a string", "emq:{q}:job:JOB1: state active, in []"}},
		}},
		verbOrder{"mfail", fail, []violation{
			notPairs(fail), inList("kind", kind, 7, "XYZ"), base, tooMany(3, 4), number(2), inList("delay", "ERR delay_ms ", 9, "-1"), onReplica, foreign,
			wrongType("emq:{q}:dead"),
		}},
	)
}

// The verbs about a whole queue have no numkeys, and STATS runs on replicas.
func init() {
	base := violation{check: "layout", want: "EMQKEY ", request: word(1, "emq:{q}")}
	orders = append(orders,
		verbOrder{"stats", good.Stats(), []violation{arity, base, foreign, wrongType("emq:{q}:dead")}},
		verbOrder{"audit", good.Fix("0", 10), []violation{
			arity, base, {check: "option", want: "ERR fix must be ", request: word(4, "fix")},
			{check: "cursor", want: "ERR cursor must be ", request: word(2, "1")}, number(3), onReplica, foreign, wrongType("emq:{q}:dead"),
		}},
	)
}

// TestCheckOrder violates every two checks of a verb at once: the earlier one must refuse, and the request must leave
// no trace. Requests to a replica have a server of their own, since a server that becomes a replica closes its own
// replicas' links, and with them the observer's.
func TestCheckOrder(t *testing.T) {
	s, following := witnessed(t), start(t, withModule())
	for _, verb := range orders {
		for i, first := range verb.violations {
			t.Run(verb.name+"/"+first.check, func(t *testing.T) { verb.refuse(t, s, following, first) })
			for _, second := range verb.violations[i+1:] {
				t.Run(verb.name+"/"+first.check+" before "+second.check, func(t *testing.T) { verb.refuse(t, s, following, first, second) })
			}
		}
	}
}

func (verb verbOrder) refuse(t *testing.T, s, following *server, broken ...violation) {
	replica := slices.ContainsFunc(broken, func(v violation) bool { return v.check == onReplica.check })
	if replica {
		s = following
	}
	st := s.fresh(t)
	st.put(good, "JOB1", "active", "attempts", "1", "lease_epoch", "e")
	st.lapse(good, "JOB1")
	args := verb.request
	for _, v := range broken {
		if v.request != nil {
			args = v.request(args)
		}
		st.damaged(v.broken...)
		if v.check != onReplica.check {
			st.Must(v.given...)
		}
	}
	if !replica {
		st.refused(broken[0].want, args...)
		return
	}
	t.Cleanup(func() { st.Must("REPLICAOF NO ONE", "CONFIG SET replica-read-only yes") })
	st.Must(onReplica.given...)
	before := st.digest()
	st.refusal(broken[0].want, args...)
	require.Equal(t, before, st.digest())
}
