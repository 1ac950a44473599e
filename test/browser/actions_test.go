package browser

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"emq/operator/web"
	"emq/test/store"
	"emq/test/wire"
)

// desk is a person at the page, with the server behind it. The tests check the effects in the server, not on the page.
type desk struct {
	*tab
	server *store.Place
	conn   *wire.Conn
	url    string
}

// both are the looks in which each action is tested: two that have nothing in common.
var both = []look{{}, {dark: true, narrow: true}}

// sit opens the page on a server of its own.
func sit(t *testing.T, l look) *desk {
	t.Helper()
	s, c := serve(t)
	return &desk{server: s, conn: c, url: host(t, "unix://"+s.Socket, web.Options{}), tab: open(t, l)}
}

func (d *desk) goTo(path string) { d.Helper(); d.tab.goTo(d.url + path) }

// state is the state of a job in the server; empty if there is no such job.
func (d *desk) state(q wire.Queue, id string) string {
	d.Helper()
	state, _ := wire.Value(d.conn.Do("HGET", q.Row(id), "state")).(string)
	return state
}

// becomes waits until a job has a state in the server, in its row and in its set.
func (d *desk) becomes(q wire.Queue, id, state string) {
	d.Helper()
	store.WaitFor(d, id+" to be "+state, func() bool { return d.state(q, id) == state })
	for s, set := range wire.SetOf {
		require.Equal(d, s == state, d.conn.Do("ZSCORE", q.Base()+set, id) != wire.Nil, "%s in %s", id, set)
	}
}

// sound checks that the wire allows the contents of the server.
func (d *desk) sound() {
	d.Helper()
	require.Empty(d, d.server.Keyspace().Check(wire.Wire6))
}

// asked confirms the question that the page asks, and waits for the task to end.
func (d *desk) asked(jobs int) {
	d.Helper()
	d.at("bulk")
	d.has("h1 [data-field=jobs]", thousands(jobs))
	d.whole("bulk-asks")
	d.tap("[data-action=sure]")
	d.at("task")
	d.has("[data-field=status]", "done")
	d.has("[data-field=changed]", thousands(jobs))
}

// thousands is a number as people read it.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// each does something in both looks.
func each(t *testing.T, does func(d *desk)) {
	for _, l := range both {
		t.Run(l.String(), func(t *testing.T) {
			d := sit(t, l)
			does(d)
			d.sound()
			for _, fault := range d.faults() {
				t.Error(fault)
			}
		})
	}
}

// One job: a dead one is requeued, a scheduled one run now, one in a worker's hands released, one removed.
func TestOneJob(t *testing.T) {
	each(t, func(d *desk) {
		q := wire.Queue("orders")
		ids := enqueue(d.conn, d, q, 3, func(i int) string { return fmt.Sprintf(`{"order":%d}`, i) })
		all(d.conn, d, [][]string{q.Mclaim(1<<40, 2), q.Mfail(1, ids[0], "1", "0", "no such customer"), q.ScheduleIn("JOBlater", "x", 1<<40)})

		d.goTo("/")
		d.press("orders")
		d.tap("[data-state=dead]")
		d.tapText(ids[0])
		d.at("job")
		d.reads("no such customer", `"order": 0`)
		d.tap("#actions [data-action=requeue]")
		d.reads("The job was requeued")
		d.becomes(q, ids[0], "pending")

		d.goTo(place(q, "?state=scheduled"))
		d.tapText("JOBlater")
		d.press("Run now")
		d.reads("The job was made pending")
		d.becomes(q, "JOBlater", "pending")

		d.goTo(place(q, "?state=active"))
		d.tapText(ids[1])
		d.press("Release")
		d.reads("The job was released")
		d.becomes(q, ids[1], "pending")
		require.Equal(d, wire.Stale("complete"), d.conn.Do(q.Complete(ids[1], "1")...), "its worker lost it")

		d.goTo(place(q, "?state=pending"))
		d.tapText(ids[2])
		d.tap("#actions [data-action=remove]")
		d.at("bulk")
		d.press("No, go back")
		require.Equal(d, "pending", d.state(q, ids[2]), "nobody said yes")
		d.tapText(ids[2])
		d.tap("#actions [data-action=remove]")
		d.asked(1)
		d.becomes(q, ids[2], "")
	})
}

