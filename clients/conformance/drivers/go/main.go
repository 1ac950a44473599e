// Command go is the driver of the Go package; README.md says what it does.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	emq "emq/clients/go"
)

type object = map[string]any

// request has the words of all requests.
type request struct {
	N                             int
	Do, URL, Queue, Codec, ID, CA string
	Borrow                        bool
	State, After                  string
	Lease, Patience, Backoff      *int64
	Failures, Concurrency, Rate   int
	In, At, Timeout, Grace, Block *int64
	Ms, Per, First, Most, Token   int64
	Value                         any
	Hex                           *string
	Values                        []any
	Hexes                         []string
	IDs                           []emq.ID
	How                           *how
}

// how is what a handler is to do in the end.
type how struct {
	End, Text string
	In, Which int64
}

// bytes is the codec of values that are bytes already.
type bytes struct{}

func (bytes) Encode(v any) ([]byte, error) {
	if b, ok := v.([]byte); ok {
		return b, nil
	}
	return nil, fmt.Errorf("bytes are wanted, not %T", v)
}

func (bytes) Decode(payload []byte, v any) error { *v.(*any) = payload; return nil }

var (
	ctx     = context.Background()
	writing sync.Mutex
	client  *emq.Client
	queue   emq.Queue[any]
	stop    context.CancelFunc
	ends    sync.Map
)

func say(what object) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	writing.Lock()
	defer writing.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func main() {
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var r request
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			panic(err)
		}
		if ok, err := carryOut(&r, []byte(line)); err != nil {
			say(object{"n": r.N, "error": failed(err)})
		} else {
			say(object{"n": r.N, "ok": ok})
		}
	}
}

func failed(err error) object {
	class := "invalid"
	var refused *emq.Error
	var broken net.Error
	var distrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refused):
		class = refused.Class()
	case errors.As(err, &broken), errors.As(err, &distrusted), errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded):
		class = "unreachable"
	}
	return object{"class": class, "text": err.Error(), "type": fmt.Sprintf("%T", err)}
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// shown is a value as an event has it.
func shown(what object, v any) object {
	if b, ok := v.([]byte); ok {
		what["hex"] = hex.EncodeToString(b)
	} else {
		what["value"] = v
	}
	return what
}

func given(text string) any {
	b, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return b
}

func carryOut(r *request, line []byte) (any, error) {
	switch r.Do {
	case "version":
		info, _ := debug.ReadBuildInfo()
		for _, m := range info.Deps {
			if m.Path == "github.com/valkey-io/valkey-go" {
				return m.Version, nil
			}
		}
		return nil, errors.New("built without valkey-go")
	case "check":
		_, err := emq.ParseID(r.ID)
		return nil, err
	case "backoff":
		policy, least, most := emq.Exponential(ms(r.First), ms(r.Most)), ms(r.Most), time.Duration(0)
		for range 1000 {
			d := policy(r.Token)
			least, most = min(least, d), max(most, d)
		}
		return object{"least": least.Milliseconds(), "most": most.Round(time.Millisecond).Milliseconds()}, nil
	case "open":
		return nil, open(r)
	case "enqueue":
		if r.Hex != nil {
			r.Value = given(*r.Hex)
		}
		options := when(r)
		if r.ID != "" {
			options = append(options, emq.As(emq.ID(r.ID)))
		}
		receipt, err := queue.Enqueue(ctx, r.Value, options...)
		return object{"id": receipt.ID, "created": receipt.Created}, err
	case "enqueue_many":
		for _, text := range r.Hexes {
			r.Values = append(r.Values, given(text))
		}
		n, err := queue.EnqueueMany(ctx, func(yield func(any) bool) {
			for _, v := range r.Values {
				if !yield(v) {
					return
				}
			}
		}, when(r)...)
		return object{"created": n, "existed": 0}, err
	case "jobs":
		list, err := queue.Jobs(ctx, emq.State(r.State), emq.ID(r.After), 100)
		found := []object{}
		for _, e := range list {
			found = append(found, shown(object{"id": e.ID, "token": e.Token, "failures": e.Failures, "error": e.LastError}, e.Value))
		}
		return found, err
	case "stats":
		stats, err := queue.Stats(ctx)
		return stats.All, err
	case "requeue":
		return queue.Requeue(ctx, emq.State(r.State), r.IDs...)
	case "remove":
		return queue.Remove(ctx, emq.State(r.State), r.IDs...)
	case "pause":
		return nil, queue.Pause(ctx, ms(r.Ms))
	case "resume":
		before, err := queue.Stats(ctx)
		if err == nil {
			err = queue.Resume(ctx)
		}
		return before.Paused, err
	case "limit":
		return nil, queue.Limit(ctx, emq.Limits{Concurrency: r.Concurrency, Max: r.Rate, Per: ms(r.Per)})
	case "work":
		work(r)
		return nil, nil
	case "stop":
		stop()
		return nil, nil
	case "finish":
		ends.Store(emq.ID(r.ID), r.How)
		return nil, nil
	}
	return nil, fmt.Errorf("no such request: %s", line)
}

