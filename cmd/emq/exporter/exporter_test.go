package exporter

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	emq "emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

// scraped are the figures of one scrape: by name, followed by the labels' values in the order of their names.
type scraped map[string]float64

// exporter is an exporter as the command makes it, for a server's socket, with the rights of a user.
func exporter(t *testing.T, s *store.Place, user string, room int, every time.Duration) (scrape func() scraped) {
	t.Helper()
	conn := emq.Dial(valkey.ClientOption{InitAddress: []string{s.Addr()}, Username: user, Password: "secret"})
	t.Cleanup(conn.Close)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(New(conn, room, every))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return func() scraped {
		reply, err := http.Get(server.URL)
		require.NoError(t, err)
		defer reply.Body.Close()
		require.Equal(t, http.StatusOK, reply.StatusCode)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(reply.Body)
		require.NoError(t, err)
		found := scraped{}
		for name, family := range families {
			for _, m := range family.Metric {
				key := name
				for _, label := range m.Label {
					key += " " + label.GetValue()
				}
				found[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
				if family.GetType() == dto.MetricType_COUNTER {
					require.True(t, strings.HasSuffix(name, "_total"), name)
				}
			}
		}
		return found
	}
}

// page is the line of docs/operations.md that creates a user.
func page(t *testing.T, user string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER ` + user + ` on >secret .*$`).FindString(string(text))
	require.NotEmpty(t, line, "the page makes no user %s", user)
	return line
}

// busy is a server with a queue for which every figure is shown, others with fewer, and the exporter's user.
func busy(t *testing.T) (*store.Place, *wire.Conn) {
	t.Helper()
	if os.Getenv("VALKEY_SERVER") == "" || os.Getenv("EMQ_MODULE") == "" {
		t.Skip("VALKEY_SERVER and EMQ_MODULE are not set: `make test-tools` sets them")
	}
	s := store.Open(t, store.Module())
	c := s.Conn()
	c.Must(page(t, "exporter"))
	all := wire.Queue("all")
	for i := range 7 { // canonical, of November 2025: their age can be told
		require.Equal(t, wire.Integer(1), c.Do(all.Enqueue("JOB0Iab2RJbbR"+strconv.Itoa(i), "x")...))
	}
	claim := func() (id string) {
		return wire.Words(strings.ReplaceAll(c.Do(all.Claim(1<<30)...), "\r\n", " "))[2]
	}
	require.Equal(t, wire.Integer(1), c.Do(all.Complete(claim(), "1")...))
	require.Equal(t, wire.Bulk("dead"), c.Do(all.Fail(claim(), "1", 0, 1, "why")...))
	require.Equal(t, wire.Bulk("scheduled"), c.Do(all.Fail(claim(), "1", 1<<30, 9, "why")...))
	claim()
	c.Must("EMQ.LIMIT " + all.Base() + " 3 100 1000")
	c.Must("EMQ.PAUSE " + all.Base() + " 100000000")
	return s, c
}

// Each figure of STATS and each number of INFO emq is exported unchanged.
func TestFigures(t *testing.T) {
	s, c := busy(t)
	found := exporter(t, s, "exporter", 10, 0)()
	now := float64(c.Now()) / 1000
	want := scraped{"emq_up": 1, "emq_queues": 1, "emq_queue_jobs all pending": 3, "emq_queue_jobs all active": 1, "emq_queue_jobs all scheduled": 1,
		"emq_queue_jobs all dead": 1, "emq_queue_completed_total all": 1, "emq_queue_failed_total all": 1, "emq_queue_waiting_clients all": 0,
		"emq_queue_paused all": 1, "emq_queue_limit_concurrency all": 3, "emq_queue_limit_rate_jobs all": 100, "emq_queue_limit_rate_window_seconds all": 1}
	for key, n := range want {
		require.Contains(t, found, key)
		require.Equal(t, n, found[key], key)
	}
	for _, name := range []string{"emq_queue_paused_until_timestamp_seconds all", "emq_queue_next_due_timestamp_seconds all", "emq_queue_next_expiry_timestamp_seconds all"} {
		require.Greater(t, found[name], now, name)
		require.Less(t, found[name], now+(1<<30), name)
	}
	require.Greater(t, found["emq_queue_oldest_pending_age_seconds all"], 0.0)
	numbers := regexp.MustCompile(`(?m)^(emq_\w+):\d+\r$`).FindAllStringSubmatch(c.Do("INFO", "emq"), -1)
	require.Greater(t, len(numbers), 100)
	for _, n := range numbers {
		if _, ok := found[n[1]]; !ok {
			require.Contains(t, found, n[1]+"_total")
		}
	}
}

// However many scrapes there are, the server is asked once: one STATS for each queue.
func TestOneSample(t *testing.T) {
	s, c := busy(t)
	for _, q := range []wire.Queue{"b", "c", "d"} {
		require.Equal(t, wire.Integer(1), c.Do(q.Enqueue("JOB1", "x")...))
	}
	scrape := exporter(t, s, "exporter", 2, time.Hour)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { scrape() })
	}
	all.Wait()
	require.Equal(t, 1.0, scrape()["emq_up"])
	require.Contains(t, c.Do("INFO", "commandstats"), "cmdstat_EMQ.STATS:calls=4,")
	require.Contains(t, c.Do("INFO", "commandstats"), "cmdstat_EMQ.QUEUES:calls=1,")
}

// The queues that were seen first have figures of their own, even when they are idle; all others are exported as one,
// with sums of numbers and the most urgent times. So there are no more metrics with 250 queues than with three.
func TestRest(t *testing.T) {
	s, c := busy(t)
	scrape := exporter(t, s, "exporter", 2, 0)
	require.NotContains(t, scrape(), "emq_queue_jobs {rest} pending")
	var commands [][]string
	for i := range 250 {
		q := wire.Queue("q" + strconv.Itoa(1000+i))
		commands = append(commands, q.Enqueue("JOB1", "x"), q.ScheduleAt("JOB2", "x", int64(5_000_000_000_000+i)))
	}
	for i, reply := range c.Pipeline(commands) {
		require.Equal(t, wire.Integer(1), reply, commands[i])
	}
	c.Must("EMQ.PAUSE emq:{q1100}: 0")
	found := scrape()
	require.Equal(t, 251.0, found["emq_queues"])
	require.Equal(t, 1.0, found["emq_queue_jobs q1000 pending"], "the second queue that was met")
	require.Equal(t, 249.0, found["emq_queue_jobs {rest} pending"])
	require.Equal(t, 249.0, found["emq_queue_jobs {rest} scheduled"])
	require.Equal(t, 1.0, found["emq_queue_paused {rest}"])
	require.Equal(t, 5_000_000_000.001, found["emq_queue_next_due_timestamp_seconds {rest}"])
	require.NotContains(t, found, "emq_queue_completed_total {rest}")
	require.NotContains(t, found, "emq_queue_jobs q1001 pending")

	// An idle queue is not listed, but keeps its figures and its place.
	q := wire.Queue("q1000")
	require.Equal(t, wire.Claimed("JOB1", "x", 1), c.Do(q.Claim(1000)...))
	require.Equal(t, wire.Integer(1), c.Do(q.Complete("JOB1", "1")...))
	c.Must("EMQ.REMOVE emq:{q1000}: scheduled JOB2")
	found = scrape()
	require.Equal(t, 250.0, found["emq_queues"])
	require.Equal(t, 0.0, found["emq_queue_jobs q1000 pending"])
	require.Equal(t, 1.0, found["emq_queue_completed_total q1000"])
	require.Equal(t, 249.0, found["emq_queue_jobs {rest} pending"])
}

// A broken queue does not affect the others' figures; a server that is down is reported as down; and the page's user
// can do no more than read.
func TestTrouble(t *testing.T) {
	s, c := busy(t)
	scrape := exporter(t, s, "exporter", 10, 0)
	c.Must("SET emq:{broken}:dead x")
	c.Must("ZADD emq:{broken}:pending 0 JOB1")
	found := scrape()
	require.Equal(t, 1.0, found["emq_up"])
	require.Contains(t, found, "emq_queue_jobs all pending")
	require.NotContains(t, found, "emq_queue_jobs broken pending")

	c.Must("ACL SETUSER exporter -emq.stats")
	require.Equal(t, 0.0, scrape()["emq_up"])
	c.Must("ACL SETUSER exporter +emq.stats")
	require.Equal(t, 1.0, scrape()["emq_up"])
	s.Crash()
	found = scrape()
	require.Len(t, found, 2)
	require.Equal(t, 0.0, found["emq_up"])
	require.Contains(t, found, "emq_sample_seconds")
	s.Start()
	require.Equal(t, 0.0, scrape()["emq_up"], "the user is gone with the server")
	s.Conn().Must(page(t, "exporter"))
	require.Equal(t, 1.0, scrape()["emq_up"])
}

// The exporter has each metric that an alert or the dashboard uses.
func TestAsked(t *testing.T) {
	s, _ := busy(t)
	shown := map[string]bool{}
	for key := range exporter(t, s, "exporter", 10, 0)() {
		name, _, _ := strings.Cut(key, " ")
		shown[name] = true
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	asked := ""
	for _, p := range dashboard.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			require.Regexp(t, `\bemq_\w+`, target.Expr, p.Title)
			asked += target.Expr + "\n"
		}
	}
	alerts, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	for _, expr := range regexp.MustCompile(`(?ms)^ +expr: (.*?)^ +(?:for|labels):`).FindAllStringSubmatch(string(alerts), -1) {
		asked += expr[1]
	}
	names := regexp.MustCompile(`\bemq_\w+`).FindAllString(asked, -1)
	require.Greater(t, len(names), 30)
	for _, name := range names {
		require.True(t, shown[name], "nothing shows %s", name)
	}
}

// promtool accepts the alerts, which fire as alerts_test.yml says, and the exporter's output.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if name := os.Getenv("PROMTOOL"); name != "" {
		promtool, err = name, nil
	}
	if err != nil {
		t.Skip("no promtool on the PATH; tools/promtool.sh fetches Debian's, and PROMTOOL names it")
	}
	for _, words := range []string{"check rules alerts.yml", "test rules alerts_test.yml"} {
		out, err := exec.Command(promtool, strings.Fields(words)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}
