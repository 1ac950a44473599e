package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
)

// span is what was noted at both ends of a part of a run.
type span struct {
	Seconds float64 `json:"seconds"`
	Client  float64 `json:"client_cpu_seconds"`
	Before  string  `json:"before"` // what the server says in INFO, of the sections below
	After   string  `json:"after"`
}

var sections = []string{"cpu", "stats", "commandstats"}

// figure is what a part of a run took.
type figure struct {
	Seconds  float64            `json:"seconds"`
	CPU      float64            `json:"cpu_seconds"` // of the server's process
	Kernel   float64            `json:"cpu_seconds_in_kernel"`
	Within   float64            `json:"seconds_within_commands"` // on the clock
	Client   float64            `json:"client_cpu_seconds"`      // of the process that enqueues and works
	Reads    float64            `json:"reads"`                   // by the server, of what clients sent
	Writes   float64            `json:"writes"`
	Commands map[string]command `json:"commands"` // those that scripts call are among them
}

// command is what one command has taken.
type command struct {
	Calls   float64 `json:"calls"`
	Seconds float64 `json:"seconds"`
}

func (s span) figure() figure {
	before, after := infoNumbers(s.Before), infoNumbers(s.After)
	passed := func(field string) float64 { return after[field] - before[field] }
	f := figure{
		Seconds: s.Seconds, Client: s.Client,
		CPU: passed("used_cpu_user") + passed("used_cpu_sys"), Kernel: passed("used_cpu_sys"),
		Within: passed("eventloop_duration_cmd_sum") / 1e6,
		Reads:  passed("total_reads_processed"), Writes: passed("total_writes_processed"),
		Commands: map[string]command{},
	}
	for field := range after {
		line, counts := strings.CutSuffix(field, ".calls")
		name, ofCommand := strings.CutPrefix(line, "cmdstat_")
		if n := passed(field); counts && ofCommand && name != "info" && n > 0 {
			f.Commands[name] = command{n, passed("cmdstat_"+name+".usec") / 1e6}
		}
	}
	return f
}

// infoNumbers are the numbers in an INFO. One of several in a line is named after the line, a dot and its own name.
func infoNumbers(info string) map[string]float64 {
	numbers := map[string]float64{}
	for line := range strings.SplitSeq(info, "\r\n") {
		field, value, _ := strings.Cut(line, ":")
		for part := range strings.SplitSeq(value, ",") {
			name := field
			if inner, number, ok := strings.Cut(part, "="); ok {
				name, part = field+"."+inner, number
			}
			if n, err := strconv.ParseFloat(part, 64); err == nil {
				numbers[name] = n
			}
		}
	}
	return numbers
}

// clock measures a part of a run: on the wall, in the server, and in this process, which is the client.
type clock struct {
	redis  *redis.Client
	before string
	client time.Duration
	began  time.Time
}

func startClock(ctx context.Context, c *redis.Client) (k clock, err error) {
	k.redis = c
	if k.before, err = c.Info(ctx, sections...).Result(); err != nil {
		return k, err
	}
	k.client, err = ownCPU()
	k.began = time.Now()
	return k, err
}

func (k clock) stop(ctx context.Context) (figure, error) {
	s := span{Seconds: time.Since(k.began).Seconds(), Before: k.before}
	client, err := ownCPU()
	if err != nil {
		return figure{}, err
	}
	s.Client = (client - k.client).Seconds()
	s.After, err = k.redis.Info(ctx, sections...).Result()
	return s.figure(), err
}

// ownCPU is the processor time that this process has used.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}

// between is what passed from the end of the warm-up to that of the last job.
func between(ctx context.Context, c *redis.Client, warm, last chan struct{}) (figure, error) {
	if err := wait(ctx, warm); err != nil {
		return figure{}, err
	}
	k, err := startClock(ctx, c)
	if err != nil {
		return figure{}, err
	}
	if err := wait(ctx, last); err != nil {
		return figure{}, err
	}
	return k.stop(ctx)
}

// printCosts says what a job of one half costs, where, and which of the two processes is the bound: means of the runs, since the
// system counts its own share of the time by samples.
func printCosts(to io.Writer, l load, found []*outcome, what string, half func(figures) figure) {
	fmt.Fprintf(to, "\n%s: µs and calls per job, on how many cores, and of each command its calls per job × µs\n\n", what)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer w.Flush()
	fmt.Fprintln(w, "\tclient\tserver µs\tkernel's\twithin commands\treads\twrites\tcores\tclient µs\tcores\tcommands")
	for _, o := range found {
		f := sum(o.values(half))
		jobs := float64(l.Jobs * len(o.Runs))
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%.1f\t%.2f\t%s\n", o.Peer, o.Client,
			f.CPU*1e6/jobs, f.Kernel*1e6/jobs, f.Within*1e6/jobs, f.Reads/jobs, f.Writes/jobs, f.CPU/f.Seconds,
			f.Client*1e6/jobs, f.Client/f.Seconds, f.sent(jobs))
	}
}

func sum(figures []figure) (all figure) {
	all.Commands = map[string]command{}
	for _, f := range figures {
		all.Seconds += f.Seconds
		all.CPU += f.CPU
		all.Kernel += f.Kernel
		all.Within += f.Within
		all.Client += f.Client
		all.Reads += f.Reads
		all.Writes += f.Writes
		for name, c := range f.Commands {
			so := all.Commands[name]
			all.Commands[name] = command{so.Calls + c.Calls, so.Seconds + c.Seconds}
		}
	}
	return all
}

// sent are the commands that clients sent, those first that took the longest. Where there are scripts, the other commands are
// theirs, and their time is in that of the scripts, except those that wait, which a script can't call.
func (f figure) sent(jobs float64) string {
	_, scripts := f.Commands["evalsha"]
	var list []string
	for _, name := range slices.SortedFunc(maps.Keys(f.Commands), func(a, b string) int {
		return cmp.Compare(f.Commands[b].Seconds, f.Commands[a].Seconds)
	}) {
		c := f.Commands[name]
		if c.Calls*1000 < jobs || scripts && name != "evalsha" && !strings.HasPrefix(name, "b") {
			continue
		}
		list = append(list, fmt.Sprintf("%.3g %s × %.1f", c.Calls/jobs, strings.ToUpper(name), c.Seconds*1e6/c.Calls))
	}
	return strings.Join(list, ", ")
}
