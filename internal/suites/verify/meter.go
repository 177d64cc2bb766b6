package verify

import "github.com/santhosh-tekuri/jsonschema/v6"

// A meter knows what it costs to hold one schema against a value.
type meter struct {
	self       int64 // the parts that are held against the value itself
	item, prop int64 // those for each member of an array or an object
	// applied is how many parts pass on which members they have looked at.
	applied int64
	dynamic bool // what is meant by a part depends on all that it is inside of
	unique  bool
}

// meter makes a schema cost what it takes. Of all that the library does with
// one, its format is the first thing that can be given to it; what comes before,
// type, const and enum, is paid by the schema that it is a part of.
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
			return c.checkPattern(value)
		}
		return format.Validate(value)
	}}
	if format != nil {
		s.Format.Name = format.Name
	}
}

// checkPattern is the format regex.
func (c *schemaCheck) checkPattern(value any) error {
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

func newMeter(s *jsonschema.Schema, schemas int64) *meter {
	// The library looks for cycles among all schemas that it is inside of.
	visit := 60 + schemas/8
	entering := func(all ...*jsonschema.Schema) (cost int64) {
		for _, part := range all {
			if part != nil {
				cost += visit + costOfConstants(part)
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

	one := func(all []*jsonschema.Schema) (highest int64) { // each member has one of them
		for _, part := range all {
			highest = max(highest, entering(part))
		}
		return highest
	}
	m.item = one(append(schemasIn(s.Items), s.PrefixItems...)) + entering(schemasIn(s.AdditionalItems)...) +
		entering(s.Items2020, s.Contains, s.UnevaluatedItems)
	var named []*jsonschema.Schema
	for _, part := range s.Properties {
		named = append(named, part)
	}
	m.prop = one(named) + entering(schemasIn(s.AdditionalProperties)...) +
		entering(s.PropertyNames, s.UnevaluatedProperties)
	for _, part := range s.PatternProperties {
		m.prop += entering(part)
	}
	return m
}

// schemasIn are those in a field that may hold something else.
func schemasIn(field any) []*jsonschema.Schema {
	switch f := field.(type) {
	case *jsonschema.Schema:
		return []*jsonschema.Schema{f}
	case []*jsonschema.Schema:
		return f
	}
	return nil
}

// costOfConstants is what it costs to compare a value with const and enum.
func costOfConstants(s *jsonschema.Schema) (cost int64) {
	if s.Const != nil {
		cost += costOf(*s.Const)
	}
	if s.Enum != nil {
		cost += costOf(s.Enum.Values)
	}
	return cost
}

// cost is that of a value. A problem with a member costs its path.
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

// costOfUnique is what it costs to look for equals: short lists are compared
// each with each, and so are arrays and objects that were made to have the same
// hash.
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
