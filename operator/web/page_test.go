package web

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"emq/test/store"
	"emq/test/wire"
)

const evil = `"><script>alert(1)</script>`

// odd are names that something on the way might misinterpret.
var odd = []string{"mails", evil, "..", ".", "a/../b", "?", "%2F", "~7E", "quote ' \" ` $(x)", "🚀 \u202eabc", "\xff\xfe", "\n", " ", "=&;+#"}

func queue(name string) string { return "/q/" + encode(name) }

func TestNames(t *testing.T) {
	var all strings.Builder
	for c := range 256 {
		all.WriteByte(byte(c))
	}
	for _, name := range append(odd, all.String(), "") {
		require.Equal(t, name, decode(encode(name)))
		require.Regexp(t, `^[A-Za-z0-9_.~-]*$`, encode(name))
		require.Regexp(t, `^[^.]`, encode(name)+"x")
	}
	require.Equal(t, "plain-Name_1.x", encode("plain-Name_1.x"))
	require.Equal(t, "~", decode("~"))
	require.Equal(t, "a~zz", decode("a~zz"))
	require.Equal(t, `\xff🚀\u202ea\n`, visible("\xff🚀\u202ea\n"))
	require.Equal(t, "a\tb\n\\u202e", lines("a\tb\n\u202e"))
}

// For each kind of name, every screen shows the queue, and no character of it becomes markup.
func TestEscaping(t *testing.T) {
	s := serve(t, Options{Title: evil})
	for _, name := range odd {
		q, id := wire.Queue(name), "JOB"+name
		s.fill(q, []string{id}, name)
		base := queue(name)
		for _, path := range []string{base, base + "?state=dead", base + "/groups", base + "/search?state=dead&match=" + url.QueryEscape(evil), base + "/j/" + encode(id), "/find?id=" + url.QueryEscape(id)} {
			got := s.send(s.request("GET", path, nil))
			if got.StatusCode == http.StatusFound {
				got = s.send(s.request("GET", got.Header.Get("Location"), nil))
			}
			if got.StatusCode != http.StatusOK && strings.HasPrefix(path, "/find") && strings.TrimSpace(id) != id {
				continue // surrounding spaces of a form's field are ignored
			}
			require.Equal(t, http.StatusOK, got.StatusCode, "%q: %s: %s", name, path, got.body)
			require.NotContains(t, got.body, "<script>alert")
			require.NotContains(t, got.body, "\u202e")
			require.NotRegexp(t, ` style=| on[a-z]+=|javascript:`, strings.ReplaceAll(got.body, "hx-on", ""), path)
			require.Contains(t, got.body, "data-screen", path)
		}
		require.Contains(t, s.get(base+"/j/"+encode(id)), `data-field="claims">1<`)
		require.Contains(t, s.get(base+"?state=dead"), `data-job="`+encode(id)+`"`)
		// It survives forms too: the confirmation, and the action.
		got := s.post(base+"/bulk", "action", "remove", "state", "dead", "id", encode(id))
		require.Equal(t, http.StatusOK, got.StatusCode, got.body)
		require.NotContains(t, got.body, "<script>alert")
		require.Contains(t, got.body, `name="id" value="`+encode(id)+`"`)
		s.done(base+"/j/"+encode(id)+"/do", "action", "requeue", "state", "dead")
		require.Equal(t, "$7\r\npending\r\n", s.Do("HGET", q.Row(id), "state"))
	}
}

// The line beside a button works in a shell, whatever the names are, and does the same as the button.
func TestLines(t *testing.T) {
	s := serve(t, Options{})
	s.page.o.CLI = filepath.Join(store.Tools(t), "valkey-cli") + " -p " + strconv.Itoa(s.place.Port())
	line := regexp.MustCompile(`(?s)<pre tabindex="0"><code>(.*?)</code>`)
	for _, name := range append(odd, "a\\b", "'\x01f", "é") {
		for _, id := range []string{"JOB" + name, "JOB\x00\x00" + name} {
			s.fill(wire.Queue(name), []string{id})
			body := s.get(queue(name) + "/j/" + encode(id))
			command := line.FindStringSubmatch(body)
			require.NotNil(t, command, body)
			text := html.UnescapeString(command[1])
			out, err := exec.CommandContext(t.Context(), "bash", "-c", text).CombinedOutput()
			require.NoError(t, err, "%s: %s", text, out)
			require.Equal(t, "1\n", string(out), text)
			require.Equal(t, wire.Integer(0), s.Do("EXISTS", wire.Queue(name).Row(id)))
		}
	}
}

var screens = []string{"/", "/?name=a&n=100&page=9", "/q/mails", "/q/mails?state=active", "/q/none", "/q/mails/groups", "/q/mails/groups?state=scheduled&match=x&older=7d",
	"/q/mails/search?state=pending&match=x", "/q/mails/j/JOB1", "/tasks", "/health", "/find", "/find?id=JOB9", "/find?id=x"}

var posts = []string{"/q/mails/pause", "/q/mails/resume", "/q/mails/limit", "/q/mails/bulk", "/q/mails/j/JOB1/do", "/tasks/1/stop", "/tasks/1/again"}

