// Package conformance asks one question: do all clients keep the same rules? Each scenario is data, and a driver in each language
// plays it against a real server: see README.md.
package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/link"
	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

const queue = wire.Queue("mail")

// scenario is one entry of scenarios.json.
type scenario struct {
	Name     string
	Topology string // "" is one server; "tls" one with a certificate; "pair" a primary and its replica; "sentinel" a pair that a Sentinel watches
	Open     object // settings of the queue, beside the server and its name
	Steps    []step
}

// step is one of: a request to the driver, an event of its to wait for, a command to the server, what a row or the
// queue's figures must come to, or something that happens to the server.
type step struct {
	Ask    object            // a request; Want or Error is its answer, Later names it for a step Answer
	Later  string            //
	Answer string            // the answer to a request that was asked before
	Want   any               // what the answer has: names that it has no more of are not asked for
	Error  string            // or the class of the error
	Save   map[string]string // words of the answer, or of the event, that later steps know by these names
	Hear   object            // an event
	Heard  object            // one that came already
	Run    string            // a command to the server, Want is its reply
	Row    string            // an id; its row comes to have the fields of Want, or is gone with null
	Stats  object            // EMQ.STATS comes to be so
	Server string            // stop, start, crash, cut, mend, failover; lose CLAIM: the answer to the next one, also BCLAIM's or MCLAIM's; hold CLAIM: it is late; stall: all answers are, until release
}

func TestScenarios(t *testing.T) {
	text, err := os.ReadFile("scenarios.json")
	require.NoError(t, err)
	var scenarios []scenario
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&scenarios))
	require.NotEmpty(t, scenarios)
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) {
			c.need(t)
			for _, s := range scenarios {
				t.Run(s.Name, func(t *testing.T) {
					if why := c.lacks[s.Name]; why != "" {
						t.Skip(why)
					}
					t.Parallel()
					stage := newStage(t, s.Topology, c)
					open := object{"do": "open", "url": "$url", "queue": string(queue)}
					maps.Copy(open, s.Open)
					stage.play(append([]step{{Ask: open}}, s.Steps...))
				})
			}
		})
	}
}

// stage is where a scenario is played.
type stage struct {
	t        testing.TB
	server   *store.Place // the primary
	other    *store.Place // of a pair
	link     *link.Link   // to a single server
	release  func()       // ends a hold of its
	watchers []*store.Place
	conn     *wire.Conn
	driver   *driver
	asked    map[string]int
	known    map[string]any
}

func newStage(t testing.TB, topology string, c client) *stage {
	t.Helper()
	s := &stage{t: t, asked: map[string]int{}, known: map[string]any{}}
	settings := []string{"--emq.pump-interval-ms", "10", "--appendonly", "yes", "--appendfsync", "always"}
	url, tls := "", ""
	if topology == "tls" {
		ca, key := certificate(t)
		tls = freeAddress(t)
		_, port, _ := net.SplitHostPort(tls)
		settings = append(settings, "--tls-port", port, "--tls-cert-file", ca, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no")
		s.known["ca"] = ca
	}
	s.server = store.Open(t, store.Pumped(settings...))
	s.conn = s.server.Conn()
	switch topology {
	case "":
		s.link = link.New(t, s.server.Addr())
		url = s.link.Address()
	case "pair", "sentinel":
		s.other = store.Open(t, store.Pumped(append(store.Following(s.server.Addr()), "--emq.pump-interval-ms", "10")...))
		s.other.Linked()
		s.server.Online()
		url = s.other.Addr() + "?addr=" + s.server.Addr() // the replica first, so that it must be passed over
		if topology == "sentinel" {
			url = s.watch()
		}
	case "tls":
		url = tls
	default:
		t.Fatalf("no topology: %s", topology)
	}
	s.known["url"], s.known["address"] = "valkey://"+url, url
	if tls != "" {
		s.known["url"] = "valkeys://" + url
	}
	s.driver = c.start(t, nil)
	return s
}

// freeAddress is one at which nobody listened a moment ago.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// certificate writes the files of a certificate for this machine that vouches for itself, and of its key.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	who := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "emq"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, who, who, private.Public(), private)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	write := func(kind string, bytes []byte) string {
		path := filepath.Join(t.TempDir(), strings.ReplaceAll(kind, " ", "-")+".pem")
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600))
		return path
	}
	return write("CERTIFICATE", signed), write("PRIVATE KEY", encoded)
}

