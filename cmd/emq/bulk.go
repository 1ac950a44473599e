package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	emq "emq/clients/go"
	"emq/operator"
)

// deeds are the words for the actions.
var deeds = map[operator.Action]struct{ do, done string }{
	operator.Requeue: {"Requeue", "requeued"},
	operator.Remove:  {"Remove", "removed"},
	operator.Release: {"Release", "released"},
}

// noun is the word for a job in a state.
func noun(state emq.State) string {
	switch state {
	case emq.StateDead:
		return "dead letter"
	case emq.StateAny:
		return "job"
	}
	return string(state) + " job"
}

func letters(n int64, state emq.State) string { return many(n, noun(state)) }

// idsOf returns the ids in the arguments, where "-" stands for those on standard input, one a line.
func (a *app) idsOf(args []string) (ids []string, err error) {
	seen := map[string]bool{}
	add := func(id string) error {
		if !strings.HasPrefix(id, "JOB") {
			return usage("%.80q is no job's id: it does not begin with JOB", id)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
		return nil
	}
	for _, arg := range args {
		if arg != "-" {
			if err := add(arg); err != nil {
				return nil, err
			}
			continue
		}
		lines := bufio.NewScanner(a.in)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if lines.Text() == "" {
				continue
			}
			if err := add(lines.Text()); err != nil {
				return nil, err
			}
		}
		if err := lines.Err(); err != nil {
			return nil, usage("standard input: %w", err)
		}
	}
	return ids, nil
}

// byIDs applies an action to jobs in a state by their ids; if one does not exist, the exit code is 3.
func (a *app) byIDs(ctx context.Context, what operator.Action, queue string, state emq.State, args []string) error {
	if err := possible(queue); err != nil {
		return err
	}
	ids, err := a.idsOf(args)
	if err != nil {
		return err
	}
	s, err := a.server(ctx)
	if err != nil {
		return err
	}
	named := int64(len(ids))
	if a.dryRun {
		found, err := a.there(ctx, s, queue, ids)
		if err != nil {
			return err
		}
		ids = found[state]
	}
	// It asks about several jobs, and about every removal.
	done, err := a.apply(ctx, s, what, queue, state, ids, named > 1 || what == operator.Remove)
	missing := named - done.Changed - done.Refused
	if a.dryRun {
		missing = named - int64(len(ids))
	}
	if err == nil && missing > 0 {
		return absent("%s of %s: %s has no such %s", count(missing), many(named, "id"), printable(queue), noun(state))
	}
	return err
}

// there looks for jobs and returns the ids of the existing ones, by state, and all of them under any.
func (a *app) there(ctx context.Context, s *operator.Server, queue string, ids []string) (map[emq.State][]string, error) {
	found := map[emq.State][]string{}
	for _, id := range ids {
		j, err := s.Job(ctx, queue, id, 0)
		switch {
		case errors.Is(err, operator.ErrNoJob):
		case err != nil:
			return nil, err
		default:
			found[j.State], found[emq.StateAny] = append(found[j.State], id), append(found[emq.StateAny], id)
		}
	}
	return found, nil
}

// apply applies an action to jobs, after a confirmation, and reports how many were changed.
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
		known := ""
		if exitCode(ctx, err) == exitUnreachable {
			known = "at least " // the last call may have been executed, or still be
		}
		return p, report(stopped(ctx, err, "%s%s of %s were %s", known, count(p.Changed), letters(n, state), word.done))
	}
	if !a.json {
		fmt.Fprintf(a.out, "%s of %s %s.\n", letters(p.Changed, state), printable(queue), word.done)
	}
	if p.Refused > 0 {
		err = refused("%s left alone: of lanes or flows of other programs, or entries that are no jobs", many(p.Refused, "job"))
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
