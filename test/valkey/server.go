// Package valkey answers one question: how does a program get a Valkey server of its own? It starts one as a child
// process on a free port and on a unix socket, in a folder of its own, waits until it answers, and stops it by its
// process id. The child dies with the program that started it.
package valkey

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"emq/tools/spawn"
)

const (
	startWait  = 60 * time.Second
	stopWait   = 60 * time.Second
	portTries  = 8
	logTailLen = 4000
	logName    = "server.log"
	socketName = "s"
)

// pumpOff are the settings of a server on which no job moves by itself.
var pumpOff = []string{"--emq.pump-interval-ms", "0"}

// ErrNoServer says that no server binary was named.
var ErrNoServer = errors.New("VALKEY_SERVER is not set: it names the server binary, and `make test` sets it")

// Options say how a server is started. The zero value is a server without a module, with nothing persisted.
type Options struct {
	Server     string   // the server binary; "" = $VALKEY_SERVER
	Module     string   // a module to load at start; "" = none
	ModuleArgs []string // the module's own load arguments
	Still      bool     // EMQ's pump is off: no job moves by itself
	Args       []string // further settings, as on the command line: "--name", "value"; they win over the defaults
	Env        []string // added to the environment, "NAME=value"
	Dir        string   // the data folder to use, kept by Close; "" = a fresh temporary one, removed by Close
	Port       int      // the port to listen on; 0 = a free one
	Sentinel   []string // starts a Sentinel with these lines of configuration; of the fields above, only Server and Dir apply
}

// Server is a running server process.
type Server struct {
	Dir    string // data, log and socket
	Socket string // the unix socket's path

	port    int
	cmd     *exec.Cmd
	ownsDir bool
	logFrom int64 // where this run's part of the log begins
	done    chan struct{}
}

// Start starts a server and returns when it replies to PING. If the process exits first, the error has the end of its log.
func Start(o Options) (*Server, error) {
	if o.Server == "" {
		o.Server = os.Getenv("VALKEY_SERVER")
	}
	if o.Server == "" {
		return nil, ErrNoServer
	}
	if o.Module != "" {
		abs, err := filepath.Abs(o.Module)
		if err != nil {
			return nil, err
		}
		o.Module = abs
	}

	dir, ownsDir := o.Dir, o.Dir == ""
	if ownsDir {
		var err error
		// Short, because the path of a unix socket is limited to about a hundred bytes.
		if dir, err = os.MkdirTemp("", "emq"); err != nil {
			return nil, err
		}
	}

	var err error
	for range portTries {
		s := &Server{Dir: dir, Socket: filepath.Join(dir, socketName), ownsDir: ownsDir}
		if err = s.start(o); err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	if ownsDir {
		_ = os.RemoveAll(dir)
	}
	return nil, err
}

func (s *Server) start(o Options) error {
	var err error
	if s.port = o.Port; s.port == 0 {
		if s.port, err = freePort(); err != nil {
			return err
		}
	}

	logPath := filepath.Join(s.Dir, logName)
	// The server's own log and its standard streams go to the same file.
	out, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	if info, err := out.Stat(); err == nil {
		s.logFrom = info.Size()
	}
	_ = os.Remove(s.Socket)

	args := s.arguments(o, logPath)
	if o.Sentinel != nil {
		if args, err = s.sentinelArguments(o, logPath); err != nil {
			return err
		}
	}
	s.cmd = exec.Command(o.Server, args...)
	s.cmd.Dir, s.cmd.Env = s.Dir, append(os.Environ(), o.Env...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	s.cmd.SysProcAttr = spawn.Attributes()
	if err := spawn.Start(s.cmd); err != nil {
		return fmt.Errorf("start %s: %w", o.Server, err)
	}
	s.done = make(chan struct{})
	go func() {
		_ = s.cmd.Wait() // the state is read from the process
		close(s.done)
	}()

	deadline := time.Now().Add(startWait)
	for {
		if s.answers() {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("the server ended before it answered (%s); its log ends:\n%s", s.cmd.ProcessState, s.logTail())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			_ = s.Kill()
			return fmt.Errorf("the server did not answer within %s; its log ends:\n%s", startWait, s.logTail())
		}
	}
}

func (s *Server) arguments(o Options, logPath string) []string {
	args := []string{
		"--port", strconv.Itoa(s.port),
		"--bind", "127.0.0.1",
		"--unixsocket", s.Socket,
		"--dir", s.Dir,
		"--logfile", logPath,
		"--save", "",
		"--appendonly", "no",
		"--repl-diskless-sync-delay", "0",
		"--enable-debug-command", "yes",
		"--enable-module-command", "yes",
	}
	args = append(args, o.Args...)
	if o.Module != "" {
		args = append(args, "--loadmodule", o.Module)
		args = append(args, o.ModuleArgs...)
	}
	if o.Module != "" && o.Still {
		args = append(args, pumpOff...)
	}
	return args
}

// sentinelArguments writes the configuration file that a Sentinel must have, and later rewrites itself.
func (s *Server) sentinelArguments(o Options, logPath string) ([]string, error) {
	path := filepath.Join(s.Dir, "sentinel.conf")
	lines := append([]string{
		"port " + strconv.Itoa(s.port), "bind 127.0.0.1", "unixsocket " + s.Socket, "dir " + s.Dir, "logfile " + logPath,
	}, o.Sentinel...)
	return []string{path, "--sentinel"}, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
}

// answers reports whether the server is up and has loaded its data. It connects to the unix socket, which no other
// process can have bound.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("unix", s.Socket, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && !strings.HasPrefix(line, "-LOADING")
}

// Port is the port on which the server listens, Addr the host:port.
func (s *Server) Port() int    { return s.port }
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Pid is the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Signal sends a signal to the process.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Wait waits for the process to end and returns its state; it is an error if it is still running after the limit.
func (s *Server) Wait(limit time.Duration) (*os.ProcessState, error) {
	select {
	case <-s.done:
		return s.cmd.ProcessState, nil
	case <-time.After(limit):
		return nil, fmt.Errorf("the server with pid %d still runs after %s", s.Pid(), limit)
	}
}

// Stop asks the server to shut down and waits for that. It is an error if the exit code is not 0, or if the server does
// not end in time and is killed. The folder stays.
func (s *Server) Stop() error {
	select {
	case <-s.done:
	default:
		if err := s.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	state, err := s.Wait(stopWait)
	if err != nil {
		return errors.Join(err, s.Kill())
	}
	if state.ExitCode() != 0 {
		return fmt.Errorf("the server ended with %s; its log ends:\n%s", state, s.logTail())
	}
	return nil
}

// Kill kills the process, as a crash would, and waits until it is gone. The folder stays.
func (s *Server) Kill() error {
	if err := s.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_, err := s.Wait(stopWait)
	return err
}

// Close stops the server if it still runs, and removes the folder if Start made it. It returns the same errors as Stop.
func (s *Server) Close() error {
	err := s.Stop()
	if s.ownsDir {
		err = errors.Join(err, os.RemoveAll(s.Dir))
	}
	return err
}

// Log is all that this run of the server has logged or written to its standard streams.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.Dir, logName))
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	return string(b[min(s.logFrom, int64(len(b))):])
}

func (s *Server) logTail() string {
	log := s.Log()
	return log[max(0, len(log)-logTailLen):]
}

// freePort returns a port that was free a moment ago; Start tries again if another process takes it first.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
