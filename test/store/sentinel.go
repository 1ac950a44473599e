package store

import (
	"fmt"
	"strconv"
	"testing"

	"emq/test/valkey"
	"emq/test/wire"
)

const (
	// Group is the Sentinels' name for a primary and its replicas.
	Group  = "emq"
	quorum = 2
)

// Sentinels starts three that watch a primary with one replica, and returns where they listen.
func Sentinels(t testing.TB, primary *Place) (addresses []string, all []*Place) {
	t.Helper()
	for range 3 {
		s := Open(t, valkey.Options{Sentinel: []string{
			fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", Group, primary.Port(), quorum),
			"sentinel down-after-milliseconds " + Group + " 3000", // so that a slow machine does not look like a dead primary
			"sentinel failover-timeout " + Group + " 10000",
		}})
		all, addresses = append(all, s), append(addresses, s.Addr())
	}
	for _, s := range all {
		c := s.Conn()
		WaitFor(t, "the Sentinels to know each other", func() bool { return monitored(c)["num-other-sentinels"] == "2" })
	}
	Agree(t, all, primary)
	return addresses, all
}

// Watched starts a primary and its replica with the same settings, and the Sentinels that watch them.
func Watched(t testing.TB, first, second func(...string) valkey.Options, settings ...string) (primary, replica *Place, addresses []string, watchers []*Place) {
	t.Helper()
	primary = Open(t, first(settings...))
	replica = Open(t, second(append(Following(primary.Addr()), settings...)...))
	replica.Linked()
	primary.Online()
	addresses, watchers = Sentinels(t, primary)
	return primary, replica, addresses, watchers
}

// monitored is what a Sentinel knows about the primary.
func monitored(c *wire.Conn) map[string]string {
	m := map[string]string{}
	list, _ := wire.Value(c.Do("SENTINEL", "MASTER", Group)).([]any)
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i].(string)] = list[i+1].(string)
	}
	return m
}

// Agree waits until all Sentinels see this server as the primary, up and with the other one as its replica.
func Agree(t testing.TB, watchers []*Place, primary *Place) {
	t.Helper()
	for _, s := range watchers {
		c := s.Conn()
		WaitFor(t, "the Sentinels to agree", func() bool {
			m := monitored(c)
			return m["port"] == strconv.Itoa(primary.Port()) && m["num-slaves"] == "1" && m["flags"] == "master"
		})
	}
}
