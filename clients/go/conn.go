package emq

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Conn is a way to one primary server, wherever Sentinel says that it is: what this package asks of a client library. Open
// makes one over valkey-go, and emqredis over go-redis; [Use] takes any other. It is safe for concurrent use.
type Conn interface {
	// Do sends a command, once, and returns its reply. A reply that is an error is returned as an [Error]. After any other
	// error it is not known whether the server carried the command out.
	Do(ctx context.Context, args ...string) (Reply, error)
	// Dedicate returns a connection that no other call uses, so that a command which waits in the server holds nothing up.
	Dedicate(ctx context.Context) (Dedicated, error)
	// Close ends all connections.
	Close()
}

// Dedicated is a connection for one caller at a time.
type Dedicated interface {
	// Do is as that of a [Conn]. It ends with its context's deadline, not when the context is cancelled: an answer that
	// nobody reads would be a job that nobody does.
	Do(ctx context.Context, args ...string) (Reply, error)
	// Close gives the connection back, or ends it if it is broken.
	Close()
}

// Reply is what a server answered: an integer in Int, a string in Str, an array in List (a map as its keys and values in
// turn), or null.
type Reply struct {
	Str  string
	Int  int64
	List []Reply
	Null bool
}

// Error is a server's refusal. It has changed nothing.
type Error struct {
	Text string // as the server sent it, its class first
}

func (e *Error) Error() string { return "emq: the server refused: " + e.Text }

// Class is the first word of the text. Programs should look at no more than that: EMQSTALE, EMQFENCE, NOPERM, …
func (e *Error) Class() string {
	class, _, _ := strings.Cut(e.Text, " ")
	return class
}

// Is makes errors.Is tell the classes [ErrStale], [ErrFence] and [ErrFull].
func (e *Error) Is(target error) bool {
	switch target {
	case ErrStale:
		return e.Class() == "EMQSTALE"
	case ErrFence:
		return e.Class() == "EMQFENCE"
	case ErrFull:
		return e.Class() == "OOM"
	}
	return false
}

// Classes of a server's refusals, for errors.Is.
var (
	// ErrStale: the job is no longer the caller's. Its lease was lost to another claim, or it is settled.
	ErrStale = errors.New("emq: not the job's holder")
	// ErrFence: the store is another program's, or of another wire.
	ErrFence = errors.New("emq: the store is of another wire")
	// ErrFull: the server has no memory left for new jobs. Those that are there can be worked on.
	ErrFull = errors.New("emq: the server is full")
)

// ErrClosed says that the client was closed.
var ErrClosed = errors.New("emq: the client is closed")

// refused reports whether a server answered with an error, so that nothing was carried out, and whether that passes by
// itself: a failover, a restart, a disk or a link of the server's that is not right at the moment.
func refused(err error) (refusal *Error, passes bool) {
	if !errors.As(err, &refusal) {
		return nil, false
	}
	switch refusal.Class() {
	case "READONLY", "LOADING", "UNBLOCKED", "MASTERDOWN", "NOREPLICAS", "MISCONF", "BUSY", "TRYAGAIN":
		return refusal, true
	}
	return refusal, strings.HasPrefix(refusal.Text, "ERR max number of clients")
}

func unexpected(verb string, r Reply) error {
	return fmt.Errorf("emq: %s was answered with something else than the contract's reply: %+v", verb, r)
}
