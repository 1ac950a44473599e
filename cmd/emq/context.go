package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
)

func newContext(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "servers by names of your own",
		Long: `A context is a server's URL under a name, and the files of its password and certificates. --context or $EMQ_CONTEXT names
one; the one in use is meant where nothing else is said. They are kept in $XDG_CONFIG_HOME/emq/config, which is yours
alone. Passwords are not: they come from $EMQ_PASSWORD, from a file, or are asked for.`,
		Example: `  emq context add prod valkeys://operator@queues.example.org:6379 --tls-ca ca.pem
  emq context add ha 'valkey://s1:26379?addr=s2:26379&master_set=mymaster'
  emq context use prod
  emq --context ha ls`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	named := regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	// changing is a command that changes the file.
	changing := func(use, short, example string, args int, change func(c *contexts, args []string) (string, error)) *cobra.Command {
		complete := func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeContexts(cmd, args, begun)
		}
		return &cobra.Command{Use: use, Short: short, Example: example, Args: cobra.ExactArgs(args), ValidArgsFunction: complete,
			RunE: func(_ *cobra.Command, args []string) error {
				unlock, err := lockContexts()
				if err != nil {
					return err
				}
				defer unlock()
				c, err := readContexts()
				if err != nil {
					return err
				}
				text, err := change(&c, args)
				if err != nil {
					return err
				}
				if err := c.write(); err != nil {
					return err
				}
				if a.json {
					return a.emit(contextRecord(c, args[0]))
				}
				fmt.Fprintln(a.out, text)
				return nil
			}}
	}
	known := func(c *contexts, name string) error {
		if _, ok := c.Contexts[name]; !ok {
			return absent("there is no context %s; \"emq context ls\" lists them", printable(name))
		}
		return nil
	}
	cmd.AddCommand(
		changing("add NAME URL", "keep a server under a name, or change it",
			"  emq context add prod valkeys://operator@queues.example.org:6379 --tls-ca ca.pem --password-file ~/.emq-password", 2,
			func(c *contexts, args []string) (string, error) {
				p := a.place
				if p.URL != "" || a.context != "" {
					return "", usage("the server is an argument here: emq context add NAME URL")
				}
				p.URL = args[1]
				if !named.MatchString(args[0]) {
					return "", usage("%q is no name: letters, digits, and within it . _ -", args[0])
				}
				if err := withoutPassword(p.URL); err != nil {
					return "", err
				}
				for _, file := range []*string{&p.PasswordFile, &p.TLSCA, &p.TLSCert, &p.TLSKey} {
					if err := absolute(file); err != nil {
						return "", err
					}
				}
				c.Contexts[args[0]] = p
				if len(c.Contexts) == 1 {
					c.Current = args[0]
				}
				if c.Current == args[0] {
					return fmt.Sprintf("%s is kept, and in use.", args[0]), nil
				}
				return fmt.Sprintf("%s is kept. \"emq context use %s\" makes it the one that is meant.", args[0], args[0]), nil
			}),
		changing("use NAME", "make a context the one that is meant", "  emq context use prod", 1, func(c *contexts, args []string) (string, error) {
			c.Current = args[0]
			return args[0] + " is in use.", known(c, args[0])
		}),
		&cobra.Command{Use: "ls", Short: "the contexts", Example: "  emq context ls", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			c, err := readContexts()
			if err != nil {
				return err
			}
			t := columns("", "NAME", "SERVER")
			for _, name := range slices.Sorted(maps.Keys(c.Contexts)) {
				if a.json {
					if err := a.emit(contextRecord(c, name)); err != nil {
						return err
					}
				}
				t.add(map[bool]string{true: "*"}[name == c.Current], printable(name), c.Contexts[name].String())
			}
			switch {
			case a.json:
				return nil
			case len(t.rows) == 0:
				fmt.Fprintln(a.err, "There are no contexts: \"emq context add NAME URL\" makes one.")
				return nil
			}
			return t.print(a)
		}},
		changing("rm NAME", "forget a context", "  emq context rm prod", 1, func(c *contexts, args []string) (string, error) {
			err := known(c, args[0])
			delete(c.Contexts, args[0])
			if c.Current == args[0] {
				c.Current = ""
			}
			return args[0] + " is forgotten.", err
		}),
	)
	return cmd
}

// contextRecord is a context's record; after it was removed, it has no URL.
func contextRecord(c contexts, name string) *record {
	r := new(record).set("context", name)
	if p, ok := c.Contexts[name]; ok {
		r.set("url", p.String())
	} else {
		r.set("url", nil)
	}
	return r.set("current", name == c.Current)
}
