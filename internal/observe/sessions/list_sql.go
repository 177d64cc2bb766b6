package sessions

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// listSessions returns a page of the sessions that a filter selects, newest first,
// and where the next page begins, nil at the end.
func listSessions(ctx context.Context, q store.Querier, orgID string, f Filter) (all []Session, next *position, err error) {
	ranges, compared := f.conditions(orgID)
	// The ranges share the budget of the page.
	f.maxCompared = max(1, f.maxCompared/len(ranges))
	for _, indexed := range ranges {
		found, last, err := sessionsOfRange(ctx, q, f, indexed, compared)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, found...)
		// The newest end of all ranges: beyond it one of them was not compared.
		if last != nil && (next == nil || last.compare(*next) > 0) {
			next = last
		}
	}
	slices.SortFunc(all, func(a, b Session) int { return b.position().compare(a.position()) })
	if next != nil { // what is older may be incomplete
		all = slices.DeleteFunc(all, func(s Session) bool { return s.position().compare(*next) < 0 })
	}
	if len(all) > f.Limit {
		all = all[:f.Limit]
		last := all[f.Limit-1].position()
		next = &last
	}
	return all, next, nil
}

// sessionsOfRange returns the newest sessions in a range of an index that fulfil the
// other conditions, one more than the limit if there are so many. If there are fewer
// since not all of the range was compared, last is where that ended.
func sessionsOfRange(
	ctx context.Context, q store.Querier, f Filter, indexed, compared conditions,
) (found []Session, last *position, err error) {
	// The rows that are selected and sorted are those of sessions, or of their skills.
	columns, table, alias, at, id, sessions := sessionColumns, `agent_sessions`, ` s`, `s.started_at`, `s.id`, ``
	if f.ofSkill() {
		columns, table, alias = `k.session_id, k.skill_id, k.started_at, k.activated, k.outcome`, `agent_session_skills`, ` k`
		at, id, sessions = `k.started_at`, `k.session_id`, ` JOIN agent_sessions s ON s.id = k.session_id`
	}
	if f.Since != nil {
		indexed = indexed.and(at+` >= ?`, store.Micros(*f.Since))
	}
	if f.Until != nil {
		indexed = indexed.and(at+` < ?`, store.Micros(*f.Until))
	}
	if f.after != nil {
		indexed = indexed.and(`(`+at+`, `+id+`) < (?, ?)`, f.after.micros, f.after.id)
	}
	newest := ` ORDER BY ` + at + ` DESC, ` + id + ` DESC LIMIT `
	selected := ` FROM ` + table + alias + indexed.where() + newest
	from := table + alias + sessions + indexed.where()
	if compared.sql != nil {
		from = `(SELECT ` + columns + selected + strconv.Itoa(f.maxCompared) + `)` + alias + sessions + compared.where()
	}
	rows, err := q.Query(ctx, numbered(`SELECT `+sessionColumns+` FROM `+from+newest+strconv.Itoa(f.Limit+1)),
		slices.Concat(indexed.args, compared.args)...)
	found, err = store.All(rows, err, scanSession)
	if err != nil || compared.sql == nil || len(found) > f.Limit {
		return found, nil, err
	}
	rows, err = q.Query(ctx, numbered(`SELECT `+at+`, `+id+selected+`1 OFFSET `+strconv.Itoa(f.maxCompared-1)), indexed.args...)
	// The row where the comparison stopped; none if the range ended before.
	end, err := store.All(rows, err, func(row store.Row) (p position, err error) {
		err = row.Scan(&p.micros, &p.id)
		return p, err
	})
	if err != nil || len(end) == 0 {
		return found, nil, err
	}
	return found, &end[0], nil
}

// ofSkill reports whether rows of skills are selected, not those of sessions.
func (f Filter) ofSkill() bool { return f.SkillID != "" || f.VersionID != "" }

