package main

import (
	"slices"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newRm(a *app) *cobra.Command {
	var state string
	of := append(slices.Clone(states), emq.StateAny)
	cmd := &cobra.Command{
		Use:   "rm QUEUE ID…",
		Short: "remove jobs by their ids",
		Long: `rm removes jobs, whatever their state, or with --state only those that are in it. A worker that has one is told when it
extends its lease. "-" reads ids from standard input, one a line.`,
		Example: `  emq rm mails JOB0H6vWbn0000
  emq rm mails --state pending - < ids    none that was claimed meanwhile`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := stateOf(state, of...)
			if err != nil {
				return err
			}
			return a.byIDs(cmd.Context(), operator.Remove, args[0], s, args[1:])
		},
	}
	stateFlag(cmd, &state, "any", "only jobs in this state", of...)
	return a.bulk(cmd)
}
