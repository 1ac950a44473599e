package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

func TestPasswords(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	d = d.as("operator").with("EMQ_PASSWORD=")
	file := filepath.Join(d.home, "password")
	require.NoError(t, os.WriteFile(file, []byte("secret\n"), 0o600))
	url := "valkey://operator@" + d.p.Addr()

	require.Contains(t, d.ok("ls", "--password-file", file), "mails")
	require.Contains(t, d.with("EMQ_PASSWORD=secret").ok("ls", "--url", url), "mails")
	require.Contains(t, d.with("EMQ_URL=valkey://operator:secret@"+d.p.Addr()).ok("ls"), "mails")
	for _, args := range [][]string{{"ls", "--url", "valkey://operator:secret@" + d.p.Addr()}, {"context", "add", "x", "valkey://operator:secret@" + d.p.Addr()}} {
		r := d.emq(args...)
		require.Equal(t, 2, r.code)
		require.Contains(t, r.err, "a password in an argument can be read by everybody")
		require.NotContains(t, r.err, "secret")
	}
	wrong := d.with("EMQ_PASSWORD=nonsense").emq("ls")
	require.Equal(t, 4, wrong.code)
	require.Contains(t, wrong.err, "WRONGPASS")
	require.Equal(t, 2, d.emq("ls", "--password-file", "/none").code)

	// A password that is not escaped in a URL looks like other parts of it, which must not be printed either.
	for _, password := range []string{"hush/hush", "hush#hush", "hush?hush", "12/hush", "12#hush", "12?hush", "hush%zz", "hush hush", "12?password=hush", "hu\nsh"} {
		for _, server := range []string{"valkey://operator:" + password + "@127.0.0.1:1", "valkeys://:" + password + "@h", "unix://x:" + password + "@/s"} {
			for _, r := range []told{d.with("EMQ_URL=" + server).emq("ls"), d.emq("ls", "--url", server), d.emq("context", "add", "x", server),
				d.emq("move", "mails", "others", "--to-url", server), d.with("EMQ_URL="+server, "EMQ_PASSWORD=x").emq("doctor", "--json")} {
				require.NotZero(t, r.code)
				require.NotRegexp(t, `hush|hu.{0,4}sh`, r.out+r.err, "%q", server)
			}
		}
	}

	// On a terminal the command asks for it, and does not show it.
	s := d.terminal(nil, "ls")
	s.sees("Password of operator: ")
	s.types("secret\r")
	code, text := s.ends()
	require.Equal(t, 0, code, text)
	require.Contains(t, text, "mails")
	require.NotContains(t, text, "secret")

	// Ctrl-C restores the terminal.
	s = d.terminal(nil, "ls")
	s.sees("Password of operator: ")
	require.False(t, s.asFound())
	s.types("\x03")
	code, text = s.ends()
	require.Equal(t, 130, code, text)
	require.True(t, s.asFound())

	// A server that requires a password of everybody says so.
	d.c.Must("CONFIG SET requirepass sesame")
	all := d.with("EMQ_URL=unix://" + d.p.Socket)
	s = all.terminal(nil, "ls")
	s.sees("Password of the server: ")
	s.types("sesame\n")
	code, text = s.ends()
	require.Equal(t, 0, code, text)
	require.Contains(t, all.with("EMQ_PASSWORD=sesame").ok("ls"), "mails")
}

