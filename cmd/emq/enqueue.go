package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newEnqueue(a *app) *cobra.Command {
	var e enqueue
	cmd := &cobra.Command{
		Use:   "enqueue QUEUE [PAYLOAD]",
		Short: "put jobs into a queue",
		Long: `Puts a job into a queue, or all those of the standard input: a JSON object a line,

  {"payload": …, "payload_base64": "…", "id": "JOB…", "delay_ms": 5000, "due": "2026-12-01T08:00:00Z"}

of which only the payload is needed. A payload that is a JSON string is its text; another value is enqueued as JSON, without
blanks. payload_base64 has bytes that are no text. due is a time, or a number of Unix ms. Blank lines are left out. With --raw a
line is a payload as it is; with --null payloads end with a NUL.

The jobs are sent in the order of the lines, some hundred in a call. A line that is wrong, or a call that fails, ends the
command; it tells which lines are enqueued.`,
		Example: `  emq enqueue mails '{"to":"ann"}' --in 10m
  generate | emq enqueue mails
  find /srv/in -name '*.jpg' -print0 | emq enqueue thumbnails --null`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.run(cmd.Context(), a, args)
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.in, "in", "", "claimable after a while, by the server's clock: 90s, 10m, 3d; of lines, where they do not say otherwise")
	f.StringVar(&e.at, "at", "", "claimable at a time: 2026-12-01T08:00:00Z, or Unix ms")
	f.StringVar(&e.id, "id", "", "the id of the one job: enqueueing it again does nothing while it is there")
	f.BoolVar(&e.raw, "raw", false, "each line is a payload as it is")
	f.BoolVar(&e.null, "null", false, "payloads as they are, with a NUL behind each")
	cmd.MarkFlagsMutuallyExclusive("in", "at")
	return cmd
}

type enqueue struct {
	in        string
	at, id    string
	raw, null bool
}

func (e *enqueue) run(ctx context.Context, a *app, args []string) error {
	if err := possible(args[0]); err != nil {
		return err
	}
	var due []emq.JobOption
	switch {
	case e.in != "":
		d, err := durationOf(e.in)
		if err != nil || d < 0 {
			return usage("--in %q is no duration: 90s, 10m, 3d", e.in)
		}
		due = append(due, emq.In(d))
	case e.at != "":
		t, err := pointOf(e.at)
		if err != nil {
			return usage("--at: %w", err)
		}
		due = append(due, emq.At(t))
	}
	if len(args) == 2 && (e.raw || e.null) {
		return usage("--raw and --null are for payloads of the standard input")
	}
	if len(args) == 1 && e.id != "" {
		return usage("--id is for one job, whose payload is an argument")
	}
	if e.id != "" {
		id, err := emq.ParseID(e.id)
		if err != nil {
			return usage("--id: %w", err)
		}
		due = append(due, emq.As(id))
	}
	c, err := a.client(ctx)
	if err != nil {
		return err
	}
	q := emq.NewQueue[[]byte](c, args[0], emq.Encoding(emq.Raw))
	if len(args) == 1 {
		return e.many(ctx, a, q, due)
	}
	r, err := q.Enqueue(ctx, []byte(args[1]), due...)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.emit(new(record).bytes("queue", args[0]).set("id", r.ID).set("enqueued", r.Created))
	case !r.Created:
		fmt.Fprintf(a.err, "%s is there already\n", r.ID)
	}
	_, err = fmt.Fprintln(a.out, r.ID)
	return err
}

// many enqueues jobs from the standard input. It reads the next ones while it sends some.
func (e *enqueue) many(ctx context.Context, a *app, q emq.Queue[[]byte], due []emq.JobOption) error {
	step, done := a.progress("enqueued")
	defer done()
	var sent, there int64 // lines
	err := inBatches(ctx, a, e.delimiter(), 500, func(line []byte) (emq.NewJob[[]byte], error) {
		if e.raw || e.null {
			return emq.NewJob[[]byte]{Value: bytes.Clone(line), Options: due}, nil
		}
		return parseJob(line, due)
	}, func(j emq.NewJob[[]byte]) int { return len(j.Value) }, func(ctx context.Context, jobs []emq.NewJob[[]byte]) (int, error) {
		receipts, err := q.EnqueueBatch(ctx, jobs...)
		n := 0
		for _, r := range receipts {
			if r.ID == "" {
				continue
			}
			if n++; !r.Created {
				there++
			}
		}
		sent += int64(n)
		step(operator.Progress{Seen: sent})
		return n, err
	}, nil)
	done()
	if err != nil {
		return stopped(ctx, err, "%s until then, of which %s enqueued and %s there already", many(sent, "line"), count(sent-there), count(there))
	}
	if a.json {
		return a.emit(new(record).bytes("queue", q.Name()).set("enqueued", sent-there).set("there", there))
	}
	fmt.Fprintf(a.err, "%s enqueued", many(sent-there, "job"))
	if there > 0 {
		fmt.Fprintf(a.err, ", %s there already", many(there, "job"))
	}
	fmt.Fprintln(a.err)
	return nil
}

