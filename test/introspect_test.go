package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// described is what a client can learn about a verb before it uses it.
type described struct {
	request  []string
	arity    int64
	keys     []string // in the order of the request
	argNames []string
	block    []string // the names within the last argument, which may be repeated
	flags    []string // in addition to those that every verb has
}

var catalogue = map[string]described{
	"emq.enqueue": {
		request: good.Enqueue("JOB1", "x"), arity: 6, keys: []string{good.Row("JOB1"), good.Pending()},
		argNames: []string{"numkeys", "row", "pending", "id", "payload"}, flags: []string{"denyoom"},
	},
	"emq.claim": {
		request: good.Claim(1000), arity: 6, keys: []string{good.Pending(), good.Active()},
		argNames: []string{"numkeys", "pending", "active", "rowprefix", "lease_ms"},
	},
	"emq.complete": {
		request: good.Complete("JOB1", "1"), arity: 7, keys: []string{good.Active(), good.Row("JOB1")},
		argNames: []string{"numkeys", "active", "row", "id", "token", "base"},
	},
	"emq.fail": {
		request: good.Fail("JOB1", "1", 0, 1, "why"), arity: 12, keys: []string{good.Active(), good.Schedule(), good.Dead(), good.Row("JOB1")},
		argNames: []string{"numkeys", "active", "schedule", "dead", "row", "id", "token", "delay_ms", "max", "error", "base"},
	},
	"emq.schedule": {
		request: good.ScheduleIn("JOB1", "x", 1000), arity: 8, keys: []string{good.Row("JOB1"), good.Schedule()},
		argNames: []string{"numkeys", "row", "schedule", "id", "payload", "mode", "ms"}, flags: []string{"denyoom"},
	},
	"emq.extend": {
		request: good.Extend("JOB1", "1", 1000), arity: 7, keys: []string{good.Active(), good.Row("JOB1")},
		argNames: []string{"numkeys", "active", "row", "id", "token", "lease_ms"},
	},
	"emq.promote": {
		request: good.Promote(10), arity: 6, keys: []string{good.Schedule(), good.Pending()},
		argNames: []string{"numkeys", "schedule", "pending", "base", "limit"},
	},
	"emq.reap": {
		request: good.Reap(3, 10), arity: 8, keys: []string{good.Active(), good.Pending(), good.Dead()},
		argNames: []string{"numkeys", "active", "pending", "dead", "base", "max_stalled", "limit"},
	},
	"emq.stats": {
		request: good.Stats(), arity: 2, keys: []string{good.Base()}, argNames: []string{"base"}, flags: []string{"readonly"},
	},
	"emq.audit": {
		request: good.Audit("0", 10), arity: -4, keys: []string{good.Base()}, argNames: []string{"base", "cursor", "count", "fix"},
	},
	"emq.bclaim": {
		request: []string{"EMQ.BCLAIM", "1000", "0", good.Base(), "emq:{other}:"}, arity: -4, keys: []string{good.Base(), "emq:{other}:"},
		argNames: []string{"lease_ms", "timeout_ms", "base"}, flags: []string{"blocking"},
	},
	"emq.queues": {request: wire.Queues("", 10), arity: 3, argNames: []string{"after", "count"}, flags: []string{"readonly"}},
}

// The verbs for many jobs, in which the arguments of a job form a block.
func init() {
	for verb, d := range map[string]described{
		"emq.menqueue":  {request: good.Menqueue("JOB1", "x", "JOB2", "y"), arity: -4, argNames: []string{"base", "job"}, block: []string{"id", "payload"}, flags: []string{"denyoom"}},
		"emq.mschedule": {request: good.Mschedule("at", "JOB1", "1", "x"), arity: -6, argNames: []string{"base", "mode", "job"}, block: []string{"id", "ms", "payload"}, flags: []string{"denyoom"}},
		"emq.mclaim":    {request: good.Mclaim(1000, 10), arity: 4, argNames: []string{"base", "lease_ms", "count"}},
		"emq.mcomplete": {request: good.Mcomplete("JOB1", "1", "JOB2", "1"), arity: -4, argNames: []string{"base", "job"}, block: []string{"id", "token"}},
		"emq.mextend":   {request: good.Mextend(1000, "JOB1", "1"), arity: -5, argNames: []string{"base", "lease_ms", "job"}, block: []string{"id", "token"}},
		"emq.mfail":     {request: good.Mfail(3, "JOB1", "1", "0", "why"), arity: -7, argNames: []string{"base", "max", "job"}, block: []string{"id", "token", "delay_ms", "error"}},
	} {
		d.keys = []string{good.Base()}
		catalogue[verb] = d
	}
}

