// Package clients answers one question: how do common clients cope with the verbs? Each does the same deeds with its
// default settings, and with those that docs/protocol.md advises. The results that its user sees are compared with the
// page's table of clients.
package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/link"
	"emq/test/store"
	"emq/test/wire"
)

const (
	mail   = wire.Queue("mail")
	first  = "JOB00000000001"
	second = "JOB00000000002"
	lease  = 30000
	secret = "secret"
	// binary is a payload that is no UTF-8.
	binary = "\xff\x00\xfe"
)

// deed is a task for a client. If it needs a setting, that is the page's.
type deed string

const (
	life           deed = "life"                    // ENQUEUE, CLAIM, COMPLETE, CLAIM
	lifeUncached   deed = "life uncached"           // the same, without the client's cache
	claim          deed = "claim"                   // and the answer is lost
	claimOnce      deed = "claim once"              // the same, so that it is sent once
	claimReconnect deed = "claim reconnect"         // the same, with a setting that sends it again
	claimUnresent  deed = "claim unresent"          // the same, with a setting that leaves it open
	claimText      deed = "claim text"              // of a job whose payload is no UTF-8
	claimDecoded   deed = "claim decoded"           // the same, with a setting that decodes
	claimBytes     deed = "claim bytes"             // the same, as bytes
	settleStale    deed = "settle stale"            // COMPLETE with a token that is not the holder's
	claimInMulti   deed = "claim in multi"          // CLAIM and such a COMPLETE in one MULTI
	rescued        deed = "claim in multi, rescued" // the same, so that no reply is lost
	inPipeline     deed = "claim in pipeline"       // the two in a pipeline without MULTI
	prefixed       deed = "enqueue prefixed"        // SET and ENQUEUE, with a prefix for keys set in the client
	wrong          deed = "claim wrong"             // CLAIM with a lease that is no number
	wrongExplained deed = "claim wrong, last error" // the same, and then the client is asked for the error

	// BCLAIM, as the client comes, and then set up as the page says.
	waitShort        deed = "wait 3000" // for 3000 ms; no job comes
	waitLong         deed = "wait 12000"
	waitForEver      deed = "wait 0"
	waitBeside       deed = "wait beside"    // and when told so, an ENQUEUE by the same client
	waitGivenUp      deed = "wait given up"  // and when told so, or after the client's own timeout, it is given up
	waitCancelled    deed = "wait cancelled" // the same, with asyncio
	waitShifted      deed = "wait shifted"   // given up, then PING on the same connection
	waitGivenUpRight deed = "wait given up right"
	waitDeadline     deed = "wait deadline right" // given up by a context's deadline
	waitLongRight    deed = "wait 12000 right"
	waitForEverRight deed = "wait 0 right"
	waitBesideRight  deed = "wait beside right"
	waitUnblocked    deed = "wait unblocked right" // CLIENT ID, BCLAIM until CLIENT UNBLOCK, PING, on one connection
)

// right reports whether the client has the page's settings for calls that wait.
func (d deed) right() bool { return strings.HasSuffix(string(d), " right") }

// said is what the user of a client sees: a reply or an exception.
type said struct {
	Reply any    `json:"reply"`
	Error string `json:"error"`
}

// program does deeds with one client.
type program struct {
	version func(t *testing.T) said
	start   func(t *testing.T, addr string, deed deed, user string) *run
}

// run is a deed in progress.
type run struct {
	next  func()          // makes the client give up a waiting claim, or send another command meanwhile
	ended <-chan struct{} // the waiting claim is over for the client
	end   func() said     // waits for the end of the deed
}

// run does a deed.
func (p program) run(t *testing.T, addr string, deed deed, user string) said {
	t.Helper()
	return p.start(t, addr, deed, user).end()
}

