package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"emq/operator"
	"emq/operator/web"
)

func newWeb(a *app) *cobra.Command {
	var w webFlags
	cmd := &cobra.Command{
		Use:   "web",
		Short: "serve a page that shows the queues, and puts their jobs in order",
		Long: `Serves a page on which the queues and their jobs can be seen, found, requeued and removed. By default only this machine reaches
it, and whoever does may do all that the server lets this user do: what its ACL does not allow, the page can't.

To let others in, name who they are: --auth-file has a line user:role:bcrypt for each, as "htpasswd -nbB" writes it with a
role between, viewer or operator; or a proxy that knows them sets --trusted-header, and --role gives their roles. The page
speaks plain HTTP: over a network it belongs behind a proxy with TLS.`,
		Example: `  emq web
  emq web --read-only --listen :8080 --auth-file /etc/emq/users
  emq web --trusted-header X-Forwarded-User --role '*=viewer' --role ann=operator --base-path /queues`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return w.run(cmd.Context(), a) },
	}
	f := cmd.Flags()
	f.StringVar(&w.listen, "listen", "127.0.0.1:8080", "the address of the page")
	f.StringVar(&w.base, "base-path", "", "where the page is, if a proxy serves it below: /queues")
	f.StringVar(&w.title, "title", "", "what the page is called")
	f.BoolVar(&w.readOnly, "read-only", false, "nobody changes anything")
	f.StringVar(&w.authFile, "auth-file", "", "a file with a line user:role:bcrypt for each who may come in")
	f.StringVar(&w.header, "trusted-header", "", "a header in which a proxy names the user")
	f.StringArrayVar(&w.roles, "role", nil, "with --trusted-header: USER=viewer or USER=operator; * is everybody else")
	f.StringSliceVar(&w.hosts, "host", nil, "the names under which the page is served; requests to others are refused")
	f.BoolVar(&w.insecure, "insecure", false, "serve others than this machine although nobody is asked who he is")
	cmd.MarkFlagsMutuallyExclusive("auth-file", "trusted-header")
	return cmd
}

type webFlags struct {
	listen, base, title, authFile, header string
	roles, hosts                          []string
	readOnly, insecure                    bool
}

func (w *webFlags) run(ctx context.Context, a *app) error {
	o := web.Options{Title: w.title, BasePath: w.base, ReadOnly: w.readOnly, Hosts: w.hosts, Logger: slog.New(slog.NewTextHandler(a.err, nil))}
	var err error
	if o.Auth, err = w.auth(); err != nil {
		return err
	}
	host, _, err := net.SplitHostPort(w.listen)
	if err != nil {
		return usage("--listen: %w", err)
	}
	near := local(host)
	switch {
	case o.Auth == nil && !near && !w.insecure:
		return usage("--listen %s lets others than this machine in, and nobody asks who they are: give --auth-file, or --trusted-header behind a proxy, or --insecure", printable(w.listen))
	case o.Auth == nil && !near:
		fmt.Fprintln(a.err, "emq: whoever reaches this page may do all that it can do: nobody is asked who he is"+unnamed(w.hosts))
	case w.header != "" && len(w.hosts) == 0:
		fmt.Fprintln(a.err, "emq: whoever reaches this page past the proxy is who he says he is"+unnamed(nil))
	case o.Auth == nil && len(o.Hosts) == 0 && near:
		o.Hosts = []string{"localhost", "127.0.0.1", "[::1]", "::1", host} // no foreign name can be made to point here
	}
	a.waits = true
	c, err := a.conn(ctx)
	if err != nil {
		return err
	}
	if place, err := a.resolve(); err == nil {
		o.CLI = place.valkeyCLI()
	}
	page := web.New(operator.New(c), o)
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- page.Run(running) }()
	err = a.serve(ctx, w.listen, strings.TrimSuffix("/"+strings.Trim(w.base, "/"), "/")+"/", page)
	stop()
	if failed := <-ended; err == nil && ctx.Err() == nil {
		err = failed
	}
	return err
}

// unnamed warns of the risk of a page that is served under any name.
func unnamed(hosts []string) string {
	if len(hosts) > 0 {
		return ""
	}
	return "; so may any site do that he visits, by a name that it points here: give the page's own by --host"
}

// auth decides who may view; nil means everybody.
func (w *webFlags) auth() (web.Auth, error) {
	switch {
	case w.authFile != "":
		f, err := os.Open(w.authFile)
		if err != nil {
			return nil, usage("--auth-file: %w", err)
		}
		defer f.Close()
		auth, err := web.Basic(f)
		if err != nil {
			return nil, usage("--auth-file: %w", err)
		}
		return auth, nil
	case w.header == "" && len(w.roles) > 0:
		return nil, usage("--role goes with --trusted-header")
	case w.header == "":
		return nil, nil
	}
	roles := map[string]web.Role{}
	for _, r := range w.roles {
		user, name, _ := strings.Cut(r, "=")
		role, err := web.ParseRole(name)
		if user == "" {
			err = errors.New("nobody is named")
		}
		if err != nil {
			return nil, usage("--role %s: %w", printable(r), err)
		}
		roles[user] = role
	}
	if len(roles) == 0 {
		return nil, usage("--trusted-header needs a --role: without one nobody may come in")
	}
	return web.Header(w.header, roles), nil
}

// local reports whether an address can be reached only from this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// valkeyCLI is valkey-cli with the options for a server.
func (p place) valkeyCLI() string {
	u, err := url.Parse(p.URL)
	if err != nil {
		return "valkey-cli"
	}
	line := "valkey-cli"
	switch u.Scheme {
	case "unix":
		return line + " -s " + shell(u.Path)
	case "valkeys", "rediss":
		line += " --tls"
	}
	if h := u.Hostname(); h != "" && h != "127.0.0.1" {
		line += " -h " + shell(h)
	}
	if port := u.Port(); port != "" && port != "6379" {
		line += " -p " + shell(port)
	}
	if user := u.User.Username(); user != "" {
		line += " --user " + shell(user)
	}
	if db := strings.Trim(u.Path, "/"); db != "" && db != "0" {
		line += " -n " + shell(db)
	}
	return line
}
