package operator

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	emq "emq/clients/go"
	"emq/test/wire"
)

// walked returns the ids of all jobs in a state, page by page, and asserts that the way back has the same pages.
func walked(t *testing.T, s *Server, queue string, state emq.State, n int) (found []string) {
	t.Helper()
	var pages []Page
	for at := Cursor(""); ; {
		p, err := s.Jobs(t.Context(), queue, state, at, n, 0)
		require.NoError(t, err)
		require.EqualValues(t, len(found), p.Before)
		require.Equal(t, len(pages) == 0, p.First)
		for _, j := range p.Jobs {
			require.NoError(t, j.Err)
			require.Equal(t, state, j.State)
			found = append(found, j.ID)
		}
		require.True(t, len(p.Jobs) > 0 || p.First, "an empty page")
		pages = append(pages, p)
		if at = p.Next; at == "" {
			break
		}
		require.Equal(t, n, len(p.Jobs))
		require.Equal(t, strconv.Quote(string(at)), strconv.QuoteToASCII(string(at)))
	}
	for i := len(pages) - 1; i > 0; i-- {
		p, err := s.Jobs(t.Context(), queue, state, pages[i].Previous, n, 0)
		require.NoError(t, err)
		require.Equal(t, pages[i-1].Jobs, p.Jobs)
	}
	return found
}

// 200,000 jobs that are due in the same millisecond are paged through like jobs without a time: each is met once in
// each direction.
func TestPages(t *testing.T) {
	_, c, s := serve(t)
	all := ids(200_000)
	due := time.UnixMilli(1_900_000_000_000)
	fill(t, c, "ties", "1900000000000", all)
	fill(t, c, "new", "", all[:5000])
	require.Equal(t, all, walked(t, s, "ties", emq.StateScheduled, 1000))
	require.Equal(t, all[:5000], walked(t, s, "new", emq.StatePending, 999))
	require.Equal(t, all[:5000], walked(t, s, "new", emq.StatePending, 1000))
	p, err := s.Jobs(t.Context(), "ties", emq.StateScheduled, "", 1, -1)
	require.NoError(t, err)
	require.Equal(t, Job{ID: all[0], Queue: "ties", State: emq.StateScheduled, Due: due, Payload: []byte("payload of " + all[0]),
		PayloadBytes: 21}, p.Jobs[0])

	// A place stays valid when its job is gone, even among so many jobs with the same time, and needs no more commands then.
	at, err := s.Jobs(t.Context(), "ties", emq.StateScheduled, "", 1000, 0)
	require.NoError(t, err)
	must(t, c, wire.Queue("ties").Remove("any", all[900:1000]...))
	c.Must("CONFIG RESETSTAT")
	next, err := s.Jobs(t.Context(), "ties", emq.StateScheduled, at.Next, 10, 0)
	require.NoError(t, err)
	require.Equal(t, all[1000], next.Jobs[0].ID)
	require.EqualValues(t, 900, next.Before)
	require.Less(t, calls64(t, c, "zrange"), 60)
	require.Zero(t, calls64(t, c, "zrangebyscore"))

	// It also stays valid when the due time of its job changes.
	must(t, c, []string{"ZADD", "emq:{ties}:schedule", "1900000000001", all[1009]})
	next, err = s.Jobs(t.Context(), "ties", emq.StateScheduled, next.Next, 10, 0)
	require.NoError(t, err)
	require.Equal(t, all[1010], next.Jobs[0].ID)
	cursor, err := s.At(t.Context(), "ties", emq.StateScheduled, due.Add(time.Millisecond))
	require.NoError(t, err)
	last, err := s.Jobs(t.Context(), "ties", emq.StateScheduled, cursor, 10, 0)
	require.NoError(t, err)
	require.Len(t, last.Jobs, 1)
	require.Equal(t, all[1009], last.Jobs[0].ID)
	require.EqualValues(t, 199_899, last.Before)
	require.Equal(t, due.Add(time.Millisecond), last.Jobs[0].Due)

	// An invalid place is an error.
	for _, bad := range []Cursor{"x", "a!", "aSk9C.x", "aSk9C.nan", at.Next[1:]} {
		_, err := s.Jobs(t.Context(), "ties", emq.StateScheduled, bad, 10, 0)
		require.ErrorContains(t, err, "is no place", bad)
	}
	_, err = s.Jobs(t.Context(), "ties", emq.StatePending, at.Next, 10, 0)
	require.ErrorContains(t, err, "is no place")
	for _, n := range []int{0, 1001} {
		_, err = s.Jobs(t.Context(), "ties", emq.StatePending, "", n, 0)
		require.ErrorContains(t, err, "1 to 1000")
	}
	_, err = s.Jobs(t.Context(), "ties", emq.StateAny, "", 10, 0)
	require.ErrorContains(t, err, "no job has the state")
	_, err = s.Jobs(t.Context(), "a{b", emq.StateDead, "", 10, 0)
	require.ErrorContains(t, err, "can't be a queue's name")
}

