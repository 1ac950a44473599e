package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// look is how a person views the page.
type look struct{ dark, narrow, scriptless bool }

// looks are all looks in which a screen must be faultless.
func looks(scriptless bool) []look {
	return []look{{false, false, scriptless}, {true, false, scriptless}, {false, true, scriptless}, {true, true, scriptless}}
}

func (l look) String() string {
	name := "light"
	if l.dark {
		name = "dark"
	}
	if l.narrow {
		name += "-narrow"
	} else {
		name += "-wide"
	}
	if l.scriptless {
		name += "-nojs"
	}
	return name
}

// tab is a tab of the browser, with a profile of its own. Its test fails if the browser made a complaint that the test
// did not expect.
type tab struct {
	testing.TB
	ctx  context.Context
	look look
	size emulation.SetDeviceMetricsOverrideParams

	*ears
}

// ears collects the browser's complaints about a tab.
type ears struct {
	mu         sync.Mutex
	complaints []string
	expected   []string
}

// open opens an empty tab.
func open(t testing.TB, l look) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	b := &tab{TB: t, ctx: ctx, look: l, ears: &ears{}}
	require.NoError(t, chromedp.Listen(ctx, b.hear)) // the first call makes the tab, to live as long as its context
	call(b, audits.Enable, cdp.Empty{})
	call(b, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // every tab behaves as if it had the focus
	call(b, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `document.addEventListener('securitypolicyviolation',
		e => console.error('CSP: ' + e.violatedDirective + ' forbids ' + (e.blockedURI || e.sample)))`})
	b.see(l)
	t.Cleanup(b.close)
	return b
}

// close leaves a picture of the tab if the test failed, and checks that there was no complaint.
func (b *tab) close() {
	if b.Failed() {
		b.picture("failed-" + strings.NewReplacer("/", "-").Replace(b.Name()))
		b.Logf("at %s:\n%s", b.path(), b.text())
	}
	for _, complaint := range b.heard() {
		b.Errorf("the browser complains: %s", complaint)
	}
}

// of returns the same tab for a subtest.
func (b *tab) of(t testing.TB) *tab {
	part := &tab{TB: t, ctx: b.ctx, look: b.look, size: b.size, ears: b.ears}
	t.Cleanup(part.close)
	return part
}

// see changes the look.
func (b *tab) see(l look) {
	b.Helper()
	b.look = l
	scheme, size := "light", emulation.SetDeviceMetricsOverrideParams{Width: 1280, Height: 900, DeviceScaleFactor: 1}
	if l.dark {
		scheme = "dark"
	}
	if l.narrow {
		size = emulation.SetDeviceMetricsOverrideParams{Width: 360, Height: 800, DeviceScaleFactor: 1, Mobile: true}
	}
	b.size = size
	call(b, emulation.SetDeviceMetricsOverride, size)
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: l.scriptless})
}

// hear records what a person would find in the browser's console, issues or list of requests.
func (b *ears) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		var words []string
		for _, arg := range e.Args {
			words = append(words, string(arg.Value)+arg.Description)
		}
		b.complain("console.%s: %s", e.Type, strings.Join(words, " "))
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if x := e.ExceptionDetails.Exception; x != nil {
			text += " " + x.Description
		}
		b.complain("exception: %s", text)
	case *log.EventEntryAdded:
		b.complain("log, %s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		details, _ := json.Marshal(e.Issue.Details)
		b.complain("issue: %s %s", e.Issue.Code, details)
	case *network.EventLoadingFailed:
		if !e.Canceled { // as a stream is when its page is left
			b.complain("request failed: %s %s %s", e.Type, e.ErrorText, e.BlockedReason)
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= 400 {
			b.complain("answer %d: %s", e.Response.Status, e.Response.URL)
		}
	case *inspector.EventTargetCrashed:
		b.complain("the tab crashed")
	}
}

func (b *ears) complain(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaints = append(b.complaints, fmt.Sprintf(format, args...))
}

// expects names parts of complaints that the test expects, such as a refusal that it is about.
func (b *ears) expects(parts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expected = append(b.expected, parts...)
}

// complained reports whether there was a complaint with such a part.
func (b *ears) complained(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.complaints, func(complaint string) bool { return strings.Contains(complaint, part) })
}

// heard returns the unexpected complaints until now, and forgets them.
func (b *ears) heard() (unexpected []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		if !slices.ContainsFunc(b.expected, func(part string) bool { return strings.Contains(complaint, part) }) {
			unexpected = append(unexpected, complaint)
		}
	}
	b.complaints = nil
	return unexpected
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b, chromedp.Do(ctx, steps...))
}