// watch starts a Sentinel for the pair, and returns the rest of the URL.
func (s *stage) watch() string {
	s.t.Helper()
	w := store.Open(s.t, valkey.Options{Sentinel: []string{
		fmt.Sprintf("sentinel monitor pair 127.0.0.1 %d 1", s.server.Port()),
		"sentinel down-after-milliseconds pair 1000",
		"sentinel failover-timeout pair 5000",
	}})
	c := w.Conn()
	store.WaitFor(s.t, "the Sentinel to know the replica", func() bool {
		list, _ := wire.Value(c.Do("SENTINEL", "MASTER", "pair")).([]any)
		at := slices.Index(list, any("num-slaves"))
		return at >= 0 && list[at+1] == "1"
	})
	s.watchers = append(s.watchers, w)
	return w.Addr() + "/0?master_set=pair"
}

// primary is the port of the primary, as a Sentinel says.
func (s *stage) primary(c *wire.Conn) string {
	list, _ := wire.Value(c.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "pair")).([]any)
	require.Len(s.t, list, 2)
	return list[1].(string)
}

func (s *stage) play(steps []step) {
	s.t.Helper()
	for i, step := range steps {
		text, _ := json.Marshal(step)
		what := fmt.Sprintf("step %d, %s", i+1, text)
		switch {
		case step.Ask != nil:
			n := s.driver.send(s.fill(step.Ask).(object))
			if step.Later != "" {
				s.asked[step.Later] = n
			} else {
				s.check(what, step, n)
			}
		case step.Answer != "":
			n, ok := s.asked[step.Answer]
			require.True(s.t, ok, what)
			s.check(what, step, n)
		case step.Hear != nil:
			s.save(step, s.driver.hear(s.fill(step.Hear).(object)))
		case step.Heard != nil:
			require.True(s.t, s.driver.heard(s.fill(step.Heard).(object)), what)
		case step.Run != "":
			words := wire.Words(s.fill(step.Run).(string))
			var reply string
			require.True(s.t, store.Await(func() bool {
				reply = s.conn.Do(words...)
				return wire.IsError(reply) || step.Want == nil || differs(s.fill(step.Want), plain(wire.Value(reply))) == ""
			}), "%s: %s", what, reply)
			require.False(s.t, wire.IsError(reply), "%s: %s", what, reply)
		case step.Row != "":
			s.row(what, s.fill(step.Row).(string), step.Want)
		case step.Stats != nil:
			s.stats(what, s.fill(step.Stats).(object))
		case step.Server != "":
			s.happens(step.Server)
		default:
			s.t.Fatalf("%s: nothing to do", what)
		}
	}
}

func (s *stage) check(what string, step step, n int) {
	s.t.Helper()
	ok, failed, told := s.driver.answer(n)
	require.True(s.t, told, "%s: the driver is gone", what)
	if step.Error != "" {
		require.NotNil(s.t, failed, "%s: no error, but %v", what, ok)
		require.Empty(s.t, differs(step.Error, failed["class"]), "%s: %v", what, failed)
		return
	}
	require.Nil(s.t, failed, what)
	if step.Want != nil {
		require.Empty(s.t, differs(s.fill(step.Want), ok), "%s: %v", what, ok)
	}
	s.save(step, ok)
}

func (s *stage) save(step step, said any) {
	s.t.Helper()
	for word, name := range step.Save {
		fields, _ := said.(object)
		require.Contains(s.t, fields, word)
		s.known[name] = fields[word]
	}
}

func (s *stage) row(what, id string, want any) {
	s.t.Helper()
	var problem string
	require.True(s.t, store.Await(func() bool {
		list, _ := wire.Value(s.conn.Do("HGETALL", queue.Row(id))).([]any)
		fields := object{}
		for i := 0; i+1 < len(list); i += 2 {
			fields[list[i].(string)] = list[i+1]
		}
		if want == nil {
			problem = fmt.Sprint(fields)
			return len(fields) == 0
		}
		problem = differs(s.fill(want), fields)
		return problem == ""
	}), "%s: %s", what, problem)
}

