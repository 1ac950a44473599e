package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// finding is what EMQ.AUDIT finds wrong.
type finding struct {
	queue, what, id, part, to string
	done                      bool
}

func newAudit(a *app) *cobra.Command {
	var all, fix bool
	cmd := &cobra.Command{
		Use:   "audit QUEUE… | --all",
		Short: "look for jobs that are not where they should be, and put them right",
		Long: `audit looks through queues for entries without jobs, jobs in two sets or in none, and broken rows and gates: what
somebody leaves who writes into the keys. --fix puts them right; no worker loses a job by it. Exit code 1 says that
something is wrong and was left.

It looks at all keys of the database, a part in each call, which workers hardly feel.`,
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
			found, broken, err := a.audit(ctx, names, false)
			mendable := 0
			for _, f := range found {
				if f.to != "leave" {
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
				if found, broken, err = a.audit(ctx, names, true); err != nil {
					err = stopped(ctx, err, "%s were put right", many(len(found), "finding"))
				}
			}
			left := 0
			for _, f := range found {
				if !f.done {
					left++
				}
				if a.json {
					if err := a.emit(new(record).bytes("queue", f.queue).set("finding", f.what).bytes("id", f.id).set("in", f.part).set("to_do", f.to).
						set("done", f.done)); err != nil {
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

// audit looks through queues, and with fix puts them right. Those that are too broken for it keep it from no other.
func (a *app) audit(ctx context.Context, names []string, fix bool) (found []finding, broken []error, err error) {
	client, err := a.client(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		for cursor := "0"; ; {
			args := []string{"EMQ.AUDIT", "emq:{" + name + "}:", cursor, "1000"}
			if fix {
				args = append(args, "FIX")
			}
			r, _, err := client.Do(ctx, name, args...)
			if isClass(err, "WRONGTYPE") {
				broken = append(broken, of(name, err))
				break
			}
			if err != nil {
				return found, broken, of(name, err)
			}
			if len(r.List) != 2 {
				return found, broken, refused("EMQ.AUDIT was answered with something else than the contract's reply")
			}
			for _, f := range r.List[1].List {
				if len(f.List) == 5 {
					found = append(found, finding{name, f.List[0].Str, f.List[1].Str, f.List[2].Str, f.List[3].Str, f.List[4].Int == 1})
				}
			}
			if cursor = r.List[0].Str; cursor == "0" {
				break
			}
		}
	}
	return found, broken, nil
}

// meanings are those of the findings, for people.
var meanings = map[string]string{
	"no-job": "the entry is no job's id", "no-row": "an entry without a job", "no-hash": "another key is where the job should be",
	"two-sets": "the job is in two sets", "state": "the job says that it is elsewhere", "attempts": "the job's count of claims is broken",
	"no-set": "the job is in no set", "gate": "a pause or a limit is broken",
}

func tellFindings(a *app, found []finding) error {
	if len(found) == 0 {
		return nil
	}
	p := a.colours(a.out)
	t := columns("QUEUE", "IN", "ID", "WRONG", "TO DO")
	kinds := map[string]int{}
	for _, f := range found {
		to := map[string]string{"drop": "take it out", "leave": "left alone"}[f.to]
		if to == "" {
			to = "put it into " + f.to
		}
		if f.done {
			to = p.green("done: " + to)
		}
		kinds[f.what]++
		what := meanings[f.what]
		if f.part == "meta" && f.what == "no-hash" {
			what = "another key is where its pause and limits should be"
		}
		if len(t.rows) < 100 {
			t.add(printable(f.queue), f.part, printable(f.id), what, to)
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
