package main

import (
	"os"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"emq/commands"
)

// indented matches a line of a list, which the Markdown that the pages are made from keeps unchanged if it is indented
// further.
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
			root.Long += "\n\nThe exit codes:\n\n" + newExitCodes(nil).Long // it has no page of its own
			each(root, func(c *cobra.Command) {
				c.DisableAutoGenTag = true
				c.Long = indented.ReplaceAllString(c.Long, "    $0")
			})
			// The date is $SOURCE_DATE_EPOCH, so that a build can be repeated.
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "EMQ " + commands.Version, Manual: "EMQ"}, args[0])
		},
	}
}