// programs are the clients of the page's table, by their names there. tools/clients.sh installs those that are not Go
// modules.
var programs = map[string]program{
	"go-redis 9.23":      goRedis,
	"valkey-go 1.0.79":   valkeyGo,
	"rueidis 1.0.79":     rueidisOfGo,
	"redigo 1.9":         redigo,
	"node-redis 6.3":     child("", "node", "testdata/node/client.mjs", "redis"),
	"ioredis 6.0":        child("", "node", "testdata/node/client.mjs", "ioredis"),
	"iovalkey 0.4":       child("", "node", "testdata/node/client.mjs", "iovalkey"),
	"GLIDE for Node 2.5": child("", "node", "testdata/node/client.mjs", "@valkey/valkey-glide"),
	"redis-py 4.3":       child("", "/usr/bin/python3", "testdata/python/client.py", "redis"),
	"redis-py 6.4":       child("PYTHONPATH=python", "/usr/bin/python3", "testdata/python/client.py", "redis"),
	"valkey-py 6.1":      child("PYTHONPATH=python", "/usr/bin/python3", "testdata/python/client.py", "valkey"),
	"redis-rb 4.8":       child("", "ruby", "testdata/ruby/client.rb"),
	"redis-rb 6.0":       child("RUBYLIB=ruby", "ruby", "testdata/ruby/client.rb"),
	"phpredis 5.3":       child("", "php", "testdata/php/client.php"),
	"Redis::Fast 0.34":   child("", "/usr/bin/perl", "testdata/perl/client.pl"),
}

// These tests spend most of their time waiting for clients, so TestMain lets more of them run in parallel.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "8")
	os.Exit(m.Run())
}

// child is a program in another language. It may need a library of its own: NAME=folder, below build/clients.
func child(library string, argv ...string) program {
	start := func(args ...string) *run {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a hanging one fails the test
		cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
		if name, folder, ok := strings.Cut(library, "="); ok {
			path, err := filepath.Abs("../../build/clients/" + folder)
			if err == nil {
				_, err = os.Stat(path) // without it the system's library would be taken
			}
			if err != nil {
				cmd.Err = err
			}
			cmd.Env = append(os.Environ(), name+"="+path)
		}
		var problems strings.Builder
		cmd.Stderr = &problems
		in, inErr := cmd.StdinPipe()
		out, outErr := cmd.StdoutPipe()
		err := errors.Join(inErr, outErr)
		if err == nil {
			err = cmd.Start()
		}
		ended, last := make(chan struct{}), make(chan string, 1)
		end := sync.OnceFunc(func() { close(ended) })
		if err == nil {
			go func() {
				line := ""
				for lines := bufio.NewScanner(out); lines.Scan(); { // GLIDE logs to the standard output
					if line = lines.Text(); line == "ended" {
						end()
					}
				}
				end()
				last <- line
			}()
		}
		return &run{
			next:  func() { _, _ = io.WriteString(in, "next\n") },
			ended: ended,
			end: func() (s said) {
				defer cancel()
				if err == nil {
					_ = in.Close()
					line := <-last // read to its end, as Wait requires
					if err = cmd.Wait(); err == nil {
						err = json.Unmarshal([]byte(line), &s)
					}
				}
				if err != nil {
					return said{Error: fmt.Sprintf("%s: %s\n%s", argv[0], err, problems.String())}
				}
				return s
			},
		}
	}
	version := sync.OnceValue(func() said { return start("version").end() })
	return program{
		version: func(*testing.T) said { return version() },
		start: func(t *testing.T, addr string, deed deed, user string) *run {
			t.Helper()
			host, port, err := net.SplitHostPort(addr)
			require.NoError(t, err)
			return start(string(deed), host, port, user)
		},
	}
}

// need makes the test parallel, and skips it if a client is not installed, or in another version than the page's. With
// EMQ_CLIENTS=all a missing client is a failure.
func (p program) need(t *testing.T, name string) {
	t.Helper()
	t.Parallel()
	version, of := p.version(t), name[strings.LastIndex(name, " ")+1:]
	if version.Error != "" {
		require.NotEqual(t, "all", os.Getenv("EMQ_CLIENTS"), version.Error)
		t.Skipf("not here (tools/clients.sh installs it): %s", version.Error)
	}
	if here := version.Reply.(string) + "."; !strings.HasPrefix(here, of+".") {
		t.Skipf("here is %s", here)
	}
}

