package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Way is a way to wait for jobs.
type Way struct {
	Name string
	// speak is what is said about one queue.
	speak func(base, payload string) dialogue
	empty string // the reply of one who waited in vain
}

// dialogue is the life of one job: a client makes it; one that waits is told of it, takes it over and settles it. The
// clock runs from the first request to the reply to the third, or to the second where being told is having it.
type dialogue struct {
	made, told, taken, settled form
}

// The ways. BZPopMin moves an entry and does nothing else; Plain does with plain commands what a worker needs: a row, and
// a lease. It doesn't even read the payload.
var (
	BClaim = Way{"BCLAIM", func(base, payload string) dialogue {
		row := base + "job:" + mark
		return dialogue{
			made:    one(":1\r\n", "EMQ.ENQUEUE", "2", row, base+"pending", mark, payload),
			told:    one("*4\r\n"+bulk(base)+bulk(mark)+bulk(payload)+":1\r\n", "EMQ.BCLAIM", lease, "0", base),
			settled: one(":1\r\n", "EMQ.COMPLETE", "2", base+"active", row, mark, "1", base),
		}
	}, "*0\r\n"}
	BZPopMin = Way{"BZPOPMIN", func(base, _ string) dialogue {
		return dialogue{made: one(":1\r\n", "ZADD", base+"pending", "0", mark), told: popped(base)}
	}, "*-1\r\n"}
	Plain = Way{"plain commands", func(base, payload string) dialogue {
		const deadline = "4102444800000"
		row := base + "job:" + mark
		return dialogue{
			made: atomically(":3\r\n:1\r\n",
				Command("HSET", row, "state", "pending", "attempts", "0", "payload", payload), Command("ZADD", base+"pending", "0", mark)),
			told: popped(base),
			taken: atomically(":0\r\n:1\r\n",
				Command("HSET", row, "state", "active", "attempts", "1"), Command("ZADD", base+"active", deadline, mark)),
			settled: atomically(":1\r\n:1\r\n", Command("DEL", row), Command("ZREM", base+"active", mark)),
		}
	}, "*-1\r\n"}
)

// one is a command that is about one job.
func one(reply string, words ...string) form { return newForm(Command(words...), reply, 1) }

func popped(base string) form {
	return one("*3\r\n"+bulk(base+"pending")+bulk(mark)+bulk("0"), "BZPOPMIN", base+"pending", "0")
}

