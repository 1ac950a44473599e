package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newExport(a *app) *cobra.Command {
	var all bool
	var after string
	cmd := &cobra.Command{
		Use:   "export QUEUE… | --all",
		Short: "write the jobs of queues, with all that they have",
		Long: `Writes jobs to the standard output, one JSON object a line, as "emq import" reads them: in the order of the queues, and of each
the pending ones, those in hand, the scheduled ones and the dead letters, in their order. Nothing is changed.

While a queue is worked on, a job that moves on meanwhile may be written twice, or not at all; "emq pause" keeps it still.

At the end, and when it is interrupted, the last line of the standard error tells the place that was reached: --after goes on
behind it. It stays good although jobs come and go.`,
		Example: `  emq export mails >mails.ndjson
  emq export --all | zstd >all.ndjson.zst`,
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return usage("give the names of queues, or --all")
			}
			var begin exportPlace
			if after != "" {
				var err error
				if begin, err = parsePlace(after); err != nil {
					return usage("--after: %w", err)
				}
			}
			return a.export(cmd.Context(), names, begin)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all queues that the user may read")
	cmd.Flags().StringVar(&after, "after", "", "behind this place, which an export told")
	return cmd
}

// exportPlace is a place in an export.
type exportPlace struct {
	Queue  string          `json:"q"`
	State  emq.State       `json:"s"`
	Cursor operator.Cursor `json:"c"`
}

func (p exportPlace) String() string {
	text, _ := json.Marshal([]string{base64.RawURLEncoding.EncodeToString([]byte(p.Queue)), string(p.State), string(p.Cursor)})
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePlace(s string) (p exportPlace, err error) {
	text, err := base64.RawURLEncoding.DecodeString(s)
	var words []string
	if err != nil || json.Unmarshal(text, &words) != nil || len(words) != 3 || !slices.Contains(states, emq.State(words[1])) {
		return p, errors.New("no export told this place")
	}
	queue, err := base64.RawURLEncoding.DecodeString(words[0])
	return exportPlace{string(queue), emq.State(words[1]), operator.Cursor(words[2])}, err
}

// exportBytes is about how much is read at a time.
const exportBytes = 4 << 20

func (a *app) export(ctx context.Context, names []string, at exportPlace) (err error) {
	s, err := a.server(ctx)
	if err != nil {
		return err
	}
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = s.Names(ctx); err != nil {
			return err
		}
		// The queues from the place on; its own may be gone.
		names = slices.DeleteFunc(names, func(name string) bool { return name < at.Queue })
	} else {
		if err := a.present(ctx, s, names...); err != nil {
			return err
		}
		if at.Queue != "" {
			i := slices.Index(names, at.Queue)
			if i < 0 {
				return usage("--after is a place in %s, which is not among the queues", printable(at.Queue))
			}
			names = names[i:]
		}
	}
	found, err := s.Queues(ctx, names...)
	if err != nil {
		return err
	}
	step, done := a.progress("exported")
	defer done()
	p := operator.Progress{}
	for _, q := range found {
		p.Total += q.Pending + q.Active + q.Scheduled + q.Dead
	}
	begin := at
	out := bufio.NewWriterSize(a.out, 1<<16)
	var without int64 // entries
	defer func() {
		done()
		if failed := out.Flush(); failed != nil {
			if !errors.Is(err, failed) {
				err = errors.Join(err, failed)
			}
			return // it is not known what was written, so no place is printed
		}
		place := ""
		if at.Queue != "" {
			place = fmt.Sprintf("\nemq export … --after %s", at)
		}
		if without > 0 {
			fmt.Fprintf(a.err, "%s left out: gone on meanwhile, or without a job, of which \"emq audit\" tells\n", many(without, "id"))
		}
		if err != nil {
			err = stopped(ctx, err, "%s exported until then%s", many(p.Seen, "job"), place)
		} else {
			fmt.Fprintf(a.err, "%s exported%s\n", many(p.Seen, "job"), place)
		}
	}()
	for _, name := range names {
		q := emq.NewQueue[[]byte](c, name, emq.Encoding(emq.Raw))
		for i, state := range states {
			var cursor operator.Cursor
			if name == begin.Queue {
				if i < slices.Index(states, begin.State) {
					continue
				}
				if state == begin.State {
					cursor = begin.Cursor
				}
			}
			for {
				// First read their lengths, and then as many as are not too much.
				page, err := s.Jobs(ctx, name, state, cursor, 500, 0)
				if err != nil {
					return of(name, err)
				}
				for jobs := page.Jobs; len(jobs) > 0; {
					n, bytes := 0, int64(0)
					var ids []emq.ID
					for ; n < len(jobs) && bytes < exportBytes; n++ {
						ids, bytes = append(ids, emq.ID(jobs[n].ID)), bytes+jobs[n].PayloadBytes
					}
					jobs = jobs[n:]
					records, err := q.Records(ctx, state, ids...)
					if err != nil {
						return of(name, err)
					}
					without += int64(len(ids) - len(records))
					for _, r := range records {
						if err := writeJob(out, name, r); err != nil {
							return err
						}
					}
					p.Seen += int64(len(records))
					step(p)
				}
				// An interrupted page is exported again: import skips existing jobs.
				if err := ctx.Err(); err != nil {
					return err
				}
				if cursor = page.Next; cursor == "" {
					break
				}
				at = exportPlace{name, state, cursor}
			}
			if i+1 < len(states) {
				at = exportPlace{name, states[i+1], ""}
			}
		}
	}
	return nil
}

// of adds the queue to an error.
func of(queue string, err error) error { return fmt.Errorf("%s: %w", printable(queue), err) }

// numbers are the row's fields that are numbers in an export.
var numbers = []string{"attempts", "failures", "stalled"}

// writeJob writes a job as import reads it.
func writeJob(w *bufio.Writer, queue string, job emq.Record) error {
	r := new(record).bytes("queue", queue).bytes("id", string(job.ID)).set("state", job.State)
	if job.State == emq.StateScheduled || job.State == emq.StateActive {
		r.time("due_at_ms", job.Due)
	}
	others := maps.Clone(job.Fields)
	for _, name := range numbers {
		if text, ok := job.Fields[name]; ok && canonical(text) {
			r.set(name, json.Number(text))
			delete(others, name)
		}
	}
	for _, name := range []string{"last_error", "payload"} {
		if text, ok := job.Fields[name]; ok {
			r.bytes(name, text)
			delete(others, name)
		}
	}
	texts, bytes := map[string]string{}, map[string]string{}
	for name, text := range others {
		if utf8.ValidString(name) && utf8.ValidString(text) {
			texts[name] = text
		} else {
			bytes[base64.StdEncoding.EncodeToString([]byte(name))] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
	if len(texts) > 0 {
		r.set("fields", texts)
	}
	if len(bytes) > 0 {
		r.set("fields_base64", bytes)
	}
	r.line.WriteString("}\n")
	_, err := w.Write(r.line.Bytes())
	return err
}

// canonical reports whether a text is a canonical number that JSON's readers keep exactly.
func canonical(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n >= 0 && n <= 1<<53 && strconv.FormatInt(n, 10) == s
}