func TestScreens(t *testing.T) {
	s := serve(t, Options{})
	s.fill("mails", []string{"JOB1"})
	for _, path := range append(screens, "/assets/app.css", "/q/mails/hour", "/q/mails/j/JOB1/payload") {
		got := s.send(s.request("GET", path, nil))
		require.Equal(t, http.StatusOK, got.StatusCode, "%s: %s", path, got.body)
		h := got.Header
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), path)
		require.Equal(t, "same-origin", h.Get("Referrer-Policy"), path)
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", path)
		require.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", path)
		require.NotEmpty(t, h.Get("Content-Type"), path)
		if strings.HasPrefix(path, "/assets") {
			continue
		}
		require.Equal(t, "no-store", h.Get("Cache-Control"), path)
		if strings.Contains(h.Get("Content-Type"), "html") {
			require.NotRegexp(t, `<script>|<style| style=| on[a-z]+="`, got.body, path)
			require.NotRegexp(t, `(src|href|action)="(https?:)?//`, got.body, path)
			require.Regexp(t, `<html lang="en"`, got.body)
			require.Equal(t, 1, strings.Count(got.body, "<h1"), path)
		}
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			got = s.send(s.request(method, path, nil))
			require.Equal(t, http.StatusMethodNotAllowed, got.StatusCode, "%s %s", method, path)
		}
	}
	for _, path := range posts { // no GET changes anything
		require.Contains(t, []int{http.StatusMethodNotAllowed, http.StatusNotFound}, s.send(s.request("GET", path, nil)).StatusCode, path)
	}
	for path, status := range map[string]int{"/nothing": 404, "/assets/none.js": 404, "/assets/../web.go": 307, "/q/mails/j/JOBnone": 404, "/tasks/7": 404, "/q/mails?state=x": 400,
		"/q/mails?n=0": 400, "/q/mails?from=x": 400, "/q/mails?from=2025-11-30T08:00": 400, "/q/mails/groups?older=x": 400, "/q/mails/groups?state=active": 400, "/q/mails/search?window=0": 400, "/q/mails/j/JOB1?as=x": 400, "/events?view=x": 400} {
		require.Equal(t, status, s.send(s.request("GET", path, nil)).StatusCode, path)
	}
	require.Contains(t, s.get("/q/mails?after=nonsense"), "is no place in the jobs of this state", "what is wrong stands in its place, and the screen stays")
	for _, to := range []string{"//evil.example", "///evil.example", "/\\evil.example", "/\t/evil.example", "/\n/evil.example", "/\x00/evil.example", "https://evil.example/"} {
		require.Equal(t, "/", s.post("/theme", "theme", "dark", "to", to).Header.Get("Location"), to)
	}
	require.Equal(t, http.StatusBadRequest, s.post("/theme", "theme", "x").StatusCode)
	for _, path := range posts { // the response to a form leads on too
		if to := regexp.MustCompile(`name="to" value="([^"]*)"`).FindStringSubmatch(s.post(path).body); to != nil {
			require.NotEqual(t, http.StatusMethodNotAllowed, s.send(s.request("GET", to[1], nil)).StatusCode, path)
			require.NotContains(t, s.send(s.request("GET", to[1], nil)).body, errNoPage.text, path)
		}
	}
	got := s.send(s.request("GET", "/assets/app.js?v="+sums["app.js"], nil))
	require.Contains(t, got.Header.Get("Cache-Control"), "immutable")
}

// Vendored files are unchanged, and each says of which version it is.
func TestVendored(t *testing.T) {
	readme, err := files.ReadFile("assets/vendor/README.md")
	require.NoError(t, err)
	n := 0
	require.NoError(t, fs.WalkDir(files, "assets/vendor", func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); !d.IsDir() && name != "README.md" && !strings.HasSuffix(name, ".LICENSE") {
			b, err := files.ReadFile(path)
			require.NoError(t, err)
			require.Regexp(t, fmt.Sprintf("`%s` .*%x", regexp.QuoteMeta(name), sha256.Sum256(b)), string(readme))
			n++
		}
		return err
	}))
	require.Equal(t, 3, n)
}

// A foreign site can send forms here with the viewer's password; they are refused.
func TestCrossSite(t *testing.T) {
	s := serve(t, Options{Hosts: []string{"127.0.0.1", "queues.example"}})
	s.fill("mails", []string{"JOB1"})
	for _, header := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://other.example"}, {"Origin", "null"}} {
		for _, path := range append(posts, "/theme") {
			r := s.request("POST", path, form("for", "0", "theme", "dark"))
			r.Header.Set(header[0], header[1])
			require.Equal(t, http.StatusForbidden, s.send(r).StatusCode, "%s %s", header, path)
		}
	}
	require.Equal(t, wire.Integer(0), s.Do("EXISTS", wire.Queue("mails").Meta()))
	r := s.request("POST", "/q/mails/pause", form("for", "0"))
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusSeeOther, s.send(r).StatusCode)
	require.Equal(t, wire.Integer(1), s.Do("EXISTS", wire.Queue("mails").Meta()))
	// A link from another site works; embedding in its pages does not, because counting and searching cost work.
	for _, from := range []string{"cross-site", "same-site", "same-origin", "none"} {
		for _, what := range [][2]string{{"no-cors", "image"}, {"cors", "empty"}, {"navigate", "iframe"}, {"navigate", "document"}} {
			r := s.request("GET", "/q/mails/groups", nil)
			r.Header = http.Header{"Sec-Fetch-Site": {from}, "Sec-Fetch-Mode": {what[0]}, "Sec-Fetch-Dest": {what[1]}}
			status := http.StatusOK
			if strings.HasSuffix(from, "-site") && what[1] != "document" {
				status = http.StatusForbidden
			}
			require.Equal(t, status, s.send(r).StatusCode, "%s %s", from, what)
		}
	}
	// A foreign name that points here is not the page's.
	for host, status := range map[string]int{"evil.example": 421, "queues.example:81": 200, "QUEUES.example": 200} {
		r := s.request("GET", "/", nil)
		r.Host = host
		require.Equal(t, status, s.send(r).StatusCode, host)
	}
}

