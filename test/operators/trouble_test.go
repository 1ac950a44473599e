package operators

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/page"
	"emq/test/store"
	"emq/test/wire"
)

// TestTrouble creates each trouble of docs/trouble.md and follows the text below its heading: each command prints what
// the page says, and afterwards a worker gets the waiting job.
func TestTrouble(t *testing.T) {
	const mail, path = wire.Queue("mail"), "../../docs/trouble.md"
	job, enqueue := "JOB00000000001", func(c *wire.Conn, id string) {
		require.Equal(t, wire.Integer(1), c.Do(mail.Enqueue(id, "x")...))
	}
	claimed := wire.Claimed(job, "x", 1)
	troubles := map[string]struct {
		cause func(s *store.Place, c *wire.Conn)
		then  string // the reply of a claim afterwards; "": there is nothing to fix
	}{
		"A queue is stuck": {func(_ *store.Place, c *wire.Conn) { enqueue(c, job) }, ""},
		"It is paused": {func(_ *store.Place, c *wire.Conn) {
			enqueue(c, job)
			c.Must("EMQ.PAUSE emq:{mail}: 0")
		}, claimed},
		"It is at its limit": {func(_ *store.Place, c *wire.Conn) {
			enqueue(c, "JOB00000000000")
			c.Must("EMQ.LIMIT emq:{mail}: 1 0 0")
			require.Equal(t, wire.Claimed("JOB00000000000", "x", 1), c.Do(mail.Claim(1<<40)...))
			enqueue(c, job)
		}, claimed},
		"The pump stands still": {func(_ *store.Place, c *wire.Conn) {
			c.Must("CONFIG SET emq.pump-interval-ms 0")
			require.Equal(t, wire.Integer(1), c.Do(mail.ScheduleAt(job, "x", 1)...))
		}, claimed},
		"Nobody asks": {func(s *store.Place, c *wire.Conn) {
			enqueue(c, job)
			c.Must("ACL SETUSER worker on >secret +emq.claim ~emq:{other}:*")
			w := s.Conn()
			w.Must("AUTH worker secret")
			require.Contains(t, w.Do(wire.With(wire.Queue("other").Claim(1), 4, "emq:{mail}:job:")...), "-EMQKEY ")
			require.Contains(t, w.Do(mail.Claim(1)...), "-NOPERM ")
		}, claimed},
		"Writes are paused": {func(_ *store.Place, c *wire.Conn) {
			enqueue(c, job)
			c.Must("CLIENT PAUSE 10000000 WRITE")
			store.WaitFor(t, "the pump to be held up", func() bool { return c.Info("emq_pump_skipped") != "0" })
		}, claimed},
		"Entries have no jobs": {func(_ *store.Place, c *wire.Conn) {
			enqueue(c, job)
			enqueue(c, "JOB00000000099")
			c.Must("DEL emq:{mail}:job:JOB00000000099")
		}, claimed},
		"A key has another type": {func(_ *store.Place, c *wire.Conn) {
			enqueue(c, job)
			c.Must("SET emq:{mail}:active x")
		}, claimed},
		"The database is not EMQ's": {func(_ *store.Place, c *wire.Conn) { c.Must("SET {emq}:version " + wire.Wire4) }, ""},
		"The workers hang": {func(_ *store.Place, c *wire.Conn) {
			enqueue(c, "JOB00000000000")
			for token := range int64(2) {
				require.Equal(t, wire.Claimed("JOB00000000000", "x", token+1), c.Do(mail.Claim(1)...))
				store.WaitFor(t, "the lease to be lost", func() bool { return c.Do("ZCARD", mail.Pending()) == wire.Integer(1) })
			}
			require.Equal(t, wire.Claimed("JOB00000000000", "x", 3), c.Do(mail.Claim(1<<40)...))
		}, ""},
		"ENQUEUE answers 0": {func(_ *store.Place, c *wire.Conn) {
			enqueue(c, "JOB00000000000")
			c.Must("DEL emq:{mail}:pending")
		}, wire.Claimed("JOB00000000000", "x", 1)},
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	headings := regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatchIndex(string(text), -1)
	for i, at := range headings {
		end := len(text)
		if i+1 < len(headings) {
			end = headings[i+1][0]
		}
		name, blocks := string(text[at[2]:at[3]]), page.Blocks(string(text[at[1]:end]))
		trouble, ok := troubles[name]
		require.Equal(t, len(blocks) > 0, ok, "a heading with commands and no trouble, or the other way round: %s", name)
		if !ok {
			continue
		}
		delete(troubles, name)
		t.Run(name, func(t *testing.T) {
			s := store.Open(t, store.Pumped("--emq.pump-interval-ms", "50"))
			c := s.Conn()
			trouble.cause(s, c)
			dir := t.TempDir()
			terminal(t, s, dir, "default")
			for _, block := range blocks {
				page.Follow(t, dir, block, "valkey-cli", dir+"/valkey-cli")
			}
			if trouble.then != "" {
				store.WaitFor(t, "the job", func() bool { return c.Do(mail.Claim(1<<40)...) == trouble.then })
			}
			// Each link leads to a heading.
			for _, link := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(string(text), -1) {
				require.Contains(t, anchors(string(text)), link[1])
			}
		})
	}
	require.Empty(t, troubles, "troubles that the page does not tell of")
}

// anchors are the headings of a page, in the form that links use.
func anchors(text string) []string {
	var list []string
	for _, heading := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		list = append(list, strings.ReplaceAll(kept, " ", "-"))
	}
	return list
}
