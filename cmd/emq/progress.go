package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"

	"emq/operator"
)

// progress shows a bar for some work on jobs on stderr, if that is a terminal. Package operator calls step after each
// call; done removes the bar.
func (a *app) progress(what string) (step func(operator.Progress), done func()) {
	return a.progressOf("jobs", what)
}

func (a *app) progressOf(things, what string) (step func(operator.Progress), done func()) {
	if !terminal(a.err) {
		return func(operator.Progress) {}, func() {}
	}
	// Its clock starts here, before the first call; otherwise the speed would be too high. The first call tells the
	// total: a bar of unknown length would spin by itself.
	bar := progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetItsString(things),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(),
		progressbar.OptionFullWidth(),
		progressbar.OptionThrottle(50*time.Millisecond))
	bar.StartWithoutRender()
	shown := false
	a.bar = bar
	return func(p operator.Progress) {
			shown = true
			if total := max(p.Total, p.Seen, 1); bar.GetMax64() != total {
				bar.ChangeMax64(total)
			}
			if p.Seen < bar.GetMax64() { // at the maximum it would begin a new line; done removes it
				_ = bar.Set64(p.Seen)
			}
		}, func() {
			a.bar = nil
			if shown {
				_ = bar.Clear()
				_ = bar.Exit()
			}
		}
}

// unbar removes the bar before other output; the next step shows it again.
func (a *app) unbar() {
	if a.bar != nil {
		_ = a.bar.Clear()
	}
}

// confirm asks a question such as "Requeue 3,000 dead letters of mails". Where nobody can be asked, --yes is required.
func (a *app) confirm(ctx context.Context, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	switch {
	case a.yes:
		return nil
	case !terminal(a.in) || !terminal(a.err):
		return usage("%s? There is no terminal to ask on: give --yes. Nothing was changed", what)
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", what)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.in).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return failure(exitInterrupted, "interrupted: nothing was changed")
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
		return refused("nothing was changed")
	}
}