// serve starts a server whose first database is claimed and has the given jobs pending.
func serve(t *testing.T, payload string, ids ...string) (*store.Place, *wire.Conn) {
	t.Helper()
	s := store.Open(t, store.Module())
	c := s.Conn()
	c.Must("SET " + wire.Identity + " " + wire.Wire6)
	for _, id := range ids {
		require.Equal(t, wire.Integer(1), c.Do(mail.Enqueue(id, payload)...))
	}
	return s, c
}

// A job's whole life, as a program sees it.
var lived = said{Reply: replies(`[1, ["JOB00000000001", "hello", 1], 1, []]`)}

// replies parses replies in the form in which a program writes them.
func replies(text string) (v any) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(err)
	}
	return v
}

// same converts the numbers of a reply from Go to those of JSON.
func (s said) same(t *testing.T) said {
	t.Helper()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	var again said
	require.NoError(t, json.Unmarshal(text, &again))
	return again
}

// The page's table of clients: each row is tested, and each program has a row.
func TestTableOfClients(t *testing.T) {
	t.Parallel()
	for _, row := range table(t, "| client | a CLAIM whose answer is lost |", 5) {
		p, name := programs[row[0]], row[0]
		t.Run(name, func(t *testing.T) {
			p.need(t, name)
			t.Run("lost answer", func(t *testing.T) { require.Equal(t, row[1], p.lost(t, claim)) })
			t.Run("rights", func(t *testing.T) { require.Equal(t, row[2], p.limited(t, "+@emq", life)) })
			t.Run("bytes", func(t *testing.T) { require.Equal(t, row[3], p.bytes(t, claimText)) })
			t.Run("MULTI", func(t *testing.T) { require.Equal(t, row[4], p.multi(t, claimInMulti)) })
		})
	}
}

// table reads the page's table with that head: it must have a row for each program, and a program for each row.
func table(t *testing.T, head string, columns int) (rows [][]string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(page), head)
	require.True(t, ok, "the page has no such table")
	text, _, _ := strings.Cut(rest, "\n\n")
	for _, line := range strings.Split(text, "\n")[2:] {
		row := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, row, columns, line)
		require.Contains(t, programs, row[0], "nobody tries it")
		rows = append(rows, row)
	}
	require.Len(t, rows, len(programs), "rows and programs")
	return rows
}

// lost makes a client claim and loses the reply: how often does the server get the claim?
func (p program) lost(t *testing.T, deed deed) string {
	t.Helper()
	s, c := serve(t, "hello", first, second)
	l := link.New(t, s.Addr())
	l.Lose("EMQ.CLAIM", func() {
		store.WaitFor(t, "the claim to be carried out", func() bool { return c.Info("emq_claim_claimed") == "1" })
	})
	got := p.run(t, l.Address(), deed, "")
	claims := map[string]string{"1": "sent once", "2": "sent twice"}[c.Info("emq_claim_claimed")]
	if claims == "sent twice" {
		require.Equal(t, said{Reply: replies(`["JOB00000000002", "hello", 1]`)}, got.same(t), "the other job")
	} else if deed != claimUnresent {
		require.NotEmpty(t, got.Error)
	}
	if got.Reply == "never" {
		return "never ends"
	}
	return claims
}

// limited runs a deed as a user with some rights to the queue.
func (p program) limited(t *testing.T, rights string, deed deed) string {
	t.Helper()
	s, c := serve(t, "")
	c.Must("ACL SETUSER worker on >" + secret + " " + rights + " ~emq:{mail}:*")
	got := p.run(t, s.Addr(), deed, "worker").same(t)
	if got.Error != "" {
		require.Regexp(t, "(?i)no permissions", got.Error)
		return "locked out"
	}
	require.Equal(t, lived.Reply, got.Reply)
	return "works"
}

