package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// contexts is the file of named servers.
type contexts struct {
	Current  string           `json:"current,omitempty"`
	Contexts map[string]place `json:"contexts"`
}

func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	return filepath.Join(dir, "emq", "config"), err
}

// readContexts reads the file; without one there are no contexts.
func readContexts() (c contexts, err error) {
	c.Contexts = map[string]place{}
	path, err := contextsFile()
	if err != nil {
		return c, nil // no home: no contexts
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, refused("the contexts can't be read: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, refused("%s is not what \"emq context\" writes: %w", path, err)
	}
	if c.Contexts == nil {
		c.Contexts = map[string]place{}
	}
	return c, nil
}

// lockContexts makes concurrent changes of the contexts wait, so that each reads what the previous one wrote.
func lockContexts() (unlock func(), err error) {
	path, err := contextsFile()
	if err != nil {
		return nil, refused("there is no place for the contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, refused("the contexts can't be written: %w", err)
	}
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, refused("the contexts can't be written: %w", err)
	}
	return func() { _ = f.Close() }, nil
}

// write replaces the file atomically: a concurrent reader gets the old or the new one.
func (c contexts) write() error {
	path, err := contextsFile()
	if err != nil {
		return refused("there is no place for the contexts: %w", err)
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "config") // 0600
	if err != nil {
		return refused("the contexts can't be written: %w", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return refused("the contexts can't be written: %w", err)
	}
	return nil
}

func completeContexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, _ := readContexts()
	return slices.Sorted(maps.Keys(c.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// absolute makes a path absolute.
func absolute(path *string) (err error) {
	if *path != "" {
		*path, err = filepath.Abs(*path)
	}
	return err
}
