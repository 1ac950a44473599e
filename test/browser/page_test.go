package browser

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valkey-io/valkey-go"

	emq "emq/clients/go"
	"emq/operator"
	"emq/operator/web"
	"emq/test/wire"
)

// host serves the page for the server at a URL in valkey-go's form, until the end of the test, and returns the page's URL.
func host(t testing.TB, server string, o web.Options) (url string) {
	t.Helper()
	parsed, err := valkey.ParseURL(server)
	require.NoError(t, err)
	conn := emq.Dial(parsed)
	page := web.New(operator.New(conn), o)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = page.Run(ctx) }()
	s := httptest.NewServer(page)
	t.Cleanup(func() {
		stop()
		s.CloseClientConnections() // a browser holds its streams
		s.Close()
		<-ended
		conn.Close()
	})
	return s.URL + o.BasePath
}

// place is the path of a queue or a job on the page.
func place(q wire.Queue, rest string) string { return "/q/" + encode(string(q)) + rest }

// encode repeats the encoding of names.go in package web, so that a mistake there shows here.
func encode(name string) string {
	var b strings.Builder
	for i, c := range []byte(name) {
		if strings.ContainsRune("-_", rune(c)) || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			const digits = "0123456789ABCDEF"
			b.WriteString("~" + string(digits[c>>4]) + string(digits[c&15]))
		}
	}
	return b.String()
}

// row is the selector of the part of the page that shows a queue, a job, a group or a task.
func row(kind, name string) string { return "[data-" + kind + `="` + encode(name) + `"]` }

// settled waits until the page has figures.
func (b *tab) settled() {
	b.Helper()
	b.lacks("Looking for queues…")
}
