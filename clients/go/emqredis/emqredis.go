// Package emqredis lets package emq speak through go-redis, for programs that have no other client.
//
//	db := emqredis.New(&redis.Options{Addr: "localhost:6379"})
//	c := emq.Use(db)
//
// It is slower than valkey-go, which pipelines the calls of many goroutines by itself.
package emqredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"emq/clients/go"
)

// New is a connection over a client of its own, with what the package relies on set in the options: nothing is sent twice,
// and a call ends with its context.
func New(o *redis.Options) emq.Conn {
	c := *o
	c.MaxRetries, c.ContextTimeoutEnabled, c.ReadTimeout = -1, true, -1
	return &conn{redis.NewClient(&c), true}
}

// NewFailover is New for a primary that Sentinels name.
func NewFailover(o *redis.FailoverOptions) emq.Conn {
	c := *o
	c.MaxRetries, c.ContextTimeoutEnabled, c.ReadTimeout = -1, true, -1
	return &conn{redis.NewFailoverClient(&c), true}
}

// Wrap is a connection over a client that the program has already, or an error if that sends commands twice (MaxRetries is
// not -1), ends a call early (ReadTimeout is not -1), or not with its context (ContextTimeoutEnabled is not set). Close leaves it open.
func Wrap(c *redis.Client) (emq.Conn, error) {
	switch o := c.Options(); {
	case o.MaxRetries != 0: // as -1 is kept
		return nil, errors.New("emqredis: MaxRetries has to be -1: a CLAIM that is sent twice takes two jobs")
	case o.ReadTimeout > 0:
		return nil, errors.New("emqredis: ReadTimeout has to be -1: a claim waits in the server")
	case !o.ContextTimeoutEnabled:
		return nil, errors.New("emqredis: ContextTimeoutEnabled has to be set")
	}
	return &conn{c, false}, nil
}

type conn struct {
	*redis.Client
	owned bool
}

// Do implements [emq.Conn].
func (c *conn) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	return do(ctx, c.Client, args)
}

// Dedicate implements [emq.Conn].
func (c *conn) Dedicate(context.Context) (emq.Dedicated, error) { return dedicated{c.Conn()}, nil }

// Close implements [emq.Conn].
func (c *conn) Close() {
	if c.owned {
		_ = c.Client.Close()
	}
}

type dedicated struct{ *redis.Conn }

func (d dedicated) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	return do(ctx, d.Conn, args)
}

func (d dedicated) Close() { _ = d.Conn.Close() }

func do(ctx context.Context, c interface {
	Process(context.Context, redis.Cmder) error
}, args []string) (emq.Reply, error) {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	cmd := redis.NewCmd(ctx, words...)
	err := c.Process(ctx, cmd)
	var refusal redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return emq.Reply{Null: true}, nil
	case errors.Is(err, redis.ErrClosed):
		return emq.Reply{}, errors.Join(emq.ErrClosed, err)
	case errors.As(err, &refusal):
		return emq.Reply{}, &emq.Error{Text: refusal.Error()}
	case err != nil:
		return emq.Reply{}, err
	}
	return reply(cmd.Val()), nil
}

func reply(v any) (r emq.Reply) {
	switch v := v.(type) {
	case nil:
		r.Null = true
	case int64:
		r.Int = v
	case string:
		r.Str = v
	case float64:
		r.Str = strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		r.List = make([]emq.Reply, len(v))
		for i := range v {
			r.List[i] = reply(v[i])
		}
	case map[any]any:
		for key, value := range v {
			r.List = append(r.List, reply(key), reply(value))
		}
	default:
		r.Str = fmt.Sprint(v)
	}
	return r
}