// bytes makes a client claim a job whose payload is not UTF-8.
func (p program) bytes(t *testing.T, deed deed) string {
	t.Helper()
	s, c := serve(t, binary, first)
	got := p.run(t, s.Addr(), deed, "").same(t)
	require.Equal(t, "1", c.Info("emq_claim_claimed"), "the job is claimed nevertheless")
	if got.Error != "" {
		require.Regexp(t, "(?i)utf-8", got.Error)
		return "raises"
	}
	job := got.Reply.([]any)
	require.Equal(t, first, job[0])
	return map[any]string{"ff00fe": "kept", "efbfbd00efbfbd": "mangled"}[job[1]]
}

// multi makes a client send a CLAIM together with a COMPLETE that is refused: does its user get the job?
func (p program) multi(t *testing.T, deed deed) string {
	t.Helper()
	s, c := serve(t, "hello", first)
	got := p.run(t, s.Addr(), deed, "").same(t)
	require.Equal(t, "1", c.Info("emq_claim_claimed"), "the job is claimed nevertheless")
	if got.Error != "" {
		require.Regexp(t, "EMQSTALE|1 commands failed", got.Error)
		return "raises"
	}
	list := got.Reply.([]any)
	require.Equal(t, replies(`["JOB00000000001", "hello", 1]`), list[0])
	require.Contains(t, list[1].(map[string]any)["error"], "EMQSTALE")
	return "both replies"
}

// What the page says below the table: settings that help, and settings that do not.
func TestSettingsOfClients(t *testing.T) {
	try := func(what, want string, how func(program, *testing.T) string, names ...string) {
		t.Helper()
		for _, name := range names {
			t.Run(what+"/"+name, func(t *testing.T) {
				p, ok := programs[name]
				require.True(t, ok, name)
				p.need(t, name)
				require.Equal(t, want, how(p, t))
			})
		}
	}
	lost := func(d deed) func(program, *testing.T) string {
		return func(p program, t *testing.T) string { t.Helper(); return p.lost(t, d) }
	}
	bytes := func(d deed) func(program, *testing.T) string {
		return func(p program, t *testing.T) string { t.Helper(); return p.bytes(t, d) }
	}
	multi := func(d deed) func(program, *testing.T) string {
		return func(p program, t *testing.T) string { t.Helper(); return p.multi(t, d) }
	}
	var all []string
	for name := range programs {
		all = append(all, name)
	}

	try("a CLAIM is sent once", "sent once", lost(claimOnce),
		"go-redis 9.23", "ioredis 6.0", "iovalkey 0.4", "redis-py 6.4", "redis-rb 4.8", "redis-rb 6.0")
	try("autoResendUnfulfilledCommands", "never ends", lost(claimUnresent), "ioredis 6.0", "iovalkey 0.4")
	try("reconnect", "sent twice", lost(claimReconnect), "Redis::Fast 0.34")

	try("no cache", "works", func(p program, t *testing.T) string { t.Helper(); return p.limited(t, "+@emq", lifeUncached) },
		"valkey-go 1.0.79", "rueidis 1.0.79")
	with := func(rights string) func(program, *testing.T) string {
		return func(p program, t *testing.T) string { t.Helper(); return p.limited(t, rights, life) }
	}
	try("its right", "works", with("+@emq +client|tracking"), "valkey-go 1.0.79", "rueidis 1.0.79")
	try("its right", "works", with("+@emq +info"), "GLIDE for Node 2.5")
	try("rights of the page", "works", with(rightsOfThePage(t)), all...)

	try("bytes", "kept", bytes(claimBytes), "node-redis 6.3", "ioredis 6.0", "iovalkey 0.4", "GLIDE for Node 2.5")
	try("decode_responses", "raises", bytes(claimDecoded), "redis-py 4.3", "redis-py 6.4", "valkey-py 6.1")

	try("both replies", "both replies", multi(rescued),
		"node-redis 6.3", "GLIDE for Node 2.5", "redis-py 4.3", "redis-py 6.4", "valkey-py 6.1", "redis-rb 6.0")
	try("a pipeline raises as well", "raises", multi(inPipeline), "redis-rb 4.8", "redis-rb 6.0", "phpredis 5.3", "redis-py 6.4", "GLIDE for Node 2.5")
}