// Some jobs, ticked in a list.
func TestTicked(t *testing.T) {
	each(t, func(d *desk) {
		q := wire.Queue("orders")
		ids := enqueue(d.conn, d, q, 120, func(i int) string { return fmt.Sprint(i) })
		d.goTo(place(q, ""))
		d.tap(row("job", ids[1]) + " input")
		d.tap(row("job", ids[3]) + " input")
		d.reads("2 jobs chosen")
		d.tap("[data-choosing] [data-action=remove]")
		d.asked(2)
		require.Equal(d, sorted(ids[:1], ids[2:3], ids[4:]), members(d.conn, q.Pending()))

		// "All of this page" ticks the page's jobs and no others.
		d.goTo(place(q, ""))
		d.tap("thead input")
		d.reads("50 jobs chosen")
		d.tap("[data-choosing] [data-action=remove]")
		d.asked(50)
		require.Equal(d, sorted(ids[52:]), members(d.conn, q.Pending()))
	})
}

// A pause for a time, one until it is ended, its end, and the limits.
func TestGates(t *testing.T) {
	each(t, func(d *desk) {
		q := wire.Queue("orders")
		ids := enqueue(d.conn, d, q, 3, func(i int) string { return "x" })
		meta := func(field string) string {
			text, _ := wire.Value(d.conn.Do("HGET", q.Meta(), field)).(string)
			return text
		}
		d.goTo(place(q, ""))
		d.choose("Hand nothing out", "for 1 h")
		d.press("Pause")
		d.reads("The queue is paused for 1 h")
		until, err := strconv.ParseInt(meta("paused_until"), 10, 64)
		require.NoError(d, err)
		require.InDelta(d, d.conn.Now()+3600_000, until, 300_000)
		require.Equal(d, wire.Empty, d.conn.Do(q.Claim(1000)...))
		d.press("Resume")
		d.reads("no longer paused")
		require.Equal(d, wire.Claimed(ids[0], "x", 1), d.conn.Do(q.Claim(1<<40)...))

		d.choose("Hand nothing out", "until resumed")
		d.press("Pause")
		d.reads("until somebody resumes it")
		require.Equal(d, wire.Empty, d.conn.Do(q.Claim(1000)...))
		d.press("Resume")
		d.reads("no longer paused")

		d.fill("At most", "1")
		d.fill("At most so many jobs in a time", "100")
		d.fill("in", "60")
		d.press("Set limits")
		d.reads("The limits are set")
		require.Equal(d, []string{"1", "100", "60000"}, []string{meta("concurrency"), meta("max"), meta("duration")})
		require.Equal(d, wire.Empty, d.conn.Do(q.Claim(1000)...), "one is out already")
		d.has("#figures", "≤ 1 at a time")

		d.fill("in", "")
		d.press("Set limits")
		d.expects("answer 400", "status of 400")
		d.reads("give both, or neither")
		require.Equal(d, "60000", meta("duration"), "nothing was changed")
		d.goTo(place(q, ""))
		d.fill("At most", "")
		d.fill("At most so many jobs in a time", "")
		d.fill("in", "")
		d.press("Set limits")
		d.reads("The limits are set")
		require.Equal(d, wire.Integer(0), d.conn.Do("EXISTS", q.Meta()))
	})
}

