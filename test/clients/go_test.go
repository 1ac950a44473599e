package clients

import (
	"context"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	valkeygo "github.com/valkey-io/valkey-go"

	"emq/test/wire"
)

// The clients of Go do their deeds here, as the programs in testdata do theirs.

// dialed is a client that is connected: it does one command, or some in a MULTI.
type dialed struct {
	do    func(ctx context.Context, args []string) (any, error)
	multi func(commands [][]string) (any, error)
	close func()
}

// inGo is a program for a client that is a Go module.
func inGo(module string, dial func(addr string, deed deed, user, password string) (dialed, error)) program {
	does := func(addr string, deed deed, user string, s *stage) said {
		password := ""
		if user != "" {
			password = secret
		}
		c, err := dial(addr, deed, user, password)
		if err != nil {
			return said{Error: err.Error()}
		}
		defer c.close()
		reply, err := c.does(deed, s)
		if err != nil {
			return said{Error: err.Error()}
		}
		return said{Reply: plain(reply)}
	}
	return program{
		version: func(t *testing.T) said { return said{Reply: required(t, module)} },
		start: func(_ *testing.T, addr string, deed deed, user string) *run {
			s := &stage{next: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{})}
			result := make(chan said, 1)
			go func() { result <- does(addr, deed, user, s) }()
			return &run{
				next:  func() { close(s.next) },
				ended: s.ended,
				end:   func() said { close(s.over); return <-result },
			}
		},
	}
}

// stage connects a client with a waiting claim and its test.
type stage struct{ next, ended, over chan struct{} }

// waits makes a claim that waits. It keeps the client until the test is over, so that the test can look at it.
func (c dialed) waits(ctx context.Context, block int64, s *stage) (any, error) {
	reply, err := c.do(ctx, wire.BClaim(lease, block, mail))
	close(s.ended)
	<-s.over
	return reply, err
}

func (c dialed) does(what deed, s *stage) (any, error) {
	claim, stale := mail.Claim(lease), mail.Complete(first, "99")
	switch what {
	case life, lifeUncached:
		var replies []any
		for _, args := range [][]string{mail.Enqueue(first, "hello"), claim, mail.Complete(first, "1"), claim} {
			reply, err := c.do(ctx, args)
			if err != nil {
				return nil, err
			}
			replies = append(replies, reply)
		}
		return replies, nil
	case settleStale:
		return c.do(ctx, stale)
	case claimText:
		reply, err := c.do(ctx, claim)
		if job, ok := plain(reply).([]any); ok && len(job) == 3 {
			return []any{job[0], hex.EncodeToString([]byte(job[1].(string))), job[2]}, err
		}
		return reply, err
	case claimInMulti:
		return c.multi([][]string{claim, stale})
	case waitShort:
		return c.waits(ctx, 3000, s)
	case waitLong, waitLongRight:
		return c.waits(ctx, 12_000, s)
	case waitForEver, waitForEverRight:
		return c.waits(ctx, 0, s)
	case waitBeside, waitBesideRight:
		go func() {
			<-s.next
			_, _ = c.do(ctx, mail.Enqueue(first, "hello"))
		}()
		return c.waits(ctx, 3000, s)
	case waitGivenUp, waitGivenUpRight:
		until, cancel := context.WithCancel(ctx)
		go func() { <-s.next; cancel() }()
		return c.waits(until, 0, s)
	case waitDeadline:
		until, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		return c.waits(until, 0, s)
	case waitUnblocked:
		id, err := c.do(ctx, []string{"CLIENT", "ID"})
		if err != nil {
			return nil, err
		}
		reply, err := c.waits(ctx, 0, s)
		if err != nil {
			return nil, err
		}
		pong, err := c.do(ctx, []string{"PING"})
		return []any{id, reply, pong}, err
	default:
		return c.do(ctx, claim)
	}
}

// plain is a reply as a program in another language writes it.
func plain(reply any) any {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case error:
		return map[string]any{"error": reply.Error()}
	case []any:
		for i := range reply {
			reply[i] = plain(reply[i])
		}
	}
	return reply
}

func words(args []string) []any {
	list := make([]any, len(args))
	for i := range args {
		list[i] = args[i]
	}
	return list
}

// required is the version of a module that go.mod asks for.
func required(t *testing.T, module string) string {
	t.Helper()
	text, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == module {
			return strings.TrimPrefix(f[1], "v")
		}
	}
	require.Fail(t, "go.mod does not ask for", module)
	return ""
}

var ctx = context.Background()

