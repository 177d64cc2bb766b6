// Package invariants is what the doctor finds, and how the owners of tables say what
// must hold in them. It owns no tables.
package invariants

import (
	"context"
	"fmt"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A Finding is what the doctor says of one part, and what to do about it.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// A Status is how bad a finding is.
type Status string

// The statuses, best first.
const (
	Good   Status = "ok"
	Advice Status = "warn"
	Broken Status = "fail"
)

// Fine is a finding that nothing is wrong.
func Fine(check, format string, args ...any) Finding {
	return Finding{check, Good, fmt.Sprintf(format, args...)}
}

// Warn is a finding that somebody should look at.
func Warn(check, format string, args ...any) Finding {
	return Finding{check, Advice, fmt.Sprintf(format, args...)}
}

// Fail is a finding that something is broken.
func Fail(check, format string, args ...any) Finding {
	return Finding{check, Broken, fmt.Sprintf(format, args...)}
}

// A Rule is what must hold in the tables of one owner.
type Rule struct {
	// Broken counts what breaks the rule: two columns, how many there are and
	// the name of one of them, or "".
	Broken string
	Args   []any
	// Wrong says in the plural what the query counts: "entries without ...".
	Wrong string
	// Do says what to do about it.
	Do string
	// Mild rules warn only.
	Mild bool
}

// Check asks for every rule and says what is broken, or in one finding that
// nothing is. A check is named after its owner.
func Check(ctx context.Context, q store.Querier, owner string, rules []Rule) (_ []Finding, err error) {
	defer fault.Wrap(&err, "check %s", owner)
	var findings []Finding
	for _, r := range rules {
		rows, err := q.Query(ctx, r.Broken, r.Args...)
		var n int64
		example, err := store.One(rows, err, "Count", func(row store.Row) (example string, err error) {
			err = row.Scan(&n, &example)
			return example, err
		})
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		status := Broken
		if r.Mild {
			status = Advice
		}
		findings = append(findings, Finding{owner, status, fmt.Sprintf("%s: %d, such as %s; %s", r.Wrong, n, example, r.Do)})
	}
	if len(findings) == 0 {
		return []Finding{Fine(owner, "all of %d rules hold", len(rules))}, nil
	}
	return findings, nil
}

// Report is what to do about numbers that differ from a recount. There is no
// way to get there but a bug or a hand in the database.
const Report = "nothing that was recorded is lost, but the numbers are wrong: restore a backup, or report it with this line"