// Forth and back through a state, and to a time in it.
func TestPages(t *testing.T) {
	each(t, func(d *desk) {
		q := wire.Queue("orders")
		ids := enqueue(d.conn, d, q, 130, func(i int) string { return fmt.Sprint(i) })
		seen := func() (ids []string) {
			return eval[[]string](d.tab, "[...document.querySelectorAll('[data-job]')].map(e => e.dataset.job)")
		}
		d.goTo(place(q, ""))
		require.Equal(d, ids[:50], seen())
		d.press("Next")
		d.waitFor("the second page", fmt.Sprintf("document.querySelector('[data-job]').dataset.job === %q", ids[50]))
		require.Equal(d, ids[50:100], seen())
		d.press("Next")
		d.waitFor("the third page", fmt.Sprintf("document.querySelector('[data-job]').dataset.job === %q", ids[100]))
		require.Equal(d, ids[100:], seen())
		d.press("Previous")
		d.waitFor("the second page", fmt.Sprintf("document.querySelector('[data-job]').dataset.job === %q", ids[50]))
		require.Equal(d, ids[50:100], seen())
		d.press("Previous")
		d.waitFor("the first page", fmt.Sprintf("document.querySelector('[data-job]').dataset.job === %q", ids[0]))
		require.Equal(d, ids[:50], seen())

		from := made(ids[70])
		d.set("Made from", from.UTC().Format("2006-01-02T15:04:05"))
		d.press("Go")
		d.waitFor("the time", fmt.Sprintf("document.querySelector('[data-job]').dataset.job === %q", ids[70]))
		d.press("First")
		d.waitFor("the first page", fmt.Sprintf("document.querySelector('[data-job]').dataset.job === %q", ids[0]))

		d.fill("Id", ids[99])
		d.press("Open")
		d.at("job")
		d.has("h1", ids[99])
		d.fill("Find a job by its id in all queues", ids[98])
		d.key(kb.Enter)
		d.has("h1", ids[98])
	})
}

// made is when an id was made.
func made(id string) time.Time {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	n := int64(0)
	for _, c := range strings.TrimPrefix(id, "JOB") {
		n = n*62 + int64(strings.IndexRune(digits, c))
	}
	return time.UnixMilli(n>>22 + time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()).Truncate(time.Second)
}

// The list of queues: it updates by itself, and a filter narrows it down as it is typed.
func TestQueues(t *testing.T) {
	each(t, func(d *desk) {
		enqueue(d.conn, d, "mails", 7, func(i int) string { return "x" })
		enqueue(d.conn, d, "orders", 8, func(i int) string { return "x" })
		d.goTo("/")
		d.has(row("queue", "mails")+" [data-field=pending]", "7")
		eval[bool](d.tab, "window.same = true")
		enqueue(d.conn, d, "mails", 1234, func(i int) string { return "x" })
		d.has(row("queue", "mails")+" [data-field=pending]", "1,241")
		enqueue(d.conn, d, "fresh", 1, func(i int) string { return "x" })
		d.has(row("queue", "fresh")+" [data-field=pending]", "1")
		d.fill("Filter", "ord")
		d.waitFor("the others to go", "document.querySelectorAll('[data-queue]').length === 1")
		enqueue(d.conn, d, "orders-too", 3, func(i int) string { return "x" })
		d.has(row("queue", "orders-too")+" [data-field=pending]", "3")
		require.Equal(d, 2, eval[int](d.tab, "document.querySelectorAll('[data-queue]').length"), "the filter holds when the list moves")
		require.True(d, eval[bool](d.tab, "!!window.same && document.activeElement.id === 'filter'"), "the page was not loaded again, and the focus stays")
		d.press("orders-too")
		d.at("queue")
		d.has("[data-field=pending]", "3")
		d.conn.Must("DEL " + wire.Queue("orders-too").Pending())
		d.has("[data-field=pending]", "0")
		all(d.conn, d, [][]string{{"FLUSHALL"}})
	})
}

