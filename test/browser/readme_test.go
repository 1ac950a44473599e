package browser

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emq "emq/clients/go"
	"emq/operator/web"
	"emq/test/wire"
)

var update = flag.Bool("update", false, "write the pictures of docs/screens anew")

// largest is the maximum size of a picture in the README.
const largest = 150 << 10

// TestReadme checks that the README's pictures exist and are small. With -update it makes them: of a shop on an
// ordinary day whose database was down for a while.
func TestReadme(t *testing.T) {
	const dir = "../../docs/screens"
	if *update {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		shop(t, dir)
	}
	for _, name := range []string{"queues.png", "dead-letters.png"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.LessOrEqual(t, info.Size(), int64(largest), name)
	}
}

func shop(t *testing.T, dir string) {
	s, c := serve(t, "--appendonly", "yes")
	deadLetters(c, t, "payments")
	later := wire.Queue("invoices")
	var words []string
	for i := range 1840 {
		words = append(words, id(time.Now(), i), fmt.Sprint(1000*(600+37*i)), fmt.Sprintf(`{"invoice":%d}`, 2600+i))
	}
	all(c, t, batches(words, 3, func(words ...string) []string { return later.Mschedule("in", words...) }))
	enqueue(c, t, "newsletter", 12_600, func(i int) string { return fmt.Sprintf(`{"reader":%d}`, i) })
	all(c, t, [][]string{wire.Queue("newsletter").Pause(4 * 3600_000), wire.Queue("thumbnails").Limit(8, 0, 0), wire.Queue("webhooks").Limit(0, 50, 1000)})
	work(t, s.Socket, map[string]traffic{
		"mails": {50 * time.Millisecond, 190 * time.Millisecond}, "orders": {40 * time.Millisecond, 150 * time.Millisecond},
		"payments": {80 * time.Millisecond, 270 * time.Millisecond}, "thumbnails": {60 * time.Millisecond, 230 * time.Millisecond},
		"webhooks": {100 * time.Millisecond, 300 * time.Millisecond}, "search-index": {200 * time.Millisecond, 100 * time.Millisecond},
	})
	url := host(t, "unix://"+s.Socket, web.Options{})
	b := open(t, look{})
	b.goTo(url + "/")
	// The lines of the hour have a point for each minute that was seen.
	for end := time.Now().Add(20 * time.Minute); eval[int](b, "Math.max(0, ...[...document.querySelectorAll('.spark polyline')].map(e => e.points.length))") < 8; time.Sleep(time.Second) {
		require.True(t, time.Now().Before(end), "waited too long for some minutes of the hour")
	}
	picture := func(name string) {
		b.size.Height = eval[int64](b, "Math.ceil(document.querySelector('main').lastElementChild.getBoundingClientRect().bottom) + 24")
		b.pictureTo(filepath.Join(dir, name), float64(b.size.Height))
	}
	picture("queues.png")
	b.goTo(url + place("payments", "/groups"))
	b.tap("[data-group] input")
	b.reads("3,000 jobs chosen")
	picture("dead-letters.png")
}

// traffic is the interval of a queue's jobs, and the time that each takes.
type traffic struct{ every, takes time.Duration }

// work keeps queues busy until the end of the test, with producers and workers of clients/go.
func work(t testing.TB, socket string, queues map[string]traffic) {
	t.Helper()
	client, err := emq.Open("unix://" + socket)
	require.NoError(t, err)
	type order struct{ Order int }
	ctx, stop := context.WithCancel(context.Background())
	worker := emq.NewWorker(client)
	var running sync.WaitGroup
	began := time.Now()
	for name, traffic := range queues {
		q := emq.NewQueue[order](client, name)
		emq.Handle(worker, q, func(context.Context, *emq.Job[order]) error {
			// Sometimes slower, sometimes faster than the jobs come.
			wave := 1 + 0.9*math.Sin(time.Since(began).Minutes()*2+float64(len(name)))
			time.Sleep(time.Duration(wave * float64(traffic.takes)))
			return nil
		}, emq.Concurrency(4))
		running.Go(func() {
			tick := time.NewTicker(traffic.every)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					_, _ = q.Enqueue(ctx, order{i})
				}
			}
		})
	}
	running.Go(func() { _ = worker.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		_ = client.Close()
	})
}
