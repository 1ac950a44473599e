package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newDead(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "dead letters: group them by their error, requeue them, remove them",
		Long: `A job that failed for the last time is a dead letter. It stays until somebody requeues or removes it. A requeued one is
pending at once and starts afresh: its failures are forgotten.`,
		Example: `  emq dead groups mails                     which errors there are, and how often
  emq dead ls mails --group 7c1f3a90          those of one group
  emq dead requeue mails --group 7c1f3a90     and once more with them
  emq dead rm mails --older-than 30d        away with what nobody will miss`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDeadGroups(a), newDeadLs(a), newDeadRequeue(a), newDeadRm(a))
	return cmd
}

// choice has the flags that choose dead letters.
type choice struct {
	match, group, olderThan string
	all                     bool
}

func (c *choice) flags(cmd *cobra.Command, group bool) {
	f := cmd.Flags()
	f.StringVar(&c.match, "match", "", "only with this text in the error or the payload, in small or capital letters")
	f.StringVar(&c.olderThan, "older-than", "", "only made longer ago than this: 90m, 36h, 30d; jobs whose ids tell no time are left out")
	if group {
		f.StringVar(&c.group, "group", "", "only of this group: its short name from \"emq dead groups\", or an error")
	}
}

// completeGroups completes the short names of the groups of the named queue, each with its number of jobs and its
// error.
func (a *app) completeGroups(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) == 0 {
		return nil, none
	}
	ctx, s, cancel, err := a.completing()
	defer cancel()
	if err != nil {
		return nil, none
	}
	groups, err := s.Groups(ctx, args[0], emq.StateDead, operator.Filter{}, nil)
	if err != nil {
		return nil, none
	}
	var found []string
	for _, g := range groups {
		if name := nameOf(g.Error); g.Error != others && strings.HasPrefix(name, begun) {
			found = append(found, name+"\t"+many(g.Jobs, "job")+": "+cut(printable(g.Error), 60))
		}
	}
	return found, none | cobra.ShellCompDirectiveKeepOrder
}

func (c *choice) any() bool { return c.match+c.group+c.olderThan != "" }

// words are the flags for a printed command.
func (c *choice) words() (w []string) {
	for _, f := range [][2]string{{"--group", c.group}, {"--match", c.match}, {"--older-than", c.olderThan}} {
		if f[1] != "" {
			w = append(w, f[0], f[1])
		}
	}
	return w
}

// filter is the flags' filter, without a group that is given by its short name, which app.chosen resolves.
func (c *choice) filter() (f operator.Filter, err error) {
	f.Match = c.match
	if c.olderThan != "" {
		if f.OlderThan, err = durationOf(c.olderThan); err != nil || f.OlderThan <= 0 {
			return f, usage("--older-than %q is no duration: 90m, 36h, 30d", c.olderThan)
		}
	}
	if c.group != "" && !shortName.MatchString(c.group) {
		f.Group = operator.Normalise(c.group)
	}
	return f, nil
}

// A group's short name is the beginning of its error's hash, so that it is the same at any time and on every server.
var shortName = regexp.MustCompile(`^[0-9a-f]{8}$`)

func nameOf(alike string) string {
	sum := sha256.Sum256([]byte(alike))
	return hex.EncodeToString(sum[:4])
}

