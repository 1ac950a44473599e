package web

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	emq "emq/clients/go"
	"emq/operator"
	"emq/test/wire"
)

// The page says whether a button had no effect or may have had one: on a server that hangs, one that is gone, and a
// replica, which refuses at once.
func TestOutcome(t *testing.T) {
	s := serve(t, Options{})
	s.fill("mails", []string{"JOB1"}, "boom")
	s.fill("mails", []string{"JOB2"})
	option, err := valkey.ParseURL("valkey://" + s.place.Addr())
	require.NoError(t, err)
	option.ConnWriteTimeout = 100 * time.Millisecond // which also bounds the wait for an answer
	conn := emq.Dial(option)
	t.Cleanup(conn.Close)
	s.page.server = operator.New(conn)
	told := func(path string, pairs ...string) string {
		t.Helper()
		got := s.post(path, pairs...)
		require.Equal(t, 303, got.StatusCode, got.body)
		for _, c := range got.Cookies() {
			if c.Name == "emq-flash" {
				text, err := url.QueryUnescape(c.Value)
				require.NoError(t, err)
				return text
			}
		}
		return ""
	}
	buttons := [][]string{{"/q/mails/pause", "for", "0"}, {"/q/mails/resume"}, {"/q/mails/limit", "concurrency", "3"}, {"/q/mails/j/JOB1/do", "action", "requeue", "state", "dead"}}
	s.Must("CLIENT PAUSE 1000000 WRITE")
	for _, b := range buttons {
		require.Regexp(t, `^!Valkey did not answer \(.*\)\. It may have been done all the same: `, told(b[0], b[1:]...), b[0])
	}
	s.Must("CLIENT UNPAUSE")

	s.Must("REPLICAOF 127.0.0.1 1")
	for _, b := range buttons {
		require.Equal(t, "!This Valkey is a replica, and takes no changes: its primary does.", told(b[0], b[1:]...), b[0])
	}
	require.Contains(t, s.Do("INFO", "errorstats"), "errorstat_READONLY:count=4\r", "each command was sent once")
	s.Must("REPLICAOF NO ONE")
	require.Equal(t, "The job was requeued.", told(buttons[3][0], buttons[3][1:]...))
	require.Equal(t, wire.Integer(2), s.Do("ZCARD", wire.Queue("mails").Pending()))

	s.place.Dies = true
	s.place.Crash()
	told(buttons[0][0], buttons[0][1:]...) // finds out that the connection is broken; the next ones can't connect
	for _, b := range buttons {
		require.Regexp(t, `^!Valkey can't be reached, so nothing was changed: .*refused`, told(b[0], b[1:]...), b[0])
	}
}

// Cookies are Secure if the request came by TLS to the page itself, or to a trusted proxy that says so. Nobody else is
// believed.
func TestSecureCookies(t *testing.T) {
	for _, tt := range []struct {
		auth   Auth
		proto  string
		tls    *tls.ConnectionState
		secure bool
	}{
		{nil, "", nil, false}, {nil, "https", nil, false}, {nil, "", &tls.ConnectionState{}, true},
		{AuthFunc(func(r *http.Request) (string, Role) { return "ann", Operator }), "https", nil, false},
		{Header("X-Forwarded-User", map[string]Role{"ann": Operator}), "https", nil, true},
		{Header("X-Forwarded-User", map[string]Role{"ann": Operator}), "http", nil, false},
	} {
		page := New(nil, Options{Auth: tt.auth, BasePath: "/queues"})
		r := httptest.NewRequest("POST", "/queues/theme?theme=dark", nil)
		r.PostForm = url.Values{"theme": {"dark"}}
		r.TLS = tt.tls
		r.Header.Set("X-Forwarded-User", "ann")
		r.Header.Set("X-Forwarded-Proto", tt.proto)
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		require.Len(t, w.Result().Cookies(), 1, w.Body)
		c := w.Result().Cookies()[0]
		require.Equal(t, tt.secure, c.Secure, "%+v", tt)
		require.Equal(t, "/queues/", c.Path)
		require.True(t, c.HttpOnly)
		page.stop()
	}
}

func TestAgo(t *testing.T) {
	require.Equal(t, "just now", ago(time.Now()))
	require.Equal(t, "3 h ago", ago(time.Now().Add(-3*time.Hour)))
}
