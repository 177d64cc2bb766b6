package signals_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// TestDifferencing attacks the figures over time: contributors come, send and leave in a
// random order, and all figures are read after each body. Each signal has a bit of its
// own as its confidence, so that the sum of a cell says which signals it holds. Neither
// the figures of a cell nor what the cells below leave of it may differ between any two
// reads by the signals of fewer than k contributors.
func TestDifferencing(t *testing.T) {
	t.Parallel()
	for _, k := range []int{signals.DefaultMinContributors, 2, 5} {
		t.Run(fmt.Sprintf("of %d contributors", k), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, storetest.Open(t, "sqlite"))
			w.signals.MinContributors = k
			rapid.Check(t, func(t *rapid.T) {
				p := poller{T: t, k: k, c: w.org(t), cells: map[string][]int64{}, rests: map[string][]int64{}}
				for _, s := range rapid.SliceOfN(rapid.Custom(drawBody), 1, 24).Draw(t, "bodies") {
					p.send(s)
					p.read()
				}
			})
		})
	}
}

// drawBody draws up to three signals of one contributor.
func drawBody(t *rapid.T) []secret {
	body := rapid.SliceOfN(rapid.Custom(drawSecret), 1, 3).Draw(t, "body")
	for i := range body {
		body[i].who = body[0].who
	}
	return body
}

// A poller reads all figures again and again.
type poller struct {
	*rapid.T
	k     int
	c     *client
	who   []string           // by bit
	cells map[string][]int64 // what each read said, by cell
	rests map[string][]int64 // what the cells of a group leave of the one above
}

func (p *poller) send(body []secret) {
	var all []signals.Signal
	for _, s := range body {
		if len(p.who) > 60 {
			return
		}
		all = append(all, signals.Signal{
			SourceKey: fmt.Sprint(len(p.who)), SkillName: s.skill, Type: s.kind, Contributor: s.who, Day: s.day,
			Confidence: new(int64(1) << len(p.who)),
		})
		if s.session {
			all[len(all)-1].Session = &s.says
		}
		p.who = append(p.who, s.who)
	}
	if _, err := p.c.w.signals.Store(p.Context(), p.c.Org.ID, all); err != nil {
		p.Fatal(err)
	}
}

func (p *poller) read() {
	all, err := p.c.w.signals.Shown(p.Context(), p.c.Org.ID)
	if err != nil {
		p.Fatal(err)
	}
	sums, rests := map[string]int64{}, map[string]int64{}
	for _, cell := range all {
		sums[cell.Name] = cell.Sum
		p.compare("a cell", p.cells, cell.Name, cell.Sum)
		if above, is := sums[cell.Above]; is { // comes first
			if _, is := rests[cell.Group]; !is {
				rests[cell.Group] = above
			}
			rests[cell.Group] -= cell.Sum
		}
	}
	for group, rest := range rests {
		p.compare("the rest", p.rests, group, rest)
	}
}

// compare looks at a figure and at its difference from all earlier ones.
func (p *poller) compare(what string, all map[string][]int64, name string, sum int64) {
	for _, before := range append([]int64{0}, all[name]...) {
		people := map[string]bool{}
		for bit, who := range p.who {
			if (sum^before)>>bit&1 == 1 {
				people[who] = true
			}
		}
		if len(people) > 0 && len(people) < p.k {
			p.Fatalf("%s went from %b to %b: that is %v", what, before, sum, slices.Collect(maps.Keys(people)))
		}
	}
	if !slices.Contains(all[name], sum) {
		all[name] = append(all[name], sum)
	}
}

// TestSnapshot: what one person sends shows only together with what others send.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org(t)
		paths := []string{
			overviewPath, skillPath + "pdf", skillPath + "csv", aggregatesPath, aggregatesPath + query("bucket", "week"),
			aggregatesPath + query("skill_name", "pdf"), aggregatesPath + query("signal_type", "skill_session"),
		}
		read := func() map[string]any {
			all := map[string]any{}
			for _, path := range paths {
				all[path] = c.get(path).want(http.StatusOK).object()
			}
			findings, err := w.signals.Findings(t.Context(), c.Org.ID)
			if err != nil {
				t.Fatal(err)
			}
			all["findings"] = fmt.Sprint(findings)
			return all
		}
		send := func(skill, who, grade string) {
			c.post(sessionBody(skill, who, "2026-W07", object{"triggered": true, "invocation_type": "explicit", "execution_grade": grade})).
				want(http.StatusCreated)
		}
		wantSame := func(what string, before map[string]any) {
			t.Helper()
			if diff := cmp.Diff(before, read()); diff != "" {
				t.Errorf("%s (-before +after):\n%s", what, diff)
			}
		}
		signalsOf := func(skill string) any {
			one, _ := c.get(skillPath + skill).want(http.StatusOK).object()["skill"].(object)
			return one["signal_count"]
		}

		before := read()
		if before[overviewPath].(object)["as_of"] != nil {
			t.Errorf("as_of %v before the first snapshot", before[overviewPath])
		}
		send("pdf", "a", "F")
		send("pdf", "b", "F")
		send("pdf", "b", "F")
		wantSame("two people", before)
		send("pdf", "c", "F")
		if got := signalsOf("pdf"); got != 4.0 {
			t.Fatalf("%v signals of three people, want 4", got)
		}
		first := read()
		if at, is := first[overviewPath].(object)["as_of"].(string); !is || first[skillPath+"pdf"].(object)["as_of"] != at ||
			first[aggregatesPath].(object)["as_of"] != at {
			t.Errorf("as_of: %v", first)
		}
		send("pdf", "d", "F")
		send("pdf", "d", "A")
		send("pdf", "e", "A")
		wantSame("two more people", first)

		// The third sends about another skill: the first two are not enough for this one.
		send("csv", "f", "A")
		if o := c.get(overviewPath).want(http.StatusOK).object(); o["as_of"] == first[overviewPath].(object)["as_of"] {
			t.Error("no snapshot of three people")
		}
		if got := signalsOf("pdf"); got != 4.0 {
			t.Errorf("pdf: %v signals, though only two people have sent more", got)
		}
		send("pdf", "f", "A")
		send("csv", "d", "A")
		send("csv", "e", "A")
		if pdf, csv := signalsOf("pdf"), signalsOf("csv"); pdf != 8.0 || csv != 3.0 {
			t.Errorf("%v signals of pdf and %v of csv, want 8 and 3", pdf, csv)
		}
		// One F among the three new people: the grade stays as it was.
		grades := c.get(skillPath + "pdf").want(http.StatusOK).object()["grade_distribution"].(object)
		if grades["F"] != 4.0 {
			t.Errorf("grades %v show the one of d", grades)
		}

		w.signals.MinContributors = 1
		send("pdf", "a", "B")
		if got := signalsOf("pdf"); got != 9.0 {
			t.Errorf("%v signals where one person is enough, want 9", got)
		}
	})
}
