package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	emq "emq/clients/go"
	"emq/operator"
)

// deeds are the words for what is done with jobs.
var deeds = map[operator.Action]struct{ do, done string }{
	operator.Requeue: {"Requeue", "requeued"},
	operator.Remove:  {"Remove", "removed"},
	operator.Release: {"Release", "released"},
}

// letters is how jobs of a state are called.
func letters(n int64, state emq.State) string {
	switch state {
	case emq.StateDead:
		return many(n, "dead letter")
	case emq.StateAny:
		return many(n, "job")
	}
	return many(n, string(state)+" job")
}

// idsOf has the ids of arguments, of which "-" stands for those of standard input, one a line.
func (a *app) idsOf(args []string) (ids []string, err error) {
	seen := map[string]bool{}
	add := func(id string) {
		if id != "" && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, arg := range args {
		if arg != "-" {
			add(arg)
			continue
		}
		lines := bufio.NewScanner(a.in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			add(lines.Text())
		}
		if err := lines.Err(); err != nil {
			return nil, usage("standard input: %w", err)
		}
	}
	return ids, nil
}

// byIDs does something with jobs of a state by their ids; one that is not there is exit code 3.
func (a *app) byIDs(ctx context.Context, what operator.Action, queue string, state emq.State, args []string) error {
	ids, err := a.idsOf(args)
	if err != nil {
		return err
	}
	s, err := a.server(ctx)
	if err != nil {
		return err
	}
	if a.dryRun {
		if ids, err = a.there(ctx, s, queue, ids, state); err != nil {
			return err
		}
	}
	// Many are asked about, and what is removed is gone.
	done, err := a.apply(ctx, s, what, queue, state, ids, len(ids) > 1 || what == operator.Remove)
	if err == nil && !a.dryRun && done.Changed+done.Refused < int64(len(ids)) {
		return absent("%s of %s: %s", letters(int64(len(ids))-done.Changed, state), printable(queue), "there were none of these ids")
	}
	return err
}

// there has those of some ids that name jobs of a state.
func (a *app) there(ctx context.Context, s *operator.Server, queue string, ids []string, of ...emq.State) (found []string, err error) {
	for _, id := range ids {
		j, err := s.Job(ctx, queue, id, 0)
		if err != nil && !isGone(err) {
			return nil, err
		}
		if err == nil && (slices.Contains(of, j.State) || slices.Contains(of, emq.StateAny)) {
			found = append(found, id)
		}
	}
	return found, nil
}

func isGone(err error) bool { return errors.Is(err, operator.ErrNoJob) }

// apply does something with jobs, after it asked if it is to, and tells how many there were.
func (a *app) apply(ctx context.Context, s *operator.Server, what operator.Action, queue string, state emq.State, ids []string, ask bool) (p operator.Progress, err error) {
	word, n := deeds[what], int64(len(ids))
	report := func(err error) error {
		if a.json {
			return errors.Join(err, a.emit(new(record).bytes("queue", queue).set("action", what).set("state", state).set("chosen", n).
				set("changed", p.Changed).set("refused", p.Refused).set("dry_run", a.dryRun)))
		}
		return err
	}
	switch {
	case n == 0:
		if !a.json {
			fmt.Fprintf(a.err, "No such jobs of %s: nothing was changed.\n", printable(queue))
		}
		return p, report(nil)
	case a.dryRun:
		if !a.json {
			fmt.Fprintf(a.out, "Would be %s: %s of %s, from %s to %s. Nothing was changed.\n", word.done, letters(n, state), printable(queue),
				printable(ids[0]), printable(ids[n-1]))
		}
		return p, report(nil)
	case ask:
		if err := a.confirm(ctx, "%s %s of %s", word.do, letters(n, state), printable(queue)); err != nil {
			return p, err
		}
	}
	step, done := a.progress(word.done)
	p, err = s.Apply(ctx, what, queue, state, sequence(ids), func(p operator.Progress) {
		p.Total = n
		step(p)
	})
	done()
	if err != nil {
		return p, report(stopped(ctx, err, "%s of %s were %s", count(p.Changed), letters(n, state), word.done))
	}
	if !a.json {
		text := fmt.Sprintf("%s of %s %s.", letters(p.Changed, state), printable(queue), word.done)
		if gone := n - p.Changed - p.Refused; gone > 0 {
			text += fmt.Sprintf(" %s had gone or changed state meanwhile.", count(gone))
		}
		fmt.Fprintln(a.out, text)
	}
	if p.Refused > 0 {
		err = refused("%s belong to lanes or flows of other programs, and were left alone", many(p.Refused, "job"))
	}
	return p, report(err)
}

func sequence(ids []string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, id := range ids {
			if !yield(id, nil) {
				return
			}
		}
	}
}
