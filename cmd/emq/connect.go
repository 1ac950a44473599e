package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"github.com/valkey-io/valkey-go"
	"golang.org/x/term"

	emq "emq/clients/go"
	"emq/operator"
)

// place is how to reach a server, from flags or from a context in the file.
type place struct {
	URL          string `json:"url"`
	PasswordFile string `json:"password_file,omitempty"`
	TLSCA        string `json:"tls_ca,omitempty"`
	TLSCert      string `json:"tls_cert,omitempty"`
	TLSKey       string `json:"tls_key,omitempty"`
}

const defaultURL = "valkey://127.0.0.1:6379"

// connection has the global flags that say where the server is.
type connection struct {
	place
	context      string
	passwordFrom string // the environment variable, if it is not EMQ_PASSWORD
}

func (c *connection) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&c.URL, "url", "", "the server: valkey[s]://[user@]host:port/db, unix://path, or Sentinels; $EMQ_URL (default \""+defaultURL+"\")")
	f.StringVar(&c.context, "context", "", "a server of \"emq context\"; $EMQ_CONTEXT")
	c.place.flags(root)
	_ = root.RegisterFlagCompletionFunc("context", completeContexts)
}

// flags adds the flags that a context stores beside its URL.
func (p *place) flags(cmd *cobra.Command) {
	f := cmd.PersistentFlags()
	f.StringVar(&p.PasswordFile, "password-file", "", "a file with the password; or $EMQ_PASSWORD; else it is asked for")
	f.StringVar(&p.TLSCA, "tls-ca", "", "a file with the certificates of authorities, beside valkeys://")
	f.StringVar(&p.TLSCert, "tls-cert", "", "a file with the client's certificate")
	f.StringVar(&p.TLSKey, "tls-key", "", "a file with its key")
}

// resolve returns the place that flags, environment and contexts name, in this order: --url, --context, $EMQ_URL,
// $EMQ_CONTEXT, the context in use.
func (c *connection) resolve() (place, error) {
	p := c.place
	switch name := cmp.Or(c.context, os.Getenv("EMQ_CONTEXT")); {
	case p.URL != "" && c.context != "":
		return p, usage("--url and --context both name a server: give one")
	case p.URL != "":
		return p, withoutPassword(p.URL)
	case c.context == "" && os.Getenv("EMQ_URL") != "":
		p.URL = os.Getenv("EMQ_URL")
		return p, nil
	default:
		file, err := readContexts()
		if err != nil {
			return p, err
		}
		if name = cmp.Or(name, file.Current); name == "" {
			p.URL = defaultURL
			return p, nil
		}
		named, ok := file.Contexts[name]
		if !ok {
			return p, absent("there is no context %s; \"emq context ls\" lists them", printable(name))
		}
		return place{named.URL, cmp.Or(p.PasswordFile, named.PasswordFile), cmp.Or(p.TLSCA, named.TLSCA),
			cmp.Or(p.TLSCert, named.TLSCert), cmp.Or(p.TLSKey, named.TLSKey)}, nil
	}
}

// withoutPassword refuses a URL with a password as an argument, because everybody on the machine could read it there.
func withoutPassword(text string) error {
	u, _, err := parseURL(text)
	if err != nil {
		return err
	}
	if _, has := u.User.Password(); has {
		return usage("a password in an argument can be read by everybody on this machine, and stays in the shell's history: " +
			"give the URL without it, and the password in $EMQ_PASSWORD, by --password-file, or when asked")
	}
	return nil
}

// parseURL is [emq.ParseURL], a fault of which is one of the command line's.
func parseURL(text string) (u *url.URL, o valkey.ClientOption, err error) {
	if u, o, err = emq.ParseURL(text); err != nil {
		err = usage("%w", err)
	}
	return u, o, err
}

// option returns valkey-go's options for a place.
func (p place) option(ctx context.Context, a *app) (o valkey.ClientOption, err error) {
	if _, o, err = parseURL(p.URL); err != nil {
		return o, err
	}
	o.Dialer.Timeout = a.timeout
	o.ClientName = cmp.Or(o.ClientName, "emq-command")
	if err := p.secure(&o); err != nil {
		return o, err
	}
	o.Sentinel.Password, o.Sentinel.ClientName = os.Getenv("EMQ_SENTINEL_PASSWORD"), o.ClientName
	switch {
	case p.PasswordFile != "":
		text, err := os.ReadFile(p.PasswordFile)
		if err != nil {
			return o, usage("the password can't be read: %w", err)
		}
		o.Password = string(bytes.TrimRight(text, "\r\n"))
	case o.Password == "":
		if o.Password = os.Getenv(cmp.Or(a.passwordFrom, "EMQ_PASSWORD")); o.Password == "" && o.Username != "" {
			o.Password, err = a.askPassword(ctx, o.Username)
		}
	}
	return o, err
}