var goRedis = inGo("github.com/redis/go-redis/v9", func(addr string, deed deed, user, password string) (dialed, error) {
	o := &goredis.Options{Addr: addr, Username: user, Password: password}
	if deed == claimOnce {
		o.MaxRetries = -1
	}
	if deed.right() {
		o.ReadTimeout, o.ContextTimeoutEnabled, o.MaxRetries = -1, true, -1
	}
	db := goredis.NewClient(o)
	send := db.Do
	if deed == waitUnblocked {
		send = db.Conn().Do
	}
	return dialed{
		do: func(ctx context.Context, args []string) (any, error) { return send(ctx, words(args)...).Result() },
		multi: func(commands [][]string) (any, error) {
			var cmds []*goredis.Cmd
			_, _ = db.TxPipelined(ctx, func(p goredis.Pipeliner) error { // its error is the first of theirs
				for _, args := range commands {
					cmds = append(cmds, p.Do(ctx, words(args)...))
				}
				return nil
			})
			var replies []any
			for _, cmd := range cmds {
				reply, err := cmd.Result()
				if err != nil {
					reply = err
				}
				replies = append(replies, reply)
			}
			return replies, nil
		},
		close: func() { _ = db.Close() },
	}, nil
})

var valkeyGo = inGo("github.com/valkey-io/valkey-go", func(addr string, deed deed, user, password string) (dialed, error) {
	db, err := valkeygo.NewClient(valkeygo.ClientOption{
		InitAddress: []string{addr}, Username: user, Password: password, DisableCache: deed == lifeUncached,
	})
	if err != nil {
		return dialed{}, err
	}
	command := func(args ...string) valkeygo.Completed { return db.B().Arbitrary(args...).Build() }
	do := db.Do
	if deed == waitUnblocked {
		own, _ := db.Dedicate()
		do = own.Do
	}
	return dialed{
		do: func(ctx context.Context, args []string) (any, error) {
			if deed.right() && args[0] == "EMQ.BCLAIM" {
				return do(ctx, db.B().Arbitrary(args...).Blocking()).ToAny()
			}
			return do(ctx, command(args...)).ToAny()
		},
		multi: func(commands [][]string) (any, error) {
			list := []valkeygo.Completed{command("MULTI")}
			for _, args := range commands {
				list = append(list, command(args...))
			}
			return db.DoMulti(ctx, append(list, command("EXEC"))...)[len(commands)+1].ToAny()
		},
		close: db.Close,
	}, nil
})

var rueidisOfGo = inGo("github.com/redis/rueidis", func(addr string, deed deed, user, password string) (dialed, error) {
	db, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, Username: user, Password: password, DisableCache: deed == lifeUncached,
	})
	if err != nil {
		return dialed{}, err
	}
	command := func(args ...string) rueidis.Completed { return db.B().Arbitrary(args...).Build() }
	do := db.Do
	if deed == waitUnblocked {
		own, _ := db.Dedicate()
		do = own.Do
	}
	return dialed{
		do: func(ctx context.Context, args []string) (any, error) {
			if deed.right() && args[0] == "EMQ.BCLAIM" {
				return do(ctx, db.B().Arbitrary(args...).Blocking()).ToAny()
			}
			return do(ctx, command(args...)).ToAny()
		},
		multi: func(commands [][]string) (any, error) {
			list := []rueidis.Completed{command("MULTI")}
			for _, args := range commands {
				list = append(list, command(args...))
			}
			return db.DoMulti(ctx, append(list, command("EXEC"))...)[len(commands)+1].ToAny()
		},
		close: db.Close,
	}, nil
})

var redigo = inGo("github.com/gomodule/redigo", func(addr string, deed deed, user, password string) (dialed, error) {
	options := []redis.DialOption{redis.DialUsername(user), redis.DialPassword(password)}
	if deed.right() {
		options = append(options, redis.DialReadTimeout(time.Second)) // which the calls have to overrule
	}
	db, err := redis.Dial("tcp", addr, options...)
	if err != nil {
		return dialed{}, err
	}
	return dialed{
		do: func(ctx context.Context, args []string) (any, error) {
			switch {
			case deed == waitGivenUp, deed == waitGivenUpRight:
				return redis.DoContext(db, ctx, args[0], words(args[1:])...)
			case deed.right():
				return redis.DoWithTimeout(db, 0, args[0], words(args[1:])...)
			}
			return db.Do(args[0], words(args[1:])...)
		},
		multi: func(commands [][]string) (any, error) {
			for _, args := range append([][]string{{"MULTI"}}, commands...) {
				if err := db.Send(args[0], words(args[1:])...); err != nil {
					return nil, err
				}
			}
			return db.Do("EXEC")
		},
		close: func() { _ = db.Close() },
	}, nil
})