// A search looks over the window that was asked for, shows what it finds as it goes, and can be stopped.
func TestSearch(t *testing.T) {
	each(t, func(d *desk) {
		q := wire.Queue("orders")
		const jobs = 30_000
		ids := enqueue(d.conn, d, q, jobs, func(i int) string {
			if i%10_000 == 17 {
				return "the Needle"
			}
			return "hay"
		})
		d.goTo(place(q, ""))
		d.fill("Text", "needle")
		d.choose("of the first", "100,000")
		d.press("Search")
		d.at("search")
		d.reads("3 found", "there are no more")
		for _, i := range []int{17, 10_017, 20_017} {
			d.waitFor("the needle", fmt.Sprintf("document.querySelector('%s')", row("job", ids[i])))
		}
		d.whole("search-found")

		d.goTo(place(q, ""))
		d.fill("Text", "needle")
		d.choose("of the first", "10,000")
		d.press("Search")
		d.reads("1 found in 10,000")
		d.press("Search on from here")
		d.reads("2 found")

		// The search is stopped while the server makes it wait: then it sends no more requests.
		d.goTo(place(q, ""))
		d.fill("Text", "needle")
		require.NoError(d, d.server.Signal(syscall.SIGSTOP))
		d.press("Search")
		d.at("search")
		d.tap("#hits [data-action=stop]")
		d.reads("then stopped")
		require.NoError(d, d.server.Signal(syscall.SIGCONT))
		d.lacks("The server can't be reached")
		require.NotContains(d, d.text(), "there are no more")
		require.Less(d, eval[int](d.tab, "document.querySelectorAll('[data-job]').length"), 3)
	})
}

// A bulk action runs by itself, can be stopped, and can be continued where it was stopped.
func TestBulk(t *testing.T) {
	each(t, func(d *desk) {
		q := wire.Queue("orders")
		ids := sorted(deadLetters(d.conn, d, q)...)
		d.goTo(place(q, "/groups"))
		d.press("Requeue all…")
		d.at("bulk")
		d.has("h1", "8,000")
		d.conn.Must("CLIENT PAUSE 600000 WRITE") // so that it is under way when it is stopped
		d.tap("[data-action=sure]")
		d.at("task")
		d.has("[data-field=status]", "running")
		d.whole("task-running")
		d.tap("[data-action=stop]")
		d.conn.Must("CLIENT UNPAUSE")
		d.has("[data-field=status]", "stopped")
		d.whole("task-stopped")
		pending, dead := members(d.conn, q.Pending()), members(d.conn, q.Dead())
		require.Less(d, len(pending), len(ids), "it was stopped")
		require.Equal(d, ids, sorted(pending, dead), "no job is lost, none is twice there")
		d.has("[data-field=changed]", thousands(len(pending)))
		d.sound()

		d.press("Go on")
		d.has("[data-field=status]", "done")
		d.whole("task-done")
		require.Equal(d, ids, members(d.conn, q.Pending()))
		d.press("Tasks")
		d.at("tasks")
		d.waitFor("both tasks", "document.querySelectorAll('[data-task]').length === 2")
	})
}

// The right 3,000 of 8,000 dead letters, as a person does it who sees the page for the first time: by clicks alone.
func TestPerson(t *testing.T) {
	each(t, func(d *desk) {
		ofManyKinds(d.conn, d)
		q := wire.Queue("payments")
		right := members(d.conn, q.Dead())
		right = slices.DeleteFunc(right, func(id string) bool {
			text := wire.Value(d.conn.Do("HGET", q.Row(id), "last_error")).(string)
			return !strings.HasSuffix(text, "connection refused")
		})
		require.Len(d, right, 3000)
		before := d.server.Keyspace()
		d.goTo("/")
		d.press("payments")
		d.at("queue")
		d.press("Dead letters by error →")
		d.at("groups")
		d.tap("[data-group] input")
		d.reads("3,000 jobs chosen")
		d.press("Requeue…")
		d.asked(3000)
		require.Equal(d, right, members(d.conn, q.Pending()), "exactly those")
		now := d.server.Keyspace()
		dead := before[q.Dead()].(store.ZSet)
		for _, id := range right {
			delete(dead, id)
			delete(before, q.Row(id))
			delete(now, q.Row(id))
		}
		delete(now, q.Pending())
		require.Empty(d, before.Diff(now), "nothing else was touched")
		d.press("To the dead letters")
		d.at("groups")
		d.reads("5,000 jobs")
		d.lacks("connection refused")
		d.whole("groups-after")
		d.conn.Must("DEL " + wire.Queue("broken").Dead())
	})
}

