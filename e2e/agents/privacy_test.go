package agents_test

import (
	"bytes"
	"compress/gzip"
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"
)

// TestContentIsNotStored lets both agents send all that they can send of what
// was said, read and run, and searches everything that the service has stored
// and logged. What people wrote is stored only if they import it.
func TestContentIsNotStored(t *testing.T) {
	requireAgents(t)
	s := startService(t)
	o := s.newOrganisation(t)

	c := newClaudeCode(t, o)
	c.write(t, "project/.claude/skills/pdf-tables/SKILL.md", skillFile("pdf-tables"))
	c.model.Script(
		calls(useOf("pdf-tables")),
		calls(toolCall{Tool: "Read", Input: object{"file_path": "invoice.txt"}}, bash("echo "+commandWord)),
		calls(subagent(false)),
		calls(subagent(true)),
		answer(), answer(), // the second, if the subagent ends after the first
	)
	c.model.Subagent(calls(bash("cat invoice.txt # "+commandWord)), answer())
	c.prompt(t, "What does the invoice say? "+promptWord)

	x := newCodex(t, o)
	x.model.Script(calls(shell("cat invoice.txt # "+commandWord)), answer())
	x.prompt(t, "Use $pdf-tables on the invoice. "+promptWord)
	x.model.WantAllSaid(1)

	for _, agent := range []struct {
		name  string
		agent agent
	}{{"Claude Code", c.agent}, {"Codex", x.agent}} {
		t.Run("sent by "+agent.name, func(t *testing.T) {
			sent := map[string]bool{}
			for _, e := range agent.agent.telemetry.sent() {
				searchBytes(sent, e.body)
			}
			// Else the test would prove nothing.
			if !sent[promptWord] || !sent[fileWord] || !sent[commandWord] {
				t.Errorf("the agent sent only %v", sent)
			}
		})
	}
	o.importTranscripts(t, c.home, "--no-prompts")
	t.Run("OTLP and import without prompts", func(t *testing.T) { s.wantStored(t) })

	t.Run("import", func(t *testing.T) {
		s := startService(t)
		s.newOrganisation(t).importTranscripts(t, c.home)
		s.wantStored(t, promptWord)
	})
}

// wantStored stops the service and checks which of the words it has stored or
// logged.
func (s *service) wantStored(t *testing.T, words ...string) {
	t.Helper()
	if err := s.Terminate(); err != nil {
		t.Fatal(err)
	}
	where := map[string]map[string]bool{} // of a word
	note := func(place string, content []byte) {
		found := map[string]bool{}
		searchBytes(found, content)
		for word := range found {
			if where[word] == nil {
				where[word] = map[string]bool{}
			}
			where[word][place] = true
		}
	}
	note("log", []byte(s.Log()))
	err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		note(strings.TrimPrefix(path, s.data), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	searchDatabase(t, filepath.Join(s.data, "whetstone.db"), note)

	wanted := map[string]bool{}
	for _, word := range words {
		wanted[word] = true
	}
	got := map[string]bool{}
	for word := range where {
		got[word] = true
	}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("words that are stored (-want +got):\n%s\nin %v", diff, where)
	}
}

// searchBytes adds the words that occur in a content, which may be compressed.
func searchBytes(found map[string]bool, content []byte) {
	if r, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
		if plain, err := io.ReadAll(r); err == nil {
			content = plain
		}
	}
	for _, word := range []string{promptWord, replyWord, fileWord, commandWord} {
		if bytes.Contains(content, []byte(word)) {
			found[word] = true
		}
	}
}

// searchDatabase reads every value: in the file a word may lie across two pages.
func searchDatabase(t *testing.T, path string, note func(string, []byte)) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range column(t, db, `SELECT name FROM sqlite_schema WHERE type = 'table'`) {
		for _, name := range column(t, db, fmt.Sprintf(`SELECT name FROM pragma_table_info('%s')`, table)) {
			for _, value := range column(t, db, fmt.Sprintf(`SELECT CAST(%q AS BLOB) FROM %q`, name, table)) {
				note(table+"."+name, []byte(value))
			}
		}
	}
}

func column(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var value sql.NullString
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
		all = append(all, value.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