// secure sets certificates, and uses TLS for Sentinels too. The name in a server's certificate must be that of the
// dialed address.
func (p place) secure(o *valkey.ClientOption) error {
	if o.TLSConfig == nil {
		if p.TLSCA+p.TLSCert+p.TLSKey != "" {
			return usage("--tls-ca, --tls-cert and --tls-key go with a URL of valkeys://")
		}
		return nil
	}
	o.TLSConfig.ServerName = ""
	if p.TLSCA != "" {
		text, err := os.ReadFile(p.TLSCA)
		if err != nil {
			return usage("--tls-ca: %w", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return usage("--tls-ca: no certificate in %s", p.TLSCA)
		}
	}
	if p.TLSCert+p.TLSKey != "" {
		pair, err := tls.LoadX509KeyPair(p.TLSCert, p.TLSKey)
		if err != nil {
			return usage("--tls-cert, --tls-key: %w", err)
		}
		o.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	o.Sentinel.TLSConfig = o.TLSConfig
	return nil
}

// askPassword asks on the terminal; without a terminal there is no password.
func (a *app) askPassword(ctx context.Context, user string) (string, error) {
	if a.quiet {
		return "", nil
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", nil
	}
	defer tty.Close()
	fd := int(tty.Fd())
	before, err := term.MakeRaw(fd) // for all of it: what is typed before the prompt is not shown, and Ctrl-C not lost
	if err != nil {
		return "", err
	}
	type typed struct {
		text string
		err  error
	}
	answer := make(chan typed, 1)
	go func() {
		text, err := term.NewTerminal(tty, "").ReadPassword("Password of " + printable(user) + ": ")
		if err == io.EOF { // at Ctrl-C and Ctrl-D
			err = failure(exitInterrupted, "interrupted")
		}
		answer <- typed{text, err}
	}()
	var said typed
	select {
	case <-ctx.Done():
		said.err = context.Cause(ctx) // the read goes on
	case said = <-answer:
	}
	return said.text, errors.Join(said.err, term.Restore(fd, before))
}

// conn is the connection to the server, after a first reply. It is made at the first call and closed at the end of the run.
func (a *app) conn(ctx context.Context) (emq.Conn, error) {
	if a.link != nil {
		return a.link, nil
	}
	if a.timeout <= 0 {
		return nil, usage("--timeout is more than 0")
	}
	p, err := a.resolve()
	if err != nil {
		return nil, err
	}
	o, err := p.option(ctx, a)
	if err != nil {
		return nil, err
	}
	for {
		c := reached{emq.Dial(o), a.err, a.waits || o.Sentinel.MasterSet != "", new(sync.Once)}
		hello, cancel := context.WithTimeout(ctx, a.timeout)
		_, err := c.Do(hello, "PING")
		cancel()
		refusal := new(emq.Error)
		switch {
		case operator.Answers(err):
			a.link = c
			return c, nil
		case ctx.Err() != nil:
			c.Close()
			return nil, err
		case errors.As(err, &refusal) && refusal.Class() == "NOAUTH" && o.Password == "":
			c.Close()
			if o.Password, err = a.askPassword(ctx, "the server"); err != nil {
				return nil, err
			} else if o.Password == "" {
				return nil, failure(exitUnreachable, "%s wants a password: $EMQ_PASSWORD, --password-file, or a terminal to be asked on: %w", p, refusal)
			}
			continue
		}
		c.Close()
		if errors.Is(err, errNoAnswer) {
			err = fmt.Errorf("no answer within %s", a.timeout)
		}
		return nil, failure(exitUnreachable, "%s can't be reached: %w", p, err)
	}
}

// String is the URL without its password.
func (p place) String() string {
	u, _, err := parseURL(p.URL)
	if err != nil {
		return "the server"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return printable(u.String())
}

// reached is a connection that distinguishes refusals by the server from the loss of the server.
type reached struct {
	emq.Conn
	err io.Writer
	// waits is true for commands that keep trying, like a client, until a replica becomes the primary or Sentinels name
	// another server; the notice about it is printed once. Other commands fail at once and name the server to use.
	waits bool
	once  *sync.Once
}

func (r reached) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	reply, err := r.Conn.Do(ctx, args...)
	if err == nil || errors.As(err, new(*emq.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, emq.ErrClosed) {
		switch {
		case !isClass(err, "READONLY"):
		case !r.waits:
			return reply, r.replica(ctx)
		default:
			r.once.Do(func() {
				fmt.Fprintln(r.err, "emq: the server is a replica, and takes no changes unless it becomes the primary")
			})
		}
		return reply, err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = errNoAnswer
	}
	return reply, failure(exitUnreachable, "%w", err)
}

// replica is the refusal of a replica. Its class is one that no client retries.
func (r reached) replica(ctx context.Context) error {
	of := ""
	if reply, err := r.Conn.Do(ctx, "INFO", "replication"); err == nil {
		if info := operator.Info(reply.Str); info["master_host"] != "" {
			of = " of " + net.JoinHostPort(info["master_host"], info["master_port"])
		}
	}
	return &emq.Error{Text: "it is a replica" + of + ", and takes no changes: name the primary, by --url or a context, or Sentinels that know it"}
}

// errNoAnswer is the error of a server that can be reached but hangs.
var errNoAnswer = errors.New("the server does not answer")
