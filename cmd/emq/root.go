package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"emq/commands"
	"emq/fence"
)

// How the command is laid out: each command has a file, and a constructor that is in the list below. What they share:
//
//	app.go      app: the streams and global flags; run; arguments that several commands have
//	exit.go     the exit codes, and errors that have one: usage, absent, refused
//	connect.go  app.conn, app.client, app.server: the connection, by flag, environment or context; passwords; TLS
//	config.go   the named contexts and their file
//	output.go   record, for --json; table; printable texts, times and sizes
//	progress.go bars on a terminal, and app.confirm
//	jobs.go     how a job is shown, in a list and alone
//
// A command's RunE returns errors and does not print them. Args and flags are checked before; their errors, and those
// made by usage, have exit code 2. Records go to a.out, everything else to a.err.

// The groups in which the commands are listed.
const (
	looks   = "look"
	mends   = "mend"
	carries = "carry"
	serves  = "serve"
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:     "emq",
		Short:   "look at the queues of EMQ, and put their jobs in order",
		Version: fmt.Sprintf("%s, wire %s, build %s", commands.Version, fence.Identity, build),
		Long: `emq looks at the queues of a Valkey server with EMQ, and puts their jobs in order.

To begin with:

  emq ls                       the queues, and how they are doing
  emq dead groups QUEUE        the dead letters of one, grouped by their error;
                               below each group stands the command that requeues it
  emq peek QUEUE               its jobs: --state dead, active, scheduled or pending
  emq show QUEUE ID            one job, with its payload and its last error
  emq doctor                   whether the server is fit to keep jobs

The server is valkey://127.0.0.1:6379, unless --url or $EMQ_URL says otherwise; "emq context add" gives servers
names. What removes or moves jobs tells how many and asks before; --dry-run changes nothing. With --json every
command prints one record a line. Each command has examples: "emq dead requeue --help".`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetHelpCommandGroupID(serves)
	root.SetCompletionCommandGroupID(serves)
	root.SetVersionTemplate("emq {{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: looks, Title: "Look:"},
		&cobra.Group{ID: mends, Title: "Put in order:"},
		&cobra.Group{ID: carries, Title: "Carry jobs:"},
		&cobra.Group{ID: serves, Title: "Servers:"},
	)
	for _, g := range []struct {
		id   string
		made []func(*app) *cobra.Command
	}{
		{looks, []func(*app) *cobra.Command{newLs, newTop, newPeek, newShow, newFind}},
		{mends, []func(*app) *cobra.Command{newDead, newRequeue, newRm, newRelease, newPause, newResume, newLimit, newAudit}},
		{carries, []func(*app) *cobra.Command{newEnqueue, newWork, newMove, newExport, newImport}},
		{serves, []func(*app) *cobra.Command{newDoctor, newContext, newWeb, newExporter, newBench, newDemo, newRewire}},
		{"", []func(*app) *cobra.Command{newExitCodes, newMan}},
	} {
		for _, made := range g.made {
			c := made(a)
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	a.flags(root)
	return root
}

// usageExit is the annotation of a command that has another exit code for wrong usage.
const usageExit = "usage-exit"

// run executes a command line and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	out := &output{Writer: a.out}
	a.out = out
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	started := false
	each(root, func(c *cobra.Command) {
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				if err := sayNothing(cmd); err != nil {
					return err
				}
				started = true
				return run(cmd, args)
			}
		}
	})
	cmd, err := root.ExecuteContextC(ctx)
	a.close()
	switch {
	case out.err != nil && (err == nil || !started):
		err, started = refused("what there is to tell can't be written: %w", out.err), true
	case err != nil && !started:
		err = usage("%w", err) // wrong flags or arguments, or an unknown command
	}
	code := exitCode(ctx, err)
	if own, ok := cmd.Annotations[usageExit]; ok && err != nil && (out.err != nil || !started) {
		code, _ = strconv.Atoi(own)
	}
	if text := complaint(code, err); text != "" {
		fmt.Fprintln(a.err, "emq: "+text)
		if err != nil && !started {
			fmt.Fprintf(a.err, "See \"%s --help\".\n", cmd.CommandPath())
		}
	}
	return code
}

// sayNothing refuses flags with an empty value: a script's unset variable must not choose all jobs, another server, or now.
func sayNothing(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Value.Type(), "string") && strings.Trim(f.Value.String(), " []\t\n") == "" {
			err = usage("--%s is empty", f.Name)
		}
	})
	return err
}

// each visits a command and all below it.
func each(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		each(sub, visit)
	}
}

// complaint is the text of an error for people, without the package's name.
func complaint(code int, err error) string {
	if err == nil {
		return ""
	}
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "emq: "), ": emq: ", ": ")
	if own := new(exit); code == exitInterrupted && !errors.As(err, &own) {
		text = "interrupted"
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
