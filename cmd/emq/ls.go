package main

import "github.com/spf13/cobra"

func newLs(a *app) *cobra.Command {
	return &cobra.Command{Use: "ls", Short: "the queues, and how they are doing", RunE: func(cmd *cobra.Command, _ []string) error {
		s, err := a.server(cmd.Context())
		if err != nil {
			return err
		}
		_, err = s.Queues(cmd.Context())
		return err
	}}
}
