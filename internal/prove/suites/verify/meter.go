package verify

import "github.com/santhosh-tekuri/jsonschema/v6"

// A meter estimates the cost of validating a value against one schema. Schema and value
// may both come from users, so the estimate is charged before the work is done.
type meter struct { // of the subschemas that apply to the value itself
	self       int64 // of the subschemas for the value itself
	item, prop int64 // of the subschemas that apply to each member of an array or an object
	// applied is how many subschemas report which members they have evaluated.
	applied int64
	dynamic bool // a reference is resolved at run time, by the enclosing schemas
	unique  bool
}

// meter charges the validation of a schema to the budget. The hook for it is the
// schema's format, the first keyword that the library lets us replace; the
// keywords before it (type, const and enum) are charged to the parent schema.
func (c *schemaCheck) meter(s *jsonschema.Schema, schemas int) {
	if s.Bool != nil {
		return
	}
	m := newMeter(s, int64(schemas))
	format := s.Format
	s.Format = &jsonschema.Format{Validate: func(value any) error {
		c.spend(m.cost(value, c.depth))
		if format == nil {
			return nil
		}
		if format.Name == "regex" {
			// Validate the format regex.
			text, ok := value.(string)
			if !ok {
				return nil
			}
			p, err := compilePattern(text)
			if err == nil {
				c.spend(compileCost * p.size)
			}
			return err
		}
		return format.Validate(value)
	}}
	if format != nil {
		s.Format.Name = format.Name
	}
}

// newMeter derives the estimate from the keywords of a schema. schemas is the number of
// schemas that were compiled together.
func newMeter(s *jsonschema.Schema, schemas int64) *meter {
	// At every schema the library searches all enclosing ones for cycles.
	visit := 60 + schemas/8
	entering := func(all ...*jsonschema.Schema) (cost int64) {
		for _, part := range all {
			if part == nil {
				continue
			}
			cost += visit
			if part.Const != nil {
				cost += costOf(*part.Const)
			}
			if part.Enum != nil {
				cost += costOf(part.Enum.Values)
			}
		}
		return cost
	}
	self := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	self = append(append(append(self, s.AllOf...), s.AnyOf...), s.OneOf...)
	if s.DynamicRef != nil {
		self = append(self, s.DynamicRef.Ref)
	}
	m := &meter{
		self: 4 * int64(len(s.Required)), unique: s.UniqueItems, dynamic: s.DynamicRef != nil || s.RecursiveRef != nil,
	}
	for _, part := range s.DependentSchemas {
		self = append(self, part)
	}
	for _, part := range s.Dependencies {
		self = append(self, schemasIn(part)...)
	}
	for _, names := range s.DependentRequired {
		m.self += 4 * int64(len(names))
	}
	m.self += entering(self...)
	m.applied = int64(len(self))

	highest := func(all []*jsonschema.Schema) (highest int64) { // each member has only one of them
		for _, part := range all {
			highest = max(highest, entering(part))
		}
		return highest
	}
	m.item = highest(append(schemasIn(s.Items), s.PrefixItems...)) + entering(schemasIn(s.AdditionalItems)...) +
		entering(s.Items2020, s.Contains, s.UnevaluatedItems)
	var named []*jsonschema.Schema
	for _, part := range s.Properties {
		named = append(named, part)
	}
	m.prop = highest(named) + entering(schemasIn(s.AdditionalProperties)...) +
		entering(s.PropertyNames, s.UnevaluatedProperties)
	for _, part := range s.PatternProperties {
		m.prop += entering(part)
	}
	return m
}

// schemasIn returns the schemas in a field that may hold something else.
func schemasIn(field any) []*jsonschema.Schema {
	switch f := field.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{f}
	case []*jsonschema.Schema:
		return f
	}
	return nil
}

// cost returns the cost of validating a value. Each member may become a problem with a
// path, so the depth counts, too.
func (m *meter) cost(value any, depth int64) int64 {
	cost := m.self
	if m.dynamic {
		cost += 8 * depth
	}
	switch v := value.(type) {
	case []any:
		cost += int64(len(v)) * (m.item + m.applied + 4*depth)
		if m.unique {
			cost += costOfUnique(v)
		}
	case map[string]any:
		cost += int64(len(v)) * (m.prop + m.applied + 4*depth)
	default:
		cost += costOf(v)
	}
	return cost
}

// costOfUnique returns the cost of uniqueItems. The library compares short lists pair
// by pair, and also arrays and objects with equal hashes, which an attacker can
// construct.
func costOfUnique(list []any) int64 {
	cost, n := costOf(list), int64(len(list))
	if n <= 20 {
		return cost * n
	}
	for _, item := range list {
		switch item.(type) {
		case []any, map[string]any:
			return cost + 2*n*n
		}
	}
	return cost
}
