package store

import (
	"fmt"
	"strings"
)

// A SumQuery adds up, for each row of a table, the rows of another one that
// meet a condition, e.g. the days of each skill of an organisation, in the words of both
// databases. Like Dialect.Lookup, it finds them by an index, and reads nothing else.
type SumQuery struct {
	Keys    string   // columns of From: what is selected before the sums
	From    string   // the table with its alias: "skills AS k"
	Where   string   // the condition on From
	Rows    string   // the other table with its alias: "skill_days AS d"
	On      string   // the condition on Rows: "d.subject_id = k.id"
	Columns []string // aggregates that are integers: "SUM(d.sessions)"
}

// In is the query in SQL, without an order. A sum of no rows is 0.
func (s SumQuery) In(d Dialect) string {
	sums := make([]string, len(s.Columns))
	for i, column := range s.Columns {
		sums[i] = fmt.Sprintf("CAST(COALESCE(%s, 0) AS BIGINT) AS sum_%d", column, i)
	}
	all := strings.Join(sums, ", ")
	if d.Name() == "postgres" {
		return "SELECT " + s.Keys + ", sums.* FROM " + s.From +
			" CROSS JOIN LATERAL (SELECT " + all + " FROM " + s.Rows + " WHERE " + s.On + ") AS sums WHERE " + s.Where
	}
	return "SELECT " + s.Keys + ", " + all + " FROM " + s.From + " LEFT JOIN " + s.Rows + " ON " + s.On +
		" WHERE " + s.Where + " GROUP BY " + s.Keys
}
