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

func dial(t *testing.T, socket string) *Generator {
	g, err := Dial(Options{
		Socket: socket, Queue: "q", Payload: 5, Conns: 1, Depth: 2,
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
