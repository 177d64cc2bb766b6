package main

import (
	"slices"
	"strings"
	"testing"
)

// line is one of PostgreSQL's log.
func line(database, severity, code, message, query string) string {
	columns := make([]string, 26)
	columns[databaseColumn], columns[severityColumn], columns[codeColumn] = database, severity, code
	columns[messageColumn], columns[queryColumn] = message, query
	for i, c := range columns {
		columns[i] = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
	}
	return strings.Join(columns, ",") + "\n"
}

func log(test, database string, statements ...string) string {
	text := line("postgres", "LOG", "00000", "statement: CREATE DATABASE "+database+" TEMPLATE x STRATEGY FILE_COPY -- "+test, "")
	for _, s := range statements {
		text += line(database, "LOG", "00000", "execute stmtcache_1: "+s, "")
	}
	return text
}

// TestDispensable: a test is left out only if others do all that it does.
func TestDispensable(t *testing.T) {
	all := log("internal/web.TestAll", "t_1", "SELECT a FROM x WHERE id IN ($1, $2)", "UPDATE x SET a = $1", "DELETE FROM x") +
		// The same statements, with another number of arguments and lines.
		log("internal/web.TestSome", "t_2", "SELECT a\n\tFROM x WHERE id IN ($1)", "DELETE FROM x") +
		log("internal/web.TestOwn", "t_3", "SELECT b FROM x") +
		// The same statement fails only here.
		log("internal/web.TestRefused", "t_4", "DELETE FROM x") + line("t_4", "ERROR", "23505", "duplicate key", "DELETE FROM x") +
		// Tests about databases are never left out, and others need not do what they do.
		log("internal/platform/store.TestTx", "t_5", "DELETE FROM x", "SELECT 1") +
		log("internal/web.TestOne", "t_6", "SELECT 2") +
		line("t_7", "LOG", "00000", "statement: SELECT nobody's", "")
	tests, err := read(strings.NewReader(all))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := dispensable(tests), []string{"internal/web.TestOne", "internal/web.TestSome"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
