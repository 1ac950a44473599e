package load

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serve answers every connection to a socket with what answer makes of each command.
func serve(t *testing.T, answer func(words []string) string) (socket string) {
	socket = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					words, err := readWords(r)
					if err != nil {
						return
					}
					if _, err := io.WriteString(c, answer(words)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return socket
}

func readWords(r *bufio.Reader) ([]string, error) {
	number := func() (int, error) {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		size, err := number()
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		words[i] = string(b[:size])
	}
	return words, nil
}

func dial(t *testing.T, socket string) *Generator { return dialBatches(t, socket, 0) }

func dialBatches(t *testing.T, socket string, batch int) *Generator {
	g, err := Dial(Options{
		Socket: socket, Queue: "q", Payload: 5, Conns: 1, Depth: 2, Batch: batch,
		Opening: func(name string) []string { return []string{"X." + name} },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

func TestJobsGoThroughTheVerbs(t *testing.T) {
	var got []string
	var pending []string
	socket := serve(t, func(words []string) string {
		got = append(got, strings.Join(words, " "))
		switch words[0] {
		case "SELECT":
			return "+OK\r\n"
		case "X.ENQUEUE":
			pending = append(pending, words[4])
			return ":1\r\n"
		case "X.CLAIM":
			id := pending[0]
			pending = pending[1:]
			return fmt.Sprintf("*3\r\n$14\r\n%s\r\n$5\r\nxxxxx\r\n:1\r\n", id)
		}
		return ":1\r\n"
	})
	r, err := dial(t, socket).Run(context.Background(), 2, Enqueue, Claim, Complete)
	require.NoError(t, err)
	require.Equal(t, []string{
		"SELECT 0",
		"X.ENQUEUE 2 emq:{q}:job:JOB00000000001 emq:{q}:pending JOB00000000001 xxxxx",
		"X.ENQUEUE 2 emq:{q}:job:JOB00000000002 emq:{q}:pending JOB00000000002 xxxxx",
		"X.CLAIM 2 emq:{q}:pending emq:{q}:active emq:{q}:job: 3600000",
		"X.CLAIM 2 emq:{q}:pending emq:{q}:active emq:{q}:job: 3600000",
		"X.COMPLETE 2 emq:{q}:active emq:{q}:job:JOB00000000001 JOB00000000001 1 emq:{q}:",
		"X.COMPLETE 2 emq:{q}:active emq:{q}:job:JOB00000000002 JOB00000000002 1 emq:{q}:",
	}, got)
	require.EqualValues(t, 3, r.Latency.TotalCount(), "a pipeline is one measurement")
}

func TestBatchesCarryManyJobsInARequest(t *testing.T) {
	var got, pending []string
	socket := serve(t, func(words []string) string {
		got = append(got, strings.Join(words, " "))
		switch words[0] {
		case "SELECT":
			return "+OK\r\n"
		case "X.MENQUEUE":
			pending = append(pending, words[2], words[4])
		case "X.MCLAIM":
			reply := "*2\r\n"
			for range 2 {
				reply += fmt.Sprintf("*3\r\n$14\r\n%s\r\n$5\r\nxxxxx\r\n:1\r\n", pending[0])
				pending = pending[1:]
			}
			return reply
		case "DEL":
			return ":2\r\n"
		}
		return "*2\r\n:1\r\n:1\r\n"
	})
	g := dialBatches(t, socket, 2)
	_, err := g.Run(context.Background(), 4, Enqueue, Claim, Complete)
	require.NoError(t, err)
	_, err = g.Run(context.Background(), 4, Enqueue, Claim, Fail, Drop)
	require.NoError(t, err)
	require.Equal(t, []string{
		"SELECT 0",
		"X.MENQUEUE emq:{q}: JOB00000000001 xxxxx JOB00000000002 xxxxx",
		"X.MENQUEUE emq:{q}: JOB00000000003 xxxxx JOB00000000004 xxxxx",
		"X.MCLAIM emq:{q}: 3600000 2",
		"X.MCLAIM emq:{q}: 3600000 2",
		"X.MCOMPLETE emq:{q}: JOB00000000001 1 JOB00000000002 1",
		"X.MCOMPLETE emq:{q}: JOB00000000003 1 JOB00000000004 1",
	}, got[:7])
	require.Equal(t, []string{
		"X.MFAIL emq:{q}: 25 JOB00000000005 1 60000 the mail server did not answer JOB00000000006 1 60000 the mail server did not answer",
		"X.MFAIL emq:{q}: 25 JOB00000000007 1 60000 the mail server did not answer JOB00000000008 1 60000 the mail server did not answer",
		"DEL emq:{q}:job:JOB00000000005 emq:{q}:job:JOB00000000006",
		"DEL emq:{q}:job:JOB00000000007 emq:{q}:job:JOB00000000008",
	}, got[11:])
	_, err = g.Run(context.Background(), 2, Enqueue)
	require.ErrorContains(t, err, "2 jobs can't be sent 4 at a time")
}

func TestARefusalOfABatchOrWithinItIsAnError(t *testing.T) {
	for name, reply := range map[string]string{
		"of one job":                      "*2\r\n:1\r\n:0\r\n",
		"of all, shorter than the answer": "-NO\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			socket := serve(t, func(words []string) string {
				if words[0] == "SELECT" {
					return "+OK\r\n"
				}
				return reply
			})
			_, err := dialBatches(t, socket, 2).Run(context.Background(), 4, Enqueue)
			require.ErrorContains(t, err, "enqueue was answered")
		})
	}
}

