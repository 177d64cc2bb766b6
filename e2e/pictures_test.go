package e2e_test

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"slices"
	"testing"

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
	failed := b.firstLink("/sessions?outcome=fail", "/sessions/")
	for _, p := range []struct {
		name, path string
		height     int64
	}{
		{"home", "/", 900},
		{"skill", "/skills/invoice-reader", 1000},
		{"sessions", "/sessions?outcome=fail", 800},
		{"session", failed, 1000},
		{"suite", "/suites/" + suite, 1000},
		{"run", "/runs/" + first("/api/v1/eval-suites/"+suite+"/runs", "runs", "baseline", "previous"), 1000},
		{"gate", "/gates/" + first("/api/v1/gates", "gates", "verdict", "block"), 880},
		{"entry", "/registry/" + first("/api/v1/registry", "entries", "name", "invoice-reader"), 1000},
		{"costs", "/costs", 900},
		{"alert", b.firstLink("/alerts", "/alerts/0"), 1000},
		{"catalogue", "/catalogue?context_window=32000&days=7", 900},
		{"improve", "/improve-runs/" + first("/api/v1/improve-runs", "improve_runs", "status", "succeeded"), 1000},
		{"review", "/review", 440},
		{"connect", "/settings/connect", 900},
	} {
		b.visit(p.path)
		b.look("light", 1440)
		b.do(chromedp.EmulateViewport(1440, p.height))
		if err := os.WriteFile(shots+"/"+p.name+".png", inFewColours(b.t, run(b, chromedp.CaptureScreenshot())), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// firstLink is the first link of a page that begins like this.
func (b *tab) firstLink(path, begin string) string {
	b.t.Helper()
	b.visit(path)
	return run(b, chromedp.Evaluate[string](fmt.Sprintf(`document.querySelector('main a[href^=%q]').getAttribute("href")`, begin)))
}

// inFewColours makes a picture a third of its size: it keeps the 64 most frequent colours,
// and the nearest of them for the others.
func inFewColours(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	count, bounds := map[color.Color]int{}, from.Bounds()
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			count[from.At(x, y)]++
		}
	}
	palette := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	to := image.NewPaletted(bounds, palette[:min(len(palette), 64)])
	nearest := map[color.Color]uint8{}
	for c := range count {
		nearest[c] = uint8(to.Palette.Index(c))
	}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			to.SetColorIndex(x, y, nearest[from.At(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