// An unknown name takes as long as the one that takes the longest.
func TestDearest(t *testing.T) {
	var lines []string
	for i, cost := range []int{bcrypt.MinCost, bcrypt.MinCost + 1, bcrypt.MinCost} {
		hash, err := bcrypt.GenerateFromPassword([]byte("x"), cost)
		require.NoError(t, err)
		lines = append(lines, fmt.Sprintf("user%d:viewer:%s", i, hash))
	}
	auth, err := Basic(strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	require.Equal(t, auth.(*basic).users["user1"].hash, auth.(*basic).none)
}

func TestRoles(t *testing.T) {
	hash := func(password string) string {
		b, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		require.NoError(t, err)
		return string(b)
	}
	file := "# who may what\n\nvera:viewer:" + hash("v") + "\noscar:operator:" + hash("o:o") + "\n"
	basic, err := Basic(strings.NewReader(file))
	require.NoError(t, err)
	var log journal
	s := serve(t, Options{Auth: basic, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	s.fill("mails", []string{"JOB1", "JOB2"}, "no answer")
	as := func(r *http.Request, who string) answer {
		name, password, _ := strings.Cut(who, ":")
		if who != "" {
			r.SetBasicAuth(name, password)
		}
		return s.send(r)
	}
	for _, who := range []string{"", "vera:", "vera:o:o", "nobody:v", "oscar:o"} {
		for _, path := range append(screens, "/events?view=status", "/assets/app.css", "/q/mails/j/JOB1/payload", "/nothing") {
			got := as(s.request("GET", path, nil), who)
			require.Equal(t, http.StatusUnauthorized, got.StatusCode, "%s %s", who, path)
			require.Contains(t, got.Header.Get("WWW-Authenticate"), "Basic")
			require.NotContains(t, got.body, "mails")
		}
		for _, path := range posts {
			require.Equal(t, http.StatusUnauthorized, as(s.request("POST", path, form("for", "0")), who).StatusCode)
		}
	}
	// A guesser's name is in the log, the guesses are not.
	require.Contains(t, log.String(), "user=oscar")
	require.Contains(t, log.String(), "user=nobody from=127.0.0.1:")
	require.NotContains(t, log.String(), "o:o")
	button := regexp.MustCompile(`data-action="(pause|resume|limit|requeue|remove|release|stop|again|sure)"`)
	viewed := func(get func(path string) answer, post func(path string) answer) {
		t.Helper()
		for _, path := range append(screens, "/q/mails/j/JOB2", "/q/mails/groups") {
			got := get(path)
			require.Equal(t, http.StatusOK, got.StatusCode, path)
			for _, b := range button.FindAllString(got.body, -1) {
				require.Equal(t, `data-action="stop"`, b, path) // of a search, which is hidden until it runs
			}
			require.NotRegexp(t, `<form method="post" action="[^"]*/(pause|limit|bulk|do)"[^>]*>.*<button`, got.body, path)
		}
		for _, path := range posts {
			require.Equal(t, http.StatusForbidden, post(path).StatusCode, path)
		}
		require.Equal(t, wire.Integer(0), s.Do("EXISTS", wire.Queue("mails").Meta()))
	}
	everything := form("for", "0", "action", "requeue", "state", "dead", "all", "1", "sure", "1")
	viewed(func(path string) answer { return as(s.request("GET", path, nil), "vera:v") },
		func(path string) answer { return as(s.request("POST", path, everything), "vera:v") })
	require.Equal(t, wire.Integer(1), s.Do("ZCARD", wire.Queue("mails").Dead()))
	for range 2 { // also when the password is cached
		require.Contains(t, as(s.request("GET", "/q/mails", nil), "oscar:o:o").body, `data-action="pause"`)
	}
	require.Equal(t, http.StatusSeeOther, as(s.request("POST", "/theme", form("theme", "dark")), "vera:v").StatusCode, "the colours are a viewer's own")

	s = at(t, s.place, "", Options{ReadOnly: true})
	viewed(func(path string) answer { return s.send(s.request("GET", path, nil)) },
		func(path string) answer { return s.send(s.request("POST", path, everything)) })

	s = at(t, s.place, "", Options{Auth: Header("X-User", map[string]Role{"oscar": Operator, "*": Viewer, "eve": Nobody})})
	with := func(method, path string, users ...string) answer {
		r := s.request(method, path, everything)
		r.Header["X-User"] = users
		return s.send(r)
	}
	viewed(func(path string) answer { return with("GET", path, "anybody") }, func(path string) answer { return with("POST", path, "anybody") })
	for _, users := range [][]string{nil, {""}, {"eve"}, {"vera", "oscar"}} {
		require.Equal(t, http.StatusForbidden, with("GET", "/", users...).StatusCode, users)
		require.Equal(t, http.StatusForbidden, with("POST", "/q/mails/pause", users...).StatusCode, users)
	}
	require.Equal(t, http.StatusSeeOther, with("POST", "/q/mails/pause", "oscar").StatusCode)

	for _, wrong := range []string{"", "vera", "vera:viewer", "vera:admin:" + hash("x"), "vera:viewer:plain", ":viewer:" + hash("x"), file + file} {
		_, err := Basic(strings.NewReader(wrong))
		require.Error(t, err, wrong)
		require.NotContains(t, err.Error(), "$2")
	}
}

// Below another path, in another program's mux, all links work too.
func TestBasePath(t *testing.T) {
	inner := serve(t, Options{BasePath: "tools/q ü/"})
	mux := http.NewServeMux()
	mux.Handle("/tools/", inner.page)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s := *inner
	s.url = server.URL
	base := "/tools/q%20%C3%BC"
	s.fill("mails", []string{"JOB1", "JOB2"}, "no answer")
	require.Equal(t, base+"/", s.send(s.request("GET", base, nil)).Header.Get("Location"))
	require.Equal(t, http.StatusNotFound, s.send(s.request("GET", "/tools/", nil)).StatusCode)
	link := regexp.MustCompile(` (?:href|src|action|hx-get|data-events|data-hour|data-stream)="([^"#][^"]*)"`)
	seen := map[string]bool{}
	todo := []string{base + "/", base + queue("mails")}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] || strings.Contains(path, "/events") {
			continue
		}
		seen[path] = true
		got := s.send(s.request("GET", path, nil))
		require.Contains(t, []int{200, 302, 400, 404, 405}, got.StatusCode, path) // the URL of a form may be no screen
		if !strings.Contains(got.Header.Get("Content-Type"), "html") {
			continue
		}
		for _, to := range link.FindAllStringSubmatch(got.body, -1) {
			to := html.UnescapeString(to[1])
			require.True(t, strings.HasPrefix(to, base+"/"), "%s: %s", path, to)
			todo = append(todo, to)
		}
	}
	require.Greater(t, len(seen), 20)
	require.Equal(t, base+"/q/mails", s.post(base+"/q/mails/pause", "for", "0").Header.Get("Location"))
	for to, goes := range map[string]string{base + "/tasks": base + "/tasks", "//evil.example": base + "/", "/other": base + "/", base + "/\\evil": base + "/", "https://evil.example" + base + "/": base + "/"} {
		require.Equal(t, goes, s.post(base+"/theme", "theme", "dark", "to", to).Header.Get("Location"), to)
	}
	// A browser compares a cookie's path with the encoded path of the URL; Go's own jar does not.
	theme := s.post(base+"/theme", "theme", "dark").Cookies()[0]
	require.Equal(t, base+"/", theme.Path)
	r := s.request("GET", base+"/tasks", nil)
	r.AddCookie(theme)
	require.Contains(t, s.send(r).body, `data-theme="dark"`)
}

func TestJobs(t *testing.T) {
	s := serve(t, Options{})
	var ids []string
	for i := range 120 {
		ids = append(ids, fmt.Sprintf("JOB%03d", i))
	}
	s.fill("mails", ids)
	row := regexp.MustCompile(`data-job="([^"]*)"`)
	link := func(body, rel string) string {
		m := regexp.MustCompile(`rel="` + rel + `" href="([^"]*)"`).FindStringSubmatch(body)
		if m == nil {
			return ""
		}
		return html.UnescapeString(m[1])
	}
	shown := func(body string) (list []string) {
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			list = append(list, m[1])
		}
		return list
	}
	body := s.get("/q/mails?state=pending")
	require.Equal(t, ids[:50], shown(body))
	require.Empty(t, link(body, "prev"))
	body = s.get(link(body, "next"))
	require.Equal(t, ids[50:100], shown(body))
	second := body
	body = s.get(link(body, "next"))
	require.Equal(t, ids[100:], shown(body))
	require.Empty(t, link(body, "next"))
	require.Equal(t, ids[50:100], shown(s.get(link(body, "prev"))))
	require.Equal(t, ids[:50], shown(s.get(link(second, "prev"))))
	require.Len(t, shown(s.get("/q/mails?n=100")), 100)

	// Scheduled ones are found by their time, to the second.
	s.Must("EMQ.MSCHEDULE emq:{mails}: at JOBa 4102444800000 x JOBb 4102444860000 y JOBc 4102444920000 z")
	got := s.send(s.request("GET", "/q/mails?state=scheduled&from=2100-01-01T00:01", nil))
	require.Equal(t, http.StatusFound, got.StatusCode)
	require.Equal(t, []string{"JOBb", "JOBc"}, shown(s.get(got.Header.Get("Location"))))
	require.Equal(t, "/q/mails/j/JOBb", s.send(s.request("GET", "/find?id=+JOBb+", nil)).Header.Get("Location"))
	require.Equal(t, "/q/mails/j/JOBnone", s.send(s.request("GET", "/find?id=JOBnone&queue=mails", nil)).Header.Get("Location"))
	s.fill("bills", []string{"JOBb"})
	found := s.get("/find?id=JOBb")
	require.Contains(t, found, "/q/mails/j/JOBb")
	require.Contains(t, found, "/q/bills/j/JOBb")
}

