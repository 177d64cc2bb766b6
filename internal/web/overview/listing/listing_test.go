package listing_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/web/overview/listing"
)

func forms(l listing.Listing) (all []listing.Form) {
	for _, line := range l.Lines {
		all = append(all, line.Form)
	}
	return all
}

// TestClaudeCode: every name is listed, and the descriptions of the skills that are
// used least go first.
func TestClaudeCode(t *testing.T) {
	skills := []listing.Skill{
		{Name: "a", Description: strings.Repeat("x", 100), Uses: 1},
		{Name: "b", Description: "short", Uses: 0},
		{Name: "c", Description: strings.Repeat("y", 100), Uses: 9},
	}
	// "- a: " + 100, "- b: short", "- c: " + 100, joined by two line ends.
	const needed = 105 + 10 + 105 + 2
	for _, test := range []struct {
		window, limit, used int64
		want                []listing.Form
	}{
		{window: needed * 25, limit: needed, used: needed, want: []listing.Form{listing.Full, listing.Full, listing.Full}},
		{window: needed*25 - 1, limit: needed - 1, used: needed - 7, want: []listing.Form{listing.Full, listing.Bare, listing.Full}},
		// a does not fit, so b, which is used less, has no description either.
		{window: 130 * 25, limit: 130, used: 3*3 + 2 + 102, want: []listing.Form{listing.Bare, listing.Bare, listing.Full}},
		{window: 25, limit: 1, used: 3*3 + 2, want: []listing.Form{listing.Bare, listing.Bare, listing.Bare}},
	} {
		got := listing.Of(listing.ClaudeCode, skills, test.window)
		if got.Unit != listing.Characters || got.Limit != test.limit || got.Needed != needed || got.Used != test.used {
			t.Errorf("window %d: %s, limit %d, needed %d, used %d; want %d, %d, %d",
				test.window, got.Unit, got.Limit, got.Needed, got.Used, test.limit, needed, test.used)
		}
		if diff := cmp.Diff(test.want, forms(got)); diff != "" {
			t.Errorf("window %d (-want +got):\n%s", test.window, diff)
		}
	}
	if got := listing.Of(listing.ClaudeCode, skills, listing.ClaudeCode.Window()).Limit; got != 8_000 {
		t.Errorf("the usual limit is %d", got)
	}
}

// TestClaudeCodeText: when_to_use follows the description, and both together have at
// most 1,536 characters, counted as JavaScript does.
func TestClaudeCodeText(t *testing.T) {
	got := listing.Of(listing.ClaudeCode, []listing.Skill{
		{Name: "deploy", Description: "Ships\n  it.", WhenToUse: "Before a release."},
		{Name: "long", Description: strings.Repeat("d", 5_000)},
		{Name: "pairs", Description: strings.Repeat("💡", 5_000)},
		{Name: "silent"},
	}, 1_000_000)
	if want := "- deploy: Ships it. - Before a release.\n"; got.Lines[0].Shown != want || got.Lines[0].Form != listing.Full {
		t.Errorf("got %q, %s", got.Lines[0].Shown, got.Lines[0].Form)
	}
	for i, kept := range map[int]int{1: 1_535, 2: 767} {
		line := got.Lines[i]
		if line.Form != listing.Truncated || line.Kept != kept || utf8.RuneCountInString(line.Cut()) != 5_000-kept {
			t.Errorf("%d: %s, kept %d, cut %d", i, line.Form, line.Kept, utf8.RuneCountInString(line.Cut()))
		}
		text := strings.TrimSuffix(line.Shown[strings.Index(line.Shown, ": ")+2:], "\n")
		if n := len(utf16.Encode([]rune(text))); n > 1_536 || n < 1_535 || !strings.HasSuffix(text, "…") {
			t.Errorf("%d: %d characters", i, n)
		}
	}
	if got.Lines[3].Form != listing.Bare || got.Lines[3].Shown != "- silent\n" {
		t.Errorf("a skill without a description: %+v", got.Lines[3])
	}
}

func TestVisibility(t *testing.T) {
	var skills []listing.Skill
	for _, v := range []listing.Visibility{"", listing.On, listing.NameOnly, listing.UserInvocableOnly, listing.Off} {
		skills = append(skills, listing.Skill{Name: "k" + string(v), Description: "Does it.", Visibility: v})
	}
	got := listing.Of(listing.ClaudeCode, skills, 200_000)
	if diff := cmp.Diff([]listing.Form{listing.Full, listing.Full, listing.Bare, listing.Hidden, listing.Hidden}, forms(got)); diff != "" {
		t.Errorf("Claude Code (-want +got):\n%s", diff)
	}
	got = listing.Of(listing.Codex, skills, 200_000) // which cannot list a name only
	if diff := cmp.Diff([]listing.Form{listing.Full, listing.Full, listing.Full, listing.Hidden, listing.Hidden}, forms(got)); diff != "" {
		t.Errorf("Codex (-want +got):\n%s", diff)
	}
	if got.Needed != got.Used {
		t.Errorf("needed %d, used %d", got.Needed, got.Used)
	}
}

