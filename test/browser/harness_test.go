package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pageOf opens a page of its own.
func pageOf(t *testing.T, l look, html string) *tab {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; img-src 'self' data:; script-src 'nonce-x'; style-src 'nonce-x'; form-action 'self'")
		_, _ = w.Write([]byte(`<!doctype html><html lang=en><meta name=viewport content="width=device-width"><link rel=icon href="data:image/png;base64,"><title>x</title>` + html))
	}))
	t.Cleanup(s.Close)
	b := open(t, l)
	b.goTo(s.URL)
	return b
}

// Each kind of fault is found, and a page without faults has none: otherwise the other tests would prove nothing.
func TestFaults(t *testing.T) {
	for _, tt := range []struct{ name, html, fault string }{
		{"none", ``, ""},
		{"console", `<script nonce=x>console.info("hello", 1)</script>`, `console.info: "hello" 1`},
		{"exception", `<script nonce=x>nothing.at.all</script>`, "exception: Uncaught ReferenceError"},
		{"inline script", `<script>1</script>`, "CSP: script-src-elem forbids inline"},
		{"inline style", `<p style="color: red">`, "CSP: style-src-attr forbids inline"},
		{"foreign picture", `<img alt="" src="http://127.0.0.1:1/x.png">`, "CSP: img-src forbids"},
		{"no picture", `<img alt="" src="/none.png">`, "answer 404"},
		{"no name", `<button></button>`, "axe: button-name (critical)"},
		{"low contrast", `<style nonce=x>p { color: #ccc; background: #fff }</style><p>text`, "axe: color-contrast (serious)"},
		{"sideways", `<style nonce=x>p { width: 400px }</style><p>text`, "it scrolls sideways, being"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := pageOf(t, look{narrow: true}, "<main><h1>x</h1>"+tt.html+"</main>")
			found := b.faults()
			b.expects("")
			if tt.fault == "" {
				require.Empty(t, found)
			} else {
				require.Contains(t, strings.Join(found, "\n"), tt.fault)
			}
		})
	}
}

// Clicks and keys work where the page's own scripts don't.
func TestScriptless(t *testing.T) {
	b := pageOf(t, look{scriptless: true}, `<main><h1>x</h1><form action="/"><label>Name <input name=n></label><button>Go on</button></form><script nonce=x>document.body.append("ran")</script>`)
	b.fill("Name", "ann")
	b.press("Go on")
	b.waitFor("the form", "location.search === '?n=ann'")
	require.NotContains(t, b.text(), "ran")
	require.Empty(t, b.faults())
}
