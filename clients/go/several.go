package emq

import (
	"context"
	"sync/atomic"

	"github.com/valkey-io/valkey-go"
)

// several are servers of which one is the primary, where no Sentinel says which. The one that took the last command gets the
// next, and one that refuses as a replica, or can't be reached, is left for the next in turn.
type several struct {
	conns []Conn
	at    atomic.Int64 // which of them, counted on and on
}

// dialAll is [Dial] for a URL with whatever number of servers.
func dialAll(o valkey.ClientOption) Conn {
	if len(o.InitAddress) < 2 || o.Sentinel.MasterSet != "" {
		return Dial(o)
	}
	s := &several{}
	for _, address := range o.InitAddress {
		o.InitAddress = []string{address}
		s.conns = append(s.conns, Dial(o))
	}
	return s
}

func (s *several) now() (Conn, int64) {
	at := s.at.Load()
	return s.conns[at%int64(len(s.conns))], at
}

// note goes on to the next server, unless somebody else has.
func (s *several) note(at int64, err error) {
	if refusal, passes := refused(err); err != nil && (refusal == nil || passes) {
		s.at.CompareAndSwap(at, at+1)
	}
}

func (s *several) Do(ctx context.Context, args ...string) (Reply, error) {
	c, at := s.now()
	r, err := c.Do(ctx, args...)
	s.note(at, err)
	return r, err
}

func (s *several) Dedicate(ctx context.Context) (Dedicated, error) {
	c, at := s.now()
	d, err := c.Dedicate(ctx)
	s.note(at, err)
	if err != nil {
		return nil, err
	}
	return severalDedicated{d, s, at}, nil
}

func (s *several) Close() {
	for _, c := range s.conns {
		c.Close()
	}
}

type severalDedicated struct {
	Dedicated
	of *several
	at int64
}

func (d severalDedicated) Do(ctx context.Context, args ...string) (Reply, error) {
	r, err := d.Dedicated.Do(ctx, args...)
	d.of.note(d.at, err)
	return r, err
}