func TestPayload(t *testing.T) {
	s := serve(t, Options{})
	long := strings.Repeat("é", 20<<10)
	deep := `{"a":[1,{"b":"<i>\u202e"}],"n":12345678901234567890}`
	for id, payload := range map[string]string{"JOBjson": deep, "JOBtext": long, "JOBhex": "\x00\x01abc\xff", "JOBbig": strings.Repeat("x", 20<<20), "JOBempty": "",
		"JOBpage": "<script>alert(1)</script>"} {
		require.Equal(t, "*1\r\n:1\r\n", s.Do(wire.Queue("q").Menqueue(id, payload)...))
	}
	body := s.get("/q/q/j/JOBjson")
	require.Contains(t, body, "{\n  &#34;a&#34;: [\n    1,")
	require.Contains(t, body, "12345678901234567890")
	require.Contains(t, body, "&lt;i&gt;")
	require.Contains(t, s.get("/q/q/j/JOBjson?as=text"), "{&#34;a&#34;:[1,")
	require.Contains(t, s.get("/q/q/j/JOBjson?as=hex"), "7b 22 61 22")
	require.Contains(t, s.get("/q/q/j/JOBhex"), "00 01 61 62 63 ff")
	require.Contains(t, s.get("/q/q/j/JOBempty"), "It is empty")

	body = s.get("/q/q/j/JOBtext")
	require.Equal(t, first/2, strings.Count(body, "é"))
	require.Contains(t, body, "payload=all")
	require.Equal(t, 20<<10, strings.Count(s.get("/q/q/j/JOBtext?payload=all"), "é"))

	// A long payload is not sent unless it is requested: neither in the list nor in the job.
	sent := func() int {
		n, err := strconv.Atoi(s.Info("total_net_output_bytes"))
		require.NoError(t, err)
		return n
	}
	before := sent()
	body = s.get("/q/q/j/JOBbig")
	require.Contains(t, body, "20.0 MiB")
	require.Contains(t, body, "was not fetched")
	require.Less(t, len(body), 20<<10)
	s.get("/q/q")
	require.Less(t, sent()-before, 300<<10) // the other payloads are in it
	body = s.get("/q/q/j/JOBbig?payload=all")
	require.Contains(t, body, "only to be downloaded")
	require.Less(t, len(body), most+20<<10)

	for id, payload := range map[string]string{"JOBpage": "<script>alert(1)</script>", "JOBhex": "\x00\x01abc\xff", "JOBbig": strings.Repeat("x", 20<<20)} {
		got := s.send(s.request("GET", "/q/q/j/"+id+"/payload", nil))
		require.True(t, payload == got.body, id)
		require.Equal(t, `attachment; filename="`+id+`.bin"`, got.Header.Get("Content-Disposition"))
		require.Equal(t, "application/octet-stream", got.Header.Get("Content-Type"))
		require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
		require.Contains(t, got.Header.Get("Content-Security-Policy"), "sandbox")
	}
}

