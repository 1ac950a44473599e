package test

import (
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// TestRing runs the example on three servers that know nothing of one another: each queue lives on one of them, the one
// that the program names, and all of its jobs were done there.
func TestRing(t *testing.T) {
	program := example(t, "ring")
	servers := map[string]*fixture{}
	var addrs []string
	for range 3 {
		s := start(t, withModule())
		servers[s.Addr()], addrs = s.bare(t), append(addrs, s.Addr())
	}
	out, err := exec.Command(program, "-addrs", strings.Join(addrs, ","), "-jobs", "50").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "\n600 jobs in ")

	lives := regexp.MustCompile(`queue emq:\{(queue-\d+)\}: lives on (\S+)`).FindAllStringSubmatch(string(out), -1)
	require.Len(t, lives, 12)
	used := map[string]bool{}
	for _, found := range lives {
		used[found[2]] = true
		for addr, st := range servers {
			want := wire.Nil
			if addr == found[2] {
				want = wire.Bulk("50")
			}
			require.Equal(t, want, st.Do("HGET", queue(found[1]).Completed(), "count"), fmt.Sprint(found[1], " on ", addr))
		}
	}
	require.Len(t, used, 3)
	for _, st := range servers {
		require.Equal(t, wire.Bulk(wire.Wire6), st.Do("GET", wire.Identity))
	}
}
