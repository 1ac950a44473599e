package main

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"emq/commands"
)

func newMan(*app) *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "write the man pages into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			each(root, func(c *cobra.Command) { c.DisableAutoGenTag = true })
			// The date is $SOURCE_DATE_EPOCH, so that a build can be repeated.
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "EMQ " + commands.Version, Manual: "EMQ"}, args[0])
		},
	}
}