// texts reads a reply that is a list of strings.
func texts(v any) []string {
	var list []string
	for _, e := range v.([]any) {
		list = append(list, e.(string))
	}
	return list
}

// fields reads a reply of names and values.
func fields(v any) map[string]any {
	m := map[string]any{}
	list := v.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i].(string)] = list[i+1]
	}
	return m
}

func TestCommandInfo(t *testing.T) {
	st := open(t)
	for verb, d := range catalogue {
		t.Run(verb, func(t *testing.T) {
			info := value(st.Do("COMMAND", "INFO", verb)).([]any)[0].([]any)
			assert.True(t, strings.EqualFold(verb, info[0].(string)))
			assert.Equal(t, d.arity, info[1])
			flags := texts(info[2])
			reads := slices.Contains(d.flags, "readonly")
			assert.Equal(t, reads, slices.Contains(flags, "readonly"), "readonly")
			assert.Equal(t, !reads, slices.Contains(flags, "write"), "write")
			assert.Contains(t, flags, "module")
			assert.Equal(t, d.keys != nil, slices.Contains(flags, "movablekeys"))
			for _, f := range []string{"denyoom", "blocking"} {
				assert.Equal(t, slices.Contains(d.flags, f), slices.Contains(flags, f), f)
			}
			for _, f := range []string{"admin", "noscript", "loading", "stale", "no_multi", "pubsub"} {
				assert.NotContains(t, flags, f)
			}
			categories := texts(info[6])
			assert.Contains(t, categories, "@emq")
			assert.Equal(t, !reads, slices.Contains(categories, "@write"))
			assert.Equal(t, reads, slices.Contains(categories, "@read"))
			assert.Equal(t, slices.Contains(flags, "fast"), slices.Contains(categories, "@fast"))
			assert.NotEqual(t, slices.Contains(categories, "@fast"), slices.Contains(categories, "@slow"), "one of the two")
			specs := info[8].([]any)
			require.Equal(t, d.keys != nil, len(specs) > 0)
			for _, spec := range specs {
				access := texts(fields(spec)["flags"])
				assert.Len(t, intersect(access, []string{"RO", "RW", "OW", "RM"}), 1, "%v", access)
				assert.Equal(t, reads, slices.Contains(access, "RO"), "a verb that writes asks for the right to write")
				assert.NotContains(t, access, "incomplete")
			}
		})
	}
	assert.Nil(t, value(st.Do("COMMAND", "INFO", "emq.nosuch")).([]any)[0])
}

func intersect(a, b []string) []string {
	var both []string
	for _, x := range a {
		if slices.Contains(b, x) {
			both = append(both, x)
		}
	}
	return both
}

func TestCommandDocs(t *testing.T) {
	st := open(t)
	for verb, d := range catalogue {
		t.Run(verb, func(t *testing.T) {
			reply := value(st.Do("COMMAND", "DOCS", verb)).([]any)
			require.Len(t, reply, 2)
			docs := fields(reply[1])
			assert.NotEmpty(t, docs["summary"])
			assert.NotEmpty(t, docs["complexity"])
			assert.NotEmpty(t, docs["since"])
			assert.Equal(t, "module", docs["group"])
			assert.Equal(t, "emq", docs["module"])
			arguments := docs["arguments"].([]any)
			assert.Equal(t, d.argNames, argNames(arguments))
			last := fields(arguments[len(arguments)-1])
			if d.block == nil {
				assert.NotEqual(t, "block", last["type"])
				return
			}
			assert.Equal(t, "block", last["type"])
			assert.Contains(t, texts(last["flags"]), "multiple")
			assert.Equal(t, d.block, argNames(last["arguments"].([]any)))
		})
	}
}

