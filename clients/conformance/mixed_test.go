package conformance

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// ledger is what the drivers said: which jobs were promised to be there, and which were begun.
type ledger struct {
	sync.Mutex
	made     int
	promised []int            // numbers of jobs whose enqueue was answered
	begun    map[string]bool  // by id and token
	ids      map[string]int   // the number of each id that was begun
	numbers  map[int][]string // the ids under which each number was begun
	by       map[string]int   // how many jobs each client began
	wrong    []string         // what may not be
}

// next makes so many numbers for jobs.
func (l *ledger) next(n int) (numbers []int) {
	l.Lock()
	defer l.Unlock()
	for range n {
		l.made++
		numbers = append(numbers, l.made)
	}
	return numbers
}

// hear takes an event of a driver.
func (l *ledger) hear(client string, event object) {
	l.Lock()
	defer l.Unlock()
	if event["event"] != "begin" {
		if event["event"] != "cancelled" { // a lease may be lost on a busy machine
			l.wrong = append(l.wrong, fmt.Sprintf("%s: %v", client, event))
		}
		return
	}
	id, _ := event["id"].(string)
	value, _ := event["value"].(object)
	number, _ := value["number"].(float64)
	grant := fmt.Sprint(id, event["token"])
	if l.begun[grant] {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: token %v of %s was granted twice", client, event["token"], id))
	}
	l.begun[grant] = true
	if _, known := l.ids[id]; !known {
		l.ids[id] = int(number)
		l.numbers[int(number)] = append(l.numbers[int(number)], id)
	}
	l.by[client]++
}

func (l *ledger) count() int {
	l.Lock()
	defer l.Unlock()
	return len(l.begun)
}

// ahead is how many promised jobs nobody has begun.
func (l *ledger) ahead() int {
	l.Lock()
	defer l.Unlock()
	return len(l.promised) - len(l.ids)
}

// Producers and workers of all languages on one queue, each in a process that is killed at random and started anew: every
// job that was promised is done, under one id, and none is done again after it was settled.
func TestMixed(t *testing.T) {
	var here []client
	for _, c := range clients(t) {
		t.Run(c.name, func(t *testing.T) { // so that one that is not here is skipped, or fails, by its name
			c.need(t)
			here = append(here, c)
		})
	}
	if len(here) < 2 {
		t.Skip("fewer than two clients are here")
	}
	dice := rand.New(rand.NewPCG(store.Seed(t), 0))
	kills := store.Rounds(t, 12, 100)
	s := store.Open(t, store.Pumped("--emq.pump-interval-ms", "10", "--emq.max-stalled", "0"))
	l := &ledger{begun: map[string]bool{}, ids: map[string]int{}, numbers: map[int][]string{}, by: map[string]int{}}

	stop := make(chan struct{})
	var producing sync.WaitGroup
	produce := func(d *driver, seed uint64) {
		dice := rand.New(rand.NewPCG(seed, 1))
		for {
			select {
			case <-stop:
				return
			default:
			}
			numbers := l.next(1 + dice.IntN(20)*dice.IntN(2)) // one or many
			var values []any
			for _, n := range numbers {
				values = append(values, object{"number": n, "take": dice.IntN(30)})
			}
			request := object{"do": "enqueue_many", "values": values}
			if len(values) == 1 {
				request = object{"do": "enqueue", "value": values[0]}
			}
			_, failed, told := d.answer(d.send(request))
			if !told {
				return // killed: they may be there or not
			}
			l.Lock()
			if failed != nil {
				l.wrong = append(l.wrong, fmt.Sprintf("%s: %v", d.name, failed))
			}
			l.promised = append(l.promised, numbers...)
			l.Unlock()
			store.Await(func() bool { return l.ahead() < 500 })
		}
	}
	drivers := make([]*driver, len(here))
	start := func(i int) {
		d, seed := here[i].start(t, func(event object) { l.hear(here[i].name, event) }), dice.Uint64()
		d.send(object{"do": "open", "url": "valkey://" + s.Addr(), "queue": string(queue), "lease": 3000})
		d.send(object{"do": "work", "concurrency": 4})
		drivers[i] = d
		producing.Go(func() { produce(d, seed) })
	}
	for i := range here {
		start(i)
	}
	for range kills {
		more := l.count() + 20 + dice.IntN(200)
		store.WaitFor(t, "the queue to be worked on", func() bool { return l.count() >= more })
		i := dice.IntN(len(here))
		drivers[i].kill()
		start(i)
	}
	close(stop)
	producing.Wait()
	c := s.Conn()
	store.WaitFor(t, "all jobs to be done", func() bool {
		figures := wire.Value(c.Do(queue.Stats()...)).([]any)
		return figures[1] == int64(0) && figures[3] == int64(0)
	})
	completed := wire.Value(c.Do("HGET", queue.Completed(), "count"))
	for _, d := range drivers {
		d.kill() // and all that it said is heard
	}

	l.Lock()
	defer l.Unlock()
	t.Logf("%d jobs, %d kills, begun by client: %v", len(l.ids), kills, l.by)
	require.Empty(t, l.wrong)
	require.Equal(t, fmt.Sprint(len(l.ids)), completed, "each job that was begun is completed, and once")
	for _, number := range l.promised {
		require.Len(t, l.numbers[number], 1, "job %d was promised", number)
	}
	for number, ids := range l.numbers {
		require.Len(t, ids, 1, "the ids of job %d", number)
	}
	for _, c := range here {
		require.NotZero(t, l.by[c.name], "%s began no job", c.name)
	}
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}
