package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"emq/operator"
)

func newAudit(a *app) *cobra.Command {
	var all, fix bool
	cmd := &cobra.Command{
		Use:   "audit QUEUE… | --all",
		Short: "look for jobs that are not where they should be, and put them right",
		Long: `audit looks through queues for entries without jobs, jobs in two sets or in none, and broken rows and gates: what
somebody leaves who writes into the keys. --fix puts them right; no worker loses a job by it. Exit code 1 says that
something is wrong and was left.

It looks at all keys of the database, a part in each call, which workers hardly feel: for each of up to ten queues, and of more
once for all of them, and once more for each in which there are jobs in no set. --all looks at queues of which nothing but such
jobs is left, too. Jobs that a move left on their way it does not know of: doctor does.`,
		Example: `  emq audit mails
  emq audit --all --fix`,
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx := cmd.Context()
			if all == (len(names) > 0) {
				return usage("give the names of queues, or --all")
			}
			s, err := a.server(ctx)
			if err != nil {
				return err
			}
			if all {
				if names, err = s.Names(ctx); err != nil {
					return err
				}
			} else if err := a.present(ctx, s, names...); err != nil {
				return err
			}
			found, broken, err := a.audit(ctx, s, names, all, false)
			mendable := 0
			for _, f := range found {
				if f.To != "leave" {
					mendable++
				}
			}
			if fix && !a.dryRun && mendable > 0 && err == nil {
				if !a.json {
					if err := tellFindings(a, found); err != nil {
						return err
					}
				}
				if err := a.confirm(ctx, "Put %s right", many(mendable, "finding")); err != nil {
					return err
				}
				mended := map[string]bool{}
				for _, f := range found {
					mended[f.Queue] = mended[f.Queue] || f.To != "leave"
				}
				maps.DeleteFunc(mended, func(_ string, mendable bool) bool { return !mendable })
				done, more, failed := a.audit(ctx, s, slices.Sorted(maps.Keys(mended)), false, true)
				if failed != nil {
					err = stopped(ctx, failed, "%s were put right", many(len(done), "finding"))
				}
				found = append(slices.DeleteFunc(found, func(f operator.Finding) bool { return mended[f.Queue] }), done...)
				broken = append(broken, more...)
			}
			left := 0
			for _, f := range found {
				if !f.Done {
					left++
				}
				if a.json {
					if err := a.emit(new(record).bytes("queue", f.Queue).set("finding", f.What).bytes("id", f.ID).set("in", f.Part).set("to_do", f.To).
						set("done", f.Done)); err != nil {
						return err
					}
				}
			}
			if !a.json {
				if err := tellFindings(a, found); err != nil {
					return err
				}
			}
			switch {
			case err != nil || len(broken) > 0:
				return errors.Join(append(broken, err)...)
			case left > 0:
				return refused("%s: %s", many(left, "finding"), map[bool]string{true: "left", false: "--fix puts right what can be"}[fix])
			}
			if !a.json && len(found) == 0 {
				fmt.Fprintf(a.out, "%s: all is where it should be.\n", many(len(names), "queue"))
			}
			a.tellMoves(ctx, s, names...)
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all queues")
	cmd.Flags().BoolVar(&fix, "fix", false, "put right what is wrong")
	return a.bulk(cmd)
}

// audit audits queues, and with fix repairs them, while a bar shows the progress.
func (a *app) audit(ctx context.Context, s *operator.Server, names []string, all, fix bool) ([]operator.Finding, []error, error) {
	var of string
	step, done := func(operator.Progress) {}, func() {}
	defer func() { done() }()
	return s.Audit(ctx, names, all, fix, func(what string, p operator.Progress) {
		if what != of {
			done()
			of = what
			step, done = a.progressOf(what, "looked through")
		}
		step(p)
	})
}

// meanings explains the findings to people.
var meanings = map[string]string{
	"no-job": "the entry is no job's id", "no-row": "an entry without a job", "no-hash": "another key is where the job should be",
	"two-sets": "the job is in two sets", "state": "the job says that it is elsewhere", "attempts": "the job's count of claims is broken",
	"no-set": "the job is in no set", "gate": "a pause or a limit is broken",
}

func tellFindings(a *app, found []operator.Finding) error {
	if len(found) == 0 {
		return nil
	}
	p := a.colours(a.out)
	t := columns("QUEUE", "IN", "ID", "WRONG", "TO DO")
	kinds := map[string]int{}
	for _, f := range found {
		to := map[string]string{"drop": "take it out", "leave": "left alone"}[f.To]
		if to == "" {
			to = "put it into " + f.To
		}
		if f.Done {
			to = p.green("done: " + to)
		}
		kinds[f.What]++
		what := meanings[f.What]
		if f.Part == "meta" && f.What == "no-hash" {
			what = "another key is where its pause and limits should be"
		}
		if len(t.rows) < 100 {
			t.add(printable(f.Queue), f.Part, printable(f.ID), what, to)
		}
	}
	if err := t.print(a); err != nil {
		return err
	}
	var sums []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		sums = append(sums, fmt.Sprintf("%s %s", count(kinds[kind]), kind))
	}
	if len(found) > len(t.rows) {
		fmt.Fprintf(a.out, "… and %s more: %s\n", count(len(found)-len(t.rows)), strings.Join(sums, ", "))
	}
	return nil
}