// The same by the keyboard alone, without a mouse and without a key that must be known: Tab, Space and Enter.
func TestKeyboard(t *testing.T) {
	each(t, func(d *desk) {
		q := wire.Queue("payments")
		of := deadLetters(d.conn, d, q)
		d.goTo("/")
		d.reads("payments")
		d.tabTo("payments", kb.Enter)
		d.at("queue")
		d.tabTo("Dead letters by error →", kb.Enter)
		d.at("groups")
		d.tabTo("Choose dial tcp ADDR: connect: connection refused", " ")
		d.reads("3,000 jobs chosen")
		d.tabTo("Requeue…", kb.Enter)
		d.at("bulk")
		d.tabTo("Requeue 3,000", kb.Enter)
		d.at("task")
		d.has("[data-field=status]", "done")
		require.Equal(d, sorted(of[0]), members(d.conn, q.Pending()))

		// The keyboard shortcuts.
		d.goTo("/")
		d.reads("payments")
		d.key("/")
		require.Equal(d, "filter", eval[string](d.tab, "document.activeElement.id"))
		d.key("pay" + kb.Tab)
		eval[bool](d.tab, "document.activeElement.blur(), true")
		d.key("j" + kb.Enter)
		d.at("queue")
	})
}

// The forms work without scripts as they do with them.
func TestFormsWithoutScripts(t *testing.T) {
	for _, l := range both[:store.Rounds(t, 1, len(both))] {
		l.scriptless = true
		t.Run(l.String(), func(t *testing.T) {
			d := sit(t, l)
			q := wire.Queue("payments")
			of := deadLetters(d.conn, d, q)
			d.goTo("/")
			store.WaitFor(d, "the first figures", func() bool { d.goTo("/"); return strings.Contains(d.text(), "8,000") })
			d.fill("Filter", "pay")
			d.press("Show")
			d.waitFor("the filter", "location.search.includes('name=pay') && document.readyState === 'complete'")
			d.press("payments")
			d.at("queue")
			d.press("Pause")
			d.reads("The queue is paused for 15 min")
			d.press("Resume")
			d.reads("no longer paused")
			d.fill("At most", "7")
			d.press("Set limits")
			d.reads("The limits are set")
			require.Equal(d, wire.Bulk("7"), d.conn.Do("HGET", q.Meta(), "concurrency"))

			d.goTo(place(q, "?state=dead"))
			d.tap(row("job", sorted(of...)[0]) + " input")
			d.press("Remove…")
			d.at("bulk")
			d.tap("[data-action=sure]")
			store.WaitFor(d, "the job to go", func() bool { return d.conn.Do("ZCARD", q.Dead()) == wire.Integer(7999) })
			d.goTo(place(q, "/groups"))
			d.reads("i/o timeout") // it loads itself again until all are counted
			d.tap("[data-group]:nth-child(2) input")
			d.press("Requeue…")
			d.at("bulk")
			d.tap("[data-action=sure]")
			store.WaitFor(d, "the others to be pending", func() bool { return d.conn.Do("ZCARD", q.Pending()) == wire.Integer(1700) })
			require.Equal(d, sorted(of[1]), members(d.conn, q.Pending()))
			d.reads("done") // so does this
			d.goTo(place(q, "/search?state=dead&match=recipient"))
			d.reads("200 and more found")
			d.press("Search on from here")
			d.reads("found")
			d.whole("search-on")
			d.sound()
		})
	}
}