func newDeadGroups(a *app) *cobra.Command {
	var c choice
	n := 20
	cmd := &cobra.Command{
		Use:   "groups QUEUE",
		Short: "the dead letters of a queue, grouped by their error",
		Long: `groups puts together the dead letters whose errors differ in numbers, ids, addresses, times and quoted texts alone: they
mostly have one cause. Below each group stands the command that requeues it.`,
		Example: `  emq dead groups mails
  emq dead groups mails --match timeout
  emq dead groups mails --json | jq -r '[.jobs, .error] | @tsv'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, queue := cmd.Context(), args[0]
			s, f, err := a.choosing(ctx, queue, &c, n)
			if err != nil {
				return err
			}
			step, done := a.progress("reading errors")
			groups, err := s.Groups(ctx, queue, emq.StateDead, f, step)
			done()
			if err != nil {
				return err
			}
			var total int64
			for _, g := range groups {
				total += g.Jobs
			}
			if a.json {
				for _, g := range groups {
					if err := a.emit(groupRecord(a, queue, g, total, c)); err != nil {
						return err
					}
				}
				return nil
			}
			if total == 0 {
				fmt.Fprintf(a.err, "No dead letters of %s.\n", printable(queue))
				return nil
			}
			return a.tellGroups(queue, groups, total, n, c)
		},
	}
	c.flags(cmd, false)
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many groups, 0 for all; --json has all")
	return cmd
}

// others is the error under which package operator counts all jobs beyond its thousandth group. It is not a group.
const others = "{other}"

// mending is a command that applies an action to a group.
func (a *app) mending(verb, queue string, g operator.Group, c choice) string {
	c.group = nameOf(g.Error)
	return a.line("dead "+verb, []string{queue}, c.words()...)
}

func groupRecord(a *app, queue string, g operator.Group, total int64, c choice) *record {
	var requeue any // null, if there is no such command
	if g.Error != others {
		requeue = a.mending("requeue", queue, g, c)
	}
	return new(record).bytes("queue", queue).set("group", nameOf(g.Error)).set("jobs", g.Jobs).set("share", rounded(float64(g.Jobs)/float64(total))).
		time("oldest_at_ms", g.Oldest).time("newest_at_ms", g.Newest).bytes("error", g.Error).bytes("example_id", g.Example.ID).
		bytes("example_error", g.Example.LastError).set("requeue", requeue)
}

func (a *app) tellGroups(queue string, groups []operator.Group, total int64, n int, c choice) error {
	p := a.colours(a.out)
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s, in %s:\n", many(total, "dead letter"), printable(queue), many(len(groups), "group"))
	for i, g := range groups {
		if n > 0 && i == n {
			fmt.Fprintf(&b, "\n… and %s more: -n 0 shows all\n", many(len(groups)-i, "group"))
			break
		}
		made := "made " + ago(g.Oldest) + " ago"
		switch {
		case g.Oldest.IsZero():
			made = "the ids tell no time"
		case ago(g.Oldest) != ago(g.Newest):
			made = fmt.Sprintf("made %s to %s ago", ago(g.Oldest), ago(g.Newest))
		}
		fmt.Fprintf(&b, "\n%s  %s  %.1f %%  %s\n", p.bold(nameOf(g.Error)), p.bold(many(g.Jobs, "job")), 100*float64(g.Jobs)/float64(total), made)
		field := func(name, value string) { fmt.Fprintf(&b, "  %s  %s\n", p.faint(fmt.Sprintf("%-7s", name)), value) }
		room := max(a.room()-11, 60)
		field("error", p.red(cut(printable(g.Error), room)))
		if g.Example.LastError != g.Error {
			field("latest", cut(printable(g.Example.LastError), room))
		}
		if g.Error == others {
			field("these", "are of many errors: --match finds groups among them")
			continue
		}
		field("see", a.mending("ls", queue, g, c))
		field("requeue", a.mending("requeue", queue, g, c))
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

func newDeadLs(a *app) *cobra.Command {
	var c choice
	n := 20
	cmd := &cobra.Command{
		Use:   "ls QUEUE",
		Short: "the dead letters of a queue",
		Long:  `ls lists dead letters in the order of their ids, which is that of their making.`,
		Example: `  emq dead ls mails --match 'no such mailbox'
  emq dead ls mails --group 7c1f3a90 -n 0 --json | jq -r .id`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, queue := cmd.Context(), args[0]
			s, f, err := a.choosing(ctx, queue, &c, n)
			if err != nil {
				return err
			}
			f.Rows, f.Payload = true, glance
			table := a.jobTable()
			var jobs []operator.Job // of the next page
			told, more := 0, false
			for j, err := range a.chosen(ctx, s, queue, c, f) {
				if err != nil {
					return errors.Join(table.print(emq.StateDead, jobs, false), err)
				}
				if more = n > 0 && told == n; more {
					break
				}
				if told++; a.json {
					if err := a.emit(jobRecord(j).payload(j)); err != nil {
						return err
					}
					continue
				}
				if len(jobs) == jobPage {
					if err := table.print(emq.StateDead, jobs, true); err != nil {
						return err
					}
					jobs = jobs[:0]
				}
				jobs = append(jobs, j)
			}
			if a.json {
				return nil
			}
			if told == 0 {
				fmt.Fprintf(a.err, "No such dead letters of %s.\n", printable(queue))
			}
			if err := table.print(emq.StateDead, jobs, false); err != nil {
				return err
			}
			if more {
				fmt.Fprintln(a.err, "There are more: -n 0 shows all.")
			}
			return nil
		},
	}
	c.flags(cmd, true)
	_ = cmd.RegisterFlagCompletionFunc("group", a.completeGroups)
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many, 0 for all")
	return cmd
}

// choosing checks the flags of a list of up to n jobs (0: all) and that the queue exists, and returns the server.
func (a *app) choosing(ctx context.Context, queue string, c *choice, n int) (*operator.Server, operator.Filter, error) {
	f, err := c.filter()
	if err != nil {
		return nil, f, err
	}
	if n < 0 {
		return nil, f, usage("-n is 0, for all, or more")
	}
	s, err := a.server(ctx)
	if err != nil {
		return nil, f, err
	}
	return s, f, a.present(ctx, s, queue)
}

// chosen walks the dead letters and yields those that the flags choose.
func (a *app) chosen(ctx context.Context, s *operator.Server, queue string, c choice, f operator.Filter) iter.Seq2[operator.Job, error] {
	return func(yield func(operator.Job, error) bool) {
		step, done := a.progress("choosing")
		skipped := int64(0)
		name, alike := "", ""
		if shortName.MatchString(c.group) {
			name, f.Rows = c.group, true
		}
		walk := s.Select(ctx, queue, emq.StateDead, "", 0, f, func(p operator.Progress) {
			skipped = p.Skipped
			step(p)
		})
		ended := false
		for j, err := range walk {
			if name != "" && err == nil {
				text := operator.Normalise(j.LastError)
				switch {
				case j.Err != nil || nameOf(text) != name:
					continue
				case alike != "" && alike != text:
					err = refused("two groups are called %s: give the error itself, as the group has it", name)
				}
				alike = text
			}
			if ended = !yield(j, err) || err != nil; ended {
				break
			}
		}
		done()
		if skipped > 0 {
			fmt.Fprintf(a.err, "Of %s the payload is longer than 1 MiB and was not searched.\n", many(skipped, "job"))
		}
		if name != "" && alike == "" && !ended {
			yield(operator.Job{}, absent("%s has no such dead letters of group %s: %s lists the groups", printable(queue), name, a.line("dead groups", []string{queue})))
		}
	}
}

func newDeadRequeue(a *app) *cobra.Command {
	return newDeadBulk(a, operator.Requeue, &cobra.Command{
		Use:   "requeue QUEUE [ID…]",
		Short: "dead letters become pending, and start afresh",
		Long: `requeue chooses dead letters by their error's group, a text, their age or their ids (- reads ids from standard input, one
a line), tells how many they are, asks, and makes them pending. Their failures are forgotten. Ctrl-C stops it between
two calls of 500 jobs.`,
		Example: `  emq dead groups mails                             the groups, with this command for each
  emq dead requeue mails --group 7c1f3a90 --dry-run
  emq dead requeue mails --group 7c1f3a90
  emq dead requeue mails --match 'no such mailbox' --older-than 1h
  emq dead requeue mails --all --yes                from a script`,
	})
}

func newDeadRm(a *app) *cobra.Command {
	return newDeadBulk(a, operator.Remove, &cobra.Command{
		Use:   "rm QUEUE [ID…]",
		Short: "remove dead letters",
		Long: `rm chooses dead letters as requeue does, tells how many they are, asks, and removes them for good. "emq dead ls --json"
with the same flags keeps a copy.`,
		Example: `  emq dead rm mails --older-than 30d --dry-run
  emq dead ls mails --older-than 30d -n 0 --json > gone.ndjson
  emq dead rm mails --older-than 30d`,
	})
}

func newDeadBulk(a *app, what operator.Action, cmd *cobra.Command) *cobra.Command {
	var c choice
	cmd.Args = cobra.MinimumNArgs(1)
	cmd.ValidArgsFunction = a.completeQueues(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := c.filter()
		if err != nil {
			return err
		}
		ctx, queue, named := cmd.Context(), args[0], len(args) > 1
		switch {
		case named && (c.any() || c.all):
			return usage("ids and --group, --match, --older-than or --all both choose: give one")
		case c.all && c.any():
			return usage("--all and --group, --match or --older-than both choose: give one")
		case !named && !c.any() && !c.all:
			return usage("which? --group, --match, --older-than, ids, or --all: %s shows the groups", a.line("dead groups", []string{queue}))
		}
		if named {
			return a.byIDs(ctx, what, queue, emq.StateDead, args[1:])
		}
		s, err := a.server(ctx)
		if err != nil {
			return err
		}
		if err := a.present(ctx, s, queue); err != nil {
			return err
		}
		var ids []string
		for j, err := range a.chosen(ctx, s, queue, c, f) {
			if err != nil {
				return stopped(ctx, err, "nothing was changed")
			}
			ids = append(ids, j.ID)
		}
		p, err := a.apply(ctx, s, what, queue, emq.StateDead, ids, true)
		if gone := int64(len(ids)) - p.Changed - p.Refused; err == nil && gone > 0 && !a.dryRun {
			fmt.Fprintf(a.err, "%s had gone or changed state meanwhile.\n", many(gone, "other"))
		}
		return err
	}
	c.flags(cmd, true)
	_ = cmd.RegisterFlagCompletionFunc("group", a.completeGroups)
	cmd.Flags().BoolVar(&c.all, "all", false, "every dead letter of the queue")
	return a.bulk(cmd)
}
