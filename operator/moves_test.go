package operator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	emq "emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

// gone is a server that can't be reached.
type gone struct{ emq.Conn }

func (gone) Do(context.Context, ...string) (emq.Reply, error) { return emq.Reply{}, emq.ErrClosed }
func (gone) Close()                                           {}

// leave leaves a job on its way to another queue, as a killed move does, and backdates the move by while.
func leave(t *testing.T, p *store.Place, from, to, server string, while time.Duration) {
	t.Helper()
	c := p.Conn()
	o, err := valkey.ParseURL("valkey://" + p.Addr())
	require.NoError(t, err)
	conn := emq.Dial(o)
	t.Cleanup(conn.Close)
	must(t, c, wire.Queue(from).Enqueue("JOB1", "x"))
	here := emq.Use(conn)
	_, _, err = emq.NewQueue[string](here, from).MoveTo(t.Context(), emq.NewQueue[string](emq.UseAll(map[string]emq.Conn{server: gone{}}), to), emq.StatePending, "JOB1")
	require.ErrorIs(t, err, emq.ErrClosed)
	told := strings.SplitN(wire.Value(c.Do("HGET", wire.Queue(from).Meta(), "moving")).(string), " ", 3)
	told[1] = fmt.Sprint(time.Now().Add(-while).UnixMilli())
	require.Equal(t, wire.Integer(0), c.Do("HSET", wire.Queue(from).Meta(), "moving", strings.Join(told, " ")))
}

// Jobs that a move left on their way are reported with the command that completes it, even if the queue has nothing
// else; those of a move that may still be running are not.
func TestMoves(t *testing.T) {
	p, c, s := serve(t)
	leave(t, p, "mails", "new", "valkey://10.0.0.2:6379", 3*time.Hour)
	leave(t, p, "now", "new", "valkey://10.0.0.2:6379", time.Second)
	found := examined(t, s)["moves"]
	require.Equal(t, Check{"moves", Critical, `"mails" has 1 job on their way to "new" of the server "valkey://10.0.0.2:6379", for 3h0m: emq move --to-url valkey://10.0.0.2:6379 mails new`,
		found.Advice}, found)
	c.Must("DEL emq:{mails}:meta", "ZADD emq:{mails}:dead 0 JOBx") // as a user might
	leave(t, p, "-q", "it's", "b", 3*time.Hour)
	found = examined(t, s)["moves"]
	require.Equal(t, `"-q" has 1 job on their way to "it's" of the server "b", for 3h0m: begin the program's Drain or MoveTo again; `+
		`"mails" has 1 job on their way to "new" of the server "valkey://10.0.0.2:6379": emq move --to-url valkey://10.0.0.2:6379 mails new`, found.Text)
	m := Move{"-q", emq.Moving{Jobs: 2, Queue: "it's", Here: true}}
	require.Equal(t, `emq move -- -q 'it'\''s'`, m.line())
	user(t, c, "observer")
	require.Equal(t, Unknown, examined(t, at(t, p, "observer"))["moves"].Status, "without the field, the user lacks the right to count the jobs")
	c.Must("DEL emq:{mails}:moving")
	require.Equal(t, Critical, examined(t, at(t, p, "observer"))["moves"].Status)
}
