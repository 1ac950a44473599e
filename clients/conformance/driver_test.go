package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait for a driver, so that a hang is a failure. Nothing is asserted about speed.
const patience = 60 * time.Second

// object is what JSON has between braces.
type object = map[string]any

// client is a package with a library below it, and how its driver is started.
type client struct {
	name  string
	env   []string
	argv  []string
	lacks map[string]string // why it can't play some scenarios, by their names
}

// clients are those that the suite tries. tools/clients.sh installs what they need.
func clients(t testing.TB) (all []client) {
	t.Helper()
	at := func(path string) string {
		abs, err := filepath.Abs(path)
		require.NoError(t, err)
		return abs
	}
	for _, side := range []string{"threads", "asyncio"} {
		argv := []string{"/usr/bin/python3", at("drivers/driver.py"), side}
		all = append(all,
			client{"redis-py 4, " + side, []string{"PYTHONPATH=" + at("../python")}, argv, nil},
			client{"redis-py 6, " + side, []string{"PYTHONPATH=" + at("../python") + ":" + at("../../build/clients/python")}, argv, nil})
	}
	for _, library := range []string{"iovalkey", "ioredis"} {
		all = append(all, client{library, nil, []string{"node", at("drivers/driver.mjs"), library}, nil})
	}
	if _, err := os.Stat("../go/go.mod"); err == nil {
		all = append(all, client{"valkey-go", nil, []string{goDriver()}, map[string]string{
			"a delay that is none":                          "a time.Duration ends at 292 years, before the contract's delays do",
			"a connection that falls silent costs no lease": "it shares the connection with all that waits for an answer, and makes no other while it stands",
			"a lease counts from when its claim was sent":   "it fills its slots before it waits: the claim whose answer is held has all the jobs",
		}})
	}
	return all
}

// goDriver builds the driver of the Go package, once; what is returned may not be there.
var goDriver = sync.OnceValue(func() string {
	path := filepath.Join(scratch, "driver")
	if out, err := exec.Command("go", "build", "-C", "drivers/go", "-o", path, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s", err, out)
	}
	return path
})

// scratch is a folder for as long as the tests run.
var scratch string

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "4") // a scenario waits more than it works
	var err error
	if scratch, err = os.MkdirTemp("", "emq"); err != nil {
		panic(err)
	}
	status := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(status)
}

// need skips the test if a client is not here. With EMQ_CLIENTS=all that is a failure.
func (c client) need(t testing.TB) {
	t.Helper()
	if why := c.missing(); why != "" {
		require.NotEqual(t, "all", os.Getenv("EMQ_CLIENTS"), why)
		t.Skipf("not here (tools/clients.sh installs it): %s", why)
	}
}

func (c client) missing() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin = strings.NewReader(`{"n": 1, "do": "version"}` + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s: %s", err, out)
	}
	if _, want, ok := strings.Cut(c.name, "redis-py "); ok && !strings.Contains(string(out), `"`+want[:1]+".") {
		return "another version: " + string(out) // without the folder the system's library would be taken
	}
	return ""
}

// driver is a running driver.
type driver struct {
	t    testing.TB
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser

	sync.Mutex
	n       int
	answers map[int]object
	events  []object
	on      func(event object) // told of each event, instead of their being kept; the lock is held
	log     strings.Builder
	ended   bool
}

// start starts a driver, which ends with the test. The test shows what it logged if it fails.
func (c client) start(t testing.TB, on func(event object)) *driver {
	t.Helper()
	d := &driver{t: t, name: c.name, cmd: exec.Command(c.argv[0], c.argv[1:]...), answers: map[int]object{}, on: on}
	d.cmd.Env = append(os.Environ(), c.env...)
	var err error
	d.in, err = d.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := d.cmd.StdoutPipe()
	require.NoError(t, err)
	problems, err := d.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() { d.read(out, d.take) })
	reading.Go(func() { d.read(problems, func(line string) { d.log.WriteString(line + "\n") }) })
	gone := make(chan struct{})
	go func() {
		reading.Wait()
		_ = d.cmd.Wait()
		d.Lock()
		d.ended = true
		d.Unlock()
		close(gone)
	}()
	t.Cleanup(func() {
		_ = d.in.Close()
		select {
		case <-gone:
		case <-time.After(patience):
			_ = d.cmd.Process.Kill()
			t.Errorf("%s: the driver did not end with its input", d.name)
			<-gone
		}
		if t.Failed() {
			t.Logf("%s logged:\n%s\nevents that nobody waited for: %v", d.name, d.log.String(), d.events)
		}
	})
	return d
}

// kill ends the driver at once, and returns when all that it said has been read.
func (d *driver) kill() {
	_ = d.cmd.Process.Kill()
	d.wait("the driver's end", func() bool { return d.ended })
}

func (d *driver) read(from io.Reader, line func(string)) {
	for lines := bufio.NewReader(from); ; {
		text, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		d.Lock()
		line(strings.TrimSuffix(text, "\n"))
		d.Unlock()
	}
}

// take takes a line of the driver's: an answer or an event.
func (d *driver) take(line string) {
	var said object
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		said = object{"event": "nonsense", "text": line}
	}
	if n, ok := said["n"].(float64); ok {
		d.answers[int(n)] = said
	} else if d.on != nil {
		d.on(said)
	} else {
		d.events = append(d.events, said)
	}
}

// send sends a request and returns its number, for answer. A driver that was killed does not get it.
func (d *driver) send(request object) int {
	d.t.Helper()
	d.Lock()
	d.n++
	n := d.n
	d.Unlock()
	line := object{"n": n}
	maps.Copy(line, request)
	text, err := json.Marshal(line)
	require.NoError(d.t, err)
	_, _ = d.in.Write(append(text, '\n'))
	return n
}

// answer waits for the answer to a request: what came of it, or an error. It is not told if the driver is gone.
func (d *driver) answer(n int) (ok any, failed object, told bool) {
	d.t.Helper()
	var said object
	d.wait(fmt.Sprintf("the answer to request %d", n), func() bool {
		said = d.answers[n]
		delete(d.answers, n)
		return said != nil || d.ended
	})
	failed, _ = said["error"].(object)
	return said["ok"], failed, said != nil
}

// hear waits for the first event that is as wanted, and takes it out.
func (d *driver) hear(want object) (heard object) {
	d.t.Helper()
	d.wait(fmt.Sprintf("the event %v", want), func() bool {
		heard = d.pick(want)
		return heard != nil
	})
	return heard
}

// heard tells whether such an event came already, and takes it out.
func (d *driver) heard(want object) bool {
	d.Lock()
	defer d.Unlock()
	return d.pick(want) != nil
}

func (d *driver) pick(want object) object {
	for i, event := range d.events {
		if differs(want, event) == "" {
			d.events = append(d.events[:i:i], d.events[i+1:]...)
			return event
		}
	}
	return nil
}

func (d *driver) wait(what string, happened func() bool) {
	d.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		d.Lock()
		ok := happened()
		d.Unlock()
		if ok {
			return
		}
		require.True(d.t, time.Now().Before(end), "%s: waited too long for %s", d.name, what)
	}
}
