package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"emq/bench/load"
	"emq/test/valkey"
)

// footprint is what a job takes in the server's memory, in bytes, while it waits, is leased, and is dead.
type footprint struct {
	Settings string `json:"settings"`
	Payload  int    `json:"payload"`
	Jobs     int    `json:"jobs"`
	// The server's used_memory, shared among the jobs.
	Pending float64 `json:"pending"`
	Active  float64 `json:"active"`
	Dead    float64 `json:"dead"`
	// What MEMORY USAGE says of one pending job's row, and of the pending set, shared among the jobs.
	Row      int64   `json:"row_memory_usage"`
	Entry    float64 `json:"entry_memory_usage"`
	Encoding string  `json:"row_encoding"`
}

const exampleConf = "../valkey.conf.example"

var payloads = []int{64, 65, 512, 4096}

// measureMemory fills stores with jobs under Valkey's own settings and under the example's.
func (p *plan) measureMemory(ctx context.Context, r *report) error {
	example, err := settingsOf(exampleConf)
	if err != nil {
		return err
	}
	bar := progress("memory", 2*len(payloads))
	for _, payload := range payloads {
		for _, settings := range []struct {
			name string
			args []string
		}{{"default", nil}, {"example", example}} {
			f := &footprint{Settings: settings.name, Payload: payload, Jobs: p.memoryJobs}
			if err := f.measure(ctx, r, p.modules, settings.args); err != nil {
				return fmt.Errorf("%d bytes, %s settings: %w", payload, settings.name, err)
			}
			r.Memory = append(r.Memory, f)
			_ = bar.Add(1)
		}
	}
	return nil
}

func (f *footprint) measure(ctx context.Context, r *report, m modules, settings []string) (err error) {
	s, err := valkey.Start(valkey.Options{Module: m["emq"], Args: settings})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := r.identify(ctx, s); err != nil {
		return err
	}
	c := control(s, native.db)
	defer c.Close()
	if err := native.prepare(ctx, c); err != nil {
		return err
	}
	const looks = 3
	empty, err := settled(ctx, c, looks)
	if err != nil {
		return err
	}
	g, err := load.Dial(load.Options{
		Socket: s.Socket, DB: native.db, Queue: queueName, Opening: native.open, Payload: f.Payload, Conns: 4, Depth: 32,
	})
	if err != nil {
		return err
	}
	defer g.Close()
	for _, state := range []struct {
		verb  load.Verb
		bytes *float64
	}{{load.Enqueue, &f.Pending}, {load.Claim, &f.Active}, {load.Bury, &f.Dead}} {
		if _, err := g.Run(ctx, f.Jobs, state.verb); err != nil {
			return err
		}
		full, err := settled(ctx, c, looks)
		if err != nil {
			return err
		}
		*state.bytes = float64(full.used-empty.used) / float64(f.Jobs)
		if state.verb == load.Enqueue {
			if err := f.look(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// look asks the server about the pending jobs.
func (f *footprint) look(ctx context.Context, c *redis.Client) error {
	base := "emq:{" + queueName + "}:"
	row := base + "job:JOB00000000001"
	pipe := c.Pipeline()
	rowUsage := pipe.MemoryUsage(ctx, row, 0)
	setUsage := pipe.MemoryUsage(ctx, base+"pending", 0)
	encoding := pipe.ObjectEncoding(ctx, row)
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	f.Row, f.Entry, f.Encoding = rowUsage.Val(), float64(setUsage.Val())/float64(f.Jobs), encoding.Val()
	return nil
}

// memory is what a server has, in bytes.
type memory struct{ used, resident int64 }

// settled is the server's memory when for so many looks, ten a second, it has not moved: tables grow and buffers shrink in
// the background.
func settled(ctx context.Context, c *redis.Client, looks int) (m memory, err error) {
	for still := 0; still < looks; {
		select {
		case <-ctx.Done():
			return m, context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
		info, err := c.Info(ctx, "memory").Result()
		if err != nil {
			return m, err
		}
		last := m.used
		if m.used, err = strconv.ParseInt(infoField(info, "used_memory"), 10, 64); err != nil {
			return m, err
		}
		if m.resident, err = strconv.ParseInt(infoField(info, "used_memory_rss"), 10, 64); err != nil {
			return m, err
		}
		const nothing = 4 << 10
		if still++; m.used < last-nothing || m.used > last+nothing {
			still = 0
		}
	}
	return m, nil
}

// settingsOf reads a configuration file as command-line settings. The module is the one under measurement, and the
// append-only file is left out: it takes no memory that stays, and all the jobs would go to disk.
func settingsOf(file string) (args []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); ; {
		if !lines.Scan() {
			return args, lines.Err()
		}
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' || words[0] == "loadmodule" || strings.HasPrefix(words[0], "append") {
			continue
		}
		args = append(append(args, "--"+words[0]), words[1:]...)
	}
}

func (r *report) printMemory(to io.Writer) {
	if len(r.Memory) == 0 {
		return
	}
	fmt.Fprintf(to, "\nbytes per job, of %d jobs: used_memory, and MEMORY USAGE of a pending job's row and of its place in the set\n\n", r.Memory[0].Jobs)
	w := table(to)
	defer w.Flush()
	fmt.Fprintln(w, "payload\tsettings\tpending\tactive\tdead\trow\tentry\tencoding of the row")
	for _, f := range r.Memory {
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%.0f\t%.0f\t%d\t%.0f\t%s\n", f.Payload, f.Settings, f.Pending, f.Active, f.Dead, f.Row, f.Entry, f.Encoding)
	}
}
