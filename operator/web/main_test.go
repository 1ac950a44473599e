package web

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	emq "emq/clients/go"
	"emq/operator"
	"emq/test/store"
	"emq/test/wire"
)

// Viewers that have left leave nothing running.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("emq/tools/spawn.loop"), goleak.IgnoreCurrent())
}

// site is a served page, for a server on which no job moves by itself.
type site struct {
	*wire.Conn
	t      *testing.T
	place  *store.Place
	page   *Page
	url    string
	client *http.Client
}

func serve(t *testing.T, o Options, args ...string) *site {
	t.Helper()
	if os.Getenv("VALKEY_SERVER") == "" || os.Getenv("EMQ_MODULE") == "" {
		t.Skip("VALKEY_SERVER and EMQ_MODULE are not set: `make test-tools` sets them")
	}
	place := store.Open(t, store.Module(args...))
	return at(t, place, "", o)
}

// at is a page with another Valkey user; "" may do everything.
func at(t *testing.T, place *store.Place, user string, o Options) *site {
	t.Helper()
	url := "valkey://" + place.Addr()
	if user != "" {
		url = "valkey://" + user + ":secret@" + place.Addr()
	}
	option, err := valkey.ParseURL(url)
	require.NoError(t, err)
	conn := emq.Dial(option)
	t.Cleanup(conn.Close)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	page := New(operator.New(conn), o)
	server := httptest.NewServer(page)
	t.Cleanup(server.Close)
	t.Cleanup(page.stop)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &site{place.Conn(), t, place, page, server.URL, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// journal records the log.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// answer is a response.
type answer struct {
	*http.Response
	body string
}

func (s *site) send(r *http.Request) answer {
	s.t.Helper()
	got, err := s.client.Do(r)
	require.NoError(s.t, err)
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	require.NoError(s.t, err)
	return answer{got, string(body)}
}

func (s *site) request(method, path string, form url.Values) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	require.NoError(s.t, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

// get returns a screen, which must exist.
func (s *site) get(path string) string {
	s.t.Helper()
	got := s.send(s.request("GET", path, nil))
	require.Equal(s.t, http.StatusOK, got.StatusCode, "%s: %s", path, got.body)
	return got.body
}

// post sends a form, without following the redirection; pairs are names and values.
func (s *site) post(path string, pairs ...string) answer {
	s.t.Helper()
	return s.send(s.request("POST", path, form(pairs...)))
}

// done sends a form that must redirect, and returns the screen there.
func (s *site) done(path string, pairs ...string) string {
	s.t.Helper()
	got := s.post(path, pairs...)
	require.Equal(s.t, http.StatusSeeOther, got.StatusCode, got.body)
	return s.get(got.Header.Get("Location"))
}

func form(pairs ...string) url.Values {
	f := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		f.Add(pairs[i], pairs[i+1])
	}
	return f
}

// fill enqueues jobs, and with errors fails them for good with these.
func (s *site) fill(q wire.Queue, ids []string, errors ...string) {
	s.t.Helper()
	for at := 0; at < len(ids); at += 1000 {
		words := []string{}
		for _, id := range ids[at:min(at+1000, len(ids))] {
			words = append(words, id, "payload of "+id)
		}
		require.False(s.t, wire.IsError(s.Do(q.Menqueue(words...)...)))
	}
	for at := 0; at < len(errors); at += 1000 {
		some := errors[at:min(at+1000, len(errors))]
		words := []string{}
		for i, job := range wire.Value(s.Do(q.Mclaim(1<<30, int64(len(some)))...)).([]any) {
			words = append(words, job.([]any)[0].(string), "1", "0", some[i])
		}
		require.False(s.t, wire.IsError(s.Do(q.Mfail(1, words...)...)))
	}
}

// waitFor reloads a screen until it shows a text.
func (s *site) waitFor(path, what string) (body string) {
	s.t.Helper()
	came := store.Await(func() bool { body = s.get(path); return strings.Contains(body, what) })
	require.True(s.t, came, "waited too long for %s; the last was %s", what, body)
	return body
}
