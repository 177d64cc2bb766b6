package web

import "testing"

func TestLabelCells(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		`<table><thead><tr><th scope="col">A &amp; B</th><th><a href="/">"C"<span> ↑</span></a></th><th></th></tr></thead><tbody>` +
			`<tr><th scope="row">1</th><td class="num">2</td><td>3</td><td>4</td></tr></tbody></table>`: `<table><thead><tr><th scope="col">A &amp; B</th>` +
			`<th><a href="/">"C"<span> ↑</span></a></th><th></th></tr></thead><tbody>` +
			`<tr><th scope="row" data-label="A &amp; B">1</th><td class="num" data-label="&#34;C&#34;">2</td><td>3</td><td>4</td></tr></tbody></table>`,
		"<table><tr><td>no head</td></tr></table><pre>\n a &lt; b</pre><script>if (1 < 2) {}</script>": "",
	} {
		if want == "" {
			want = page
		}
		if got := string(labelCells([]byte(page))); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