// atomically is commands in MULTI and EXEC, sent together.
func atomically(replies string, commands ...[]byte) form {
	request := bytes.Join(append(append([][]byte{Command("MULTI")}, commands...), Command("EXEC")), nil)
	n := len(commands)
	return newForm(request, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", n)+"*"+strconv.Itoa(n)+"\r\n"+replies, 1)
}

// CrowdOptions describe a crowd.
type CrowdOptions struct {
	Socket  string // the server's unix socket
	Queues  int
	Each    int // who wait for each of them
	Payload int // bytes in a job
}

// Crowd is a client that makes jobs, and many that wait for them. It is not safe for concurrent use.
type Crowd struct {
	queues  int
	payload string
	poll    *poller
	clients []client // the maker, and then those who wait
	way     Way
	speech  []dialogue // of each queue
	turn    int        // the queue of the last job
	minted  int64
	scratch [4 << 10]byte
}

// client is one connection, on which one reply is awaited at a time.
type client struct {
	fd   int
	id   string // by which the server knows it
	have []byte // of the reply
}

const maker = 0

// DialCrowd connects a crowd.
func DialCrowd(o CrowdOptions) (_ *Crowd, err error) {
	c := &Crowd{queues: o.Queues, payload: strings.Repeat("x", o.Payload)}
	if c.poll, err = newPoller(); err != nil {
		return nil, err
	}
	for range 1 + o.Queues*o.Each {
		if err := c.dial(o.Socket); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func (c *Crowd) dial(socket string) error {
	fd, err := connect(Options{Socket: socket})
	if err != nil {
		return err
	}
	at := len(c.clients)
	c.clients = append(c.clients, client{fd: fd})
	if err := c.poll.add(fd, at); err != nil {
		return err
	}
	if err := c.send(at, Command("CLIENT", "ID")); err != nil {
		return err
	}
	p := &c.clients[at]
	for !bytes.HasSuffix(p.have, []byte("\r\n")) {
		if err := c.await(func(who int) error { return c.read(who) }); err != nil {
			return err
		}
	}
	p.id = strings.Trim(string(p.have), ":\r\n")
	p.have = p.have[:0]
	return nil
}

// Close ends the connections.
func (c *Crowd) Close() error {
	for _, p := range c.clients {
		_ = syscall.Close(p.fd)
	}
	return c.poll.close()
}

// Len is how many wait.
func (c *Crowd) Len() int { return len(c.clients) - 1 }

// Enter has all begin to wait in a way, and returns when they do.
func (c *Crowd) Enter(w Way) error {
	if w.Name != c.way.Name {
		c.way, c.speech = w, nil
		for q := range c.queues {
			base := fmt.Sprintf("emq:{%s %d}:", strings.ToLower(w.Name), q)
			c.speech = append(c.speech, w.speak(base, c.payload))
		}
	}
	for who := 1; who < len(c.clients); who++ {
		if err := c.send(who, c.speech[c.queueOf(who)].told.request); err != nil {
			return err
		}
	}
	return c.barrier()
}

func (c *Crowd) queueOf(who int) int { return (who - 1) % c.queues }

// barrier returns when the server has dealt with all that was sent before: it answers nobody before it has read every
// request that had come when this one had.
func (c *Crowd) barrier() error {
	return c.ask(maker, &form{request: Command("PING"), reply: []byte("+PONG\r\n")})
}

// Leave has nobody wait any more.
func (c *Crowd) Leave() error {
	const atOnce = 256 // so that the requests fit into the socket
	for from := 1; from < len(c.clients); from += atOnce {
		to := min(from+atOnce, len(c.clients))
		var unblock []byte
		for who := from; who < to; who++ {
			unblock = append(unblock, Command("CLIENT", "UNBLOCK", c.clients[who].id)...)
		}
		if err := c.send(maker, unblock); err != nil {
			return err
		}
		done := form{reply: bytes.Repeat([]byte(":1\r\n"), to-from)}
		empty := form{reply: []byte(c.way.empty)}
		for left := 1 + to - from; left > 0; {
			if err := c.await(func(who int) error {
				f := &empty
				if who == maker {
					f = &done
				}
				whole, err := c.receive(who, f)
				if whole {
					left--
				}
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Round makes one job and tells how long it took until one who waited had it. Then that one waits again.
func (c *Crowd) Round() (took time.Duration, err error) {
	c.turn = (c.turn + 1) % c.queues
	c.minted++
	d, job := &c.speech[c.turn], idOf(c.minted)
	for _, f := range []*form{&d.made, &d.told, &d.taken, &d.settled} {
		f.put(job)
	}
	woken, now := -1, &d.told
	began := time.Now()
	if err := c.send(maker, d.made.request); err != nil {
		return 0, err
	}
	for made, had := false, false; !made || !had; {
		if err := c.await(func(who int) error {
			if who == maker {
				made, err = c.receive(who, &d.made)
				return err
			}
			if woken >= 0 && who != woken {
				return errors.New("one job has woken two")
			}
			woken = who
			whole, err := c.receive(who, now)
			if err != nil || !whole {
				return err
			}
			if now == &d.told && d.taken.request != nil {
				now = &d.taken
				return c.send(who, now.request)
			}
			took, had = time.Since(began), true
			return nil
		}); err != nil {
			return 0, err
		}
	}
	if d.settled.request != nil {
		if err := c.ask(woken, &d.settled); err != nil {
			return 0, err
		}
	}
	if err := c.send(woken, d.told.request); err != nil {
		return 0, err
	}
	return took, c.barrier()
}

// put writes an id into a request for one job, and into the reply.
func (f *form) put(job id) {
	for _, at := range f.jobs {
		for _, i := range at {
			copy(f.request[i:], job[:])
		}
	}
	for _, at := range f.ids {
		copy(f.reply[at:], job[:])
	}
}

func (c *Crowd) send(who int, request []byte) error {
	n, err := write(c.clients[who].fd, request)
	if err != 0 {
		return err
	}
	if n < len(request) {
		return io.ErrShortWrite
	}
	return nil
}

func (c *Crowd) ask(who int, f *form) error {
	if err := c.send(who, f.request); err != nil {
		return err
	}
	for whole := false; !whole; {
		if err := c.await(func(from int) (err error) {
			if from != who {
				return errors.New("one was woken without a job")
			}
			whole, err = c.receive(who, f)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// await waits until something has come, and calls do for each to whom it came.
func (c *Crowd) await(do func(who int) error) error {
	ready, err := c.poll.wait(stallLimit)
	for _, e := range ready {
		if err := do(e.conn); err != nil {
			return err
		}
	}
	return err
}

func (c *Crowd) read(who int) error {
	p := &c.clients[who]
	n, err := come(p.fd, c.scratch[:])
	if n == 0 {
		return err
	}
	p.have = append(p.have, c.scratch[:n]...)
	return nil
}

// receive takes what has come for a client and tells whether it is the whole of a reply.
func (c *Crowd) receive(who int, f *form) (whole bool, err error) {
	if err := c.read(who); err != nil {
		return false, err
	}
	p := &c.clients[who]
	if !bytes.HasPrefix(f.reply, p.have) {
		return false, fmt.Errorf("%s: %q was answered, expected %q", c.way.Name, p.have, f.reply)
	}
	if whole = len(p.have) == len(f.reply); whole {
		p.have = p.have[:0]
	}
	return whole, nil
}