func TestContexts(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	server := "unix://" + d.p.Socket
	d = d.with("EMQ_URL=")
	require.Equal(t, told{0, "", "There are no contexts: \"emq context add NAME URL\" makes one.\n"}, d.emq("context", "ls"))
	require.Equal(t, told{0, "here is kept, and in use.\n", ""}, d.emq("context", "add", "here", server))
	require.Equal(t, 0, d.emq("context", "add", "there", "valkey://127.0.0.1:1", "--password-file", "pw").code, "the file may come later")
	info, err := os.Stat(filepath.Join(d.home, "emq", "config"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.Contains(t, d.ok("ls"), "mails")
	require.Equal(t, 4, d.with("EMQ_CONTEXT=there", "EMQ_PASSWORD=x").emq("ls", "--password-file", "/dev/null").code)
	require.Contains(t, d.with("EMQ_CONTEXT=there").ok("ls", "--context", "here"), "mails")
	require.Contains(t, d.with("EMQ_URL=valkey://127.0.0.1:1").ok("ls", "--context", "here"), "mails", "a flag goes before the environment")
	require.Equal(t, 4, d.emq("ls", "--url", "valkey://127.0.0.1:1").code)
	require.Equal(t, 2, d.emq("ls", "--url", server, "--context", "here").code)
	require.Equal(t, 3, d.emq("ls", "--context", "nowhere").code)
	require.Equal(t, 3, d.emq("context", "use", "nowhere").code)
	require.Equal(t, 3, d.emq("context", "rm", "nowhere").code)
	require.Equal(t, 2, d.emq("context", "add", "a b", server).code)
	require.Equal(t, 2, d.emq("context", "add", "x", "http://h").code)
	require.Equal(t, 0, d.emq("context", "use", "there").code)
	list := d.records("context", "ls")
	require.Equal(t, []any{"here", false, "there", true}, []any{list[0]["context"], list[0]["current"], list[1]["context"], list[1]["current"]})
	d.letters(8)
	require.Contains(t, d.ok("dead", "groups", "mails", "--context", "here"), "emq --context here dead requeue mails --group ")
	require.Equal(t, map[string]any{"context": "there", "url": nil, "current": false}, d.records("context", "rm", "there")[0])
	require.NoError(t, os.WriteFile(filepath.Join(d.home, "emq", "config"), []byte(`{"contexts":null}`), 0o600))
	require.Equal(t, 0, d.emq("context", "add", "first", server).code)

	// Concurrent additions are all kept.
	var all []*exec.Cmd
	for i := range 20 {
		all = append(all, d.command("context", "add", fmt.Sprint("c", i), server))
		require.NoError(t, all[i].Start())
	}
	for _, cmd := range all {
		require.NoError(t, cmd.Wait())
	}
	require.Len(t, d.records("context", "ls"), 21)
	require.NoError(t, os.WriteFile(filepath.Join(d.home, "emq", "config"), []byte("nonsense"), 0o600))
	require.Equal(t, 1, d.emq("ls").code)
}

// TestOutOfReach tries servers that do not exist, do not reply, or stop.
func TestOutOfReach(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	r := d.with("EMQ_URL=valkey://127.0.0.1:1").emq("ls")
	require.Equal(t, 4, r.code)
	require.Regexp(t, `\Aemq: valkey://127.0.0.1:1 can't be reached: .*refused\n\z`, r.err)
	for _, url := range []string{"http://h", "valkey://h/x", "valkey://h:x:y", "://"} {
		require.Equal(t, 2, d.with("EMQ_URL="+url).emq("ls").code, url)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	require.Equal(t, told{4, "", "emq: valkey://" + silent.Addr().String() + " can't be reached: no answer within 100ms\n"},
		d.with("EMQ_URL=valkey://"+silent.Addr().String()).emq("ls", "--timeout", "100ms"))
	require.Equal(t, 2, d.emq("ls", "--timeout", "0s").code)

	// A watch goes on when the server has come back.
	var out, errs buffer
	cmd := d.command("ls", "--watch", "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	store.WaitFor(t, "a record", func() bool { return strings.Contains(out.String(), `"pending":1`) })
	require.NoError(t, d.p.Kill())
	store.WaitFor(t, "the loss to be told", func() bool { return strings.HasPrefix(errs.String(), "emq: ") })
	d.p.Start()
	c := d.p.Conn()
	c.Do(mails.Menqueue("JOB1", "x", "JOB2", "x")...)
	store.WaitFor(t, "a record of the new server", func() bool { return strings.Contains(out.String(), `"pending":2`) })
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 0, code(t, cmd.Wait()))
}

// TestDiskFull has a server that refuses even PING because it can't write to its disk: its data are shown nevertheless.
func TestDiskFull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	d := sit(t, "--dir", dir, "--save", "3600 1000")
	d.must(mails.Enqueue("JOB1", "x"))
	require.NoError(t, os.RemoveAll(dir))
	c := d.p.Conn()
	c.Do("BGSAVE")
	store.WaitFor(t, "the snapshot to fail", func() bool { return strings.HasPrefix(c.Do("PING"), "-MISCONF") })
	require.Contains(t, d.ok("ls"), "mails")
	require.Contains(t, d.emq("doctor").out, "persistence: the last snapshot failed: writes are refused")
	c.Must(`CONFIG SET save ""`) // it could not end otherwise
}

// TestRights has users without the needed rights: the command says what they lack, and nothing is changed.
func TestRights(t *testing.T) {
	d := sit(t)
	ids := d.letters(8)
	d.c.Must("ACL SETUSER nobody on >secret +hello +ping", "ACL SETUSER looks on >secret +hello +ping +emq.stats +emq.queues +zrange +zcard +zlexcount +hmget +hstrlen %R~emq:*")
	before := d.p.Keyspace()
	nobody, looks := d.with("EMQ_URL=valkey://nobody:secret@"+d.p.Addr()), d.with("EMQ_URL=valkey://looks:secret@"+d.p.Addr())
	for _, args := range [][]string{{"ls"}, {"peek", "mails"}, {"show", "mails", ids[0]}, {"dead", "groups", "mails"}, {"pause", "mails"}, {"audit", "mails"}, {"find", ids[0]},
		{"rm", "mails", ids[0], "--yes"}} {
		r := nobody.emq(args...)
		require.Equal(t, 1, r.code, "%q: %s", args, r.err)
		require.Contains(t, r.err, "NOPERM", "%q", args)
	}
	require.Equal(t, 1, nobody.emq("ls", "mails").code, "there is nothing to see")
	require.Regexp(t, `NOPERM .*: nothing was changed\n\z`, nobody.emq("dead", "rm", "mails", "--match", "x", "--yes").err)
	require.Equal(t, 3, nobody.emq("doctor").code, "what may not be looked at is unknown")
	looks.ok("dead", "groups", "mails")
	for _, args := range [][]string{{"dead", "requeue", "mails", "--all", "--yes"}, {"pause", "mails"}, {"limit", "mails", "--concurrency", "1"}, {"audit", "mails"}} {
		r := looks.emq(args...)
		require.Equal(t, 1, r.code, "%q: %s", args, r.err)
		require.Contains(t, r.err, "NOPERM", "%q", args)
	}
	require.Empty(t, before.Diff(d.p.Keyspace()))
}

// TestTLS connects to a server that accepts only TLS and requires client certificates.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	require.NoError(t, l.Close())
	d := sit(t, "--tls-port", port, "--tls-cert-file", file("cert"), "--tls-key-file", file("key"), "--tls-ca-cert-file", file("cert"))
	d.must(mails.Enqueue("JOB1", "x"))
	d = d.with("EMQ_URL=valkeys://127.0.0.1:" + port)
	tls := []string{"ls", "--tls-ca", file("cert"), "--tls-cert", file("cert"), "--tls-key", file("key")}
	require.Contains(t, d.ok(tls...), "mails")
	for _, n := range []int{1, 3} { // without an authority, without a certificate
		require.Equal(t, 4, d.emq(tls[:n]...).code)
	}
	require.Equal(t, 2, d.emq("ls", "--tls-ca", "/none").code)
	require.Equal(t, 2, d.emq("ls", "--tls-ca", file("key")).code)
	require.Equal(t, 2, d.emq("ls", "--tls-cert", file("cert")).code)
	require.Equal(t, 2, d.with("EMQ_URL=valkey://127.0.0.1:"+port).emq(tls...).code)
}

// certificate writes a key and a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T, dir string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "emq"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	require.NoError(t, err)
	bytes, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert}, "key": {Type: "EC PRIVATE KEY", Bytes: bytes}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
}

