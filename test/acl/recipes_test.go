package acl

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/commands"
	"emq/test/store"
	"emq/test/wire"
)

// TestRecipes creates the users of docs/operations.md, word for word, and lets each do all of its work and try
// everything else.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	verbs := map[string]bool{}
	for v := range commands.Table {
		verbs[commands.Table[v].Name] = true
	}
	s := store.Serve(t)
	admin := wire.Dial(t, s.Socket)
	users := map[string]*wire.Conn{}
	for _, found := range regexp.MustCompile(`(?m)^(ACL SETUSER (\w+) on >secret .*)$`).FindAllStringSubmatch(string(page), -1) {
		admin.Must(found[1])
		c := wire.Dial(t, s.Socket)
		c.Must("AUTH " + found[2] + " secret")
		users[found[2]] = c
	}
	require.ElementsMatch(t, []string{"producer", "worker", "tenant", "operator", "observer", "viewer", "exporter", "replica"}, slices.Collect(maps.Keys(users)))
	may := func(user, reply string, args ...string) {
		t.Helper()
		require.Equal(t, reply, users[user].Do(args...), "%s: %s", user, args)
	}
	mayRun := func(user string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			reply := users[user].Do(wire.Words(line)...)
			require.False(t, wire.IsError(reply), "%s: %s: %s", user, line, reply)
		}
	}
	mayNot := func(user string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			require.Contains(t, users[user].Do(wire.Words(line)...), "-NOPERM ", "%s: %s", user, line)
		}
	}
	words := func(args []string) string { return strings.Join(args, " ") }
	mail, other := wire.Queue("mail"), wire.Queue("other")
	acme, acmes := wire.Queue("acme-mail"), wire.Queue("acme-")
	one := wire.Integer(1)

	// None of these users may administer the server or use others' keys.
	for user := range users {
		mayNot(user, "KEYS *", "FLUSHALL", "CONFIG SET dir x", "DEBUG SLEEP 0", "ACL SETUSER x", "ACL LIST", "SHUTDOWN", "MODULE UNLOAD emq", "GET outside",
			"REPLICAOF NO ONE", "CLIENT PAUSE 1", "CLIENT KILL TYPE normal", "MULTI", "EVAL \"return 1\" 0", "MONITOR", "SUBSCRIBE x", "SLOWLOG RESET",
			"HSET "+mail.Row("JOB1")+" state dead", "DEL "+mail.Dead(), "ZREM "+mail.Dead()+" JOB1", "ZADD "+mail.Pending()+" 0 JOB1", "DEL {emq}:version")
		if user != "replica" {
			mayRun(user, "PING", "HELLO 2")
		}
		if user != "producer" {
			mayNot(user, "SET {emq}:version x")
		}
	}

	// Each verb belongs to the work of one of the users that have one queue, and no other of these may call it.
	theirs := map[string][]string{
		"producer": {words(mail.Enqueue("JOB1", "x")), words(mail.ScheduleIn("JOB2", "x", 1<<40)), "EMQ.MENQUEUE emq:{mail}: JOB3 x JOB4 x JOB5 x JOB6 x",
			"EMQ.MSCHEDULE emq:{mail}: in JOB7 1000000 x"},
		"worker": {words(mail.Claim(30000)), words(mail.Extend("JOB1", "1", 30000)), words(mail.Fail("JOB1", "1", 0, 1, "why")),
			"EMQ.MCLAIM emq:{mail}: 30000 3", "EMQ.MEXTEND emq:{mail}: 30000 JOB3 1", "EMQ.MCOMPLETE emq:{mail}: JOB3 1", "EMQ.MFAIL emq:{mail}: 1 JOB4 1 0 why",
			"EMQ.BCLAIM 30000 1 emq:{mail}:", "EMQ.RELEASE emq:{mail}: JOB6 1 0", words(mail.Complete("JOB5", "1"))},
		"operator": {"EMQ.REQUEUE emq:{mail}: dead JOB1", "EMQ.REMOVE emq:{mail}: dead JOB4", "EMQ.PAUSE emq:{mail}: 0", "EMQ.RESUME emq:{mail}:",
			"EMQ.LIMIT emq:{mail}: 3 100 1000", "EMQ.LIMIT emq:{mail}: 0 0 0", "EMQ.AUDIT emq:{mail}: 0 100 FIX", words(mail.Promote(10)), words(mail.Reap(0, 10))},
	}
	for _, user := range []string{"producer", "worker", "operator"} {
		for _, line := range theirs[user] {
			verb := wire.Words(line)[0]
			mayRun(user, line)
			for another := range users {
				if another == user || another == "tenant" || another == "operator" && verb == "EMQ.RELEASE" {
					continue
				}
				mayNot(another, line)
			}
			if user != "operator" {
				mayNot(user, strings.ReplaceAll(line, "{mail}", "{other}"))
			}
			delete(verbs, verb)
		}
	}
	for _, user := range []string{"operator", "observer", "exporter", "viewer"} {
		mayRun(user, "EMQ.STATS emq:{acme-mail}:", "EMQ.QUEUES \"\" 10")
		delete(verbs, "EMQ.STATS")
		delete(verbs, "EMQ.QUEUES")
	}
	mayNot("producer", "EMQ.STATS emq:{mail}:", "EMQ.QUEUES \"\" 10", "INFO", "HGETALL "+mail.Row("JOB1"), "GET {emq}:version")
	mayNot("worker", "EMQ.STATS emq:{mail}:", "EMQ.QUEUES \"\" 10", "INFO", "HGETALL "+mail.Row("JOB1"), "GET {emq}:version")
	require.Empty(t, verbs, "verbs that are nobody's work")

	for _, q := range []wire.Queue{acme, acmes} {
		may("tenant", one, q.Enqueue("JOB1", "x")...)
		may("tenant", wire.Claimed("JOB1", "x", 1), q.Claim(30000)...)
		may("tenant", one, q.Complete("JOB1", "1")...)
		may("tenant", wire.Integer(0), q.Promote(10)...)
		may("tenant", one, q.Enqueue("JOB2", "x")...)
		mayRun("tenant", "EMQ.PAUSE "+q.Base()+" 0", "EMQ.RESUME "+q.Base())
	}
	mayNot("tenant", words(mail.Claim(1)), words(wire.Queue("acme").Claim(1)), "EMQ.PAUSE emq:{mail}: 0", "INFO", "HGETALL "+acme.Row("JOB2"))

	// An operator may look at everything, and change nothing but by the verbs.
	require.Equal(t, one, admin.Do(other.Enqueue("JOB1", "x")...))
	mayRun("operator", "HGETALL "+mail.Row("JOB1"), "HMGET "+mail.Row("JOB1")+" last_error failures", "ZRANGE "+mail.Dead()+" 0 -1", "ZSCORE "+mail.Active()+" JOB1",
		"GET {emq}:version", "SCAN 0", "INFO everything", "SLOWLOG GET", "LATENCY LATEST", "LATENCY HISTOGRAM", "CONFIG GET emq.*", "CLIENT LIST", "MEMORY USAGE "+other.Row("JOB1"),
		"BGSAVE", "ACL LOG", "ACL WHOAMI", "COMMAND DOCS EMQ.CLAIM", "MODULE LIST", "EMQ.PAUSE emq:{other}: 1", "EMQ.REQUEUE emq:{other}: dead JOB9")

	// An operator may take a job from its holder.
	admin.Must("EMQ.RESUME " + other.Base())
	require.Equal(t, wire.Claimed("JOB1", "x", 1), admin.Do(other.Claim(30000)...))
	may("operator", wire.Bulk("pending"), other.Release("JOB1", "1", 0)...)

	// An observer sees what an operator sees, and can change nothing. What package operator needs is tested there.
	mayRun("observer", "HMGET "+other.Row("JOB1")+" last_error failures", "HGET "+other.Row("JOB1")+" payload", "HSTRLEN "+other.Row("JOB1")+" payload", "EXISTS "+other.Row("JOB1"),
		"ZRANGE "+mail.Dead()+" 0 -1", "ZSCORE "+mail.Active()+" JOB1", "ZRANK "+mail.Active()+" JOB1", "ZCOUNT "+mail.Active()+" 0 1", "ZLEXCOUNT "+mail.Dead()+" - +",
		"ZCARD "+mail.Dead(), "GET {emq}:version", "INFO emq", "CONFIG GET save", "EMQ.STATS emq:{other}:")
	mayNot("observer", words(other.Release("JOB1", "1", 0)), "EMQ.AUDIT emq:{mail}: 0 1", "SCAN 0", "SLOWLOG GET", "CLIENT LIST", "BGSAVE", "ACL LOG")

	// A viewer sees its own tenant's queues, and does not learn of others.
	may("viewer", wire.Array(wire.Bulk(acme.Base()), wire.Bulk(acmes.Base())), "EMQ.QUEUES", "", "10")
	mayNot("viewer", "EMQ.STATS emq:{mail}:", "INFO", "SCAN 0", "HGETALL "+acme.Row("JOB2"), "ZRANGE "+acme.Pending()+" 0 -1", words(acme.Claim(1)), "EMQ.PAUSE emq:{acme-mail}: 0",
		"EMQ.AUDIT emq:{acme-mail}: 0 1", "EMQ.REMOVE emq:{acme-mail}: any JOB2")

	// An exporter gets the figures of all queues, and no job.
	mayRun("exporter", "INFO emq", "EMQ.STATS emq:{mail}:", "EMQ.STATS emq:{other}:")
	require.Contains(t, users["exporter"].Do("EMQ.QUEUES", "", "10"), other.Base())
	mayNot("exporter", "HGETALL "+mail.Row("JOB1"), "GET {emq}:version", "CONFIG GET *", "SCAN 0", "ZRANGE "+mail.Dead()+" 0 -1", "CLIENT LIST", "SLOWLOG GET")

	follower := store.Open(t, store.Module(append(store.Following(s.Addr()), "--primaryuser", "replica", "--primaryauth", "secret")...))
	follower.Linked()
	mayNot("replica", words(mail.Claim(1)), "GET {emq}:version", "INFO", "EMQ.STATS emq:{mail}:")
	require.Empty(t, store.Read(t, admin)[0].Check(wire.Wire6))
}
