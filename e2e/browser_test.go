package e2e_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
)

// chromium is one real browser for all tests.
type chromium struct{ ctx context.Context }

// tab is a tab of it, with cookies of its own. It must not complain in its
// console, nor ask anybody else than the service.
type tab struct {
	t    *testing.T
	ctx  context.Context
	site string
	// expected is part of a complaint that the test provokes.
	expected string
	// also is another site that the test visits.
	also string

	mu       sync.Mutex
	problems []string
}

const (
	// browserTimeout ends a test that hangs, also on a machine that others use.
	browserTimeout = 5 * time.Minute
	awaitTimeout   = time.Minute
)

// tab opens a new tab.
func (c *chromium) tab(t *testing.T, site string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(c.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx, site: site}
	b.do(chromedp.Navigate("about:blank"), chromedp.EmulateViewport(1280, 900))
	b.listen()
	b.call("violations", func() error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
			window.violations = [];
			addEventListener("securitypolicyviolation", (e) => violations.push(e.violatedDirective + " " + e.blockedURI));`})
		return err
	})
	ctx, cancelTimeout := context.WithTimeout(ctx, browserTimeout)
	t.Cleanup(cancelTimeout)
	b.ctx = ctx
	return b
}

// listen collects what the browser complains about until the test ends.
func (b *tab) listen() {
	ctx, cancel := context.WithCancel(b.ctx)
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	dialogs := chromedp.Events(ctx, page.JavascriptDialogOpening)
	b.call("network", func() error {
		_, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{})
		return err
	})
	var wg sync.WaitGroup
	watch(&wg, console, func(m chromedp.ConsoleMessage) {
		if m.IsException() || m.Type == "error" || m.Type == "warning" {
			b.complain("console: " + m.String())
		}
	})
	watch(&wg, requests, func(e network.EventRequestWillBeSent) {
		u := e.Request.URL
		if !strings.HasPrefix(u, b.site+"/") && !strings.HasPrefix(u, "data:") && u != "about:blank" {
			b.complain("request to " + u)
		}
		if u == b.site+probe {
			b.complain("a foreign text loaded a picture")
		}
	})
	watch(&wg, dialogs, func(e page.EventJavascriptDialogOpening) {
		b.complain("dialog: " + e.Message)
		_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) // told above
	})
	b.t.Cleanup(func() {
		cancel()
		wg.Wait()
		for _, p := range b.problems {
			if b.also != "" && strings.HasPrefix(p, "request to "+b.also+"/") {
				continue
			}
			if b.expected == "" || !strings.Contains(p, b.expected) {
				b.t.Error(p)
			}
		}
	})
}

// watch hands on events until there are no more: the test is over then.
func watch[E any](wg *sync.WaitGroup, events iter.Seq2[E, error], each func(E)) {
	wg.Go(func() {
		for e, err := range events {
			if err != nil {
				return
			}
			each(e)
		}
	})
}

func (b *tab) complain(problem string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, problem)
}

// run does one thing in the tab and returns what comes of it.
func run[T any](b *tab, action chromedp.Action[T]) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, action)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) call(what string, fn func() error) {
	b.t.Helper()
	if err := fn(); err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

func (b *tab) signIn(key string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.site+"/login"), chromedp.SendKeys("#api_key", key+"\r"), chromedp.WaitVisible(".side"))
}

// visit opens a page.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.site+path), chromedp.WaitReady("main"))
}

// leave goes to a page although a form that was sent may still be on its way
// to another, which would end this one.
func (b *tab) leave(path string) {
	b.t.Helper()
	err := errors.New("not tried")
	for deadline := time.Now().Add(awaitTimeout); err != nil && time.Now().Before(deadline); {
		err = chromedp.Do(b.ctx, chromedp.Navigate(b.site+path), chromedp.WaitReady("main"))
		if err != nil && !strings.Contains(err.Error(), "net::ERR_ABORTED") {
			break
		}
	}
	if err != nil {
		b.t.Fatalf("%s: %v", path, err)
	}
}

// doOn opens a page and does something there. A browser that is short of time
// loses an event now and then, and what waits for it would wait for ever: then
// the page is opened again.
func (b *tab) doOn(path string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	var err error
	for range 3 {
		b.leave(path)
		ctx, cancel := context.WithTimeout(b.ctx, awaitTimeout/3)
		err = chromedp.Do(ctx, actions...)
		cancel()
		if err == nil {
			return
		}
	}
	b.t.Fatalf("%s: %v", path, err)
}

// until waits for a condition in the page that is open.
func (b *tab) until(condition string) {
	b.t.Helper()
	for deadline := time.Now().Add(awaitTimeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		// The page may be on its way to the next one, and its scripts not there yet.
		met, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool](`document.readyState === "complete" && !!(`+condition+`)`))
		if err == nil && met {
			return
		}
	}
	b.t.Fatalf("never true: %s\n%s", condition, run(b, chromedp.Text("main")))
}

// loadedText is the text of an element of a page that is there in full.
const loadedText = `document.readyState === "complete" && document.querySelector(%q)?.innerText || ""`

// await waits until an element shows a text, over new pages, too.
func (b *tab) await(selector, text string) {
	b.t.Helper()
	deadline := time.Now().Add(awaitTimeout)
	shown := ""
	for time.Now().Before(deadline) {
		// The page may be on its way to the next one.
		if found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf(loadedText, selector))); err == nil {
			if shown = found; strings.Contains(shown, text) {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.t.Fatalf("%s does not show %q:\n%s", selector, text, shown)
}

// press presses keys where the focus is.
func (b *tab) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// look shows the page that is open in a colour scheme and a width.
func (b *tab) look(scheme string, width int64) {
	b.t.Helper()
	b.call("media", func() error {
		_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return err
	})
	b.do(chromedp.EmulateViewport(width, 900))
}

// wantText checks what an element shows, as a person would see it.
func (b *tab) wantText(selector string, want ...string) {
	b.t.Helper()
	text := run(b, chromedp.Text(selector))
	for _, w := range want {
		if !strings.Contains(text, w) {
			b.t.Errorf("%s does not show %q:\n%s", selector, w, text)
		}
	}
}

// audit finds what keeps people from using a page: see its comment.
//
//go:embed testdata/audit.js
var audit string

// checkLooks checks the page that is open in both colours and on a phone.
func (b *tab) checkLooks(name string) {
	b.t.Helper()
	for _, look := range []struct {
		scheme string
		width  int64
	}{{"light", 1280}, {"dark", 1280}, {"light", 375}} {
		b.look(look.scheme, look.width)
		b.checkPage(fmt.Sprintf("%s-%s-%d", name, look.scheme, look.width))
	}
}

// checkPage looks for what keeps people from using the page that is open, and
// for scripts that a foreign text has started.
func (b *tab) checkPage(name string) {
	b.t.Helper()
	for _, problem := range run(b, chromedp.Evaluate[[]string]("("+audit+")("+servertest.Contrast+")")) {
		b.t.Errorf("%s: %s", name, problem)
	}
	if shots := os.Getenv("WHETSTONE_SHOTS"); shots != "" {
		file := shots + "/" + url.QueryEscape(name) + ".png"
		if err := os.WriteFile(file, run(b, chromedp.FullScreenshot(100)), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}
