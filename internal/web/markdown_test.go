package web_test

import (
	"fmt"
	"html/template"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/web"
)

// maxText is the longest text that is rendered.
const maxText = 64 << 10

// pathological are texts of about n bytes that are known to take Markdown
// libraries long: those of CommonMark's own suite, and others.
func pathological(n int) map[string]string {
	all := map[string]string{}
	for _, s := range []string{
		"*a **a ", "a_ ", "_a ", "a]", "[a", "*a_ ", "c* ", "[ a_", "[ (](", "![[]()", "**x [a*b**c*](d)", "[", "]", "> ", ">", "[a](<b", "[a](b", "[a](", "![a](",
		"<!--", "<?", "<!A", "<![CDATA[", "</", "<a ", `<a b="`, "www.", "http://", "a@", "a@b.", "~~a ", "~", "`", "``a", "&amp;", "&", "|", "a|", "- ", "* ", "1. ",
		"\n", "a\n", "#\n", "=\n", "a\n-\n", "|a|\n|-|\n", "aaa\rbbb\n-\v\n", "[a]: b\n", "[x]: <", "\t", "    a\n", "> a\n", "```\n", "<div>\n", "<a>", "**a", "***a ", "_*",
		"[]", "[](", "[][", "](", "- a\n", "- - - a\n", "> - a\n", "- > a\n", ">- ", "|-", "-|-\n", "a|b\n-|-\n", "\x00", "\xff", "- [ ] ", "https://a.b/((", "<a@b.c>", "\\[", "#\n- ",
	} {
		all[fmt.Sprintf("%q", s)] = strings.Repeat(s, n/len(s))
	}
	lines := func(line func(i int) string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			b.WriteString(line(i))
		}
		return b.String()
	}
	table := func(prefix, row string, columns int) string {
		head := prefix + strings.Repeat("|a", columns) + "|\n" + strings.ReplaceAll(prefix, "-", " ") + strings.Repeat("|-", columns) + "|\n"
		return head + strings.Repeat(row, max(0, n-len(head))/len(row))
	}
	for _, columns := range []int{2, 50, 100, 101, 200, n / 8} {
		all[fmt.Sprintf("table of %d columns", columns)] = table("", "|\n", columns)
		all[fmt.Sprintf("quoted table of %d columns", columns)] = table("> ", "> |\n", columns)
		all[fmt.Sprintf("listed table of %d columns", columns)] = table("- ", "  |\n", columns)
		all[fmt.Sprintf("lazy table of %d columns", columns)] = table("> ", "a\n", columns)
		all[fmt.Sprintf("nested table of %d columns", columns)] = table("> - ", ">   |\n", columns)
	}
	all["nested emphasis"] = strings.Repeat("*a **a ", n/14) + "b" + strings.Repeat(" a** a*", n/14)
	all["nested brackets"] = strings.Repeat("[", n/2) + "a" + strings.Repeat("]", n/2)
	all["nested links"] = strings.Repeat("[", n/8) + "a" + strings.Repeat("](b)", n/6)
	all["emphasis of three"] = "a**b" + strings.Repeat("c* ", n/3)
	all["nested lists"] = lines(func(i int) string { return strings.Repeat("  ", i) + "* a\n" })
	all["backticks"] = lines(func(i int) string { return "e" + strings.Repeat("`", i) })
	all["blank lines in lists"] = strings.Repeat("- ", n/4) + "x" + strings.Repeat("\n", n/2)
	all["blank lines in quoted lists"] = "> " + strings.Repeat("- ", n/4) + "x\n" + strings.Repeat(">\n", n/4)
	all["blank lines in a few lists"] = strings.Repeat("- ", 30) + "x" + strings.Repeat("\n", n-64)
	all["emphasis in quotes"] = strings.Repeat(">", n/2) + strings.Repeat("a*", n/4)
	all["long reference"] = "[x]: /" + strings.Repeat("u", n/2) + "\n\n" + strings.Repeat("[x] ", n/8)
	all["long title"] = "[x]: /u '" + strings.Repeat("u", n/2) + "'\n\n" + strings.Repeat("[x] ", n/8)
	all["references"] = lines(func(i int) string { return fmt.Sprintf("[x%d]: u\n", i) })
	all["quotes on every line"] = lines(func(int) string { return strings.Repeat(">", 100) + "a\n" })
	all["heads of a table"] = strings.Repeat("a|b\n", n/4) + "-|-\n"
	return all
}

