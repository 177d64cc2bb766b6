package otlp

import (
	"fmt"
	"strings"
)

// AllowList returns the attributes that are kept as rows of a table.
func AllowList() (rows []string) {
	cell := func(keys ...string) string {
		all := strings.Fields(strings.Join(keys, " "))
		for i, key := range all {
			all[i] = "`" + key + "`"
		}
		return strings.Join(all, " ")
	}
	for _, a := range allowList {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |",
			a.sender, cell(a.skill, a.skills, a.names), cell(a.ids, a.words), cell(a.numbers)))
	}
	return rows
}
