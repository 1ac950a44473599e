package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"emq/test/store"
)

// serving starts a command that serves HTTP, and returns its URL.
func (d *desk) serving(t *testing.T, args ...string) (*running, string) {
	t.Helper()
	r := d.begin(t, args...)
	line := regexp.MustCompile(`http://\S+`)
	store.WaitFor(t, "the address", func() bool { return line.MatchString(r.err.String()) || len(r.ended) > 0 })
	require.Empty(t, r.ended, r.err.String())
	return r, line.FindString(r.err.String())
}

func get(t *testing.T, url string, change ...func(*http.Request)) (int, string) {
	t.Helper()
	q, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	for _, c := range change {
		c(q)
	}
	reply, err := http.DefaultClient.Do(q)
	require.NoError(t, err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	require.NoError(t, err)
	return reply.StatusCode, string(text)
}

func TestExporter(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	r, url := d.serving(t, "exporter", "--listen", "127.0.0.1:0")
	status, text := get(t, url)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, `emq_queue_jobs{queue="mails",state="pending"} 1`)
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.code())
	require.Equal(t, exitUsage, d.emq("exporter", "--queues", "-1").code)
	require.Equal(t, exitRefused, d.emq("exporter", "--listen", "nowhere").code)
}

// The page is served only to those who may view it, and stops with its streams on request.
func TestWeb(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	r, url := d.serving(t, "web", "--listen", "127.0.0.1:0", "--base-path", "/queues")
	require.Regexp(t, `/queues/$`, url)
	status, text := get(t, url)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, "<html")
	store.WaitFor(t, "a sample", func() bool { _, text := get(t, url); return strings.Contains(text, "mails") })
	status, _ = get(t, url, func(q *http.Request) { q.Host = "stranger.example" })
	require.Equal(t, http.StatusMisdirectedRequest, status)
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.code(), r.err.String())

	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	require.NoError(t, err)
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("ann:viewer:"+string(hash)+"\n"), 0o600))
	r, url = d.serving(t, "web", "--listen", "127.0.0.1:0", "--auth-file", users)
	status, _ = get(t, url)
	require.Equal(t, http.StatusUnauthorized, status)
	status, _ = get(t, url, func(q *http.Request) { q.SetBasicAuth("ann", "secret") })
	require.Equal(t, http.StatusOK, status)
	r.signal(syscall.SIGINT)
	require.Equal(t, 0, r.code(), r.err.String())

	r, url = d.serving(t, "web", "--listen", "127.0.0.1:0", "--trusted-header", "X-User", "--role", "ann=operator")
	status, _ = get(t, url)
	require.NotEqual(t, http.StatusOK, status)
	status, _ = get(t, url, func(q *http.Request) { q.Header.Set("X-User", "ann") })
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, r.err.String(), "--host")
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.code(), r.err.String())

	require.NoError(t, os.WriteFile(users, []byte("ann:boss:x\n"), 0o600))
	for _, args := range [][]string{{"--listen", ":0"}, {"--listen", "0.0.0.0:0"}, {"--listen", "nowhere"}, {"--auth-file", users}, {"--auth-file", "/none"},
		{"--role", "ann=viewer"}, {"--trusted-header", "X"}, {"--trusted-header", "X", "--role", "ann=boss"}, {"--trusted-header", "X", "--role", "=viewer"},
		{"--trusted-header", "X", "--role", "a=viewer", "--auth-file", users}} {
		require.Equal(t, exitUsage, d.emq(append([]string{"web"}, args...)...).code, args)
	}
	r, _ = d.serving(t, "web", "--listen", "0.0.0.0:0", "--insecure")
	require.Regexp(t, "nobody is asked.*--host", r.err.String())
	r.signal(syscall.SIGTERM)
	require.Equal(t, 0, r.code(), r.err.String())
}

// A client that sends half a request, does not read, or stays idle does not keep a connection for ever.
func TestBounded(t *testing.T) {
	wrote := make(chan error, 1)
	s := bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/much":
			var err error
			for text := make([]byte, 1<<20); err == nil; _, err = w.Write(text) {
			}
			wrote <- err
		case "/refused":
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, bound := range []*time.Duration{&s.ReadHeaderTimeout, &s.ReadTimeout, &s.WriteTimeout} {
		*bound /= 1000 // 0 stays no bound
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	begin := func(text string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		_, err = c.Write([]byte(text))
		require.NoError(t, err)
		return c
	}
	for _, text := range []string{"", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf"} {
		_, err := io.ReadAll(begin(text))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, text)
	}
	begin("GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
	select {
	case err := <-wrote:
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	case <-time.After(time.Minute):
		require.Fail(t, "it still writes")
	}
}

func TestValkeyCLI(t *testing.T) {
	for url, want := range map[string]string{
		"valkey://127.0.0.1:6379":             "valkey-cli",
		"valkeys://ann@q.example:7000/2":      "valkey-cli --tls -h q.example -p 7000 --user ann -n 2",
		"unix:///run/valkey/my socket":        "valkey-cli -s '/run/valkey/my socket'",
		"valkey://u@127.0.0.1:6380/0?x=$(rm)": "valkey-cli -p 6380 --user u",
	} {
		require.Equal(t, want, place{URL: url}.valkeyCLI(), url)
	}
}