func TestAReplyIsRightAsFarAsItHasCome(t *testing.T) {
	f := form{reply: []byte("a JOB-the-id-14- b JOB-the-id-14- c"), ids: []int{2, 19}}
	whole := "a JOB00000000001 b JOB00000000002 c"
	for n := range len(whole) + 1 {
		require.True(t, f.matches([]byte(whole[:n])), whole[:n])
	}
	for _, at := range []int{0, 1, 16, 17, 18, 33, 34} {
		wrong := []byte(whole)
		wrong[at] = 'X'
		require.False(t, f.matches(wrong), "%s", wrong)
	}
}

func TestAnUnexpectedReplyIsAnError(t *testing.T) {
	for name, reply := range map[string]string{
		"an error":       "-ERR no\r\n",
		"another number": ":0\r\n",
		"shorter":        "*0\r\n",
		"one too many":   ":1\r\n:1\r\n:1\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			socket := serve(t, func(words []string) string {
				if words[0] == "SELECT" {
					return "+OK\r\n"
				}
				return reply
			})
			_, err := dial(t, socket).Run(context.Background(), 2, Enqueue)
			require.ErrorContains(t, err, "enqueue was answered")
		})
	}
}

func TestAnEndOfTheContextEndsARun(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	socket := serve(t, func(words []string) string {
		if words[0] == "SELECT" {
			return "+OK\r\n"
		}
		cancel()
		return ":1\r\n"
	})
	_, err := dial(t, socket).Run(ctx, 1<<20, Enqueue)
	require.ErrorIs(t, err, context.Canceled)
}

func TestIdsAreMintedInByteOrder(t *testing.T) {
	g := &Generator{minted: 98}
	last := g.mint()
	require.Equal(t, "JOB00000000099", string(last[:]))
	for range 1000 {
		next := g.mint()
		require.Greater(t, string(next[:]), string(last[:]))
		last = next
	}
}

func TestFifoKeepsTheOrder(t *testing.T) {
	var f fifo
	next, taken := 0, 0
	name := func(n int) id { return id([]byte(fmt.Sprintf("JOB%011d", n))) }
	for range 100 {
		for range 7 {
			f.push(name(next))
			next++
		}
		for range 5 {
			require.Equal(t, name(taken), f.pop())
			taken++
		}
		require.Equal(t, next-taken, f.len())
	}
}