// At most four long payloads are in memory at a time, however many are requested; other requests do not wait.
func TestLongPayloads(t *testing.T) {
	s := serve(t, Options{})
	for id, payload := range map[string]string{"JOBlong": strings.Repeat("x", fetched+1), "JOBshort": "x"} {
		require.Equal(t, "*1\r\n:1\r\n", s.Do(wire.Queue("q").Menqueue(id, payload)...))
	}
	for range cap(s.page.payloads) {
		s.page.payloads <- struct{}{}
	}
	s.get("/q/q/j/JOBshort/payload")
	s.get("/q/q/j/JOBlong")
	for _, path := range []string{"/q/q/j/JOBlong/payload", "/q/q/j/JOBlong?payload=all"} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := s.client.Do(s.request("GET", path, nil).WithContext(ctx))
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded, path)
	}
	<-s.page.payloads
	require.Len(t, s.get("/q/q/j/JOBlong/payload"), fetched+1)
	require.Contains(t, s.get("/q/q/j/JOBlong?payload=all"), "xxx")
	require.Len(t, s.page.payloads, cap(s.page.payloads)-1, "what was taken is given back")
}

func TestDeeds(t *testing.T) {
	s := serve(t, Options{})
	q := wire.Queue("q")
	s.fill(q, []string{"JOB1", "JOB2", "JOB3"}, "no answer")
	s.Must("EMQ.MSCHEDULE emq:{q}: in JOBs 1000000 x", "EMQ.MCLAIM emq:{q}: 1000000 1")
	state := func(id string) string { return strings.Split(s.Do("HGET", q.Row(id), "state"), "\r\n")[1] }

	body := s.get("/q/q/j/JOB1")
	require.Contains(t, body, "no answer")
	require.Contains(t, body, "EMQ.REQUEUE &#39;emq:{q}:&#39; dead JOB1")
	require.Contains(t, s.done("/q/q/j/JOB1/do", "action", "requeue", "state", "dead"), "The job was requeued.")
	require.Equal(t, "pending", state("JOB1"))
	require.Contains(t, s.done("/q/q/j/JOB1/do", "action", "requeue", "state", "dead"), "no longer dead")
	require.NotContains(t, s.get("/q/q/j/JOB1"), "no longer dead", "it is told once")

	require.Contains(t, s.get("/q/q/j/JOBs"), "Run now")
	require.Contains(t, s.done("/q/q/j/JOBs/do", "action", "requeue", "state", "scheduled"), "made pending")
	require.Equal(t, "pending", state("JOBs"))

	require.Equal(t, "active", state("JOB2"))
	require.Contains(t, s.get("/q/q/j/JOB2"), "EMQ.RELEASE &#39;emq:{q}:&#39; JOB2 1 0")
	require.Contains(t, s.done("/q/q/j/JOB2/do", "action", "release", "state", "active"), "released")
	require.Equal(t, "pending", state("JOB2"))

	s.Must("HSET emq:{q}:job:JOB3 group g")
	require.NotContains(t, s.get("/q/q/j/JOB3"), `data-action="remove"`)
	for _, wrong := range [][2]string{{"release", "dead"}, {"requeue", "pending"}, {"requeue", ""}, {"remove", "pending"}, {"", "dead"}, {"x", "dead"}} {
		require.Equal(t, http.StatusBadRequest, s.post("/q/q/j/JOB1/do", "action", wrong[0], "state", wrong[1]).StatusCode, wrong)
	}
	require.Equal(t, "pending", state("JOB1"))
}

