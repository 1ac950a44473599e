package emq

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Client speaks to one server, or to several that share the queues. It is safe for concurrent use.
type Client struct {
	servers  []*server // in the order of their names
	patience time.Duration
	ids      *mint
}

// server is one of a client's servers.
type server struct {
	name string
	conn Conn
}

// attrs are a server's in a line of the log: its name, if it has one.
func (s *server) attrs(more ...any) []any {
	if s.name == "" {
		return more
	}
	return append([]any{"server", s.name}, more...)
}

// ClientOption changes how a client behaves.
type ClientOption func(*Client)

// Patience bounds how long a call is tried, and tried again, while its server can't be reached, is loading, or is not the primary. The
// default is 30 s; with 0 a call is tried once. The first try has at least a second to connect, and once it is sent, it is not broken
// off. A call ends earlier with its context. A [Worker] never loses patience.
func Patience(d time.Duration) ClientOption { return func(c *Client) { c.patience = d } }

// Open is a client of the server at a URL:
//
//	valkey://user:password@host:6379/0
//	valkeys://host:6379                                      by TLS
//	unix:///run/valkey/valkey.sock
//	valkey://s1:26379?addr=s2:26379&master_set=mymaster      the primary that Sentinels name
//	valkey://h1:6379?addr=h2:6379                            a primary and its replicas, whichever is the primary
//
// In a name or password % / ? and # are written %25 %2F %3F and %23. A parameter that there is not is refused, so that a misspelt one
// is not taken for none. The connection is made by the first call. For what a URL can't say, see [ParseURL] and [Dial].
func Open(url string, opts ...ClientOption) (*Client, error) {
	return OpenAll(map[string]string{"": url}, opts...)
}

// OpenAll is a client of several servers that know nothing of one another, by their names. A queue lives on one of them, the
// same for all clients: its place follows from its own name and the names of the servers, not from their URLs. So a server
// that moves keeps its name, and with it its queues; one that is added takes its share from the others, and [Client.Drain]
// brings the jobs along.
func OpenAll(urls map[string]string, opts ...ClientOption) (*Client, error) {
	c := newClient(opts)
	conns := map[string]Conn{}
	for name, url := range urls {
		_, o, err := parseURL(url)
		switch {
		case err != nil && name == "":
			return nil, noURL(err)
		case err != nil:
			return nil, fmt.Errorf("emq: the URL of server %q: %w", name, err)
		}
		if o.Dialer.Timeout == 0 {
			o.Dialer.Timeout = min(valkey.DefaultDialTimeout, max(c.patience, time.Second))
			o.Sentinel.Dialer.Timeout = o.Dialer.Timeout
		}
		conns[name] = dialAll(o)
	}
	if len(conns) == 0 {
		return nil, errNoServer
	}
	c.use(conns)
	return c, nil
}

// Use is a client over a connection of whatever library.
func Use(c Conn, opts ...ClientOption) *Client { return UseAll(map[string]Conn{"": c}, opts...) }

// UseAll is [OpenAll] over such connections.
func UseAll(conns map[string]Conn, opts ...ClientOption) *Client {
	c := newClient(opts)
	c.use(conns)
	return c
}

func newClient(opts []ClientOption) *Client {
	c := &Client{patience: 30 * time.Second, ids: newMint()}
	for _, o := range opts {
		o(c)
	}
	return c
}

func (c *Client) use(conns map[string]Conn) {
	for _, name := range slices.Sorted(maps.Keys(conns)) {
		c.servers = append(c.servers, &server{name: name, conn: conns[name]})
	}
}

// Close ends the client's connections. Calls that are under way fail.
func (c *Client) Close() error {
	for _, s := range c.servers {
		s.conn.Close()
	}
	return nil
}

// Server is the name of the server on which a queue lives.
func (c *Client) Server(queue string) string { return c.home(queue).name }

// home is the server on which a queue lives, by rendezvous: the one whose name and the queue's have the highest hash, the
// first 8 bytes of the SHA-256 of both with a NUL between. If a server comes or goes, only its own queues move.
func (c *Client) home(queue string) (home *server) {
	var highest uint64
	for _, s := range c.servers {
		sum := sha256.Sum256([]byte(s.name + "\x00" + queue))
		if n := binary.BigEndian.Uint64(sum[:]); home == nil || n > highest {
			home, highest = s, n
		}
	}
	return home
}

// Queues lists the names of the queues that hold jobs or a gate, of all servers, in the order of their bytes. Only those are
// listed that the user may read.
func (c *Client) Queues(ctx context.Context) ([]string, error) {
	names := map[string]bool{}
	for _, s := range c.servers {
		on, err := c.queuesOn(ctx, s)
		if err != nil {
			return nil, err
		}
		for _, q := range on {
			names[q] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func (c *Client) queuesOn(ctx context.Context, s *server) (names []string, err error) {
	const count = 1000
	after := ""
	for {
		r, err := c.do(ctx, s, "EMQ.QUEUES", after, "1000")
		if err != nil {
			return nil, err
		}
		for _, base := range r.List {
			after = base.Str
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(after, "emq:{"), "}:"))
		}
		if len(r.List) < count {
			return names, nil
		}
	}
}

// Do sends a command to the server of a queue, for what the methods of this package don't say. It is sent again as [Patience]
// allows, so it must be one that may be carried out twice; again tells that it may have been.
func (c *Client) Do(ctx context.Context, queue string, args ...string) (r Reply, again bool, err error) {
	return c.try(ctx, c.home(queue), args...)
}

// do sends a command that may be carried out twice, as often as need be.
func (c *Client) do(ctx context.Context, s *server, args ...string) (Reply, error) {
	r, _, err := c.try(ctx, s, args...)
	return r, err
}

var errNoServer = errors.New("emq: the client has no server")

// try is do, and reports whether the command may have been carried out before.
func (c *Client) try(ctx context.Context, s *server, args ...string) (r Reply, before bool, err error) {
	if s == nil || s.conn == nil {
		return Reply{}, false, errNoServer
	}
	before, err = c.insist(ctx, func(ctx context.Context) (err error) {
		r, err = s.conn.Do(ctx, args...)
		return err
	})
	return r, before, err
}

// insist makes a call, and makes it again as long as [Patience] allows it, if it may be made twice. It reports whether an
// earlier one may have been carried out.
func (c *Client) insist(ctx context.Context, call func(context.Context) error) (before bool, err error) {
	began := time.Now()
	if err = call(ctx); err == nil {
		return false, nil
	}
	patient, cancel := context.WithDeadline(ctx, began.Add(c.patience))
	defer cancel()
	for n := int64(1); ; n++ {
		refusal, passes := refused(err)
		switch {
		case refusal != nil && !passes, errors.Is(err, ErrClosed):
			return before, err
		case refusal == nil:
			before = true
		}
		if sleep(patient, reconnects(n)) != nil {
			if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("emq: %w; the last try: %w", ctx.Err(), err)
			}
			return before, err
		}
		last := err
		if err = call(patient); err == nil {
			return before, nil
		}
		if patient.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w; the try before: %v", err, last) // since this one was broken off
		}
	}
}