func (e *enqueue) delimiter() byte {
	if e.null {
		return 0
	}
	return '\n'
}

// parseJob parses a job in JSON.
func parseJob(line []byte, due []emq.JobOption) (job emq.NewJob[[]byte], err error) {
	var j struct {
		Payload       json.RawMessage `json:"payload"`
		PayloadBase64 *string         `json:"payload_base64"`
		ID            *string         `json:"id"`
		DelayMS       *int64          `json:"delay_ms"`
		Due           json.RawMessage `json:"due"`
	}
	if err := strictly(line, &j); err != nil {
		return job, err
	}
	if job.Value, err = payloadOf(j.Payload, j.PayloadBase64); err != nil {
		return job, err
	}
	if job.Value == nil {
		return job, errors.New("there is no payload")
	}
	job.Options = due
	switch {
	case j.DelayMS != nil && j.Due != nil:
		return job, errors.New("both delay_ms and due say when: give one")
	case j.DelayMS != nil:
		if *j.DelayMS < 0 || *j.DelayMS > 1<<43 {
			return job, fmt.Errorf("delay_ms can't be %d", *j.DelayMS)
		}
		job.Options = []emq.JobOption{emq.In(time.Duration(*j.DelayMS) * time.Millisecond)}
	case j.Due != nil:
		text := string(j.Due)
		_ = json.Unmarshal(j.Due, &text)
		t, err := pointOf(text)
		if err != nil {
			return job, fmt.Errorf("due: %w", err)
		}
		job.Options = []emq.JobOption{emq.At(t)}
	}
	if j.ID != nil {
		id, err := emq.ParseID(*j.ID)
		if err != nil {
			return job, err
		}
		job.Options = append(job.Options[:len(job.Options):len(job.Options)], emq.As(id))
	}
	return job, nil
}

// maxMillis is the last time that a job can be due, in Unix ms.
const maxMillis int64 = 1<<52 - 1

// pointOf parses a point in time: Unix ms, or a form of timeOf other than an age.
func pointOf(s string) (time.Time, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		if ms > maxMillis {
			return time.Time{}, fmt.Errorf("%s is beyond the last time, %d", s, maxMillis)
		}
		return time.UnixMilli(ms), nil
	}
	if _, err := durationOf(s); err == nil {
		return time.Time{}, fmt.Errorf("%s is no point in time", s)
	}
	return timeOf(s)
}

// errBlank is the error of a blank line, which is no entry.
var errBlank = errors.New("the line is blank")

// strictly parses one JSON object that has only known fields, each once and in its exact spelling.
func strictly(line []byte, v any) error {
	line = bytes.TrimPrefix(line, []byte("\uFEFF")) // some programs begin a file with it
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return errBlank
	case !utf8.Valid(line):
		return errors.New("it is no UTF-8; bytes go into payload_base64, or by --raw")
	}
	d := json.NewDecoder(bytes.NewReader(line))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return cmp.Or(err, errors.New("it is no JSON object"))
	}
	for names := map[string]bool{}; d.More(); {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		text, _ := name.(string)
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return errors.New("a JSON object is not complete")
		case err != nil:
			return err
		case names[text] || text != strings.ToLower(text): // of which Go would take the last
			return fmt.Errorf("%.40q is there twice, or written otherwise", text)
		}
		names[text] = true
	}
	if _, err := d.Token(); err != nil {
		return errors.New("a JSON object is not complete")
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is something behind the JSON object")
	}
	d = json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s is a JSON %s, which it can't be", wrong.Field, wrong.Value)
	}
	if err != nil && strings.HasPrefix(err.Error(), "json: invalid number literal") {
		return errors.New("a number is a JSON string, which it can't be")
	}
	return err
}

