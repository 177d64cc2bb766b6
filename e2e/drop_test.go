package e2e_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// skillText is a SKILL.md that passes the checks.
func skillText(name string) string {
	return "---\nname: " + name + "\ndescription: Reads tables out of reports. Use it when a person asks for the figures of a report.\n---\n# Tables\n\nSee [the notes](notes/how.md).\n"
}

// skillFolder makes a folder with a skill and a hidden folder beside it.
func skillFolder(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	for path, text := range map[string]string{"SKILL.md": skillText(name), "notes/how.md": "# How\n", ".git/config": "[core]\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// skillZip makes a zip of a skill.
func skillZip(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".zip")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z := zip.NewWriter(file)
	for _, f := range []struct{ name, text string }{{name + "/SKILL.md", skillText(name)}, {name + "/notes/how.md", "# How\n"}} {
		w, err := z.Create(f.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// drop lets a file or a folder fall onto an element, as a hand with a mouse
// does.
func (b *tab) drop(selector, path string) {
	b.t.Helper()
	b.do(chromedp.ScrollIntoView(selector))
	at := run(b, chromedp.Evaluate[[]float64](`(r => [r.x + r.width / 2, r.y + 10])(document.querySelector("`+selector+`").getBoundingClientRect())`))
	for _, kind := range []input.DispatchDragEventType{
		input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop,
	} {
		b.call(string(kind), func() error {
			_, err := chromedp.Call(b.ctx, input.DispatchDragEvent, input.DispatchDragEventParams{
				Type: kind, X: at[0], Y: at[1], Data: &input.DragData{Items: []*input.DragDataItem{}, Files: []string{path}, DragOperationsMask: 1},
			})
			return err
		})
	}
}

func droppingFolder(b *tab, key string) {
	b.signIn(key)
	b.visit("/sources")
	b.drop("[data-drop]", skillFolder(b.t, "dropped-folder"))
	b.await(".chosen", "2 files are ready to be sent.") // without .git
	b.do(chromedp.Click("form.upload button"))
	b.await("h1", "dropped-folder")
	b.wantText("main", "2 files", "Reads tables out of reports.")
	// A second snapshot of it, by a drop on its own page.
	b.drop("[data-drop]", skillZip(b.t, "dropped-folder"))
	b.await(".chosen", "dropped-folder.zip is ready to be sent.")
	b.do(chromedp.Click("form.upload button"))
	b.await(".flash", "snapshot")
}

func droppingZip(b *tab, key string) {
	b.signIn(key)
	b.visit("/sources")
	b.do(chromedp.SendKeys("#label", "Dropped zip"))
	b.drop("[data-drop]", skillZip(b.t, "dropped-zip"))
	b.await(".chosen", "dropped-zip.zip is ready to be sent.")
	b.do(chromedp.Click("form.upload button"))
	b.await("h1", "Dropped zip")
	b.wantText("main", "2 files")
}
