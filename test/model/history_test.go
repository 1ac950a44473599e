package model_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"emq/test/model"
	"emq/test/store"
	"emq/test/wire"
)

// call is what one client sends.
type call struct {
	client int
	args   []string
}

// step is what the clients do at the same time: each sends its calls before it reads a reply, and the order in which
// the server executes those of different clients is not known.
type step []call

// history is what was done to an empty server.
type history []step

// String writes a call on each line and a blank line after each step; parse reads it back.
func (h history) String() string {
	var b strings.Builder
	for _, s := range h {
		for _, c := range s {
			fmt.Fprintf(&b, "%d: %s\n", c.client, wire.Line(c.args))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// parse reads a history; lines that begin with # are comments.
func parse(text string) (h history) {
	var s step
	for line := range strings.SplitSeq(text+"\n", "\n") {
		client, command, ok := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(line, "#"):
		case ok:
			n, err := strconv.Atoi(client)
			if err != nil {
				panic(err)
			}
			s = append(s, call{n, wire.Words(command)})
		case len(s) > 0:
			h, s = append(h, s), nil
		}
	}
	return h
}

// rig is a real server on which histories are run.
type rig struct {
	t       *testing.T
	clients [model.Clients]*wire.Conn
	reader  *wire.Conn
	runID   string
	said    [model.Clients][]answered // the calls of the last step
	answers map[string]int            // how often a verb gave each kind of reply
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s := store.Serve(t)
	r := &rig{t: t, reader: wire.Dial(t, s.Socket), answers: map[string]int{}}
	for i := range r.clients {
		r.clients[i] = wire.Dial(t, s.Socket)
	}
	r.runID = r.reader.Info("run_id")
	return r
}

// reset empties the server and returns the model of it.
func (r *rig) reset() *model.World {
	r.t.Helper()
	r.reader.Must("FLUSHALL")
	for _, c := range r.clients {
		c.Must("SELECT 0")
	}
	return model.New(r.runID)
}

// replay runs a history and returns how the server differs from the model, or "".
func (r *rig) replay(h history) string {
	r.t.Helper()
	w, problem := r.reset(), ""
	for _, s := range h {
		if w, problem = r.step(w, s); problem != "" {
			return problem
		}
	}
	return ""
}

// step makes the calls of a step and returns the world after it: one that some order of the calls explains, with every
// reply and all that is stored, where each client's calls are in the order in which it sent them. If no order does, it
// returns on what the one that came furthest failed.
func (r *rig) step(w *model.World, s step) (after *model.World, problem string) {
	r.t.Helper()
	var todo [model.Clients][]answered
	for _, c := range s {
		todo[c.client] = append(todo[c.client], answered{args: c.args})
	}
	e := explanation{clock: model.Clock{From: r.reader.Now()}}
	for i, calls := range todo {
		for _, c := range calls {
			r.clients[i].Send(c.args)
		}
	}
	for i, calls := range todo {
		for j := range calls {
			calls[j].reply = r.clients[i].Receive()
			for _, kind := range kinds(calls[j]) {
				r.answers[calls[j].args[0]+" "+kind]++
			}
		}
	}
	r.said = todo
	e.clock.To = r.reader.Now()
	e.seen = store.Read(r.t, r.reader)
	after = e.order(w, todo, 0)
	if after == nil {
		return nil, e.problem
	}
	return after, ""
}

type answered struct {
	args  []string
	reply string
}

// kinds are the kinds of a reply: for a batch, each status in it.
func kinds(c answered) (list []string) {
	of, isList := wire.Value(c.reply).([]any)
	if lists := strings.HasPrefix(c.args[0], "EMQ.M") || c.args[0] == "EMQ.REQUEUE" || c.args[0] == "EMQ.REMOVE"; !lists || !isList {
		return []string{strings.Fields(c.reply)[0]}
	}
	for _, job := range of {
		if status, ok := job.(int64); ok {
			list = append(list, strconv.FormatInt(status, 10))
		} else {
			list = append(list, "job")
		}
	}
	if len(of) == 0 {
		list = append(list, "none")
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// explanation searches for an order of calls that explains the observations.
type explanation struct {
	clock   model.Clock
	seen    store.Contents
	depth   int // of the order that came furthest
	problem string
}

func (e *explanation) order(w *model.World, todo [model.Clients][]answered, depth int) *model.World {
	left := false
	for client, calls := range todo {
		if len(calls) == 0 {
			continue
		}
		left = true
		rest := todo
		rest[client] = calls[1:]
		for d := (dice{}); ; {
			next, clock := w.Clone(), e.clock
			clock.Chance = d.roll
			want := next.Do(client, calls[0].args, clock)
			if !model.Matches(want, calls[0].reply) {
				e.failed(depth, "the reply to %d: %s\nwant %q\n got %q", client, wire.Line(calls[0].args), want, calls[0].reply)
			} else if after := e.order(next, rest, depth+1); after != nil {
				return after
			}
			if !d.next() {
				break
			}
		}
	}
	if left {
		return nil
	}
	after := w.Clone()
	if diff := after.See(e.seen); len(diff) > 0 {
		e.failed(depth, "all replies as they should be, but then\n%s", strings.Join(diff, "\n"))
		return nil
	}
	return after
}

// dice enumerate all outcomes, one after the other.
type dice struct {
	shown, of []int
	rolled    int
}

func (d *dice) roll(n int) int {
	if d.rolled == len(d.shown) {
		d.shown, d.of = append(d.shown, 0), append(d.of, n)
	}
	d.rolled++
	return d.shown[d.rolled-1]
}

// next prepares the next outcome, and returns false if there is none.
func (d *dice) next() bool {
	d.rolled = 0
	for last := len(d.shown) - 1; last >= 0; last-- {
		if d.shown[last]++; d.shown[last] < d.of[last] {
			return true
		}
		d.shown, d.of = d.shown[:last], d.of[:last]
	}
	return false
}

func (e *explanation) failed(depth int, format string, args ...any) {
	if e.problem == "" || depth > e.depth {
		e.depth, e.problem = depth, fmt.Sprintf(format, args...)
	}
}