func TestGates(t *testing.T) {
	s := serve(t, Options{})
	s.fill("q", []string{"JOB1"})
	require.Contains(t, s.done("/q/q/pause", "for", "900"), "paused for 14 min")
	require.Contains(t, s.done("/q/q/pause", "for", "0"), "until somebody resumes it")
	require.Equal(t, "*0\r\n", s.Do(wire.Queue("q").Claim(1000)...))
	require.NotContains(t, s.done("/q/q/resume"), `data-field="paused"`)
	require.Contains(t, s.done("/q/q/limit", "concurrency", "3", "max", "100", "per", "0.5"), "≤ 100 / 500 ms")
	require.Equal(t, "3", strings.Split(s.Do("HGET", "emq:{q}:meta", "concurrency"), "\r\n")[1])
	for _, wrong := range [][]string{{"max", "5"}, {"per", "5"}, {"concurrency", "-1"}, {"concurrency", "x"}, {"max", "5000000000", "per", "1"}, {"max", "1", "per", "NaN"}, {"max", "1", "per", "-1"}} {
		require.Equal(t, http.StatusBadRequest, s.post("/q/q/limit", wrong...).StatusCode, wrong)
	}
	for _, wrong := range []string{"", "-1", "x", "99999999999"} {
		require.Equal(t, http.StatusBadRequest, s.post("/q/q/pause", "for", wrong).StatusCode, wrong)
	}
	require.Equal(t, "3", strings.Split(s.Do("HGET", "emq:{q}:meta", "concurrency"), "\r\n")[1])
	require.NotContains(t, s.done("/q/q/limit", "concurrency", "", "max", "0", "per", "0"), "≤")
}

// crowd is a queue with 8000 dead letters: 3000 of one cause, and 5000 of two others.
func (s *site) crowd(q wire.Queue) {
	s.t.Helper()
	var ids, errors []string
	for i := range 8000 {
		ids = append(ids, fmt.Sprintf("JOB%05d", i))
		errors = append(errors, []string{"dial tcp 10.0.0.%d:25: i/o timeout", "550 user %d unknown", "550 user %d unknown", "", "dial tcp 10.0.0.%d:25: i/o timeout",
			"dial tcp 10.0.0.%d:25: i/o timeout", "550 user %d unknown", ""}[i%8])
		if strings.Contains(errors[i], "%d") {
			errors[i] = fmt.Sprintf(errors[i], i%250)
		}
	}
	s.fill(q, ids, errors...)
}

var (
	rows    = regexp.MustCompile(`(?s)data-group="([^"]*)".*?data-field="jobs">([0-9,]*)<`)
	ticks   = regexp.MustCompile(`name="group" value="([^"]*)"`)
	changed = regexp.MustCompile(`data-field="changed">([0-9,]*)<`)
)

// An operator finds, groups and requeues the right 3000 of 8000.
func TestGroups(t *testing.T) {
	s := serve(t, Options{})
	s.crowd("q")
	body := s.waitFor("/q/q/groups", `data-group=`)
	found := rows.FindAllStringSubmatch(body, -1)
	require.Len(t, found, 3)
	require.Equal(t, []string{"3,000", "3,000", "2,000"}, []string{found[0][2], found[1][2], found[2][2]})
	marks := ticks.FindAllStringSubmatch(body, -1)
	timeouts := 0
	if strings.Contains(decode(marks[1][1]), "timeout") {
		timeouts = 1
	}
	require.Contains(t, s.get("/q/q/search?state=dead&group="+url.QueryEscape(marks[timeouts][1])), "i/o timeout")

	asked := s.post("/q/q/bulk", "action", "requeue", "state", "dead", "group", marks[timeouts][1])
	require.Contains(t, asked.body, `data-field="jobs">3,000<`)
	require.Contains(t, s.get("/tasks"), "No tasks yet", "to ask does nothing")
	got := s.post("/q/q/bulk", "action", "requeue", "state", "dead", "group", marks[timeouts][1], "sure", "1", "jobs", "3000")
	end := s.waitFor(got.Header.Get("Location"), `data-status="done"`)
	require.Equal(t, "3,000", changed.FindStringSubmatch(end)[1])
	require.Contains(t, s.get("/tasks"), `data-status="done"`)
	require.Equal(t, wire.Integer(3000), s.Do("ZCARD", "emq:{q}:pending"))
	require.Equal(t, wire.Integer(5000), s.Do("ZCARD", "emq:{q}:dead"))
	for _, id := range []string{"JOB00000", "JOB00004", "JOB07997"} {
		require.Equal(t, "$7\r\npending\r\n", s.Do("HGET", "emq:{q}:job:"+id, "state"))
	}

	// Several groups in one task, with that of the jobs without an error; the old count is no longer shown.
	body = s.waitFor("/q/q/groups", `data-group=`)
	require.Len(t, rows.FindAllString(body, -1), 2)
	pairs := []string{"action", "remove", "state", "dead"}
	for _, m := range ticks.FindAllStringSubmatch(body, -1) {
		pairs = append(pairs, "group", m[1])
	}
	require.Contains(t, s.post("/q/q/bulk", pairs...).body, `data-field="jobs">5,000<`)
	s.waitFor(s.post("/q/q/bulk", append(pairs, "sure", "1")...).Header.Get("Location"), `data-status="done"`)
	require.Equal(t, wire.Integer(0), s.Do("EXISTS", "emq:{q}:dead"))
	require.Contains(t, s.waitFor("/q/q/groups", "No dead letters"), "No dead letters")
}

