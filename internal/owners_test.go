package internal_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTableOwners is the first half of rule 2: every table names its owner,
// the same in both sets of migrations, and SQLite's tables are STRICT.
func TestTableOwners(t *testing.T) {
	owners, problems := tableOwners(readMigrations(t))
	report(t, problems)
	for table, owner := range owners {
		if info, err := os.Stat(path.Join("..", owner)); err != nil || !info.IsDir() {
			t.Errorf("%s: its owner %s is no package: correct the comment above CREATE TABLE", table, owner)
		}
	}
}

// TestOneWriter is the second half of rule 2: nobody but the owner writes.
func TestOneWriter(t *testing.T) {
	owners, _ := tableOwners(readMigrations(t))
	if len(owners) == 0 {
		t.Fatal("found no tables")
	}
	report(t, foreignWrites(readTree(t), owners))
}

// TestMigrationPairs compares the names; store's TestSchemaParity compares
// what the migrations make.
func TestMigrationPairs(t *testing.T) {
	names := map[string][]string{}
	for _, m := range readMigrations(t) {
		names[m.dialect] = append(names[m.dialect], m.name)
	}
	if diff := cmp.Diff(names["sqlite"], names["postgres"]); diff != "" {
		t.Errorf("the sets of migrations differ: add the missing file to the other folder of internal/platform/store/migrations (- sqlite, + postgres):\n%s", diff)
	}
}

// migration is one file of internal/platform/store/migrations.
type migration struct {
	dialect, name, text string
}

func readMigrations(t *testing.T) []migration {
	t.Helper()
	var all []migration
	for _, dialect := range []string{"sqlite", "postgres"} {
		dir := os.DirFS(path.Join("platform/store/migrations", dialect))
		names, err := fs.Glob(dir, "*.sql")
		if err != nil || len(names) == 0 {
			t.Fatalf("no migrations of %s: %v", dialect, err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(dir, name)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, migration{dialect, name, string(text)})
		}
	}
	return all
}

var (
	createTable = regexp.MustCompile(`(?i)^\s*CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?"?(\w+)"?`)
	ownerLine   = regexp.MustCompile(`^-- Owner: (internal/[a-z/]+)$`)
	strictTable = regexp.MustCompile(`(?i)^\).*\bSTRICT\b.*;`)
)

// tableOwners maps the tables to their owners, and lists what is wrong with
// the statements that make them.
func tableOwners(migrations []migration) (owners map[string]string, problems []string) {
	owners = map[string]string{}
	for _, m := range migrations {
		lines := strings.Split(m.text, "\n")
		for i, line := range lines {
			match := createTable.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			table, at := match[1], fmt.Sprintf("migrations/%s/%s:%d", m.dialect, m.name, i+1)
			owner := ownerLine.FindStringSubmatch(lines[max(i-1, 0)])
			var name string
			if owner != nil {
				name = currentOwner(table, owner[1])
			}
			switch {
			case owner == nil:
				problems = append(problems, fmt.Sprintf("%s: write \"-- Owner: internal/PACKAGE\" right above CREATE TABLE %s", at, table))
			case owners[table] != "" && owners[table] != name:
				problems = append(problems, fmt.Sprintf("%s: %s is owned by %s elsewhere, here by %s: a table has one owner", at, table, owners[table], name))
			default:
				owners[table] = name
			}
			if m.dialect == "sqlite" && !isStrict(lines[i:]) {
				problems = append(problems, fmt.Sprintf("%s: end CREATE TABLE %s with \") STRICT;\", or SQLite stores text in its number columns", at, table))
			}
		}
	}
	return owners, problems
}

// foreignReadsAllowed are the reads of other rooms' tables that stay, each with its reason.
// Everything else is read through a method of the owner.
var foreignReadsAllowed = map[string]string{
	"approvals reads registry_entries":      "what waits for a person is filtered by answers and cut to a page in one statement",
	"approvals reads registry_versions":     "as above; and the newest candidate is compared with the current version",
	"approvals reads repohost_attempts":     "candidates are matched with the commits that made them before the newest are taken",
	"content reads agent_sessions":          "an invariant between both tables, for the doctor",
	"grades reads skill_gradings":           "an invariant between both tables, for the doctor",
	"grades reads skill_session_grades":     "whether a failure counts depends on the grade of its session, and reasons are grouped in SQL",
	"grades reads skills":                   "failures of a skill and of those merged into it are grouped in SQL",
	"installations reads registry_entries":  "installations are listed with the current version of their entry, and the history is read by skill",
	"installations reads registry_versions": "the version of an installation is found by its content",
	"notify reads organisations":            "auth lies above; a delivery of a deleted organisation is not sent",
	"proposals reads skills":                "proposals for hidden skills are left out of counts and pages in one statement",
	"publishers reads organisations":        "a run's rules are searched by the name of the organisation, leaving out deleted ones",
	"publishers reads registry_entries":     "rules are listed with the names of their entries, and searched by them",
	"quota reads organisations":             "auth lies above; a quota follows the plan, in the statement that counts",
	"registry reads organisations":          "entries are found and listed by the names of their organisations, on every shelf",
	"repohost reads entry_codeowners":       "teams lies above; the doctor names connections whose file no longer counts",
	"repohost reads organisations":          "whether an installation's organisation is there is part of the condition Claimed; auth would lengthen the chain of imports",
	"skills reads cloud_sources":            "sources lie above; a skill that has one cannot be merged",
	"skills reads registry_entries":         "the registry lies above; a skill that has an entry cannot be merged",
	"store reads job_workers":               "jobs lie above; tables are partitioned once no process of an older version runs",
	"teams reads repohost_connections":      "a CODEOWNERS file counts only while its connection says so, which decides which one is read",
	"teams reads users":                     "members are counted and listed without removed users",
	"telemetry reads registry_entries":      "which skills of plugins may be entries is one join; the registry is no room that telemetry uses",
	"telemetry reads skills":                "as above: skills are matched by the names of plugins",
}