// The colours are the system's, or those that were asked for, which stay.
func TestTheme(t *testing.T) {
	for _, l := range looks(false) {
		t.Run(l.String(), func(t *testing.T) {
			d := sit(t, l)
			ground := func() string { return eval[string](d.tab, "getComputedStyle(document.body).backgroundColor") }
			d.goTo("/health")
			auto, seen := ground(), map[string]string{}
			for range 2 {
				d.tap("[data-action=theme]")
				d.waitFor("another theme", "document.documentElement.dataset.theme !== 'auto' && !"+quote(strings.Join(slices.Collect(maps.Keys(seen)), " "))+".includes(document.documentElement.dataset.theme)")
				require.Contains(d, d.path(), "/health", "it stays where it was")
				seen[eval[string](d.tab, "document.documentElement.dataset.theme")] = ground()
				d.whole("theme")
			}
			require.NotEqual(d, seen["dark"], seen["light"])
			require.Equal(d, seen[strings.Split(l.String(), "-")[0]], auto)
			d.goTo("/tasks")
			require.Equal(d, "light", eval[string](d.tab, "document.documentElement.dataset.theme"), "it stays")
			d.tap("[data-action=theme]")
			d.waitFor("the system's", "document.documentElement.dataset.theme === 'auto'")
			require.Equal(d, auto, ground())
		})
	}
}

// A foreign page can make a visitor's browser send forms here. They must change nothing, wherever that page is from:
// another port of this host, another name of it, or an unrelated host, for which browsers send less information without
// TLS.
func TestCrossSite(t *testing.T) {
	const untrusted = "The Cross-Origin-Opener-Policy header has been ignored" // which it is under a name without TLS
	s, c := serve(t)
	q := wire.Queue("orders")
	ids := enqueue(c, t, q, 3, func(int) string { return "x" })
	before := s.Keyspace()
	at := host(t, "unix://"+s.Socket, web.Options{})
	port := at[strings.LastIndex(at, ":"):]
	for _, ours := range []string{"http://127.0.0.1" + port, "http://localhost" + port, "http://queues.example" + port} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<!doctype html><title>x</title><link rel=icon href=data:,>
				<form method=post action="%s/pause"><input type=hidden name=for value=0><button>Pause</button></form>
				<form method=post action="%[1]s/bulk"><input type=hidden name=all value=1><input type=hidden name=state value=pending><input type=hidden name=action value=remove><input type=hidden name=sure value=1><button>Bulk</button></form>
				<form method=post enctype="text/plain" action="%[1]s/j/%s/do"><input type=hidden name=state value=pending><button>Do</button></form>`, ours+place(q, ""), ids[0])
		}))
		t.Cleanup(other.Close)
		theirs := other.URL[strings.LastIndex(other.URL, ":"):]
		for _, from := range []string{"http://127.0.0.1" + theirs, "http://other.example" + theirs} {
			for _, button := range []string{"Pause", "Bulk", "Do"} {
				b := open(t, look{})
				b.expects("answer 403", "status of 403", "favicon.ico", untrusted)
				b.goTo(from)
				b.press(button)
				b.reads("must come from this page itself")
			}
			b := open(t, look{})
			b.expects("answer 403", "status of 403", "request failed", "NotSameOrigin", untrusted)
			b.goTo(from)
			require.Equal(t, "no answer", eval[string](b, fmt.Sprintf(`fetch(%q, {method: "POST", mode: "no-cors", body: new URLSearchParams("for=0")}).then(r => r.type, e => "no answer")`, ours+place(q, "/pause"))))
			b.expects("frame")
			eval[bool](b, fmt.Sprintf(`(() => { const f = document.createElement("iframe"); f.src = %q; document.body.append(f); return true })()`, ours+"/"))
			store.WaitFor(t, "the page not to be framed", func() bool { return b.complained("frame-ancestors 'none'") })
		}
	}
	require.Empty(t, before.Diff(s.Keyspace()))
	// Its own forms go through, under each of its names.
	for _, ours := range []string{"http://127.0.0.1" + port, "http://localhost" + port, "http://queues.example" + port} {
		b := open(t, look{})
		b.expects(untrusted)
		b.goTo(ours + place(q, ""))
		b.press("Pause")
		b.reads("The queue is paused for 15 min")
		b.press("Resume")
		b.reads("no longer paused")
	}
}

// A queue with a name that nobody can type works like others.
func TestHostileName(t *testing.T) {
	each(t, func(d *desk) {
		bad := `JOB<img src=x onerror=alert(1)>'"` + "ÿ"
		all(d.conn, d, [][]string{hostile.Menqueue("JOB1", "x", bad, "y", "JOB3", "z")})
		d.goTo("/")
		d.tap(row("queue", string(hostile)) + " a")
		d.at("queue")
		d.has("h1", "über</b> 🦊")
		d.press("Pause")
		d.reads("The queue is paused for 15 min")
		require.NotEqual(d, wire.Integer(0), d.conn.Do("EXISTS", hostile.Meta()))
		d.press("Resume")
		d.reads("no longer paused")
		d.tap(row("job", bad) + " a")
		d.at("job")
		d.tap("#actions [data-action=remove]")
		d.asked(1)
		require.Equal(d, []string{"JOB1", "JOB3"}, members(d.conn, hostile.Pending()))
		d.fill("Find a job by its id in all queues", "JOB3")
		d.key(kb.Enter)
		d.at("job")
		d.tap("#actions [data-action=remove]")
		d.asked(1)
		require.Equal(d, []string{"JOB1"}, members(d.conn, hostile.Pending()))
	})
}

