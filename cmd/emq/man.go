package main

import (
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"emq/commands"
)

// indented is a line of a list, which Markdown, of which the pages are made, leaves as it is if it stands further in.
var indented = regexp.MustCompile(`(?m)^ {2,}\S`)

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
			root.Long += "\n\nThe exit codes:\n\n" + newExitCodes(nil).Long // a topic without a page of its own
			each(root, func(c *cobra.Command) {
				c.DisableAutoGenTag = true
				c.Long = indented.ReplaceAllString(c.Long, "    $0")
			})
			// The date is $SOURCE_DATE_EPOCH, so that a build can be repeated.
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "EMQ " + commands.Version, Manual: "EMQ"}, args[0])
		},
	}
}
