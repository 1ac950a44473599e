package emq_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// The example on three servers that know nothing of one another: each queue lives on one of them, the one that the program
// names, and all of its jobs were done there. Where a fourth joins, the jobs that are left come along.
func TestRing(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ring")
	out, err := exec.Command("go", "build", "-o", program, "./examples/ring").CombinedOutput()
	require.NoError(t, err, "%s", out)
	servers := map[string]*store.Place{}
	var addrs []string
	for range 4 {
		s := serve(t)
		servers[s.Addr()], addrs = s, append(addrs, s.Addr())
	}
	ring := func(args ...string) (string, map[string]string) {
		out, err := exec.Command(program, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		lives := map[string]string{}
		for _, found := range regexp.MustCompile(`queue (queue-\d+) lives on (\S+)`).FindAllStringSubmatch(string(out), -1) {
			lives[found[1]] = found[2]
		}
		require.Len(t, lives, 12)
		return string(out), lives
	}
	completed := func(s *store.Place, queue string) string {
		return text(s.Conn().Do("HGET", wire.Queue(queue).Completed(), "count"))
	}

	said, lives := ring("-addrs", strings.Join(addrs[:3], ","), "-jobs", "50")
	require.Contains(t, said, "\n600 jobs in ")
	used := map[string]bool{}
	for queue, at := range lives {
		used[at] = true
		for addr, s := range servers {
			want := "<nil>"
			if addr == at {
				want = "50"
			}
			require.Equal(t, want, completed(s, queue), fmt.Sprint(queue, " on ", addr))
		}
	}
	require.Len(t, used, 3)

	moving := 0
	for queue, at := range lives {
		id := "JOB00000000001"
		servers[at].Conn().Do(wire.Queue(queue).ScheduleIn(id, "7", 1<<40)...)
	}
	said, now := ring("-addrs", strings.Join(addrs, ","), "-jobs", "50", "-drain")
	for queue, at := range now {
		if at != lives[queue] {
			moving++
			require.Equal(t, addrs[3], at)
		}
		require.Equal(t, "1", sizes(t, servers[at], queue)["scheduled"])
	}
	require.NotZero(t, moving)
	require.Contains(t, said, fmt.Sprintf("%d jobs moved\n", moving))
}

// The program of docs/clients-go.md, which enqueues a job, does it, and stops in order when it is told to.
func TestHello(t *testing.T) {
	s := serve(t)
	program := filepath.Join(t.TempDir(), "hello")
	out, err := exec.Command("go", "build", "-ldflags", "-X main.url=valkey://"+s.Addr(), "-o", program, "./examples/hello").CombinedOutput()
	require.NoError(t, err, "%s", out)
	hello := exec.Command(program)
	said := &bytes.Buffer{}
	hello.Stderr = said
	require.NoError(t, hello.Start())
	store.WaitFor(t, "the job", func() bool { return sizes(t, s, "mails")["completed"] == "1" })
	require.NoError(t, hello.Process.Signal(syscall.SIGTERM))
	require.NoError(t, hello.Wait())
	require.Contains(t, said.String(), "to ann\n")
	require.Contains(t, said.String(), "the worker has stopped completed=1")
}
