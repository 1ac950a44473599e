package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"emq/operator"
)

// samples calls each with every new sample of the named queues, or of all, until the context ends.
func (a *app) samples(ctx context.Context, s *operator.Server, names []string, each func(*operator.Sample) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	sampler := s.Sampler()
	ended := make(chan error, 1)
	go func() {
		ended <- sampler.Run(ctx)
		stop()
	}()
	for sample := range sampler.Watch(ctx, names...) {
		if len(names) > 0 {
			few := *sample
			few.Queues = slices.DeleteFunc(slices.Clone(few.Queues), func(q operator.Sampled) bool { return !slices.Contains(names, q.Name) })
			sample = &few
		}
		if err := each(sample); err != nil {
			return err
		}
	}
	stop()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// watch shows frames in place on a terminal, one below the other elsewhere, and with --json a record for each queue and
// sample.
func (a *app) watch(ctx context.Context, s *operator.Server, names []string, frame func(*operator.Sample) []string) error {
	inPlace, height := terminal(a.out) && os.Getenv("TERM") != "dumb", 0
	err := a.samples(ctx, s, names, func(sample *operator.Sample) error {
		if sample.Err != nil {
			fmt.Fprintln(a.err, "emq: "+complaint(exitUnreachable, sample.Err))
			height = 0
			return nil
		}
		if a.json {
			return a.emitSample(sample)
		}
		var b strings.Builder
		lines := frame(sample)
		if inPlace {
			lines = fitting(lines, a.out)
			if height > 0 {
				fmt.Fprintf(&b, "\x1b[%dA", height)
			}
			height = len(lines)
			fmt.Fprint(&b, "\r"+strings.Join(lines, "\x1b[K\n")+"\x1b[K\n\x1b[J")
		} else {
			fmt.Fprint(&b, strings.Join(lines, "\n")+"\n\n")
		}
		_, err := io.WriteString(a.out, b.String())
		return err
	})
	if ctx.Err() != nil {
		return nil // that is how a watch ends
	}
	return err
}

func (a *app) emitSample(sample *operator.Sample) error {
	for _, q := range sample.Queues {
		r := figures(q.Queue).time("sampled_at_ms", q.At).set("in_per_second", rounded(q.In)).set("out_per_second", rounded(q.Out)).
			set("trouble", statusNames[q.Trouble]).bytes("why", q.Why)
		if err := a.emit(r); err != nil {
			return err
		}
	}
	return nil
}

func rounded(f float64) float64 { return float64(int64(f*1000+0.5)) / 1000 }

// fitting cuts lines to the height and width of a terminal.
func fitting(lines []string, out any) []string {
	width, height, err := term.GetSize(int(bare(out).(*os.File).Fd()))
	if err != nil {
		return lines
	}
	if most := max(height-2, 1); len(lines) > most {
		lines = append(slices.Clone(lines[:most]), fmt.Sprintf("… and %s more", count(len(lines)-most)))
	}
	for i, line := range lines {
		if wide(line) > width {
			lines[i] = cut(plain(line), width)
		}
	}
	return lines
}