// TestForeignReads is the last part of rule 2: others read through the owner, with the
// exceptions that are listed.
func TestForeignReads(t *testing.T) {
	owners, _ := tableOwners(readMigrations(t))
	product := slices.DeleteFunc(slices.Clone(readTree(t)), func(f *source) bool { return f.forTests })
	found := foreignReads(product, owners)
	for _, pair := range found {
		if foreignReadsAllowed[pair] == "" {
			t.Errorf("%s: call a method of the table's owner, or justify it in foreignReadsAllowed", pair)
		}
	}
	for pair := range foreignReadsAllowed {
		if !slices.Contains(found, pair) {
			t.Errorf("%s no more: delete it from foreignReadsAllowed", pair)
		}
	}
}

// moved are the tables whose owner was split after their migration was written,
// by the owner that the migration names: migrations never change.
var moved = map[string]map[string]string{
	"catalog": {"catalog_tokens": "auth"},
	"evals": {
		"eval_environments":  "suites",
		"eval_run_cases":     "runs",
		"eval_run_costs":     "runs",
		"eval_run_counts":    "runs",
		"eval_run_events":    "runs",
		"eval_run_trials":    "runs",
		"eval_runs":          "runs",
		"eval_suites":        "suites",
		"improve_iterations": "improve",
		"improve_runs":       "improve",
	},
	"registry": {
		"registry_installations": "installations",
		"registry_sayings":       "installations",
	},
	"sources": {
		"source_reviews":     "suggestions",
		"source_suggestions": "suggestions",
	},
}

// renamed are the owners with another name than their migrations have.
var renamed = map[string]string{"evidence": "content"}

// currentOwner is the folder of the owner that a migration names, or of what it was
// split into; rooms are found by their names, wherever they lie.
func currentOwner(table, named string) string {
	name := path.Base(named)
	if owner, ok := renamed[name]; ok {
		name = owner
	}
	if owner, ok := moved[name][table]; ok {
		name = owner
	}
	return roomNamed(name)
}

// isStrict looks at the line that closes the statement, which begins with the
// closing bracket.
func isStrict(lines []string) bool {
	end := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, ")") })
	return end >= 0 && strictTable.MatchString(lines[end])
}

// A write is recognised by the house's capitals: in lower case "update users"
// would be a sentence.
var writes = regexp.MustCompile(`\b(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|REPLACE\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO|TRUNCATE(?:\s+TABLE)?)\s+"?(\w+)`)

func foreignWrites(files []*source, owners map[string]string) (problems []string) {
	for _, f := range files {
		if f.forTests {
			continue
		}
		for _, w := range f.writes() {
			owner := owners[w.table]
			if strings.HasPrefix(w.table, "river_") {
				owner = roomNamed("jobs") // the library makes them, so no migration names them
			}
			if owner != "" && owner != f.room {
				problems = append(problems, fmt.Sprintf("%s: %s writes the table %s of %s: call a method of the owner, in the same transaction if need be", f.at(w.pos), f.room, w.table, owner))
			}
		}
	}
	return problems
}

// TestStatementsStandTogether keeps a reader from having to look for SQL.
func TestStatementsStandTogether(t *testing.T) {
	report(t, strayStatements(readTree(t)))
}

// statement is recognised by the house's capitals, like a write.
var statement = regexp.MustCompile(
	`\b(?:SELECT\s+\S|INSERT\s+INTO\s|DELETE\s+FROM\s|UPDATE\s+\w+\s+SET\s|FROM\s+\w+(?:\s+\w)?\s+WHERE\s)`)

// keepsSQLApart lists the rooms beside the capabilities that do it, too.
var keepsSQLApart = []string{"internal/identity/auth", "internal/platform/httpapi", "internal/web/overview", "internal/skill/skills"}

// strayStatements finds SQL outside of sql.go and the files beside it that end
// in _sql.go.
func strayStatements(files []*source) (problems []string) {
	for _, f := range files {
		name := path.Base(f.path)
		capability := rooms[f.room].isCapability() || slices.Contains(keepsSQLApart, f.room)
		if f.forTests || !capability || name == "sql.go" || strings.HasSuffix(name, "_sql.go") || f.path == "internal/identity/auth/secret.go" {
			continue
		}
		ast.Inspect(f.file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && statement.MatchString(text(literal)) {
				problems = append(problems, fmt.Sprintf("%s: SQL stands outside of sql.go: move it there, or into a file that ends in _sql.go", f.at(n.Pos())))
			}
			return true
		})
	}
	return problems
}

