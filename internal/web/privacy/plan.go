package privacy

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A table is one with rows of organisations. scope has conditions on its rows, with
// $1 for the organisation.
type table struct {
	store.Table
	scope
	omitted []string // columns of it
	blobs   []string // expressions for the keys of blobs of its rows
	people  []string // columns that name the person whose row it is
}

// A plan is the tables in which organisations have rows, each after those that its
// scope or its foreign keys refer to.
type plan []table

// newPlan reads the schema. A table of which it cannot tell whose its rows are is an
// error: add it to scopes or leftOut. The schema is read and not listed, so that a
// new table cannot be forgotten.
func newPlan(ctx context.Context, tx *store.Tx) (plan, error) {
	all, err := tx.Tables(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]table{}
	var order []string
	for _, t := range all { // parents first
		s, ok := scopeOf(t, found)
		if !ok {
			if leftOut[t.Name] == "" {
				return nil, fmt.Errorf("whose the rows of %s are is not known", t.Name)
			}
			continue
		}
		out := table{Table: t, scope: s, omitted: omitted[t.Name], blobs: blobKeys[t.Name]}
		for _, column := range t.Columns {
			if ofPerson.MatchString(column) {
				out.people = append(out.people, column)
			}
		}
		if t.Name == "users" {
			out.people = []string{"id"}
		}
		found[t.Name] = out
		order = append(order, t.Name)
	}
	return sorted(found, order), nil
}

// scopeOf tells whose rows a table has: by a declaration, by org_id, or by the first
// table that it refers to.
func scopeOf(t store.Table, found map[string]table) (scope, bool) {
	if s, ok := scopes[t.Name]; ok {
		if s.delete == "" {
			s.delete = s.export
		}
		return s, true
	}
	if leftOut[t.Name] != "" {
		return scope{}, false
	}
	if slices.Contains(t.Columns, "org_id") {
		return scope{ofOrg, ofOrg}, true
	}
	// A reference to a person is weaker than one to a thing, which has its own.
	references := slices.Clone(t.References)
	slices.SortStableFunc(references, func(a, b store.Reference) int { return weight(a) - weight(b) })
	for _, r := range references {
		if parent, ok := found[r.Table]; ok {
			in := func(condition string) string {
				return fmt.Sprintf(`%s IN (SELECT %s FROM %s WHERE %s)`, r.Column, r.Target, r.Table, condition)
			}
			return scope{in(parent.export), in(parent.delete)}, true
		}
	}
	return scope{}, false
}

// weight sorts references to users last.
func weight(r store.Reference) int {
	if r.Table == "users" {
		return 1
	}
	return 0
}

// ofPerson matches the columns that name the person whose row it is.
var ofPerson = regexp.MustCompile(`^(user_id|.*_by)$`)

// reads matches the tables that a condition reads.
var reads = regexp.MustCompile(`(?:FROM|JOIN) (\w+)`)

// sorted puts tables after those that their scopes read, too. It is a depth-first
// search; done also ends cycles, e.g. of a table that refers to itself.
func sorted(found map[string]table, order []string) plan {
	var out plan
	done := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		t, ok := found[name]
		if !ok || done[name] {
			return
		}
		done[name] = true
		for _, r := range t.References {
			add(r.Table)
		}
		for _, match := range reads.FindAllStringSubmatch(t.export+" "+t.delete, -1) {
			add(match[1])
		}
		out = append(out, t)
	}
	for _, name := range order {
		add(name)
	}
	return out
}

// exported returns the tables of archives, without the columns that are left out.
func (p plan) exported() []table {
	var out []table
	for _, t := range p {
		if t.export == "" {
			continue
		}
		t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c string) bool { return slices.Contains(t.omitted, c) })
		out = append(out, t)
	}
	return out
}

// ofPerson returns the condition on the rows of a person, $2, in their organisation, $1;
// "" if there can be none. Rows that others made about a person count, too, e.g.
// grades of their sessions.
func (t table) ofPerson() string {
	var conditions []string
	for _, column := range t.people {
		conditions = append(conditions, column+" = $2")
	}
	if condition := ofPeople[t.Name]; condition != "" {
		conditions = append(conditions, condition)
	}
	if len(conditions) == 0 {
		return ""
	}
	return "(" + t.export + ") AND (" + strings.Join(conditions, " OR ") + ")"
}

// order makes two files of the same rows the same.
func (t table) order() string {
	if slices.Contains(t.Columns, "id") {
		return "id"
	}
	return strings.Join(t.Columns, ", ")
}