func open(r *request) (err error) {
	var options []emq.ClientOption
	if r.Patience != nil {
		options = append(options, emq.Patience(ms(*r.Patience)))
	}
	if r.Borrow {
		if client, err = borrow(r, options); err != nil {
			return err
		}
	} else if client, err = emq.Open(r.URL, options...); err != nil {
		return err
	}
	if r.Failures == 0 {
		r.Failures = 3
	}
	backoff := emq.Exponential(time.Second, time.Hour)
	if r.Backoff != nil {
		backoff = emq.Constant(ms(*r.Backoff))
	}
	of := []emq.QueueOption{emq.Failures(r.Failures, backoff)}
	if r.Lease != nil {
		of = append(of, emq.Lease(ms(*r.Lease)))
	}
	if r.Codec == "bytes" {
		of = append(of, emq.Encoding(bytes{}))
	}
	queue = emq.NewQueue[any](client, r.Queue, of...)
	// A name that is none is told by each call; this one sends nothing.
	if _, err := queue.Jobs(ctx, emq.StateAny, "", 1); !strings.Contains(err.Error(), "can't be listed") {
		return err
	}
	return nil
}

// borrow is a client over one of valkey-go's that is the program's own.
func borrow(r *request, options []emq.ClientOption) (*emq.Client, error) {
	o, err := valkey.ParseURL(r.URL)
	if err != nil {
		return nil, err
	}
	if r.CA != "" {
		pem, err := os.ReadFile(r.CA)
		if err != nil {
			return nil, err
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		o.TLSConfig.RootCAs.AppendCertsFromPEM(pem)
	}
	o.DisableCache = true // its tracking of keys needs a right that these users lack
	c, err := valkey.NewClient(o)
	if err != nil {
		return nil, err
	}
	return emq.Use(emq.Valkey(c), options...), nil
}

func when(r *request) (options []emq.JobOption) {
	if r.In != nil {
		options = append(options, emq.In(ms(*r.In)))
	}
	if r.At != nil {
		options = append(options, emq.At(time.UnixMilli(*r.At)))
	}
	return options
}

func work(r *request) {
	grace := 30 * time.Second
	if r.Grace != nil {
		grace = ms(*r.Grace)
	}
	if r.Concurrency == 0 {
		r.Concurrency = 4
	}
	options := []emq.HandleOption{emq.Concurrency(r.Concurrency)}
	if r.Timeout != nil {
		options = append(options, emq.Timeout(ms(*r.Timeout)))
	}
	w := emq.NewWorker(client, emq.Grace(grace))
	emq.Handle(w, queue, handle, options...)
	var working context.Context
	working, stop = context.WithCancel(ctx)
	go func() {
		if err := w.Run(working); err != nil {
			say(object{"event": "stopped", "error": failed(err)})
			return
		}
		report := object{}
		for o := emq.Completed; o <= emq.Lost; o++ {
			report[o.String()] = w.Count(o)
		}
		say(object{"event": "stopped", "report": report})
	}()
}

func handle(ctx context.Context, job *emq.Job[any]) error {
	say(shown(object{"event": "begin", "id": job.ID, "token": job.Token}, job.Value))
	value, _ := job.Value.(object)
	_, waits := value["wait"]
	_, hangs := value["hang"]
	var end *how
	if then, ok := value["then"].(object); ok {
		text, _ := then["text"].(string)
		in, _ := then["in"].(float64)
		which, _ := then["which"].(float64)
		end = &how{then["end"].(string), text, int64(in), int64(which)}
	}
	take, _ := value["take"].(float64)
	for until, told := time.Now().Add(ms(int64(take))), false; ; time.Sleep(2 * time.Millisecond) {
		if ctx.Err() != nil && !told {
			told = true
			say(object{"event": "cancelled", "id": job.ID, "why": why(context.Cause(ctx))})
			if !hangs {
				return ctx.Err()
			}
		}
		if waits || hangs {
			if found, ok := ends.LoadAndDelete(job.ID); ok {
				end = found.(*how)
				break
			}
		} else if !time.Now().Before(until) {
			break
		}
	}
	if end == nil {
		return nil
	}
	switch err := errors.New(end.Text); end.End {
	case "odd":
		return odd[int(end.Which)%len(odd)]()
	case "fail":
		return err
	case "dead":
		return emq.Dead(err)
	case "retry":
		return emq.RetryIn(ms(end.In), err)
	case "snooze":
		return emq.Snooze(ms(end.In))
	case "drop":
		return emq.Drop(err)
	}
	return nil
}

// odd are ways to end that are no plain error.
var odd = []func() error{
	func() error { return errors.New(strings.Repeat("x", 1_000_000)) },
	func() error { panic("a text") },
	func() error { panic(nil) },
	func() error { panic(errors.New("an error")) },
	func() error { return errors.Join(context.Canceled, context.DeadlineExceeded) },
	func() error { return io.EOF },
}

func why(cause error) string {
	switch {
	case errors.Is(cause, emq.ErrLeaseLost):
		return "lease lost"
	case errors.Is(cause, emq.ErrStopping):
		return "stopping"
	case errors.Is(cause, emq.ErrTimeout):
		return "timed out"
	}
	return fmt.Sprint(cause)
}