// conditions returns what a filter asks for: ranges of an index that is sorted like
// the list, of which the page is merged, and what is compared row by row. An unused
// filter adds nothing, since a condition like ($1 IS NULL OR agent = $1) would use
// no index. Each column that has an index starts with the key and ends with the time
// and id, so a range is read in the order of the list and stops at the limit.
func (f Filter) conditions(orgID string) (ranges []conditions, compared conditions) {
	key := is(`s.org_id = ?`, orgID)
	if f.VersionID != "" {
		ranges, compared = []conditions{is(`k.version_id = ?`, f.VersionID)}, key // it may be of others
	}
	if f.SkillID != "" {
		key = is(`k.skill_id = ?`, f.SkillID)
	}
	if f.VersionID != "" && f.SkillID != "" {
		compared = key
	}
	// by selects by one of several conditions. The first call with an index uses it.
	by := func(hasIndex bool, alternatives ...conditions) {
		if hasIndex && ranges == nil {
			for _, a := range alternatives {
				ranges = append(ranges, key.and(a.sql[0], a.args...))
			}
			return
		}
		compared = compared.andOneOf(alternatives)
	}
	outcome := func(o Outcome) conditions {
		if !f.ofSkill() {
			return is(`s.outcome = ?`, string(o))
		}
		return is(`k.outcome <> '' AND k.outcome = ?`, string(o)) // the index is partial
	}
	if f.UserID != "" {
		by(!f.ofSkill(), is(`s.user_id = ?`, f.UserID))
	}
	switch f.Outcome {
	// Outcome never has this value in a filter; Graded selects those.
	case Ungraded:
	case ToolErrors:
		by(!f.ofSkill(), is(`s.tool_errors > 0`), is(`s.fact_errors > 0 AND s.tool_calls = 0`))
	case Passed, Failed:
		by(true, outcome(f.Outcome))
	}
	if f.Agent != "" {
		by(!f.ofSkill(), is(`s.agent = ?`, f.Agent))
	}
	switch {
	case f.Graded == nil:
	case *f.Graded:
		by(true, outcome(Passed), outcome(Failed))
	case f.ofSkill():
		by(false, is(`k.outcome = ''`))
	default:
		by(true, outcome(Ungraded))
	}
	activated, unused := is(`k.activated = TRUE`), is(`k.activated = FALSE`)
	switch {
	case f.Activated != nil && *f.Activated:
		by(true, activated)
	case f.Activated != nil:
		by(true, unused)
	// No filter chose an index: all values of an indexed column together are all
	// rows.
	case ranges == nil && f.ofSkill():
		by(true, activated, unused)
	case ranges == nil:
		by(true, outcome(Ungraded), outcome(Passed), outcome(Failed))
	}
	return ranges, compared
}

// conditions are parts of a WHERE clause, with a ? for each argument.
type conditions struct {
	sql  []string
	args []any
}

// is returns one condition. Its text must not contain a ? other than for arguments.
func is(sql string, args ...any) conditions { return conditions{[]string{sql}, args} }

// and adds a condition. It copies, since ranges are built from one shared key.
func (c conditions) and(sql string, args ...any) conditions {
	return conditions{append(slices.Clip(c.sql), sql), append(slices.Clip(c.args), args...)}
}

// andOneOf adds that one of the alternatives, of one condition each, is true.
func (c conditions) andOneOf(alternatives []conditions) conditions {
	var either conditions
	for _, a := range alternatives {
		either = either.and(`(`+a.sql[0]+`)`, a.args...)
	}
	return c.and(`(`+strings.Join(either.sql, ` OR `)+`)`, either.args...)
}

func (c conditions) where() string { return ` WHERE ` + strings.Join(c.sql, ` AND `) }

// numbered replaces each ? by the number of its argument. Conditions do not know
// their place in the statement, so they cannot use $N.
func numbered(sql string) string {
	var b strings.Builder
	for i, part := range strings.Split(sql, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}