func argNames(arguments []any) (names []string) {
	for _, a := range arguments {
		names = append(names, fields(a)["name"].(string))
	}
	return names
}

func TestCommandGetKeys(t *testing.T) {
	st := open(t)
	for verb, d := range catalogue {
		t.Run(verb, func(t *testing.T) {
			if d.keys == nil {
				st.refusal("ERR The command has no key arguments", append([]string{"COMMAND", "GETKEYS"}, d.request...)...)
				return
			}
			assert.Equal(t, d.keys, texts(value(st.Do(append([]string{"COMMAND", "GETKEYS"}, d.request...)...))))
			var names []string
			for _, pair := range value(st.Do(append([]string{"COMMAND", "GETKEYSANDFLAGS"}, d.request...)...)).([]any) {
				key := pair.([]any)
				names = append(names, key[0].(string))
				access := texts(key[1])
				assert.Len(t, intersect(access, []string{"RO", "RW", "OW", "RM"}), 1, "%v", access)
				assert.Equal(t, slices.Contains(d.flags, "readonly"), slices.Contains(access, "RO"))
			}
			assert.Equal(t, d.keys, names)
			if d.argNames[0] != "numkeys" {
				return
			}
			// The positions of the keys are fixed, so that a wrong numkeys can't hide one from the ACL.
			for _, count := range []string{"0", "1", "02", "+2", "x", "", "99", "-1", nines} {
				request := append([]string{"COMMAND", "GETKEYS"}, with(d.request, 1, count)...)
				assert.Equal(t, d.keys, texts(value(st.Do(request...))), "numkeys %q", count)
			}
		})
	}
}

func TestCommandList(t *testing.T) {
	st := open(t)
	var want []string
	for verb := range catalogue {
		want = append(want, verb)
	}
	var got []string
	for _, name := range texts(value(st.Do("COMMAND", "LIST", "FILTERBY", "ACLCAT", "emq"))) {
		got = append(got, strings.ToLower(name))
	}
	assert.ElementsMatch(t, want, got)
	for _, name := range got {
		assert.True(t, strings.HasPrefix(name, "emq."), name)
	}
	assert.ElementsMatch(t, got, lower(texts(value(st.Do("COMMAND", "LIST", "FILTERBY", "MODULE", "emq")))))
	assert.Contains(t, st.Do("ACL", "CAT"), "emq")
}

func lower(list []string) []string {
	for i := range list {
		list[i] = strings.ToLower(list[i])
	}
	return list
}

// The first word of a refusal is its class, and the server counts refusals by it.
func TestErrorStats(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	st.put(good, "JOB1", "active", "attempts", "1")
	st.put(good, "JOB2", "active", "attempts", "1", "group", "g")
	st.refusal("EMQKIND ", good.Enqueue("XYZ", "x")...)
	st.refusal("EMQKEY ", with(good.Enqueue("JOB1", "x"), 3, "other")...)
	st.refusal("EMQSTALE ", good.Complete("JOB1", "9")...)
	st.refusal("EMQSCRIPT ", good.Complete("JOB2", "1")...)
	st.refusal("ERR ", good.Claim(0)...)
	st.Must("SET {emq}:version echomq:4.0.0")
	st.refusal("EMQFENCE ", good.Claim(1)...)
	for _, class := range []string{"EMQKIND", "EMQKEY", "EMQSTALE", "EMQSCRIPT", "ERR", "EMQFENCE"} {
		assert.Equal(t, "count=1", st.Info("errorstat_"+class), class)
	}
	st.Must("SET {emq}:version " + wire6)
}
