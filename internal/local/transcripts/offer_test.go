package transcripts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// offers returns the skills on offer by session and time.
func (s *server) offers() map[string][]string {
	found := map[string][]string{}
	for key, r := range s.of("skill_offer") {
		for _, name := range r["skill_names"].([]any) {
			found[key] = append(found[key], name.(string))
		}
	}
	return found
}

// listing writes the attachment that shows skills to the model.
func (s *script) listing(at string, names ...string) *script {
	return s.add(object{"type": "attachment", "timestamp": at, "attachment": object{
		"type": "skill_listing", "names": names, "content": "- pdf: Reads HELIOTROPE files.", "isInitial": true,
	}})
}

func TestOffers(t *testing.T) {
	const began = "2026-03-14T09:26:54.589Z" // of the first line
	many := make([]string, 1500)
	for i := range many {
		many[i] = fmt.Sprintf("skill-%04d", i)
	}
	for name, test := range map[string]struct {
		script *script
		want   map[string][]string
	}{
		"a moment before the first line": {
			new(script).user("hello").listing("2026-03-14T09:26:54.580Z", "pdf", "acme:deploy"),
			map[string][]string{sessionID + " " + began: {"pdf", "acme:deploy"}},
		},
		"twice in a session": {
			new(script).user("hello").listing("2026-03-14T09:27:00.000Z", "pdf").listing("2026-03-15T00:00:00.000Z", "csv"),
			map[string][]string{sessionID + " 2026-03-14T09:27:00Z": {"pdf"}, sessionID + " 2026-03-15T00:00:00Z": {"csv"}},
		},
		"copied by a fork": { // it is part of what the model sees
			new(script).user("hello").listing("2026-03-01T09:00:00.000Z", "pdf"),
			map[string][]string{sessionID + " " + began: {"pdf"}},
		},
		"copied by a branch": { // its transcript has it
			(&script{fork: "another"}).listing(began, "pdf"),
			map[string][]string{},
		},
		"skills of the agent": {
			new(script).user("hello").listing(began, "loop", "pdf", "code-review", "pdf", " ", "with\nline", strings.Repeat("x", 201)),
			map[string][]string{sessionID + " " + began: {"pdf"}},
		},
		"only skills of the agent": {new(script).user("hello").listing(began, "loop"), map[string][]string{}},
		"too many":                 {new(script).user("hello").listing(began, many...), map[string][]string{sessionID + " " + began: many[:1000]}},
		"other attachments": {
			new(script).user("hello").add(object{"type": "attachment", "attachment": object{"type": "date", "names": 5}}).
				add(object{"type": "attachment", "attachment": "text"}),
			map[string][]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := imported(t, sessionID+".jsonl", test.script)
			if diff := cmp.Diff(test.want, s.offers()); diff != "" {
				t.Errorf("offers (-want +got):\n%s", diff)
			}
			if strings.Contains(fmt.Sprint(s.records), "HELIOTROPE") {
				t.Error("the description was sent")
			}
		})
	}
}

// TestOffersOfRealSessions: the transcripts of the real agent list its own skills
// and those that were installed; a forked session has only the copy of the list.
func TestOffersOfRealSessions(t *testing.T) {
	for folder, want := range map[string][]string{
		"offered": {"alpha-notes", "pdf-tables"}, "forked": {"pdf-tables", "pdf-tables"}, "plugin": {"acme:deploy"},
		"resumed": {"pdf-tables"}, "subagent": {"pdf-tables"},
	} {
		t.Run(folder, func(t *testing.T) {
			m, s := newMachine(t), newServer()
			if err := os.CopyFS(filepath.Dir(m.path("x")), os.DirFS(filepath.Join("testdata/agents", folder))); err != nil {
				t.Fatal(err)
			}
			if sum := m.run(s); sum.Malformed > 0 {
				t.Errorf("%+v", sum)
			}
			seen := map[string]bool{} // by session and skill
			var got []string
			for key, names := range s.offers() {
				session, _, _ := strings.Cut(key, " ")
				for _, name := range names {
					if !seen[session+name] {
						got = append(got, name)
					}
					seen[session+name] = true
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("offers (-want +got):\n%s", diff)
			}
		})
	}
}
