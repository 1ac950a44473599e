package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newImport(a *app) *cobra.Command {
	var to string
	var skip bool
	cmd := &cobra.Command{
		Use:   "import",
		Short: "put jobs into queues as an export has them",
		Long: `Reads what "emq export" wrote from the standard input, and puts the jobs where they were: dead ones stay dead, scheduled ones keep
their times, and those that were in somebody's hands are pending. Jobs whose id is there already are left alone, so an import
can be repeated. Each job is put there wholly or not at all.

A line that is no job, such as one whose attempts are no number, ends the command, which names it and tells how far it came. With
--skip-bad such lines are named and left out, and the exit code is 1 if there were any.`,
		Example: `  emq import <mails.ndjson
  emq import --skip-bad <mails.ndjson
  emq import --queue mails-again <mails.ndjson`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.load(cmd.Context(), to, skip) },
	}
	cmd.Flags().StringVar(&to, "queue", "", "put all jobs into this queue")
	cmd.Flags().BoolVar(&skip, "skip-bad", false, "leave lines out that are no jobs, and go on")
	return cmd
}

// imported is a line of an export.
type imported struct {
	queue string
	emq.Record
}

func (a *app) load(ctx context.Context, to string, skip bool) error {
	if to != "" {
		if err := possible(to); err != nil {
			return err
		}
	}
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	step, done := a.progress("imported")
	defer done()
	var restored, there, bad int64
	var leave func(*badLine)
	if skip {
		leave = func(b *badLine) {
			a.unbar()
			if bad++; bad <= badTold {
				fmt.Fprintf(a.err, "%s: left out\n", printable(strings.ReplaceAll(b.Error(), ": emq: ", ": ")))
			}
		}
	}
	err = inBatches(ctx, a, '\n', 100, func(line []byte) (imported, error) {
		j, err := parseExported(line)
		if err == nil && to != "" {
			j.queue = to
		}
		if err == nil {
			err = cmp.Or(emq.NewQueue[[]byte](c, j.queue).Err(), j.Check())
		}
		return j, err
	}, func(j imported) int { return len(j.Fields["payload"]) }, func(ctx context.Context, jobs []imported) (sure int, err error) {
		for len(jobs) > 0 {
			n := 0
			var records []emq.Record
			for ; n < len(jobs) && jobs[n].queue == jobs[0].queue; n++ {
				records = append(records, jobs[n].Record)
			}
			put, err := emq.NewQueue[[]byte](c, jobs[0].queue).Restore(ctx, records...)
			for _, created := range put {
				if created {
					restored++
				} else {
					there++
				}
			}
			sure += len(put)
			step(operator.Progress{Seen: restored + there})
			if err != nil {
				return sure, err
			}
			jobs = jobs[n:]
		}
		return sure, nil
	}, leave)
	done()
	left := error(nil)
	if bad > badTold {
		fmt.Fprintf(a.err, "… and %s more left out\n", many(bad-badTold, "line"))
	}
	if bad > 0 {
		left = refused("%s left out: no jobs", many(bad, "line"))
	}
	if err != nil {
		hint := ""
		if errors.As(err, new(*badLine)) {
			hint = "; --skip-bad leaves such lines out"
		}
		return stopped(ctx, err, "%s until then, of which %s imported and %s there already%s", many(restored+there+bad, "line"), count(restored), count(there), hint)
	}
	if a.json {
		return errors.Join(a.emit(new(record).set("imported", restored).set("there", there).set("bad", bad)), left)
	}
	fmt.Fprintf(a.err, "%s imported", many(restored, "job"))
	if there > 0 {
		fmt.Fprintf(a.err, ", %s there already", many(there, "job"))
	}
	fmt.Fprintln(a.err)
	return left
}

// badTold is how many bad lines are named.
const badTold = 20

// parseExported parses a line of an export.
func parseExported(line []byte) (j imported, err error) {
	var in struct {
		Queue         *string           `json:"queue"`
		QueueBase64   *string           `json:"queue_base64"`
		ID            *string           `json:"id"`
		IDBase64      *string           `json:"id_base64"`
		State         string            `json:"state"`
		Due           *int64            `json:"due_at_ms"`
		Attempts      *json.Number      `json:"attempts"`
		Failures      *json.Number      `json:"failures"`
		Stalled       *json.Number      `json:"stalled"`
		LastError     *string           `json:"last_error"`
		ErrorBase64   *string           `json:"last_error_base64"`
		Payload       *string           `json:"payload"`
		PayloadBase64 *string           `json:"payload_base64"`
		Fields        map[string]string `json:"fields"`
		FieldsBase64  map[string]string `json:"fields_base64"`
	}
	if err := strictly(line, &in); err != nil {
		return j, err
	}
	j.State, j.Fields = emq.State(in.State), map[string]string{}
	maps.Copy(j.Fields, in.Fields)
	for name, text := range in.FieldsBase64 {
		key, err1 := base64.StdEncoding.DecodeString(name)
		value, err2 := base64.StdEncoding.DecodeString(text)
		if err := errors.Join(err1, err2); err != nil {
			return j, fmt.Errorf("fields_base64: %w", err)
		}
		j.Fields[string(key)] = string(value)
	}
	for _, n := range []struct {
		name  string
		value *json.Number
	}{{"attempts", in.Attempts}, {"failures", in.Failures}, {"stalled", in.Stalled}} {
		if n.value != nil {
			j.Fields[n.name] = n.value.String()
		}
	}
	var queue, id string
	for _, t := range []struct {
		name        string
		text, bytes *string
		to          *string
	}{{"queue", in.Queue, in.QueueBase64, &queue}, {"id", in.ID, in.IDBase64, &id}, {"last_error", in.LastError, in.ErrorBase64, nil},
		{"payload", in.Payload, in.PayloadBase64, nil}} {
		text := t.text
		if t.bytes != nil {
			b, err := base64.StdEncoding.DecodeString(*t.bytes)
			if err != nil {
				return j, fmt.Errorf("%s_base64: %w", t.name, err)
			}
			s := string(b)
			text = &s
		}
		switch {
		case text != nil && t.to != nil:
			*t.to = *text
		case text != nil:
			j.Fields[t.name] = *text
		}
	}
	j.queue, j.ID = queue, emq.ID(id)
	if in.Due != nil {
		j.Due = time.UnixMilli(*in.Due)
	} else if j.State == emq.StateScheduled {
		return j, errors.New("a scheduled job has no due_at_ms")
	}
	return j, nil
}