func call[P, R any](b *tab, command cdp.Command[P, R], params P) R {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	result, err := chromedp.Call(ctx, command, params)
	require.NoError(b, err, command.Method)
	return result
}

// eval evaluates an expression in the page.
func eval[T any](b *tab, expression string) (v T) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b, err, "%.200s", expression)
	return v
}

// ask is eval for a page that may be navigating; ok is false if it was.
func ask[T any](b *tab, expression string) (v T, ok bool) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	return v, err == nil
}

// goTo opens an address as if it was typed; it tries again if the old page reloaded itself at that moment.
func (b *tab) goTo(url string) {
	b.Helper()
	b.await(url, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		err := chromedp.Do(ctx, chromedp.Navigate(url))
		if err != nil && strings.Contains(err.Error(), "net::ERR_ABORTED") {
			return false
		}
		require.NoError(b, err, url)
		return true
	})
}

// path is the path of the tab's URL.
func (b *tab) path() string {
	b.Helper()
	return eval[string](b, "location.pathname + location.search")
}

// text is what a person can read.
func (b *tab) text() string {
	text, _ := ask[string](b, "document.body.innerText")
	return text
}

// waitFor waits for an expression to be true of the page.
func (b *tab) waitFor(what, expression string) {
	b.Helper()
	b.await(what, func() bool { ok, _ := ask[bool](b, "!!("+expression+")"); return ok })
}

// await is store.WaitFor with pauses that leave the browser time for its own work.
func (b *tab) await(what string, happened func() bool) {
	b.Helper()
	for end := time.Now().Add(patience); !happened(); time.Sleep(20 * time.Millisecond) {
		require.True(b, time.Now().Before(end), "waited too long for: %s", what)
	}
}

// reads waits until the page shows the texts; lacks, until it no longer does.
func (b *tab) reads(texts ...string) {
	b.Helper()
	for _, text := range texts {
		b.waitFor("the page to say "+text, fmt.Sprintf("document.body.innerText.includes(%s)", quote(text)))
	}
}

func (b *tab) lacks(texts ...string) {
	b.Helper()
	for _, text := range texts {
		b.waitFor("the page to say no more "+text, fmt.Sprintf("!document.body.innerText.includes(%s)", quote(text)))
	}
}

func quote(text string) string {
	b, _ := json.Marshal(text) // a JSON string is a JavaScript string
	return string(b)
}

// find is an expression for the first visible and enabled element with that name: the text that a person reads on it,
// or that a screen reader reads out.
func find(within, things, name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(%s)].filter(r => r.checkVisibility()).flatMap(r => [...r.querySelectorAll(%s)]).find(e => {
		const named = [e.innerText, e.value, e.ariaLabel, e.title, ...[...(e.labels || [])].map(l => l.innerText)]
		return e.checkVisibility({visibilityProperty: true}) && !e.disabled && named.some(n => n && n.trim().replace(/\s+/g, ' ') === %s)
	})`, quote(within), quote(things), quote(name))
}

const (
	pressed = "a[href], button, summary, input[type=submit], input[type=button], input[type=checkbox], input[type=radio], [role=button], label"
	filled  = "input, select, textarea"
)

// press clicks the element with that name; pressIn, the one within a part of the page.
func (b *tab) press(name string) { b.Helper(); b.pressIn("body", name) }

func (b *tab) pressIn(within, name string) {
	b.Helper()
	b.click(name, find(within, pressed, name))
}

// click clicks the middle of an expression's element, once it is there, does not move, and nothing covers it; and again if a
// script moved it away under the mouse.
func (b *tab) click(name, expression string) {
	b.Helper()
	var before []float64
	b.await(name+" to be clicked", func() bool {
		at, _ := ask[[]float64](b, fmt.Sprintf(`(() => {
			const e = %s
			if (!e) return []
			e.scrollIntoView({block: 'center', behavior: 'instant'})
			const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y)
			if (!top || !e.contains(top) && !top.contains(e)) return []
			window.missed = true
			e.addEventListener('click', () => window.missed = false, {once: true, capture: true})
			return [x, y]
		})()`, expression))
		if len(at) != 2 || !slices.Equal(at, before) {
			before = at
			return false
		}
		b.do(chromedp.MouseClickXY(at[0], at[1]))
		missed, _ := ask[bool](b, "!!window.missed")
		return !missed || b.look.scriptless
	})
}

// tap clicks the first visible element of a selector.
func (b *tab) tap(selector string) {
	b.Helper()
	b.click(selector, fmt.Sprintf("[...document.querySelectorAll(%s)].find(e => e.checkVisibility({visibilityProperty: true}) && !e.disabled)", quote(selector)))
}

// tapText clicks the link with that text.
func (b *tab) tapText(name string) { b.Helper(); b.click(name, find("main", "a[href]", name)) }

// tabTo moves the focus with the Tab key to the element with that name, and presses a key there.
func (b *tab) tabTo(name, key string) {
	b.Helper()
	target := find("body", pressed, name)
	b.waitFor(name, target)
	for range 200 {
		if eval[bool](b, "document.activeElement === "+target) {
			require.True(b, eval[bool](b, "document.activeElement.matches(':focus-visible') && getComputedStyle(document.activeElement).outlineStyle !== 'none'"), "one sees where one is: %s", name)
			b.key(key)
			return
		}
		b.key(kb.Tab)
	}
	require.Fail(b, "the Tab key does not lead to it", name)
}

// has waits until the first element of a selector has a text.
func (b *tab) has(selector, text string) {
	b.Helper()
	b.waitFor(selector+" to have "+text, fmt.Sprintf("document.querySelector(%s)?.innerText.trim().includes(%s)", quote(selector), quote(text)))
}

// at waits until the tab shows a screen completely.
func (b *tab) at(screen string) {
	b.Helper()
	b.waitFor("the screen "+screen, fmt.Sprintf("document.readyState === 'complete' && document.querySelector('main').dataset.screen === %s", quote(screen)))
}

// fill replaces the text of the field with that name by typing.
func (b *tab) fill(name, value string) {
	b.Helper()
	field := find("body", filled, name)
	b.click(name, field)
	eval[bool](b, fmt.Sprintf("(%s).select(), true", field))
	b.key(kb.Delete + value)
}

// set gives a field a value that is picked rather than typed.
func (b *tab) set(name, value string) {
	b.Helper()
	b.waitFor(name, find("body", filled, name))
	eval[bool](b, fmt.Sprintf("(%s).value = %s, true", find("body", filled, name), quote(value)))
}

// choose selects an option of a list by its text.
func (b *tab) choose(name, option string) {
	b.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		const list = %s
		list.value = [...list.options].find(o => o.text.trim() === %s).value
		list.dispatchEvent(new Event('input', {bubbles: true}))
		list.dispatchEvent(new Event('change', {bubbles: true}))
		return true
	})()`, find("body", "select", name), quote(option)))
}

