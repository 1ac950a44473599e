package emq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Dial is a [Conn] over a client of valkey-go that is made when it is first used, with the given options. For more than a
// URL can say: certificates, the Sentinels' own password, a dialer. Options that this package relies on are set: commands are
// not sent again by themselves, and nothing is cached.
func Dial(o valkey.ClientOption) Conn {
	o.DisableRetry, o.DisableCache, o.ForceSingleClient = true, true, true
	if o.Sentinel.MasterSet != "" && o.Sentinel.TopologyRefreshInterval == 0 {
		// A primary that was replaced without dying closes no connection: the Sentinels are asked.
		o.Sentinel.TopologyRefreshInterval = time.Second
	}
	to := strings.Join(o.InitAddress, ", ")
	if o.TLSConfig != nil {
		to += " by TLS"
	}
	return &valkeyConn{to: to, owned: true, open: func() (valkey.Client, error) {
		c, err := valkey.NewClient(o)
		if dial := (*net.OpError)(nil); err == nil || errors.As(err, &dial) && dial.Op == "dial" {
			return c, err // which says all
		}
		if _, refusal := valkey.IsValkeyErr(err); refusal {
			return c, err
		}
		hint, wrong := "", tls.RecordHeaderError{}
		switch secure := o.TLSConfig != nil; {
		case secure && (errors.Is(err, context.DeadlineExceeded) || errors.As(err, &wrong)):
			hint = " (is that a port for TLS?)"
		case !secure && errors.Is(err, io.EOF):
			hint = " (is that a port for TLS, and so valkeys://?)"
		}
		return c, fmt.Errorf("emq: no connection to %s: %w%s", to, err, hint)
	}}
}

// Valkey is a [Conn] over a client of valkey-go that the program has already. Close leaves it open.
func Valkey(c valkey.Client) Conn { return &valkeyConn{client: c} }

type valkeyConn struct {
	open  func() (valkey.Client, error)
	to    string // whither
	owned bool

	mu      sync.RWMutex
	client  valkey.Client
	opening *opening
	closed  bool
}

// opening is a connection that is being made, for all calls that wait for it.
type opening struct {
	done   chan struct{}
	client valkey.Client
	err    error
}

// get is the client, once there is one. The wait for it ends with the context; the connection is made all the same.
func (c *valkeyConn) get(ctx context.Context) (valkey.Client, error) {
	c.mu.RLock()
	client, closed := c.client, c.closed
	c.mu.RUnlock()
	if client != nil && !closed {
		return client, nil
	}
	o, err := c.begin()
	if err != nil {
		return nil, err
	}
	select {
	case <-o.done:
		return o.client, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("emq: no connection to %s yet: %w", c.to, ctx.Err())
	}
}

// begin begins to connect, unless somebody else has.
func (c *valkeyConn) begin() (*opening, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, ErrClosed
	case c.opening == nil:
		c.opening = &opening{done: make(chan struct{})}
		go c.connect(c.opening)
	}
	return c.opening, nil
}

func (c *valkeyConn) connect(o *opening) {
	defer close(o.done)
	o.client, o.err = c.open()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case o.err != nil:
		c.opening = nil
	case c.closed:
		o.client.Close()
		o.client, o.err = nil, ErrClosed
	default:
		c.client = o.client
	}
}

func (c *valkeyConn) Do(ctx context.Context, args ...string) (Reply, error) {
	client, err := c.get(ctx)
	if err != nil {
		return Reply{}, valkeyError(err)
	}
	return valkeyDo(ctx, client, client.B().Arbitrary(args...).Build())
}

func (c *valkeyConn) Dedicate(ctx context.Context) (Dedicated, error) {
	client, err := c.get(ctx)
	if err != nil {
		return nil, valkeyError(err)
	}
	d, release := client.Dedicate()
	return valkeyDedicated{d, release}, nil
}

func (c *valkeyConn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed = true; c.owned && c.client != nil {
		c.client.Close()
	}
}

type valkeyDedicated struct {
	client  valkey.DedicatedClient
	release func()
}

func (d valkeyDedicated) Do(ctx context.Context, args ...string) (Reply, error) {
	return valkeyDo(ctx, d.client, d.client.B().Arbitrary(args...).Blocking())
}

func (d valkeyDedicated) Close() { d.release() }

func valkeyDo(ctx context.Context, c valkey.CommandClient, cmd valkey.Completed) (Reply, error) {
	m, err := c.Do(ctx, cmd).ToMessage()
	if err != nil && !valkey.IsValkeyNil(err) {
		return Reply{}, valkeyError(err)
	}
	return valkeyReply(&m), nil
}

func valkeyReply(m *valkey.ValkeyMessage) (r Reply) {
	switch {
	case m.IsNil():
		r.Null = true
	case m.IsInt64():
		r.Int, _ = m.ToInt64()
	case m.IsFloat64():
		f, _ := m.ToFloat64()
		r.Str = strconv.FormatFloat(f, 'f', -1, 64)
	case m.IsMap():
		pairs, _ := m.ToMap()
		for key, value := range pairs {
			r.List = append(r.List, Reply{Str: key}, valkeyReply(&value))
		}
	case m.IsArray():
		list, _ := m.ToArray()
		r.List = make([]Reply, len(list))
		for i := range list {
			r.List[i] = valkeyReply(&list[i])
		}
	default:
		r.Str, _ = m.ToString()
	}
	return r
}

func valkeyError(err error) error {
	if refusal, ok := valkey.IsValkeyErr(err); ok {
		e := &Error{refusal.Error()}
		if !classes[e.Class()] && !strings.HasPrefix(e.Text, "EMQ") {
			e.Text = "ERR " + e.Text // valkey-go leaves that class out
		}
		return e
	}
	return err
}

// classes are those of the server's errors besides ERR. A text of an ERR may begin with a word in capitals: "DB index is out of range".
var classes = map[string]bool{
	"ERR": true, "ASK": true, "BUSY": true, "BUSYGROUP": true, "BUSYKEY": true, "CLUSTERDOWN": true, "CROSSSLOT": true, "DENIED": true, "EXECABORT": true,
	"INPROG": true, "IOERR": true, "LOADING": true, "MASTERDOWN": true, "MISCONF": true, "MOVED": true, "NOADDR": true, "NOAUTH": true,
	"NOGOODSLAVE": true, "NOMASTERLINK": true, "NOPERM": true, "NOPROTO": true, "NOREPLICAS": true, "NOSCRIPT": true, "NOTBUSY": true,
	"NOTREADY": true, "OOM": true, "READONLY": true, "TRYAGAIN": true, "UNBLOCKED": true, "UNKILLABLE": true, "WRONGPASS": true, "WRONGTYPE": true,
}
