package conformance

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// programs are the files that a page has its reader write.
func programs(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)`([a-z]+\\.[a-z]+)`:\n\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		files[m[1]] = m[2]
	}
	return files
}

// What the pages have their reader type works, as they say.
func TestPages(t *testing.T) {
	all := map[string]client{}
	for _, c := range clients(t) {
		all[c.name] = c
	}
	for _, tt := range []struct {
		client, page, worker, producer string
	}{
		{"redis-py 4, threads", "../../docs/clients-python.md", "worker.py", "produce.py"},
		{"redis-py 6, threads", "../../docs/clients-python.md", "worker.py", "produce.py"},
		{"iovalkey", "../../docs/clients-node.md", "worker.mjs", "produce.mjs"},
		{"ioredis", "../../docs/clients-node.md", "worker.mjs", "produce.mjs"},
	} {
		t.Run(tt.client, func(t *testing.T) {
			c := all[tt.client]
			c.need(t)
			t.Parallel()
			files := programs(t, tt.page)
			require.LessOrEqual(t, strings.Count(files[tt.worker], "\n"), 25, "the lines of a worker")
			p := newProject(t, c, files)
			worker := p.start(tt.worker)
			p.run(tt.producer)
			conn := p.server.Conn()
			store.WaitFor(t, "the last mails to be in hand", func() bool {
				figures := wire.Value(conn.Do(queue.Stats()...)).([]any)
				return strings.Contains(worker.String(), "later@") && figures[1] == int64(0) && figures[5] == int64(0)
			})
			worker.stop(t)
			require.Contains(t, worker.String(), "sent to busy@example.org", "what was begun is finished")
			require.Regexp(t, `completed[=:] ?4,\s+retried[=:] ?1,\s+died[=:] ?1,\s+snoozed[=:] ?0,\s+dropped[=:] ?0,\s+returned[=:] ?0,\s+lost[=:] ?0`, worker.String())
			require.Equal(t, "4", wire.Value(conn.Do("HGET", queue.Completed(), "count")))
			dead := wire.Value(conn.Do("ZRANGE", queue.Dead(), "0", "-1")).([]any)
			require.Len(t, dead, 1)
			require.Equal(t, "no address", wire.Value(conn.Do("HGET", queue.Row(dead[0].(string)), "last_error")))
		})
	}
	t.Run("README", func(t *testing.T) {
		c := all["redis-py 4, threads"]
		c.need(t)
		t.Parallel()
		worker := newProject(t, c, programs(t, "../../README.md")).start("hello.py")
		store.WaitFor(t, "the mail to be sent", func() bool { return strings.Contains(worker.String(), "sent to ann@example.org") })
		worker.stop(t)
		require.Contains(t, worker.String(), "completed=1,")
	})
	t.Run("asyncio", func(t *testing.T) {
		c := all["redis-py 6, asyncio"]
		c.need(t)
		t.Parallel()
		p := newProject(t, c, programs(t, "../../docs/clients-python.md"))
		worker := p.start("aworker.py")
		store.WaitFor(t, "all pages to be read", func() bool { return strings.Count(worker.String(), "read page") == 10 })
		worker.stop(t)
		require.Contains(t, worker.String(), "completed=10,")
	})
}

// project is a folder with the files of a page, and a server.
type project struct {
	t      *testing.T
	c      client
	dir    string
	server *store.Place
}

func newProject(t *testing.T, c client, files map[string]string) *project {
	t.Helper()
	p := &project{t: t, c: c, dir: t.TempDir(), server: store.Open(t, store.Pumped("--emq.pump-interval-ms", "10"))}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600))
	}
	if c.argv[0] == "node" { // what npm install makes
		node, err := filepath.Abs("../node")
		require.NoError(t, err)
		modules := filepath.Join(p.dir, "node_modules")
		require.NoError(t, os.MkdirAll(filepath.Join(modules, "emq"), 0o700))
		require.NoError(t, os.CopyFS(filepath.Join(modules, "emq", "lib"), os.DirFS(filepath.Join(node, "lib"))))
		for _, name := range []string{"index.js", "package.json"} {
			text, err := os.ReadFile(filepath.Join(node, name))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(modules, "emq", name), text, 0o600))
		}
		require.NoError(t, os.Symlink(filepath.Join(node, "node_modules", c.name), filepath.Join(modules, c.name)))
	}
	return p
}

func (p *project) command(file string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, p.c.argv[0], file)
	cmd.Dir = p.dir
	cmd.Env = append(append(os.Environ(), p.c.env...), "EMQ_URL=valkey://"+p.server.Addr())
	return cmd
}

func (p *project) run(file string) {
	p.t.Helper()
	out, err := p.command(file).CombinedOutput()
	require.NoError(p.t, err, "%s: %s", file, out)
}

// process is a running program of a project, and what it prints.
type process struct {
	cmd *exec.Cmd
	sync.Mutex
	out bytes.Buffer
}

func (p *project) start(file string) *process {
	p.t.Helper()
	r := &process{cmd: p.command(file)}
	r.cmd.Stdout, r.cmd.Stderr = r, r
	require.NoError(p.t, r.cmd.Start())
	return r
}

func (r *process) Write(b []byte) (int, error) {
	r.Lock()
	defer r.Unlock()
	return r.out.Write(b)
}

func (r *process) String() string {
	r.Lock()
	defer r.Unlock()
	return r.out.String()
}

// stop tells the program to stop, and it ends well.
func (r *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, r.cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, r.cmd.Wait(), "%s", r)
}

// The types of the Node package are right, as a program that uses them sees it.
func TestTypes(t *testing.T) {
	c := client{name: "ioredis", argv: []string{"node", "../node/node_modules/typescript/bin/tsc", "--version"}}
	c.need(t)
	p := newProject(t, c, nil)
	modules := filepath.Join(p.dir, "node_modules")
	node, err := filepath.Abs("../node")
	require.NoError(t, err)
	for from, to := range map[string]string{"index.d.ts": "node_modules/emq/index.d.ts", "types.ts": "types.ts"} {
		text, err := os.ReadFile(filepath.Join(node, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, to), text, 0o600))
	}
	require.NoError(t, os.Symlink(filepath.Join(node, "node_modules", "@types"), filepath.Join(modules, "@types")))
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	cmd := p.command(filepath.Join(node, "node_modules/typescript/bin/tsc"))
	cmd.Args = append(cmd.Args, "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022", "--preserveSymlinks", "types.ts")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