// key types on the keyboard.
func (b *tab) key(keys string) { b.Helper(); b.do(chromedp.KeyEvent(keys)) }

// whole checks that the screen has no faults, and leaves a picture of it.
func (b *tab) whole(name string) {
	b.Helper()
	b.picture(name + "-" + b.look.String())
	for _, fault := range b.faults() {
		b.Errorf("%s, %s: %s", name, b.look, fault)
	}
}

// faults are what is wrong with the screen: it scrolls sideways, axe finds something, or the browser complains.
func (b *tab) faults() (found []string) {
	b.Helper()
	width := int(b.size.Width)
	if wide := eval[int](b, "document.scrollingElement.scrollWidth"); wide > width {
		found = append(found, fmt.Sprintf("it scrolls sideways, being %d wide of %d: %s", wide, width, eval[string](b, fmt.Sprintf(`[...document.querySelectorAll('body *')]
			.filter(e => e.getBoundingClientRect().right > %d + 1).map(e => e.tagName.toLowerCase() + '#' + e.id + '.' + e.className).slice(0, 8).join(', ')`, width))))
	}
	if !b.look.scriptless {
		found = append(found, b.axe()...)
	}
	return append(found, b.heard()...)
}

// axe returns axe's findings, a line for each element.
func (b *tab) axe() (found []string) {
	b.Helper()
	source, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	require.NoError(b, err)
	if !eval[bool](b, "'axe' in window") {
		eval[bool](b, string(source)+";true")
	}
	return eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.flatMap(v => v.nodes.map(n =>
		'axe: ' + v.id + ' (' + v.impact + '): ' + v.help + ': ' + n.target.join(' ') + ': ' + n.failureSummary.replace(/\s+/g, ' '))))`)
}

// tallest is the largest height of a picture.
const tallest = 4000

// picture leaves a picture of the whole page.
func (b *tab) picture(name string) {
	b.Helper()
	b.pictureTo(filepath.Join(screens, name+".png"), tallest)
}

func (b *tab) pictureTo(path string, tallest float64) {
	b.Helper()
	// Elements that stick to the window's edge are in their place only if the window is as high as the page.
	size := b.size
	size.Height = int64(max(float64(size.Height), min(tallest, call(b, page.GetLayoutMetrics, cdp.Empty{}).CSSContentSize.Height)))
	call(b, emulation.SetDeviceMetricsOverride, size)
	shot := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	call(b, emulation.SetDeviceMetricsOverride, b.size)
	require.NoError(b, os.WriteFile(path, shot.Data, 0o644))
}
