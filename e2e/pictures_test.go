package e2e_test

import (
	"fmt"
	"os"

	"github.com/chromedp/chromedp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
)

// pictures leaves the pictures of the documents in WHETSTONE_SHOTS, if that is set.
func pictures(b *tab, key string) {
	shots := os.Getenv("WHETSTONE_SHOTS")
	if shots == "" {
		b.t.Skip("WHETSTONE_SHOTS is not set")
	}
	b.signIn(key)
	first := func(path, list, field, value string) (id string) {
		b.t.Helper()
		apptest.Eventually(b.t, path+" has one with the "+field+" "+value, func() bool { // jobs make some of them
			for _, one := range b.api(key, "GET", path, nil)[list].([]any) {
				if o := one.(object); fmt.Sprint(o[field]) == value {
					id = o["id"].(string)
					return true
				}
			}
			return false
		})
		return id
	}
	suite := first("/api/v1/eval-suites", "suites", "name", "Write release notes: triggering")
	for _, p := range []struct {
		name, path string
		height     int64
	}{
		{"home", "/", 900},
		{"skill", "/skills/invoice-reader", 1000},
		{"run", "/runs/" + first("/api/v1/eval-suites/"+suite+"/runs", "runs", "baseline", "previous"), 1000},
		{"gate", "/gates/" + first("/api/v1/gates", "gates", "verdict", "block"), 880},
		{"catalogue", "/catalogue?context_window=32000&days=7", 900},
		{"improve", "/improve-runs/" + first("/api/v1/improve-runs", "improve_runs", "status", "succeeded"), 1000},
		{"review", "/review", 440},
		{"connect", "/settings/connect", 900},
	} {
		b.visit(p.path)
		b.look("light", 1440)
		b.do(chromedp.EmulateViewport(1440, p.height))
		if err := os.WriteFile(shots+"/"+p.name+".png", run(b, chromedp.CaptureScreenshot()), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}
