package browser

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/operator/web"
	"emq/test/wire"
)

// screen is a screen of the page, and what can be read on it, with or without scripts.
type screen struct {
	name  string
	path  string
	reads []string
	then  func(b *tab) // clicks that lead to it
}

// everything are the screens of a server with queues of all kinds.
func everything(c *wire.Conn) []screen {
	first := func(q wire.Queue, state string) string {
		return "/j/" + encode(wire.Value(c.Do("ZRANGE", q.Set(state), "0", "0")).([]any)[0].(string))
	}
	last := func(q wire.Queue, state string) string {
		return "/j/" + encode(wire.Value(c.Do("ZRANGE", q.Set(state), "-1", "-1")).([]any)[0].(string))
	}
	c.Do(wire.Queue("mails").Enqueue("JOBgoes", "is removed on the way")...)
	return []screen{
		{"queues", "/", []string{"payments", "8,000", "orders", `"it's" <b>über</b> 🦊/../%2F?a=b&c#d\xff\xfe`, "WRONGTYPE", "paused"}, nil},
		{"queues-filtered", "/?name=or", []string{"orders", "reports"}, nil},
		{"queues-none", "/?name=nobody", []string{"No queue has"}, nil},
		{"queue-pending", place("orders", "?state=pending"), []string{"295", `{"order":25`}, nil},
		{"queue-active", place("orders", "?state=active"), []string{"25", "Lease"}, nil},
		{"queue-scheduled", place("reports", "?state=scheduled"), []string{"120", `{"report":0}`}, nil},
		{"queue-dead", place("payments", "?state=dead"), []string{"8,000", "connection refused"}, nil},
		{"queue-dead-last", place("payments", "?state=dead&from=2100-01-01T00:00"), []string{"No dead letters", "To the first"}, nil},
		{"queue-empty", place("nobody", ""), []string{"Nothing is pending"}, nil},
		{"queue-hostile", place(hostile, ""), []string{`über</b> 🦊`, `\xff\xfe`, "<script>"}, nil},
		{"queue-broken", place("broken", ""), []string{"its dead letters are a string", "WRONGTYPE"}, nil},
		{"queue-broken-state", place("broken", "?state=dead"), []string{"WRONGTYPE"}, nil},
		{"job-json", place("payments", first("payments", "dead")), []string{`"sku"`, "Last error", "EMQ.REQUEUE"}, nil},
		{"job-text", place("mails", "/j/JOBbyhand"), []string{"an id that tells no time", "its id does not tell"}, nil},
		{"job-hex", place("orders", first("orders", "active")+"?as=hex"), []string{"00000000  7b 22", "EMQ.RELEASE"}, nil},
		{"job-hostile", place(hostile, last(hostile, "pending")), []string{"an id as bad", `JOB<img src=x onerror=alert(1)>'"\xff`}, nil},
		{"job-huge", place("videos", first("videos", "pending")), []string{"20.0 MiB", "Download"}, nil},
		{"job-huge-all", place("videos", first("videos", "pending")+"?payload=all"), []string{`{"frames":"0123456789abcdef`}, nil},
		{"job-none", place("orders", "/j/JOBnone"), []string{"no such job"}, nil},
		{"groups", place("payments", "/groups"), []string{"8,000", "connection refused", "3,000", "recipient address rejected"}, nil},
		{"groups-some", place("payments", "/groups?match=refused"), []string{"connection refused", "3,000"}, nil},
		{"group", place("payments", "/groups"), []string{"connection refused"}, func(b *tab) { b.tap("[data-group] th a"); b.at("search") }},
		{"search", place("payments", "/search?state=dead&match=ORDER%22:100777"), []string{`1 found in`}, nil},
		{"bulk", place("payments", "/groups"), []string{"Requeue 3,000", "No, go back"}, func(b *tab) {
			b.tap("[data-group] input")
			b.tap(`[data-action=requeue]`)
			b.at("bulk")
		}},
		{"task", place("mails", "/j/JOBgoes"), []string{"1 of 1 job"}, func(b *tab) {
			b.tap("[data-action=remove]")
			b.at("bulk")
			b.tap("[data-action=sure]")
			b.at("task")
			b.reads("done")
		}},
		{"tasks", "/tasks", nil, nil},
		{"health", "/health", []string{"Health"}, nil},
		{"find", "/find", []string{"Find a job"}, nil},
		{"find-none", "/find?id=JOBnone", []string{"No queue has a job JOBnone"}, nil},
		{"error", "/nothing", []string{"There is no such page"}, nil},
	}
}

// Every screen, as it is for everybody.
func TestScreens(t *testing.T) {
	s, c := serve(t)
	ofManyKinds(c, t)
	url := host(t, "unix://"+s.Socket, web.Options{})
	for _, scriptless := range []bool{false, true} {
		for _, l := range looks(scriptless) {
			t.Run(l.String(), func(t *testing.T) {
				b := open(t, l)
				b.expects("answer 404", "status of 404") // for what does not exist
				for _, screen := range everything(c) {
					t.Run(screen.name, func(t *testing.T) {
						b := b.of(t)
						b.goTo(url + screen.path)
						if screen.then != nil {
							screen.then(b)
						}
						b.reads(screen.reads...)
						b.whole(screen.name)
					})
				}
			})
		}
	}
}

