package acl

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// TestRecipes makes the users that docs/operations.md tells of, word for word, and lets each do its trade and no other.
func TestRecipes(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	s := store.Serve(t)
	admin := wire.Dial(t, s.Socket)
	users := map[string]*wire.Conn{}
	for _, found := range regexp.MustCompile(`(?m)^(ACL SETUSER (\w+) on >secret .*)$`).FindAllStringSubmatch(string(page), -1) {
		admin.Must(found[1])
		c := wire.Dial(t, s.Socket)
		c.Must("AUTH " + found[2] + " secret")
		users[found[2]] = c
	}
	require.Len(t, users, 6)
	may := func(user, reply string, args ...string) {
		t.Helper()
		require.Equal(t, reply, users[user].Do(args...), "%s: %s", user, args)
	}
	mayRun := func(user string, lines ...string) {
		t.Helper()
		for _, line := range lines {
			require.False(t, wire.IsError(users[user].Do(wire.Words(line)...)), "%s: %s", user, line)
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

	may("producer", wire.Integer(1), mail.Enqueue("JOB1", "x")...)
	may("producer", wire.Integer(1), mail.ScheduleIn("JOB2", "x", 1<<40)...)
	may("worker", wire.Claimed("JOB1", "x", 1), mail.Claim(30000)...)
	may("worker", wire.Integer(1), mail.Extend("JOB1", "1", 30000)...)
	may("worker", wire.Bulk("dead"), mail.Fail("JOB1", "1", 0, 1, "why")...)
	mayNot("producer", words(mail.Claim(1)), words(other.Enqueue("JOB1", "x")), "GET {emq}:version", "HGETALL "+mail.Row("JOB1"), "DEL "+mail.Dead(), "INFO")
	mayNot("worker", words(mail.Enqueue("JOB3", "x")), words(other.Claim(1)), "HGETALL "+mail.Row("JOB1"), "INFO")

	for _, q := range []wire.Queue{acme, acmes} {
		may("tenant", wire.Integer(1), q.Enqueue("JOB1", "x")...)
		may("tenant", wire.Claimed("JOB1", "x", 1), q.Claim(30000)...)
		may("tenant", wire.Integer(1), q.Complete("JOB1", "1")...)
		may("tenant", wire.Integer(0), q.Promote(10)...)
	}
	mayNot("tenant", words(mail.Claim(1)), words(wire.Queue("acme").Claim(1)), "SET {emq}:version x", "KEYS *", "INFO")

	// An operator looks at everything, puts right and removes jobs, and gets no further.
	mayRun("operator", "HGETALL "+mail.Row("JOB1"), "ZRANGE "+mail.Dead()+" 0 -1", "GET {emq}:version", "SCAN 0", "INFO everything", "SLOWLOG GET",
		"LATENCY LATEST", "CONFIG GET emq.*", "CLIENT LIST", "MEMORY USAGE "+mail.Row("JOB1"), "BGSAVE", "ACL LOG", "COMMAND DOCS EMQ.CLAIM", "MODULE LIST", "EMQ.STATS emq:{mail}:", "EMQ.AUDIT emq:{mail}: 0 100 FIX")
	may("operator", wire.Integer(1), "ZREM", mail.Dead(), "JOB1")
	may("operator", wire.Integer(1), "DEL", mail.Row("JOB1"))
	may("operator", wire.Integer(0), mail.Promote(10)...)
	mayNot("operator", "SET {emq}:version x", "DEL {emq}:version", "KEYS *", "FLUSHALL", "CONFIG SET dir x", "DEBUG SLEEP 0", "ACL SETUSER x", "SHUTDOWN",
		"MODULE UNLOAD emq", "GET outside", "REPLICAOF NO ONE")

	mayRun("watcher", "PING", "INFO everything", "SLOWLOG GET", "LATENCY LATEST", "LATENCY HISTOGRAM", "EMQ.STATS emq:{mail}:")
	mayNot("watcher", words(mail.Claim(1)), "EMQ.AUDIT emq:{mail}: 0 1", "GET {emq}:version", "SLOWLOG RESET", "CONFIG GET *", "LATENCY RESET", "SCAN 0")

	follower := store.Open(t, store.Module(append(store.Following(s.Addr()), "--primaryuser", "replica", "--primaryauth", "secret")...))
	follower.Linked()
	mayNot("replica", words(mail.Claim(1)), "GET {emq}:version", "INFO")
	require.Empty(t, store.Read(t, admin)[0].Check(wire.Wire6))
}