// What viewers make the page do and keep is bounded, however many requests they send.
func TestBounds(t *testing.T) {
	s := serve(t, Options{})
	s.fill("q", []string{"JOB1"}, strings.Repeat("long ", 10_000))
	for i := range mostResults + 20 {
		s.waitFor(fmt.Sprintf("/q/q/groups?match=%s", strings.Repeat("long+", i+1)[:5*i+4]), "data-group=")
	}
	require.LessOrEqual(t, len(s.page.groups.of), mostResults)
	for _, g := range s.page.groups.of {
		require.Less(t, len(g.groups[0].Example.LastError), 1000)
	}
	long := strings.Repeat("x", longestMatch+1)
	for _, path := range []string{"groups", "search", "search/events"} {
		require.Equal(t, http.StatusBadRequest, s.send(s.request("GET", "/q/q/"+path+"?match="+long, nil)).StatusCode, path)
	}
	require.Equal(t, http.StatusBadRequest, s.post("/q/q/bulk", "action", "remove", "state", "dead", "all", "1", "match", long).StatusCode)

	for path, slots := range map[string]chan struct{}{"/events?view=status": s.page.streams, "/q/q/search/events": s.page.searches, "/q/q/search": s.page.looks} {
		for range cap(slots) {
			slots <- struct{}{}
		}
		require.Equal(t, http.StatusTooManyRequests, s.send(s.request("GET", path, nil)).StatusCode, path)
		<-slots
		got, err := s.client.Do(s.request("GET", path, nil))
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.StatusCode, path)
		got.Body.Close()
		store.WaitFor(t, "the slot is free again", func() bool { return len(slots) == cap(slots)-1 })
	}

	// So are the tasks that an operator begins.
	for range cap(s.page.tasks.slots) {
		s.page.tasks.slots <- struct{}{}
	}
	all := []string{"action", "requeue", "state", "dead", "all", "1", "sure", "1"}
	for range mostTasks {
		require.Equal(t, http.StatusSeeOther, s.post("/q/q/bulk", all...).StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, s.post("/q/q/bulk", all...).StatusCode)
	s.done("/tasks/50/stop")
	s.waitFor("/tasks/50", `data-status="stopped"`)
	require.Equal(t, http.StatusSeeOther, s.post("/tasks/50/again").StatusCode)
	require.Equal(t, http.StatusTooManyRequests, s.post("/tasks/50/again").StatusCode)
}

// All jobs that match a text, and all in a state; no others.
func TestBulk(t *testing.T) {
	s := serve(t, Options{})
	s.crowd("q")
	s.waitFor("/q/q/groups?match=unknown", `data-group=`)
	asked := s.post("/q/q/bulk", "action", "remove", "state", "dead", "match", "UNKNOWN", "all", "1")
	if !strings.Contains(asked.body, "3,000") { // with another case it is another count
		require.Contains(t, asked.body, "was not counted yet")
	}
	require.Contains(t, s.post("/q/q/bulk", "action", "remove", "state", "dead", "match", "unknown", "all", "1").body, `data-field="jobs">3,000<`)
	s.waitFor(s.post("/q/q/bulk", "action", "remove", "state", "dead", "match", "unknown", "all", "1", "sure", "1").Header.Get("Location"), `data-status="done"`)
	require.Equal(t, wire.Integer(5000), s.Do("ZCARD", "emq:{q}:dead"))
	s.waitFor(s.post("/q/q/bulk", "action", "requeue", "state", "dead", "id", "JOB00000", "id", "JOB00003", "id", "JOBnone", "sure", "1").Header.Get("Location"), `data-status="done"`)
	require.Equal(t, wire.Integer(4998), s.Do("ZCARD", "emq:{q}:dead"))
	require.Contains(t, s.post("/q/q/bulk", "action", "requeue", "state", "dead", "all", "1").body, `data-field="jobs">4,998<`)
	for _, wrong := range [][]string{{}, {"group", "-x", "id", "JOB1"}, {"all", "1", "action", "release"}} {
		require.Equal(t, http.StatusBadRequest, s.post("/q/q/bulk", append(wrong, "action", "requeue", "state", "dead")...).StatusCode, wrong)
	}
}

// A task stops between two calls, and says where; it can be continued from there.
func TestStop(t *testing.T) {
	s := serve(t, Options{})
	s.crowd("q")
	s.Must("CLIENT PAUSE 1000000 WRITE")
	place := s.post("/q/q/bulk", "action", "requeue", "state", "dead", "all", "1", "sure", "1", "jobs", "8000").Header.Get("Location")
	other := s.place.Conn()
	store.WaitFor(t, "the first call is under way", func() bool { return other.Info("blocked_clients") == "1" })
	require.Contains(t, s.get(place), `data-status="running"`)
	require.Equal(t, http.StatusBadRequest, s.post(place+"/again").StatusCode)
	s.done(place + "/stop")
	other.Must("CLIENT UNPAUSE")
	end := s.waitFor(place, `data-status="stopped"`)
	require.Equal(t, "500", changed.FindStringSubmatch(end)[1])
	require.Equal(t, wire.Integer(7500), other.Do("ZCARD", "emq:{q}:dead"))
	next := s.post(place + "/again").Header.Get("Location")
	require.NotEqual(t, place, next)
	end = s.waitFor(next, `data-status="done"`)
	require.Equal(t, "7,500", changed.FindStringSubmatch(end)[1])
}

// A task survives a restart of its server: it continues on the same data, and does no job twice.
func TestFailover(t *testing.T) {
	s := serve(t, Options{}, "--appendonly", "yes", "--appendfsync", "always")
	s.crowd("q")
	s.Must("CLIENT PAUSE 1000000 WRITE")
	place := s.post("/q/q/bulk", "action", "requeue", "state", "dead", "all", "1", "sure", "1", "jobs", "8000").Header.Get("Location")
	other := s.place.Conn()
	store.WaitFor(t, "the first call is under way", func() bool { return other.Info("blocked_clients") == "1" })
	s.place.Crash()
	require.Contains(t, s.get(place), `data-status="running"`)
	s.place.Start()
	s.waitFor(place, `data-status="done"`)
	require.Equal(t, wire.Integer(8000), s.place.Conn().Do("ZCARD", "emq:{q}:pending"))
}

