package operator

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	emq "emq/clients/go"
)

// Action is what can be done with jobs.
type Action string

// The actions. A dead job that is requeued starts afresh; a scheduled one is run now; a released one is taken from its holder,
// uncounted, and can be claimed at once.
const (
	Requeue Action = "requeue"
	Remove  Action = "remove"
	Release Action = "release"
)

// batch is how many jobs go in a call: nobody else is served meanwhile.
const batch = 500

// Apply does it with all jobs of a sequence that are still of that state, 500 in a call, and tells how many were changed. It
// ends with the context, between two calls, and after the first refusal; what was changed until then stays changed. While the
// server fails over or starts again it waits, up to half a minute, and goes on. If an answer was lost the call is sent again, and
// those of its jobs that are no longer of that state count as changed. Jobs that belong to a lane or a flow are counted as Refused,
// and so are entries that are no jobs.
func (s *Server) Apply(ctx context.Context, a Action, queue string, state emq.State, ids iter.Seq2[string, error], step func(Progress)) (p Progress, err error) {
	rows, err := s.rows(nil, queue)
	if err != nil {
		return p, err
	}
	client := emq.Use(steady{s.conn}, s.more...)
	send := func(ids []string) error {
		return p.list(ctx, client, "EMQ."+strings.ToUpper(string(a)), rows.base, state, ids)
	}
	ok := false
	switch a {
	case Requeue:
		ok = state == emq.StateDead || state == emq.StateScheduled
	case Remove:
		ok = setOf[state] != "" || state == emq.StateAny
	case Release:
		ok = state == emq.StateActive
		send = func(ids []string) error { return p.release(ctx, client, rows.base, ids) }
	}
	if !ok {
		return p, fmt.Errorf("there is no %s of %s jobs", a, state)
	}
	var some []string
	flush := func() error {
		if len(some) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := send(some)
		if some = some[:0]; err == nil && step != nil {
			step(p)
		}
		return err
	}
	for id, e := range ids {
		if e != nil {
			err = e
			break
		}
		p.Seen++
		if !strings.HasPrefix(id, idPrefix) { // it would have the whole call refused
			p.Refused++
			continue
		}
		p.Chosen++
		if some = append(some, id); len(some) == batch {
			if err := flush(); err != nil {
				return p, err
			}
		}
	}
	if e := flush(); e != nil {
		err = e
	}
	return p, err
}

// list sends a verb with many ids.
func (p *Progress) list(ctx context.Context, c *emq.Client, verb, base string, state emq.State, ids []string) error {
	r, again, err := c.Do(ctx, "", append([]string{verb, base, string(state)}, ids...)...)
	if err != nil {
		return err
	}
	for _, status := range r.List {
		switch {
		case status.Int == -2:
			p.Refused++
		case status.Int == 1 || again:
			p.Changed++
		}
	}
	return nil
}

// release gives jobs back in their holders' names: a verb for many there is not.
func (p *Progress) release(ctx context.Context, c *emq.Client, base string, ids []string) error {
	var changed, refused atomic.Int64
	err := parallel(len(ids), func(i int) error {
		r, _, err := c.Do(ctx, "", "HMGET", base+"job:"+ids[i], "state", "attempts")
		if err != nil || len(r.List) != 2 || r.List[0].Str != string(emq.StateActive) {
			return err
		}
		_, again, err := c.Do(ctx, "", "EMQ.RELEASE", base, ids[i], r.List[1].Str, "0")
		switch class(err) {
		case "EMQSTALE":
			if again {
				changed.Add(1)
			}
		case "EMQSCRIPT":
			refused.Add(1)
		default:
			if err == nil {
				changed.Add(1)
			}
			return err
		}
		return nil
	})
	p.Changed += changed.Load()
	p.Refused += refused.Load()
	return err
}

// steady has a command come to its end, though its context ends: whoever stops wants to know what was done. The client's waiting
// between two tries ends at once.
type steady struct{ emq.Conn }

func (c steady) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return c.Conn.Do(ctx, args...)
}