// TestMarkdownIsBounded renders each of them as long as is rendered at all, and
// as long as is not too heavy: there the cost is highest.
func TestMarkdownIsBounded(t *testing.T) {
	// Generous, since other tests run beside this one: alone, the slowest takes
	// 60 ms. One that is held up for longer is tried again.
	const maxTime, maxMemory, maxPage = 2 * time.Second, 30 << 20, 1<<20 + 1<<10
	rendered := map[string]bool{}
	for n := maxText; n > 512; n = n * 3 / 4 {
		for name, text := range pathological(n) {
			if rendered[name] {
				continue
			}
			var before, after runtime.MemStats
			page, took := template.HTML(""), time.Hour
			for tries := 0; took > maxTime && tries < 5; tries++ {
				runtime.ReadMemStats(&before)
				start := time.Now()
				var err error
				if page, err = web.Markdown(text); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				took = time.Since(start)
				runtime.ReadMemStats(&after)
			}
			rendered[name] = !strings.Contains(string(page), "shown as plain text")
			if memory := after.TotalAlloc - before.TotalAlloc; took > maxTime || memory > maxMemory || len(page) > maxPage {
				t.Errorf("%s: %d bytes took %v, %d KiB of memory and %d bytes of HTML", name, len(text), took, memory>>10, len(page))
			}
		}
	}
}

// TestMarkdownOfPeople renders what people write, however much there is.
func TestMarkdownOfPeople(t *testing.T) {
	var text strings.Builder
	for i := 0; text.Len() < maxText-2_000; i++ {
		fmt.Fprintf(&text, "## Step %d\n\nRead the `file_%d.csv`, see [the *docs*](https://example.org/%d) and **note** what __it__ says.\n\n", i, i, i)
		fmt.Fprintf(&text, "| Column | Meaning | Default |\n|---|:---:|---|\n| `a_b` | [x](y) | - |\n| `c_d` | 1 \\| 2 | ~~no~~ |\n\n")
		fmt.Fprintf(&text, "- one\n  - two\n    1. three\n       > quoted\n\n```python\nif a[i] < b[j]:\n%s- deep\n```\n\n---\n\n", strings.Repeat(" ", 40))
	}
	page, err := web.Markdown(text.String())
	if err != nil || !strings.Contains(string(page), "<table>") || strings.Contains(string(page), "shown as plain text") {
		t.Errorf("got %.300s, %v", page, err)
	}
	list := strings.Repeat("- [name](https://example.org/some/path): what it is about\n", 900)
	if page, err := web.Markdown(list); err != nil || !strings.Contains(string(page), "<li>") {
		t.Errorf("a long list of links: %.300s, %v", page, err)
	}
}

func TestMarkdownAsWritten(t *testing.T) {
	for name, text := range map[string]string{
		"too long": strings.Repeat("a <b>\n\n", maxText/6),
		"too wide": strings.Repeat("|<a>", 101) + "\n" + strings.Repeat("|-", 101) + "\n",
		"too deep": strings.Repeat("> ", 40) + "<b>",
	} {
		page, err := web.Markdown(text)
		if err != nil || !strings.Contains(string(page), "shown as plain text") || !strings.Contains(string(page), "&lt;") ||
			strings.Contains(string(page), "<b>") {
			t.Errorf("%s: got %.300s, %v", name, page, err)
		}
	}
}