func (s *stage) stats(what string, want object) {
	s.t.Helper()
	var problem string
	require.True(s.t, store.Await(func() bool {
		figures := object{}
		list, _ := wire.Value(s.conn.Do(queue.Stats()...)).([]any)
		for i := 0; i+1 < len(list); i += 2 {
			figures[list[i].(string)] = plain(list[i+1])
		}
		problem = differs(want, figures)
		return problem == ""
	}), "%s: %s", what, problem)
}

func (s *stage) happens(what string) {
	s.t.Helper()
	verb, word, _ := strings.Cut(what, " ")
	switch verb {
	case "stop":
		require.NoError(s.t, s.server.Stop())
	case "crash":
		s.server.Crash()
	case "start":
		s.server.Start()
		s.conn = s.server.Conn()
	case "cut":
		s.link.Cut()
	case "mend":
		s.link.Mend(s.t)
	case "lose":
		looker := s.server.Conn()
		before := calls(looker, word)
		s.link.Lose(word, func() { store.Await(func() bool { return calls(looker, word) != before }) })
	case "hold":
		s.release = s.link.Hold(word)
		s.t.Cleanup(s.release)
	case "stall":
		s.release = s.link.Stall()
		s.t.Cleanup(s.release)
	case "release":
		s.release()
	case "failover":
		if s.watchers != nil {
			s.server.Crash()
			c := s.watchers[0].Conn()
			// By then the Sentinel has ended all connections to the new primary.
			store.WaitFor(s.t, "the failover", func() bool { return s.primary(c) == strconv.Itoa(s.other.Port()) })
			s.conn = s.other.Conn()
			s.server.Start() // for its end
		} else {
			s.conn.Must("FAILOVER TO 127.0.0.1 " + strconv.Itoa(s.other.Port()))
			s.conn = s.other.Conn()
			store.WaitFor(s.t, "the failover", func() bool { return s.conn.Info("role") == "master" })
		}
		s.server, s.other = s.other, s.server
	default:
		s.t.Fatalf("nothing like this happens: %s", what)
	}
}

// calls is how often a verb was called, as INFO says it: `CLAIM` is EMQ.CLAIM, EMQ.MCLAIM and EMQ.BCLAIM.
func calls(c *wire.Conn, verb string) string {
	text, _ := wire.Value(c.Do("INFO", "commandstats")).(string)
	return fmt.Sprint(regexp.MustCompile(`cmdstat_EMQ\.[BM]?`+verb+`:calls=\d+`).FindAllString(text, -1))
}

// fill puts what is known in the place of its names, $name.
func (s *stage) fill(v any) any {
	switch v := v.(type) {
	case string:
		if known, ok := s.known[strings.TrimPrefix(v, "$")]; ok && strings.HasPrefix(v, "$") {
			return known
		}
		return os.Expand(v, func(name string) string {
			if known, ok := s.known[name]; ok {
				return fmt.Sprint(known)
			}
			return "$" + name
		})
	case []any:
		filled := make([]any, len(v))
		for i := range v {
			filled[i] = s.fill(v[i])
		}
		return filled
	case object:
		filled := object{}
		for name, value := range v {
			filled[name] = s.fill(value)
		}
		return filled
	}
	return v
}

// plain makes of a reply what JSON would.
func plain(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plain(v[i])
		}
		return list
	}
	return v
}

// differs says where something is not as wanted; empty if it is. An object may have more than is wanted, a string that begins
// with ~ is a regular expression, also of a number.
func differs(want, have any) string {
	switch want := want.(type) {
	case object:
		fields, ok := have.(object)
		if !ok {
			return fmt.Sprintf("%v is no object", have)
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if where := differs(want[name], fields[name]); where != "" {
				return name + ": " + where
			}
		}
		return ""
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%v, not %v", have, want)
		}
		for i := range want {
			if where := differs(want[i], list[i]); where != "" {
				return fmt.Sprintf("%d: %s", i, where)
			}
		}
		return ""
	case string:
		text, ok := have.(string)
		if !ok {
			number, _ := json.Marshal(have)
			text = string(number)
		}
		if pattern, is := strings.CutPrefix(want, "~"); is && regexp.MustCompile(pattern).MatchString(text) {
			return ""
		}
	}
	if reflect.DeepEqual(want, have) {
		return ""
	}
	return fmt.Sprintf("%v, not %v", have, want)
}
