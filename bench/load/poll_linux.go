package load

import (
	"errors"
	"syscall"
	"time"
	"unsafe"
)

// poller tells which connections can be read or written. It and the two calls below go straight to the kernel: the
// runtime's own poller costs a wake-up of a goroutine for every reply.
type poller struct {
	fd     int
	events []syscall.EpollEvent
	ready  []event
}

type event struct {
	conn               int
	readable, writable bool
}

var errStalled = errors.New("the server has not answered for " + stallLimit.String())

func newPoller() (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	return &poller{fd: fd, events: make([]syscall.EpollEvent, 64), ready: make([]event, 0, 64)}, err
}

func (p *poller) close() error { return syscall.Close(p.fd) }

func (p *poller) add(fd, conn int) error {
	return syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(conn)})
}

func (p *poller) watchWrite(fd, conn int, on bool) error {
	e := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(conn)}
	if on {
		e.Events |= syscall.EPOLLOUT
	}
	return syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_MOD, fd, &e)
}

// wait returns the connections that something can be done on; the slice is valid until the next call.
func (p *poller) wait(limit time.Duration) ([]event, error) {
	n, err := syscall.EpollWait(p.fd, p.events, int(limit.Milliseconds()))
	if err == syscall.EINTR {
		return nil, nil
	}
	if err == nil && n == 0 {
		err = errStalled
	}
	if err != nil {
		return nil, err
	}
	p.ready = p.ready[:0]
	for _, e := range p.events[:n] {
		p.ready = append(p.ready, event{
			conn:     int(e.Fd),
			readable: e.Events&^syscall.EPOLLOUT != 0, // an error or a hang-up shows in the read
			writable: e.Events&syscall.EPOLLOUT != 0,
		})
	}
	return p.ready, nil
}

// read and write never block, so the scheduler need not know of them.
func read(fd int, b []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), err
}

func write(fd int, b []byte) (int, syscall.Errno) {
	n, _, err := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), err
}
