package store

// A Dialect has a name for every difference between the databases that SQL
// text cannot avoid.
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

// ForUpdate ends a SELECT whose rows must not change until the transaction
// ends. SQLite has one writer at a time and needs no words for it.
func (d Dialect) ForUpdate() string {
	if d.postgres {
		return " FOR UPDATE"
	}
	return ""
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
