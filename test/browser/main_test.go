// Package browser answers one question: does the page work for a person? It opens every screen and does every action in
// a real browser, with a real server, in light and dark, wide and narrow, and checks the effects in the server. A
// complaint of the browser, or an accessibility finding of axe, is a failure. Pictures of all screens are left in
// build/screens.
package browser

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience bounds every wait, so that a hang is a failure. Nothing is asserted about speed.
const patience = 30 * time.Second

// screens is where the pictures go.
const screens = "../../build/screens"

// chromium is the one browser of this run; each tab has a profile of its own.
var chromium context.Context

func TestMain(m *testing.M) {
	path := os.Getenv("CHROMIUM")
	if path == "" {
		fmt.Println("skipped: CHROMIUM names no browser, and `make test-browser` finds one")
		os.Exit(0)
	}
	os.Exit(run(m, path))
}

func run(m *testing.M, path string) int {
	var end context.CancelFunc
	// The pages are our own, and in a container there may be no sandbox, and too little /dev/shm for pictures.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1")) // for origins that differ
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	chromium, end = chromedp.NewContext(allocator)
	defer end()
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintln(os.Stderr, "the browser does not start:", err)
		return 1
	}
	if err := os.MkdirAll(screens, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