// calls64 is how often a command was called.
func calls64(t *testing.T, c *wire.Conn, command string) int {
	t.Helper()
	_, rest, ok := strings.Cut(c.Do("INFO", "commandstats"), "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	digits, _, _ := strings.Cut(rest, ",")
	n, err := strconv.Atoi(digits)
	require.NoError(t, err)
	return n
}

// Queues, ids and payloads are any bytes.
func TestAnyBytes(t *testing.T) {
	_, c, s := serve(t)
	for _, name := range []string{`a "quoted" 'name' \`, "emoji 🐝", "\xff\xfe\x01\n", "<b>&amp;"} {
		q := wire.Queue(name)
		list := []string{"JOB", "JOB \"\n", "JOB{}:", "JOB🐝", "JOB\xff\x00"}
		for _, id := range list {
			must(t, c, q.Enqueue(id, "\x00\xff"), q.ScheduleAt(id+"2", "\x00\xff", 1_900_000_000_000))
		}
		require.Equal(t, list, walked(t, s, name, emq.StatePending, 1))
		require.Len(t, walked(t, s, name, emq.StateScheduled, 2), 5)
		j, err := s.Job(t.Context(), name, "JOB\xff\x00", -1)
		require.NoError(t, err)
		require.Equal(t, []byte("\x00\xff"), j.Payload)
		found, err := s.Find(t.Context(), "JOB\xff\x00")
		require.NoError(t, err)
		require.Contains(t, found, name)
	}
	names, err := s.Names(t.Context())
	require.NoError(t, err)
	require.Len(t, names, 4)
	queues, err := s.Queues(t.Context())
	require.NoError(t, err)
	for i, q := range queues {
		require.Equal(t, names[i], q.Name)
		require.NoError(t, q.Err)
		require.EqualValues(t, 5, q.Pending)
	}
}

// A page shows broken jobs, and nothing broken prevents the page.
func TestBrokenPage(t *testing.T) {
	_, c, s := serve(t)
	q := wire.Queue("q")
	list := ids(9)
	fill(t, c, q, "", list)
	big := strings.Repeat("x", 20<<20)
	must(t, c, []string{"DEL", q.Row(list[0])}, []string{"DEL", q.Row(list[1])}, []string{"SET", q.Row(list[1]), "x"},
		[]string{"HSET", q.Row(list[2]), "state", "dead"}, []string{"HSET", q.Row(list[3]), "state", "odd"},
		[]string{"HSET", q.Row(list[4]), "payload", big}, []string{"HSET", q.Row(list[5]), "last_error", big},
		[]string{"HSET", q.Row(list[6]), "group", "g"}, []string{"HSET", q.Row(list[7]), "attempts", "many"},
		[]string{"ZADD", q.Pending(), "0", "nojob"})
	c.Must("CONFIG RESETSTAT")
	p, err := s.Jobs(t.Context(), "q", emq.StatePending, "", 100, 1000)
	require.NoError(t, err)
	require.Len(t, p.Jobs, 10)
	for i, want := range []string{"no row", "wrong type", "state is dead", `state is "odd"`, "", "", "", `attempts are "many"`, "", "no row"} {
		j := p.Jobs[i]
		require.Equal(t, emq.StatePending, j.State)
		if want == "" {
			require.NoError(t, j.Err)
			require.Equal(t, i == 6, j.Foreign)
		} else {
			require.ErrorContains(t, j.Err, want)
		}
	}
	require.Nil(t, p.Jobs[4].Payload)
	require.EqualValues(t, 20<<20, p.Jobs[4].PayloadBytes)
	require.Equal(t, "an error of 20,971,520 bytes, too long to be shown", p.Jobs[5].LastError)
	require.Less(t, output(t, c), 1<<20, "what was not asked for was sent")
	j, err := s.Job(t.Context(), "q", list[4], -1)
	require.NoError(t, err)
	require.Equal(t, big, string(j.Payload))

	// A single job has the same error.
	for i, want := range []string{"no row", "wrong type", "not where its row says", `state is "odd"`} {
		j, err := s.Job(t.Context(), "q", list[i], 0)
		require.NoError(t, err)
		require.ErrorContains(t, j.Err, want)
	}
	_, err = s.Job(t.Context(), "q", "JOB-none", 0)
	require.ErrorIs(t, err, ErrNoJob)

	// A set of the wrong type is an error of its own page only.
	c.Must("SET emq:{broken}:dead x", "ZADD emq:{broken}:pending 0 JOB1")
	_, err = s.Jobs(t.Context(), "broken", emq.StateDead, "", 100, 0)
	require.ErrorContains(t, err, "WRONGTYPE")
	queues, err := s.Queues(t.Context(), "q", "broken", "", "none")
	require.NoError(t, err)
	require.NoError(t, queues[0].Err)
	require.EqualValues(t, 10, queues[0].Pending)
	require.ErrorContains(t, queues[1].Err, "WRONGTYPE")
	require.ErrorContains(t, queues[2].Err, "can't be a queue's name")
	require.NoError(t, queues[3].Err)
}

// output is the number of bytes that the server has sent since its statistics were reset.
func output(t *testing.T, c *wire.Conn) int {
	t.Helper()
	n, err := strconv.Atoi(c.Info("total_net_output_bytes"))
	require.NoError(t, err)
	return n
}

// A job in hand and a retry show what happened to them.
func TestJob(t *testing.T) {
	_, c, s := serve(t)
	q := wire.Queue("q")
	fill(t, c, q, "", ids(3))
	must(t, c, q.Claim(60_000), q.Fail(ids(1)[0], "1", 3_600_000, 5, "boom"), q.Claim(60_000))
	now := c.Now()
	j, err := s.Job(t.Context(), "q", ids(1)[0], 0)
	require.NoError(t, err)
	require.InDelta(t, now+3_600_000, j.Due.UnixMilli(), 60_000)
	j.Due = time.Time{}
	require.Equal(t, Job{ID: ids(1)[0], Queue: "q", State: emq.StateScheduled, Claims: 1, Failures: 1, LastError: "boom", PayloadBytes: 21}, j)
	j, err = s.Job(t.Context(), "q", ids(2)[1], 21)
	require.NoError(t, err)
	require.Equal(t, emq.StateActive, j.State)
	require.InDelta(t, now+60_000, j.Due.UnixMilli(), 60_000)
	require.Equal(t, "payload of "+ids(2)[1], string(j.Payload))
}

// A lane's job may be in none of the sets.
func TestLane(t *testing.T) {
	_, c, s := serve(t)
	c.Must("HSET emq:{q}:job:JOB1 state pending attempts 0 group g")
	j, err := s.Job(t.Context(), "q", "JOB1", 0)
	require.NoError(t, err)
	require.NoError(t, j.Err)
	require.True(t, j.Foreign)
}

// The times in ids agree with EMQ.STATS, and a jump to a time uses them.
func TestMade(t *testing.T) {
	_, c, s := serve(t)
	base := time.UnixMilli(1_750_000_000_000)
	small := func(id ulid.ULID) string { return strings.ToLower(id.String()) }
	for form, id := range map[string]func(time.Time) string{
		"canonical": func(t time.Time) string { return string(emq.LeastID(t)) },
		"ulid": func(t time.Time) string {
			return "JOB" + ulid.MustNew(ulid.Timestamp(t), ulid.DefaultEntropy()).String()
		},
		"small": func(t time.Time) string { return "JOB" + small(ulid.MustNew(ulid.Timestamp(t), ulid.DefaultEntropy())) },
	} {
		q := wire.Queue(form)
		var list []string
		for i := range 100 {
			list = append(list, id(base.Add(time.Duration(i)*time.Second)))
		}
		fill(t, c, q, "", list)
		page, err := s.Jobs(t.Context(), form, emq.StatePending, "", 100, 0)
		require.NoError(t, err)
		for i, j := range page.Jobs {
			require.Equal(t, base.Add(time.Duration(i)*time.Second), j.Made, form)
		}
		queues, err := s.Queues(t.Context(), form)
		require.NoError(t, err)
		require.InDelta(t, float64(c.Now()), float64(queues[0].OldestPending.Milliseconds()+page.Jobs[0].Made.UnixMilli()), 60_000)
		for at, want := range map[time.Duration]int{-time.Hour: 0, 0: 0, time.Millisecond: 1, 50 * time.Second: 50, 50*time.Second + 1: 50, time.Hour: 100} {
			cursor, err := s.At(t.Context(), form, emq.StatePending, base.Add(at))
			require.NoError(t, err)
			page, err := s.Jobs(t.Context(), form, emq.StatePending, cursor, 100, 0)
			require.NoError(t, err)
			require.Len(t, page.Jobs, 100-want, "%s %s", form, at)
			require.EqualValues(t, want, page.Before)
		}
	}
	for _, id := range []string{"JOB", "JOBx", "JOB8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "JOBIIIIIIIIIIIIIIIIIIIIIIIIII", "JOBzzzzzzzzzzz", "ABC00000000001"} {
		require.Zero(t, made(id), id)
	}
	fill(t, c, "other", "", []string{"JOBx", "JOBy"})
	_, err := s.At(t.Context(), "other", emq.StatePending, base)
	require.ErrorContains(t, err, "do not tell")
	cursor, err := s.At(t.Context(), "none", emq.StatePending, base)
	require.NoError(t, err)
	require.Empty(t, cursor)
}

// Find reads only the job, with few commands however many queues there are.
func TestFind(t *testing.T) {
	_, c, s := serve(t)
	var commands [][]string
	for i := range 1000 {
		q := wire.Queue("q" + strconv.Itoa(10_000+i))
		commands = append(commands, q.Enqueue("JOB-all", "x"))
		if i%300 == 7 {
			commands = append(commands, q.Enqueue("JOB-some", "x"))
		}
	}
	must(t, c, commands...)
	c.Must("CONFIG RESETSTAT")
	found, err := s.Find(t.Context(), "JOB-some")
	require.NoError(t, err)
	require.Equal(t, []string{"q10007", "q10307", "q10607", "q10907"}, found)
	require.Less(t, calls64(t, c, "exists"), 80)
	found, err = s.Find(t.Context(), "JOB-all")
	require.NoError(t, err)
	require.Len(t, found, 1000)
	require.True(t, slices.IsSorted(found))
	found, err = s.Find(t.Context(), "JOB-none")
	require.NoError(t, err)
	require.Empty(t, found)
}
