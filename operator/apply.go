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

// Action is something that can be done with jobs.
type Action string

// The actions. Requeue makes a dead job start afresh, and runs a scheduled one now; Release takes a job from its
// holder, uncounted, so that it can be claimed at once.
const (
	Requeue Action = "requeue"
	Remove  Action = "remove"
	Release Action = "release"
)

// batch is the number of jobs in a call, during which the server serves nobody else.
const batch = 500

// Apply applies the action to all jobs of a sequence that are still in that state, 500 in a call, and reports how many
// were changed. It stops between two calls when the context ends, and after the first refusal; what was changed before
// stays changed. While the server fails over or restarts it waits, up to half a minute, and goes on. If a reply was
// lost the call is sent again, and those of its jobs that are no longer in that state count as changed. Jobs that
// belong to a lane or a flow count as Refused, and so do entries that are not jobs.
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
		if !strings.HasPrefix(id, idPrefix) { // the server would refuse the whole call
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

// release gives jobs back in their holders' names, one by one: there is no verb for many.
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

// steady completes a command that has begun although its context ends, so that it is known what was done. The client's
// wait between two tries does end with the context.
type steady struct{ emq.Conn }

func (c steady) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return c.Conn.Do(ctx, args...)
}