// If the page's Valkey user lacks a right, the place of the missing data says so, and the rest of the screen is there.
func TestRights(t *testing.T) {
	admin := serve(t, Options{})
	admin.crowd("q")
	admin.Must("ACL SETUSER looker on >secret +ping +hello +client|setinfo +emq.stats +emq.queues +zrange +zcard +zscore +zrank +zcount +zlexcount +hget +hmget +hstrlen +exists +get +info +config|get %R~emq:{q}:* %R~{emq}:version",
		"ACL SETUSER blind on >secret +ping +hello +client +emq.queues +emq.stats %R~emq:{q}:* %R~{emq}:version")
	s := at(t, admin.place, "looker", Options{})
	got := s.done("/q/q/pause", "for", "0")
	require.Contains(t, got, "NOPERM")
	require.Contains(t, got, "has not the right")
	require.Contains(t, s.done("/q/q/j/JOB00000/do", "action", "requeue", "state", "dead"), "NOPERM")
	place := s.post("/q/q/bulk", "action", "requeue", "state", "dead", "all", "1", "sure", "1").Header.Get("Location")
	end := s.waitFor(place, `data-status="failed"`)
	require.Contains(t, end, "NOPERM")
	require.Contains(t, end, `data-action="again"`)
	require.Equal(t, wire.Integer(8000), admin.Do("ZCARD", "emq:{q}:dead"))
	admin.Must("ACL SETUSER looker +emq.requeue ~emq:{q}:*")
	s.waitFor(s.post(place+"/again").Header.Get("Location"), `data-status="done"`)
	require.Equal(t, wire.Integer(8000), admin.Do("ZCARD", "emq:{q}:pending"))

	s = at(t, admin.place, "blind", Options{})
	body := s.get("/q/q")
	require.Contains(t, body, `data-field="pending">8,000<`)
	require.Contains(t, body, "NOPERM")
	body = s.get("/q/other")
	require.Contains(t, body, "NOPERM")
	require.Contains(t, body, "data-screen")
	for _, path := range []string{"/", "/tasks", "/health", "/find?id=JOB1"} {
		s.get(path)
	}
}

// A broken key of a queue affects only its own place.
func TestBroken(t *testing.T) {
	s := serve(t, Options{})
	s.fill("q", []string{"JOB1"})
	s.Must("SET emq:{q}:dead x")
	require.Contains(t, s.get("/q/q?state=dead"), "WRONGTYPE")
	require.Contains(t, s.get("/q/q?state=pending"), `data-job="JOB1"`)
	s.Must("DEL emq:{q}:job:JOB1", "SET emq:{q}:job:JOB1 x")
	require.Contains(t, s.get("/q/q?state=pending"), `data-job="JOB1"`)
	s.get("/q/q/j/JOB1")
	require.Contains(t, s.waitFor("/q/q/groups", "WRONGTYPE"), "WRONGTYPE")
}

// The page has the first part of a search; a stream has the rest, row by row, and says where it ends.
func TestSearch(t *testing.T) {
	s := serve(t, Options{})
	s.crowd("q")
	body := s.get("/q/q/search?state=dead&match=PAYLOAD+of+JOB0001")
	require.Equal(t, 10, strings.Count(body, "data-job="))
	stream := regexp.MustCompile(`data-stream="([^"]*)"`).FindStringSubmatch(body)
	require.NotNil(t, stream, "the window has more than was looked at")
	events := s.events(html.UnescapeString(stream[1]))
	hit := 0
	for {
		e := events()
		if e.name == "hit" {
			hit++
			require.Contains(t, e.data, "data-job=")
		}
		if e.name == "end" {
			var end struct {
				Seen int
				Next string
				Full bool
			}
			require.NoError(t, json.Unmarshal([]byte(e.data), &end))
			require.Empty(t, end.Next)
			require.Positive(t, end.Seen)
			break
		}
	}
	require.Zero(t, hit)

	// More hits than are shown: it continues after the last of them, and skips none.
	next, seen := "/q/q/search?state=dead&match=timeout", map[string]bool{}
	for next != "" {
		body := s.get(next)
		found := regexp.MustCompile(`data-job="([^"]*)"`).FindAllStringSubmatch(body, -1)
		require.LessOrEqual(t, len(found), hits)
		for _, m := range found {
			require.False(t, seen[m[1]], m[1])
			seen[m[1]] = true
		}
		next = ""
		if m := regexp.MustCompile(`id="on" href="([^"]*)"`).FindStringSubmatch(body); m != nil {
			next = html.UnescapeString(m[1])
		}
	}
	require.Len(t, seen, 3000)
}

// event is an event of a stream.
type event struct{ name, data string }

// events opens a stream, and returns a function that waits for its next event.
func (s *site) events(path string) func() event {
	s.t.Helper()
	// A missing event fails the test instead of hanging it.
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	s.t.Cleanup(cancel)
	got, err := s.client.Do(s.request("GET", path, nil).WithContext(ctx))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { got.Body.Close() })
	require.Equal(s.t, http.StatusOK, got.StatusCode)
	require.Equal(s.t, "text/event-stream", got.Header.Get("Content-Type"))
	lines := bufio.NewScanner(got.Body)
	lines.Buffer(nil, 1<<20)
	return func() (e event) {
		s.t.Helper()
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				e.name = value
			case "data":
				e.data += value + "\n"
			case "":
				if e.name != "" {
					return e
				}
			}
		}
		require.Fail(s.t, "the stream has ended", "%v", lines.Err())
		return e
	}
}
