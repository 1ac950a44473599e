package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	emq "emq/clients/go"
	"emq/operator"
)

// app is one run of the command: its streams, and the global flags.
type app struct {
	in       io.Reader
	out, err io.Writer

	json    bool
	timeout time.Duration
	connection

	yes, dryRun bool // of commands with app.bulk

	waits bool     // keep trying while the server is a replica, until it becomes the primary
	quiet bool     // never ask for a password
	link  emq.Conn // made by app.conn
	bar   *progressbar.ProgressBar
}

func (a *app) flags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print one JSON record a line")
	f.DurationVar(&a.timeout, "timeout", 5*time.Second, "how long to try to connect")
	a.connection.flags(root)
}

// bulk gives a command that removes or moves jobs the flags that go with app.confirm.
func (a *app) bulk(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVarP(&a.yes, "yes", "y", false, "do not ask; needed where there is no terminal")
	cmd.Flags().BoolVar(&a.dryRun, "dry-run", false, "tell what would be done, and change nothing")
	return cmd
}

// close ends the connection, if there is one.
func (a *app) close() {
	if a.link != nil {
		a.link.Close()
	}
}

// client is the server as clients/go sees it: for gates, enqueueing, workers.
func (a *app) client(ctx context.Context) (*emq.Client, error) {
	c, err := a.conn(ctx)
	if err != nil {
		return nil, err
	}
	return emq.Use(c), nil
}

// server is the server as package operator sees it: for figures, jobs, groups, bulk work, checks.
func (a *app) server(ctx context.Context) (*operator.Server, error) {
	c, err := a.conn(ctx)
	if err != nil {
		return nil, err
	}
	return operator.New(c), nil
}

// terminal reports whether a stream is a terminal.
func terminal(stream any) bool {
	f, ok := bare(stream).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
