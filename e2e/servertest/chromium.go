package servertest

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"testing"

	"github.com/chromedp/chromedp"
)

// Contrast is a JavaScript function of an element, see contrast.js.
//
//go:embed contrast.js
var Contrast string

// StartChromium starts a real browser until the end of the test. It is not there on
// every machine: without it the test is skipped, or fails with WHETSTONE_REQUIRE=all.
func StartChromium(t *testing.T) context.Context {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("WHETSTONE_REQUIRE") == "all" {
			t.Fatal(err)
		}
		t.Skip("chromium is not installed; run `make setup`")
	}
	// Chromium's sandbox wants what containers do not give; what it shows here
	// is our own.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(program),
		chromedp.Flag("lang", "en-US"), chromedp.Flag("disable-dev-shm-usage", true),
		// A browser that asks its maker for news would reach out of this machine.
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	ctx, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatal(err)
	}
	return ctx
}