// TestNoQueues has servers that have no queues to list, one without the module and one of another wire: no queue is
// reported as empty, and no command succeeds.
func TestNoQueues(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	d.c.Must("SET {emq}:version echomq:4.0.0")
	plain := store.Open(t, store.Plain())
	for server, class := range map[*desk]string{d: "EMQFENCE", d.with("EMQ_URL=unix://" + plain.Socket): "ERR unknown command"} {
		for _, args := range [][]string{{"ls"}, {"ls", "mails"}, {"peek", "mails"}, {"dead", "groups", "mails"}, {"dead", "ls", "mails"}, {"export", "mails"},
			{"export", "--all"}, {"dead", "requeue", "mails", "--all", "--yes"}, {"dead", "rm", "mails", "--match", "x", "--yes"}, {"audit", "mails"}} {
			r := server.emq(args...)
			require.Equal(t, 1, r.code, "%q: %s%s", args, r.out, r.err)
			require.Contains(t, r.err, class, "%q", args)
		}
	}
}

// TestReplica sends changes to a replica: each command fails at once and names the primary. A worker waits until the
// replica becomes the primary.
func TestReplica(t *testing.T) {
	d := sit(t)
	replica := store.Serve(t, store.Following(d.p.Addr())...)
	replica.Linked()
	id := d.letters(1)[0]
	e := d.with("EMQ_URL=unix://" + replica.Socket)
	store.WaitFor(t, "the job to be there", func() bool { return strings.Contains(e.emq("ls").out, "mails") })
	refusal := "the server refused: it is a replica of " + d.p.Addr() + ", and takes no changes: name the primary, by --url or a context, or Sentinels that know it"
	for _, args := range [][]string{{"pause", "mails"}, {"limit", "mails", "--none"}, {"enqueue", "mails", "x"}, {"dead", "requeue", "mails", id}, {"rm", "mails", id, "--yes"},
		{"audit", "mails"}, {"move", "mails", "new", "--yes"}, {"move", "mails", "new", "--to-url", "valkey://" + d.p.Addr(), "--yes"}} {
		r := e.emq(args...)
		require.Equal(t, exitRefused, r.code, args)
		require.Contains(t, r.err, refusal, args)
		require.NotContains(t, r.err, "it becomes", args)
	}
	r := e.fed("x\n", "enqueue", "mails", "--raw")
	require.Equal(t, "emq: lines 1 to 1: "+refusal+": 0 lines until then, of which 0 enqueued and 0 there already\n", r.err)
	r = d.emq("move", "mails", "mails", "--to-url", "unix://"+replica.Socket, "--yes")
	require.Equal(t, exitRefused, r.code)
	require.Contains(t, r.err, refusal)
	require.Equal(t, map[string]int64{"dead": 1}, d.sizes(mails), "the job is back")
	d.sound()

	d.must(mails.Enqueue("JOB1", "x"))
	w := e.begin(t, "work", "mails", "--", "true")
	store.WaitFor(t, "the reason", func() bool {
		return strings.Contains(w.err.String(), "the server is a replica, and takes no changes unless it becomes the primary")
	})
	replica.Conn().Must("REPLICAOF NO ONE")
	store.WaitFor(t, "the job to be done", func() bool { return replica.Conn().Do("HGET", mails.Completed(), "count") == wire.Bulk("1") })
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())
}