// A payload of 20 MB is shown on request, up to a length that a browser can bear, and can be downloaded whole.
func TestHugePayload(t *testing.T) {
	each(t, func(d *desk) {
		q, payload := wire.Queue("videos"), strings.Repeat("0123456789abcdef", 20<<20/16)
		all(d.conn, d, [][]string{q.Menqueue("JOB1", payload, "JOB2", "x")})
		d.goTo(place(q, ""))
		d.reads("20.0 MiB")
		d.tapText("JOB1")
		d.at("job")
		d.reads("was not fetched")
		d.tap("[data-action=fetch]")
		d.reads("only to be downloaded")
		require.Greater(d, eval[int](d.tab, "document.querySelector('pre.payload').innerText.length"), 100_000)
		d.tap("[data-as=hex]")
		d.reads("00000000  30 31 32 33")
		require.Equal(d, len(payload), eval[int](d.tab, "fetch(document.querySelector('[data-action=download]').href).then(r => r.text()).then(t => t.length)"))
		d.tap("#actions [data-action=remove]")
		d.asked(1)
		require.Equal(d, []string{"JOB2"}, members(d.conn, q.Pending()))
	})
}

// The primary dies while many jobs are being requeued. The page finds the new one through the Sentinels, shows the
// progress, and continues: in the end exactly the right jobs are pending.
func TestFailover(t *testing.T) {
	primary, replica, addresses, watchers := store.Watched(t, store.Pumped, store.Pumped)
	c, q := primary.Conn(), wire.Queue("payments")
	of := deadLetters(c, t, q)
	require.Equal(t, wire.Integer(1), c.Do("WAIT", "1", "0"))
	at := host(t, "valkey://"+addresses[0]+"?master_set="+store.Group+"&addr="+addresses[1]+"&addr="+addresses[2], web.Options{})
	b := open(t, look{dark: true, narrow: true}) // closed before the page, so that its stream is not cut
	b.expects("answer 502", "status of 502")
	b.goTo(at + place(q, "/groups"))
	b.tap("[data-group] input")
	b.press("Requeue…")
	b.at("bulk")
	b.has("h1", "3,000")
	c.Must("CLIENT PAUSE 600000 WRITE") // so that it is under way when the primary dies
	b.tap("[data-action=sure]")
	b.at("task")
	b.has("[data-field=status]", "running")
	primary.Crash()
	store.Agree(t, watchers, replica)
	b.waitFor("the task to end", "['done', 'failed'].includes(document.querySelector('#task').dataset.status)")
	b.whole("failover")
	if eval[string](b, "document.querySelector('#task').dataset.status") == "failed" {
		b.reads("It ended early")
		b.press("Go on")
		b.has("[data-field=status]", "done")
	}
	b.lacks("The server can't be reached")
	b.whole("failover-done")
	now := replica.Conn()
	require.Equal(t, sorted(of[0]), members(now, q.Pending()))
	require.Equal(t, sorted(of[1:]...), members(now, q.Dead()))
	require.Empty(t, replica.Keyspace().Check(wire.Wire6))
	primary.Start() // for its end
}
