package store

import (
	"encoding/json"
	"slices"
)

// A Dialect names the differences of the databases that SQL text cannot avoid.
type Dialect struct {
	postgres bool
}

// Name is "sqlite" or "postgres".
func (d Dialect) Name() string {
	if d.postgres {
		return "postgres"
	}
	return "sqlite"
}

// OneWriter reports whether transactions that write run one after the other.
func (d Dialect) OneWriter() bool { return !d.postgres }

// ForUpdate ends a SELECT that locks its rows until the transaction ends. On
// SQLite it is empty, since there is one writer at a time.
func (d Dialect) ForUpdate() string {
	if d.postgres {
		return " FOR UPDATE"
	}
	return ""
}

// ForShare ends a SELECT whose rows no other transaction can change until this
// one ends; several can hold them. On SQLite it is empty, as ForUpdate.
func (d Dialect) ForShare() string {
	if d.postgres {
		return " FOR SHARE"
	}
	return ""
}

// ForKeyShare ends a SELECT whose rows a ForUpdate of another transaction must not
// lock until this one ends. It does not keep them from being changed otherwise.
func (d Dialect) ForKeyShare() string {
	if d.postgres {
		return " FOR KEY SHARE"
	}
	return ""
}

// SkipLocked ends a SELECT that locks its rows as ForUpdate, and passes over those that
// other transactions have locked. On SQLite it is empty, as ForUpdate.
func (d Dialect) SkipLocked() string {
	if d.postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// IndexedBy follows the name of a table, of which SQLite shall read that index.
// PostgreSQL goes by what it knows of the rows.
func (d Dialect) IndexedBy(index string) string {
	if d.postgres {
		return ""
	}
	return " INDEXED BY " + index
}

// Greatest is the larger of two values, neither of them null.
func (d Dialect) Greatest(a, b string) string {
	if d.postgres {
		return "GREATEST(" + a + ", " + b + ")"
	}
	return "MAX(" + a + ", " + b + ")"
}

// Least is the smaller of two values, neither of them null.
func (d Dialect) Least(a, b string) string {
	if d.postgres {
		return "LEAST(" + a + ", " + b + ")"
	}
	return "MIN(" + a + ", " + b + ")"
}

// Now is the database's own time, in microseconds since the epoch. Processes
// that share a database compare times by it, because the clocks of their
// machines may differ. SQLite counts only milliseconds.
func (d Dialect) Now() string {
	if d.postgres {
		return "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT"
	}
	return "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
}

// In is the condition that a text column is one of many values, and the
// argument to bind to its parameter: "id" + In("$2", ids). It is one parameter
// for thousands of values, and one statement text for any number of them.
func (d Dialect) In(parameter string, values []string) (condition string, arg any) {
	if values == nil {
		values = []string{} // nil is NULL, of which NOT IN is unknown
	}
	if d.postgres {
		return " = ANY(" + parameter + ")", values
	}
	list, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings always marshal
	}
	return " IN (SELECT value FROM json_each(" + parameter + "))", string(list)
}

// ByKey is what follows FROM in a query for the rows of a table whose text column
// is one of many values, up to a WHERE clause that may be continued with AND, and
// the argument to bind to its parameter. Unlike with In, PostgreSQL looks each value
// up in an index: it takes the lookups for reads of a slow disk, and would rather
// read tens of thousands of rows than look a few hundred up.
func (d Dialect) ByKey(table, key, parameter string, values []string) (from string, arg any) {
	if !d.postgres {
		condition, arg := d.In(parameter, values)
		return table + " WHERE " + key + condition, arg
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(values)))
	return "unnest(" + parameter + "::text[]) AS wanted" + lookup(table, key+" = wanted"), distinct
}

// lookup joins PostgreSQL's rows of a table for each of the rows before. OFFSET 0
// keeps the subquery apart, which leaves nothing but a lookup for each.
func lookup(table, condition string) string {
	return " CROSS JOIN LATERAL (SELECT * FROM " + table + " WHERE " + condition + " OFFSET 0) AS found WHERE TRUE"
}

// Lookup joins to each of the rows before the rows of a table, under an alias, that
// meet a condition: in this order, and for PostgreSQL apart (see ByKey), so that both
// look each up in an index.
func (d Dialect) Lookup(table, alias, condition string) string {
	if d.postgres {
		return " CROSS JOIN LATERAL (SELECT * FROM " + table + " AS " + alias + " WHERE " + condition + " OFFSET 0) AS " + alias
	}
	return " CROSS JOIN " + table + " AS " + alias + " ON " + condition
}

// LeftLookup is Lookup that keeps rows without a match.
func (d Dialect) LeftLookup(table, alias, condition string) string {
	if d.postgres {
		return " LEFT JOIN LATERAL (SELECT * FROM " + table + " AS " + alias + " WHERE " + condition + " OFFSET 0) AS " +
			alias + " ON TRUE"
	}
	return " LEFT JOIN " + table + " AS " + alias + " ON " + condition
}

// List is a table "wanted" with a text column, value, and the argument to bind to its
// parameter. With Lookup, it finds the rows of many values when there are further
// conditions, which ByKey would not look up.
func (d Dialect) List(parameter string, values []string) (table string, arg any) {
	distinct := slices.Compact(slices.Sorted(slices.Values(values)))
	if d.postgres {
		return "unnest(" + parameter + "::text[]) AS wanted (value)", distinct
	}
	list, err := json.Marshal(distinct)
	if err != nil {
		panic(err) // strings always marshal
	}
	return "json_each(" + parameter + ") AS wanted", string(list)
}

// Pairs is a table "pairs" of two text columns, a and b, and the argument to
// bind to its parameter. It is for lookups by a pair of columns; two conditions
// with In would match all combinations. The first of a pair must not contain a
// space.
func (d Dialect) Pairs(parameter string, values [][2]string) (table string, arg any) {
	if d.postgres {
		joined := make([]string, len(values))
		for i, v := range values {
			joined[i] = v[0] + " " + v[1]
		}
		return "(SELECT split_part(v, ' ', 1) AS a, substr(v, strpos(v, ' ') + 1) AS b " +
			"FROM unnest(" + parameter + "::text[]) AS v) AS pairs", joined
	}
	list, err := json.Marshal(values)
	if err != nil {
		panic(err) // strings always marshal
	}
	return "(SELECT value->>0 AS a, value->>1 AS b FROM json_each(" + parameter + ")) AS pairs", string(list)
}

// ByPair is ByKey for two text columns, with the values of Pairs, each once.
func (d Dialect) ByPair(table, a, b, parameter string, values [][2]string) (from string, arg any) {
	pairs, arg := d.Pairs(parameter, values)
	condition := a + " = pairs.a AND " + b + " = pairs.b"
	if !d.postgres {
		return pairs + " JOIN " + table + " ON " + condition + " WHERE TRUE", arg
	}
	return pairs + lookup(table, condition), arg
}