type write struct {
	table string
	pos   token.Pos
}

// writes finds the tables that the file's texts write: statements, and the
// tables of a store.Bulk.
func (f *source) writes() (found []write) {
	ast.Inspect(f.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			for _, match := range writes.FindAllStringSubmatch(text(n), -1) {
				found = append(found, write{match[1], n.Pos()})
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Table" {
				found = append(found, write{text(n.Value), n.Pos()})
			}
		}
		return true
	})
	return found
}

// text is what a string literal says, or "".
func text(e ast.Expr) string {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(literal.Value)
	if err != nil {
		return "" // the parser has accepted it
	}
	return s
}

func TestOwnerRulesBite(t *testing.T) {
	const good = "-- Owner: internal/watch/alerts\nCREATE TABLE alert_rules (\n    id TEXT\n) STRICT;\n"
	for _, c := range []struct{ name, text, want string }{
		{"good", good, ""},
		{"no owner", strings.TrimPrefix(good, "-- Owner: internal/watch/alerts\n"), `write "-- Owner: internal/PACKAGE" right above CREATE TABLE alert_rules`},
		{"owner too far above", strings.Replace(good, "\n", "\n\n", 1), "right above CREATE TABLE alert_rules"},
		{"two owners", good + strings.Replace(good, "internal/watch/alerts", "internal/learn/signals", 1), "owned by internal/watch/alerts elsewhere, here by internal/learn/signals"},
		{"loose", strings.Replace(good, " STRICT", "", 1), `end CREATE TABLE alert_rules with ") STRICT;"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, problems := tableOwners([]migration{{"sqlite", "00001_x.sql", c.text}})
			checkBite(t, problems, c.want)
		})
	}
}

func TestWriterRuleBites(t *testing.T) {
	owners := map[string]string{"alert_rules": "internal/watch/alerts", "skills": "internal/skill/skills"}
	for _, c := range []struct{ name, path, literal, want string }{
		{"owner", "internal/watch/alerts/sql.go", "`INSERT INTO alert_rules (id) VALUES ($1)`", ""},
		{"reader", "internal/web/overview/sql.go", "`SELECT id FROM alert_rules`", ""},
		{"insert", "internal/learn/signals/sql.go", "`INSERT INTO alert_rules (id) VALUES ($1)`", "internal/learn/signals writes the table alert_rules of internal/watch/alerts"},
		{"insert over lines", "internal/learn/signals/sql.go", "`\n\tINSERT INTO\n\t\talert_rules (id)`", "call a method of the owner"},
		{"update", "internal/learn/signals/sql.go", "\"UPDATE alert_rules SET id = 1\"", "call a method of the owner"},
		{"delete", "internal/learn/signals/sql.go", "`DELETE FROM alert_rules`", "call a method of the owner"},
		{"bulk", "internal/learn/signals/sql.go", "store.Bulk{Table: \"alert_rules\"}", "call a method of the owner"},
		{"locking read", "internal/web/overview/sql.go", "`SELECT id FROM skills FOR UPDATE SKIP LOCKED`", ""},
		{"prose", "internal/cli/a.go", "\"update skills of yours\"", ""},
		{"test", "internal/learn/signals/sql_test.go", "`DELETE FROM alert_rules`", ""},
		{"library's table", "internal/watch/alerts/sql.go", "`DELETE FROM river_job`", "of internal/platform/jobs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parseSource(c.path, "package p\nvar x = "+c.literal)
			if err != nil {
				t.Fatal(err)
			}
			checkBite(t, foreignWrites([]*source{f}, owners), c.want)
		})
	}
}

func TestStatementRuleBites(t *testing.T) {
	for _, c := range []struct{ name, path, literal, want string }{
		{"in its place", "internal/watch/alerts/sql.go", "`SELECT id FROM alert_rules`", ""},
		{"beside it", "internal/watch/alerts/event_sql.go", "`DELETE FROM alert_events`", ""},
		{"elsewhere", "internal/watch/alerts/rule.go", "`\n\tSELECT id FROM alert_rules`", "SQL stands outside of sql.go"},
		{"update", "internal/watch/alerts/rule.go", "\"UPDATE alert_rules SET id = 1\"", "SQL stands outside of sql.go"},
		{"in the shared noun", "internal/skill/skills/skill.go", "`INSERT INTO skills (id) VALUES ($1)`", "SQL stands outside of sql.go"},
		{"prose", "internal/watch/alerts/rule.go", "\"update it, or select another\"", ""},
		{"queue", "internal/platform/jobs/table.go", "`SELECT id FROM jobs`", ""},
		{"test", "internal/watch/alerts/rule_test.go", "`SELECT id FROM alert_rules`", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := parseSource(c.path, "package p\nvar x = "+c.literal)
			if err != nil {
				t.Fatal(err)
			}
			checkBite(t, strayStatements([]*source{f}), c.want)
		})
	}
}