// For an empty server, an unclaimed store and a store of another wire, the page says so.
func TestEmpty(t *testing.T) {
	for _, tt := range []struct {
		name  string
		does  string
		reads []string
	}{
		{"empty", "PING", []string{"No queues yet", "EMQ.ENQUEUE"}},
		{"foreign", "SET {emq}:version echomq:4.0.0", []string{"EMQFENCE"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := serve(t)
			c.Must(tt.does)
			url := host(t, "unix://"+s.Socket, web.Options{})
			for _, l := range append(looks(false), looks(true)...) {
				b := open(t, l)
				b.goTo(url + "/")
				b.settled()
				b.reads(tt.reads...)
				b.whole("server-" + tt.name)
				b.goTo(url + "/health")
				b.at("health")
				b.whole("health-" + tt.name)
			}
		})
	}
}

// A viewer sees no buttons, and a form that a viewer sends nevertheless changes nothing.
func TestViewer(t *testing.T) {
	s, c := serve(t)
	ofManyKinds(c, t)
	before := s.Keyspace()
	url := host(t, "unix://"+s.Socket, web.Options{ReadOnly: true})
	for _, l := range looks(false) {
		b := open(t, l)
		for _, path := range []string{"/", place("payments", "?state=dead"), place("payments", "/groups"), place("orders", "?state=active"), place("mails", "/j/JOBbyhand"), "/tasks"} {
			b.goTo(url + path)
			b.reads("read-only")
			require.False(t, eval[bool](b, `!!document.querySelector("form[method=post]:not(.theme) button, input[type=checkbox]")`), "%s has something to press", path)
		}
		b.whole("viewer-tasks")
		b.goTo(url + place("payments", "?state=dead"))
		b.whole("viewer-queue")
	}
	b := open(t, look{})
	b.expects("answer 403", "status of 403")
	b.goTo(url + "/")
	for path, body := range map[string]string{
		place("orders", "/pause"): "for=0", place("orders", "/limit"): "concurrency=1", place("mails", "/resume"): "",
		place("payments", "/bulk"):             "action=remove&state=dead&all=1&sure=1",
		place("mails", "/j/JOBbyhand") + "/do": "action=requeue&state=dead",
	} {
		require.Equal(t, 403, eval[int](b, `fetch(`+quote(path)+`, {method: "POST", body: new URLSearchParams(`+quote(body)+`)}).then(r => r.status)`), path)
	}
	require.Empty(t, before.Diff(s.Keyspace()))
}

// If the page's Valkey user lacks a right, the page says so where it matters, and everything else works.
func TestRights(t *testing.T) {
	s, c := serve(t)
	ofManyKinds(c, t)
	for _, tt := range []struct {
		user, rights string
		reads        map[string]string
	}{
		{"none", "+ping +hello", map[string]string{"/": "NOPERM", "/health": "Health", place("orders", ""): "NOPERM"}},
		{"viewer", "+ping +hello +emq.stats +emq.queues %R~emq:*", map[string]string{"/": "8,000", place("orders", ""): "NOPERM", place("payments", "/groups"): "NOPERM", "/health": "Health"}},
		{"one", "+ping +hello +emq.stats +emq.queues +zrange +hmget +zcard +hget %R~emq:{orders}:*", map[string]string{"/": "orders", place("orders", ""): "295", place("payments", ""): "NOPERM"}},
	} {
		t.Run(tt.user, func(t *testing.T) {
			c.Must("ACL SETUSER " + tt.user + " on >secret " + tt.rights)
			url := host(t, "redis://"+tt.user+":secret@"+s.Addr(), web.Options{})
			for _, l := range []look{{}, {dark: true, narrow: true}} {
				b := open(t, l)
				b.expects("answer 502", "status of 502")
				for path, text := range tt.reads {
					b.goTo(url + path)
					b.reads(text)
					require.NotContains(t, b.text(), "can't be reached", "it answers")
					require.NotContains(t, b.text(), "No queues yet", "nobody knows")
					name, _, _ := strings.Cut(strings.Trim(path, "/")+"queues", "?")
					b.whole("rights-" + tt.user + "-" + strings.ReplaceAll(name, "/", "-"))
				}
			}
		})
	}
}

// When the server stops, the page says so and keeps its figures; when the server is back, the page recovers by itself.
func TestServerGone(t *testing.T) {
	s, c := serve(t, "--appendonly", "yes", "--appendfsync", "always")
	ofManyKinds(c, t)
	url := host(t, "unix://"+s.Socket, web.Options{})
	var open4 []*tab
	for i, l := range looks(false) {
		b := open(t, l)
		b.expects("answer 502", "status of 502")
		b.goTo(url + []string{"/", place("orders", ""), place("payments", "/groups"), "/health"}[i])
		open4 = append(open4, b)
	}
	open4[0].reads("payments", "8,000")
	open4[2].reads("3,000")
	s.Crash()
	for i, b := range open4 {
		b.reads("The server can't be reached")
		b.whole("gone-" + []string{"queues", "queue", "groups", "health"}[i])
	}
	open4[0].reads("payments", "8,000")
	open4[1].reads("orders")
	open4[2].reads("3,000")
	other := open(t, look{})
	other.expects("answer 502", "status of 502")
	other.goTo(url + place("orders", "?state=active")) // one that was not there before
	other.reads("The server can't be reached")
	other.whole("gone-new")
	s.Start()
	for _, b := range append(open4, other) {
		b.lacks("The server can't be reached")
	}
	other.waitFor("it to load itself again", "document.querySelectorAll('[data-job]').length === 25")
	open4[0].reads("payments", "8,000")
	now := s.Conn()
	require.Equal(t, wire.Statuses(1), now.Do(wire.Queue("fresh").Menqueue(id(time.Now(), 1), "x")...))
	open4[0].reads("fresh")
}