// halved finds an unpaired surrogate in a JSON string, which Go would replace.
func halved(text []byte) bool {
	unit := func(i int) (rune, bool) {
		if i+6 > len(text) || text[i] != '\\' || text[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(text[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		first, ok := unit(i)
		switch second, _ := unit(i + 6); {
		case !ok || !utf16.IsSurrogate(first):
			i++ // what is escaped
		case utf16.DecodeRune(first, second) == utf8.RuneError:
			return true
		default:
			i += 11
		}
	}
	return false
}

// payloadOf is the payload that a JSON value stands for, or nil if there is none.
func payloadOf(value json.RawMessage, inBase64 *string) ([]byte, error) {
	switch {
	case inBase64 != nil:
		if value != nil && string(value) != "null" {
			return nil, errors.New("both payload and payload_base64 are there: give one")
		}
		b, err := base64.StdEncoding.DecodeString(*inBase64)
		if err != nil {
			return nil, fmt.Errorf("payload_base64: %w", err)
		}
		return append([]byte{}, b...), nil
	case value == nil:
		return nil, nil
	case value[0] == '"':
		if halved(value) {
			return nil, errors.New("the payload has half a letter, which no text can have: \\u with a surrogate alone")
		}
		var text string
		err := json.Unmarshal(value, &text)
		return []byte(text), err
	}
	var b bytes.Buffer
	err := json.Compact(&b, value)
	return b.Bytes(), err
}

// badLine is the error of a line that can't be parsed.
type badLine struct {
	line int64
	err  error
}

func (b *badLine) Error() string { return fmt.Sprintf("line %d: %s", b.line, b.err) }
func (b *badLine) Unwrap() error { return b.err }

// inBatches reads the entries on the standard input, and calls do for batches of up to n, or about 1 MiB, in their
// order, while it reads the next. do returns how many of them are surely done. An error names the line; the entries
// before it are done. Bad lines are passed to skip if there is one, and otherwise end the run. After an interrupt the
// current batch is completed.
func inBatches[T any](ctx context.Context, a *app, delimiter byte, n int, parse func([]byte) (T, error), weight func(T) int,
	do func(context.Context, []T) (int, error), skip func(*badLine)) error {
	type batch struct {
		first, last int64 // lines
		entries     []T
		bad         []*badLine // among the lines
		err         error      // of the line after them
	}
	batches := make(chan batch, 1)
	go func() {
		defer close(batches)
		r := bufio.NewReaderSize(a.in, 1<<16)
		b, bytes := batch{first: 1}, 0
		send := func() bool {
			select {
			case batches <- b:
				b, bytes = batch{first: b.last + 1, last: b.last}, 0
				return true
			case <-ctx.Done():
				return false
			}
		}
		for {
			line, err := readEntry(r, delimiter)
			if err == nil {
				var entry T
				if entry, err = parse(line); err == nil || err == errBlank || skip != nil {
					switch b.last++; err {
					case nil:
						b.entries = append(b.entries, entry)
						bytes += weight(entry)
					case errBlank:
					default:
						b.bad = append(b.bad, &badLine{b.last, err})
					}
					if (len(b.entries) == n || len(b.bad) == n || bytes >= 1<<20) && !send() {
						return
					}
					if r.Buffered() == 0 && len(b.entries) > 0 && len(batches) == 0 && !send() {
						return // the writer is slower than the server: send at once what there is
					}
					continue
				}
			}
			if err != io.EOF {
				b.err = err
			}
			send()
			return
		}
	}()
	for {
		var b batch
		var ok bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, ok = <-batches:
		}
		if !ok {
			return ctx.Err()
		}
		if len(b.entries) > 0 {
			call, cancel := lingering(ctx)
			sure, err := do(call, b.entries)
			cancel()
			switch {
			case err != nil && sure > 0:
				return fmt.Errorf("lines %d to %d, of which %s are done: %w", b.first, b.last, count(sure), err)
			case err != nil:
				return fmt.Errorf("lines %d to %d: %w", b.first, b.last, err)
			}
		}
		for _, bad := range b.bad {
			skip(bad)
		}
		if b.err != nil {
			return refused("%w", &badLine{b.last + 1, b.err})
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// maxEntry bounds a line: a payload of 512 MB, the largest that a server accepts, in base64.
const maxEntry = 700 << 20

// readEntry reads an entry without its delimiter, an end of line or another byte. The last entry may have none.
func readEntry(r *bufio.Reader, delimiter byte) (entry []byte, err error) {
	for {
		part, err := r.ReadSlice(delimiter)
		entry = append(entry, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(entry) > maxEntry {
				return nil, errors.New("it is longer than any payload can be")
			}
			continue
		case err == io.EOF && len(entry) == 0:
			return nil, io.EOF
		case err != nil && err != io.EOF:
			return nil, fmt.Errorf("it can't be read: %w", err)
		}
		entry = bytes.TrimSuffix(entry, []byte{delimiter})
		if delimiter == '\n' {
			entry = bytes.TrimSuffix(entry, []byte{'\r'})
		}
		return entry, nil
	}
}

// lingering is a context that ends some seconds after another, so that a call that is running at an interrupt still
// gets its reply: then it is known what was done.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	long, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-ctx.Done():
		case <-long.Done():
			return
		}
		select {
		case <-time.After(3 * time.Second):
			cancel()
		case <-long.Done():
		}
	}()
	return long, cancel
}