// TestCodex: all in full, then truncated evenly, then names only, by the alphabet.
func TestCodex(t *testing.T) {
	var skills []listing.Skill
	for i := range 20 {
		skills = append(skills, listing.Skill{Name: fmt.Sprintf("skill-%02d", 19-i), Description: strings.Repeat("d", 100+i)})
	}
	skills[3].Description = "Short."
	all := listing.Of(listing.Codex, skills, 1_000_000)
	// "- skill-16: Short. (file: /home/user/.agents/skills/skill-16/SKILL.md)" and a line end.
	if line := all.Lines[3]; line.Cost != 18 || line.Cost != listing.TokensOf(line.Shown) {
		t.Errorf("the line %q costs %d", line.Shown, line.Cost)
	}
	if all.Limit != 20_000 || all.Unit != listing.Tokens || all.Used != all.Needed {
		t.Errorf("limit %d %s, needed %d, used %d", all.Limit, all.Unit, all.Needed, all.Used)
	}
	for _, f := range forms(all) {
		if f != listing.Full {
			t.Fatalf("with a large window: %v", forms(all))
		}
	}

	cut := listing.Of(listing.Codex, skills, 30_000) // 600 tokens
	least, most := 1_000, 0
	for i, line := range cut.Lines {
		if i == 3 {
			if line.Form != listing.Full {
				t.Errorf("the short description is %s", line.Form)
			}
			continue
		}
		if line.Form != listing.Truncated || line.Seen()+line.Cut() != skills[i].Description {
			t.Errorf("%s: %s, %q", skills[i].Name, line.Form, line.Seen())
		}
		if !strings.Contains(line.Shown, "(file: r0/") {
			t.Errorf("without an alias for the folder: %q", line.Shown)
		}
		least, most = min(least, line.Kept), max(most, line.Kept)
	}
	if least == 0 || most-least > 4 { // characters of one token
		t.Errorf("between %d and %d characters are kept", least, most)
	}
	if cut.Used > cut.Limit || cut.Limit-cut.Used > 4 || cut.Needed != all.Needed {
		t.Errorf("limit %d, used %d, needed %d", cut.Limit, cut.Used, cut.Needed)
	}

	names := listing.Of(listing.Codex, skills, 5_000) // 100 tokens
	kept := 0
	for i, line := range names.Lines {
		switch line.Form {
		case listing.Bare:
			kept++
		case listing.Omitted:
			if line.Shown != "" || line.Cost != 0 || line.Kept != 0 {
				t.Errorf("%s is omitted and listed", skills[i].Name)
			}
			if skills[i].Name < fmt.Sprintf("skill-%02d", 4) {
				t.Errorf("%s is omitted before later names", skills[i].Name)
			}
		default:
			t.Errorf("%s is %s", skills[i].Name, line.Form)
		}
	}
	if kept < 5 || names.Used > names.Limit {
		t.Errorf("%d names in %d of %d", kept, names.Used, names.Limit)
	}
	if got := listing.Of(listing.Codex, nil, listing.Codex.Window()); got.Limit != 5_440 || got.Used != 0 {
		t.Errorf("the usual limit is %d, of which %d is used by nothing", got.Limit, got.Used)
	}
}

// TestCodexCap: a description has at most 1,024 characters, the suffix included.
func TestCodexCap(t *testing.T) {
	got := listing.Of(listing.Codex, []listing.Skill{
		{Name: "a", Description: strings.Repeat("é", 1_024)}, {Name: "b", Description: strings.Repeat("é", 1_025)},
	}, 1_000_000)
	if got.Lines[0].Form != listing.Full || got.Lines[0].Kept != 1_024 {
		t.Errorf("1,024 characters: %s, %d", got.Lines[0].Form, got.Lines[0].Kept)
	}
	if l := got.Lines[1]; l.Form != listing.Truncated || l.Kept != 1_021 || !strings.Contains(l.Shown, "é... (file:") {
		t.Errorf("1,025 characters: %s, %d", l.Form, l.Kept)
	}
}

// TestInvariants: whatever the skills are, what is used fits unless names alone do
// not, and the parts of a description make the whole.
func TestInvariants(t *testing.T) {
	for _, agent := range []listing.Agent{listing.ClaudeCode, listing.Codex} {
		for n := range 40 {
			var skills []listing.Skill
			for i := range n {
				skills = append(skills, listing.Skill{
					Name: fmt.Sprint("s", i*7%40), Description: strings.Repeat("wört 💡 ", i*i%60), Uses: int64(i % 5), WhenToUse: strings.Repeat("z", i%3),
				})
			}
			for _, window := range []int64{1, 500, 5_000, 20_000, 200_000} {
				l := listing.Of(agent, skills, window)
				var sum int64
				bare := false
				for i, line := range l.Lines {
					if line.Seen()+line.Cut() != line.Text || line.Kept < 0 || line.Kept > utf8.RuneCountInString(line.Text) {
						t.Fatalf("%s, %d skills, window %d: line %d: kept %d of %q", agent, n, window, i, line.Kept, line.Text)
					}
					if (line.Form == listing.Full) != (line.Kept == utf8.RuneCountInString(line.Text) && line.Form != listing.Bare && line.Form != listing.Omitted) {
						t.Fatalf("%s, %d skills, window %d: line %d is %s with %d characters", agent, n, window, i, line.Form, line.Kept)
					}
					sum += line.Cost
					bare = bare || line.Form == listing.Bare
				}
				if l.Used > l.Limit && (agent == listing.Codex || !bare) {
					t.Fatalf("%s, %d skills, window %d: %d of %d", agent, n, window, l.Used, l.Limit)
				}
				if l.Needed <= l.Limit && l.Used != l.Needed {
					t.Fatalf("%s, %d skills, window %d: everything fits, and %d of %d is used", agent, n, window, l.Used, l.Needed)
				}
				if sum < l.Used-40 || sum > l.Used+1 {
					t.Fatalf("%s, %d skills, window %d: lines cost %d, used %d", agent, n, window, sum, l.Used)
				}
			}
		}
	}
}
