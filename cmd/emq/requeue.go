package main

import (
	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newRequeue(a *app) *cobra.Command {
	var state string
	cmd := &cobra.Command{
		Use:   "requeue QUEUE ID…",
		Short: "dead or scheduled jobs can be claimed now",
		Long: `requeue makes scheduled jobs pending before their time, or dead ones, which start afresh. "-" reads ids from standard
input, one a line. Dead letters by their error: "emq dead requeue".`,
		Example: `  emq requeue mails JOB0H6vWbn0000
  emq peek mails --state scheduled -n 0 --json | jq -r .id | emq requeue mails --state scheduled --yes -`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, queue, ids := cmd.Context(), args[0], args[1:]
			if state != "" {
				s, err := stateOf(state, emq.StateScheduled, emq.StateDead)
				if err != nil {
					return err
				}
				return a.byIDs(ctx, operator.Requeue, queue, s, ids)
			}
			if err := possible(queue); err != nil {
				return err
			}
			ids, err := a.idsOf(ids)
			if err != nil {
				return err
			}
			s, err := a.server(ctx)
			if err != nil {
				return err
			}
			// By their current states, because a call is about jobs in one state.
			found, err := a.there(ctx, s, queue, ids)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				_, err := a.apply(ctx, s, operator.Requeue, queue, emq.StateAny, nil, false)
				return err
			}
			done := 0
			for _, of := range []emq.State{emq.StateScheduled, emq.StateDead} {
				if len(found[of]) == 0 {
					continue
				}
				p, err := a.apply(ctx, s, operator.Requeue, queue, of, found[of], len(ids) > 1)
				if err != nil {
					return err
				}
				if done += int(p.Changed); a.dryRun {
					done += len(found[of])
				}
			}
			if missing := len(ids) - done; missing > 0 {
				return absent("%s of %s: %s has no such scheduled job or dead letter", count(missing), many(len(ids), "id"), printable(queue))
			}
			return nil
		},
	}
	stateFlag(cmd, &state, "", "only jobs in this state", emq.StateScheduled, emq.StateDead)
	return a.bulk(cmd)
}