// The rights that a client itself needs let its user reach nothing else.
func TestRightsForAnyClient(t *testing.T) {
	s, c := serve(t, "hello", first)
	c.Must("ACL SETUSER worker on >" + secret + " " + rightsOfThePage(t) + " ~emq:{mail}:*")
	worker := s.Conn()
	worker.Must("AUTH worker "+secret, "CLIENT SETNAME worker", "MULTI", strings.Join(mail.Claim(lease), " "), "EXEC")
	for _, line := range []string{
		"CLIENT KILL TYPE normal", "CLIENT LIST", "CLIENT PAUSE 1", "GET " + wire.Identity, "HGETALL " + mail.Row(first), "KEYS *", "CONFIG GET *",
		"ACL LIST", "FLUSHALL", strings.Join(wire.Queue("other").Claim(lease), " "),
	} {
		require.Contains(t, worker.Run(line), "-NOPERM ", line)
	}
}

// rightsOfThePage are the rights that the page, and the README too, gives to a user of any client.
func rightsOfThePage(t *testing.T) string {
	t.Helper()
	var found []string
	for _, page := range []string{"../../docs/protocol.md", "../../README.md"} {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		rights := regexp.MustCompile("(\\+@emq \\+@transaction[^~`]*) ~").FindStringSubmatch(string(text))
		require.NotNil(t, rights, "%s gives no rights for any client", page)
		found = append(found, rights[1])
	}
	require.Equal(t, found[0], found[1])
	return found[0]
}

// Where a client's exception has the class of the error.
func TestClassInClients(t *testing.T) {
	for name, p := range programs {
		want := "^EMQSTALE complete token mismatch$"
		switch name {
		case "GLIDE for Node 2.5":
			want = "^EMQSTALE: complete token mismatch$"
		case "redis-rb 6.0":
			want = `^EMQSTALE complete token mismatch \(redis://127.0.0.1:\d+\)$`
		case "Redis::Fast 0.34":
			want = `^\[EMQ.COMPLETE\] EMQSTALE complete token mismatch, `
		}
		t.Run(name, func(t *testing.T) {
			p.need(t, name)
			s, _ := serve(t, "hello", first)
			require.Regexp(t, want, p.run(t, s.Addr(), settleStale, "").Error)
		})
	}
	for _, name := range []string{"redis-py 4.3", "redis-py 6.4", "valkey-py 6.1"} {
		t.Run("pipeline/"+name, func(t *testing.T) {
			p := programs[name]
			p.need(t, name)
			s, _ := serve(t, "hello", first)
			require.Regexp(t, `^Command # 2 \(EMQ.COMPLETE .*\) of pipeline caused error: EMQSTALE complete`, p.run(t, s.Addr(), claimInMulti, "").Error)
		})
	}
	t.Run("phpredis, ERR", func(t *testing.T) {
		p := programs["phpredis 5.3"]
		p.need(t, "phpredis 5.3")
		s, _ := serve(t, "hello", first)
		require.Equal(t, said{Reply: false}, p.run(t, s.Addr(), wrong, ""))
		require.Contains(t, p.run(t, s.Addr(), wrongExplained, "").Reply, "ERR lease_ms must be an integer")
	})
}

// A client with a key prefix adds it only for commands that it knows.
func TestPrefixOfClients(t *testing.T) {
	for _, name := range []string{"ioredis 6.0", "iovalkey 0.4", "phpredis 5.3"} {
		t.Run(name, func(t *testing.T) {
			p := programs[name]
			p.need(t, name)
			s, c := serve(t, "")
			require.Equal(t, said{Reply: replies(`["OK", 1]`)}, p.run(t, s.Addr(), prefixed, ""))
			require.Equal(t, wire.Integer(2), c.Do("EXISTS", "app:known", mail.Row(first)))
		})
	}
}
