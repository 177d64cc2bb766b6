package scim

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// An operation is one change of a patch (RFC 7644, section 3.5.2).
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// The operations, whose names Entra ID begins with a capital.
const (
	opAdd     = "add"
	opReplace = "replace"
	opRemove  = "remove"
)

// patchInput has a capital O, which is how RFC 7644 spells it; JSON decoding ignores the case.
type patchInput struct {
	Operations []operation `json:"Operations"`
}

func (p patchInput) check() error {
	if len(p.Operations) == 0 {
		return refuse(invalidSyntax, "Operations must have at least one operation")
	}
	if len(p.Operations) > maxOperations {
		return refuse(invalidSyntax, "Operations must be at most %d", maxOperations)
	}
	return nil
}

// A target is what an operation changes, in lower case. E.g. emails[type eq "work"].value has the
// attribute emails, by type, is work, and sub value.
type target struct {
	attribute string // "" for one of an extension, which is ignored
	sub       string
	// by and is select values of a multi-valued attribute: emails[type eq "work"]
	by, is string
	// explicit targets were named by a path, not by a key of the value.
	explicit bool
}

var pathPattern = regexp.MustCompile(
	`^([A-Za-z$][A-Za-z0-9_$-]*)(?:\[\s*([A-Za-z$]+)\s+(?i:eq)\s+("(?:[^"\\]|\\.)*"|true|false)\s*\])?(?:\.([A-Za-z$][A-Za-z0-9_$-]*))?$`)

// parsePath parses a path of RFC 7644, section 3.5.2. An attribute of an unknown extension isn't an
// error: it has no attribute and is ignored.
func parsePath(path string) (t target, err error) {
	if len(path) > maxFilter {
		return t, refuse(invalidPath, "path must have at most %d bytes", maxFilter)
	}
	if lower := strings.ToLower(path); strings.HasPrefix(lower, "urn:") {
		rest := withoutSchema(lower)
		if rest == lower {
			return t, nil
		}
		path = path[len(path)-len(rest):]
	}
	m := pathPattern.FindStringSubmatch(strings.TrimSpace(path))
	if m == nil {
		return t, refuse(invalidPath, "The path %q is not understood", path)
	}
	t = target{attribute: strings.ToLower(m[1]), by: strings.ToLower(m[2]), is: m[3], sub: strings.ToLower(m[4])}
	if strings.HasPrefix(t.is, `"`) {
		if err := json.Unmarshal([]byte(m[3]), &t.is); err != nil {
			return t, refuse(invalidPath, "The path %q is not understood", path)
		}
	}
	return t, nil
}

// each calls change for every attribute that the operation changes. Without a path,
// those are the keys of the value, which may be paths themselves. The keys are sorted, so that the
// result doesn't depend on the order of a map.
func (o operation) each(change func(op string, t target, value json.RawMessage) error) error {
	op := strings.ToLower(o.Op)
	if op != opAdd && op != opReplace && op != opRemove {
		return refuse(invalidSyntax, "op must be add, replace or remove")
	}
	if o.Path != "" {
		t, err := parsePath(o.Path)
		if err != nil || t.attribute == "" {
			return err
		}
		if t.explicit = true; len(o.Value) == 0 && op != opRemove {
			return refuse(invalidValue, "%s needs a value", op)
		}
		return change(op, t, o.Value)
	}
	if op == opRemove {
		return refuse(noTarget, "remove needs a path")
	}
	values := map[string]json.RawMessage{}
	if err := decode(o.Value, &values); err != nil {
		return refuse(invalidValue, "%s without a path needs an object as its value", op)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		t, err := parsePath(name)
		if err != nil || t.attribute == "" {
			if err != nil {
				return err
			}
			continue
		}
		if err := change(op, t, values[name]); err != nil {
			return err
		}
	}
	return nil
}

// into decodes the value of an attribute. A value of the wrong type is refused with SCIM's word for
// it.
func into[T any](t target, value json.RawMessage) (v T, err error) {
	if err := json.Unmarshal(value, &v); err != nil {
		return v, refuse(invalidValue, "%s has a value of the wrong type", t.attribute)
	}
	return v, nil
}

// manyInto decodes the value of a multi-valued attribute, which may be a single one.
func manyInto[T any](t target, value json.RawMessage) ([]T, error) {
	if trimmed := strings.TrimSpace(string(value)); strings.HasPrefix(trimmed, "[") || trimmed == "null" {
		return into[[]T](t, value)
	}
	v, err := into[T](t, value)
	return []T{v}, err
}

// errReadOnly refuses a path to what only this service sets. Values may repeat it.
func errReadOnly(t target) error {
	if !t.explicit {
		return nil
	}
	return refuse(mutability, "%s is read-only", t.attribute)
}

// patch changes a user. The result is only valid as a whole, so it is checked once at the end.
func (a *attributes) patch(p patchInput) error {
	if err := p.check(); err != nil {
		return err
	}
	a.Emails = slices.Clone(a.Emails) // what was there before is compared
	for _, o := range p.Operations {
		if err := o.each(a.change); err != nil {
			return err
		}
	}
	return a.check()
}

// change applies one operation to one attribute; see roster.change.
func (a *attributes) change(op string, t target, value json.RawMessage) (err error) {
	switch t.attribute {
	case "id", "meta", "schemas", "groups":
		return errReadOnly(t)
	case "username":
		return setText(&a.UserName, op, t, value)
	case "displayname":
		return setText(&a.DisplayName, op, t, value)
	case "externalid":
		external := ""
		err := setText(&external, op, t, value)
		a.ExternalID = &external
		return err
	case "active":
		if op == opRemove {
			return refuse(invalidValue, "active cannot be removed")
		}
		active, err := into[truth](t, value)
		a.Active = bool(active)
		return err
	case "name":
		return a.changeName(op, t, value)
	case "emails":
		return a.changeEmails(op, t, value)
	}
	return nil // not kept here
}

// setText sets a single-valued text; removing it makes it empty.
func setText(field *string, op string, t target, value json.RawMessage) error {
	*field = ""
	if op == opRemove || string(value) == "null" {
		return nil
	}
	v, err := into[string](t, value)
	*field = v
	return err
}

func (a *attributes) changeName(op string, t target, value json.RawMessage) error {
	if t.sub == "" && op == opRemove {
		a.Name = fullName{}
		return nil
	}
	if t.sub == "" {
		// Sub-attributes that are not named stay.
		if err := json.Unmarshal(value, &a.Name); err != nil {
			return refuse(invalidValue, "name has a value of the wrong type")
		}
		return nil
	}
	switch t.sub {
	case "formatted":
		return setText(&a.Name.Formatted, op, t, value)
	case "givenname":
		return setText(&a.Name.GivenName, op, t, value)
	case "familyname":
		return setText(&a.Name.FamilyName, op, t, value)
	}
	return nil
}

// changeEmails changes the list as a whole, or the addresses that a path selects. If none is
// selected, replacing adds one: some providers replace emails[type eq "work"].value also for users
// who have none yet.
func (a *attributes) changeEmails(op string, t target, value json.RawMessage) error {
	if t.by == "" && t.sub == "" {
		if op == opRemove {
			a.Emails = nil
			return nil
		}
		found, err := manyInto[email](t, value)
		if err != nil {
			return err
		}
		if op == opReplace {
			a.Emails = nil
		}
		return a.addEmails(found)
	}
	chosen := a.choose(t)
	if op == opRemove {
		a.Emails = slices.DeleteFunc(a.Emails, func(e email) bool {
			return slices.ContainsFunc(chosen, func(c *email) bool { return c.Value == e.Value && c.Type == e.Type })
		})
		return nil
	}
	if len(chosen) == 0 {
		fresh := email{Primary: t.by == "primary" && truth(strings.EqualFold(t.is, "true"))}
		if t.by == "type" {
			fresh.Type = t.is
		}
		a.Emails = append(a.Emails, fresh)
		chosen = []*email{&a.Emails[len(a.Emails)-1]}
	}
	for _, e := range chosen {
		if err := e.set(t, value); err != nil {
			return err
		}
	}
	return nil
}

// addEmails adds addresses. A new primary one takes the place of the old. An address that is there
// already is replaced, so that repeated patches don't add it twice. The bound is twice the limit
// here, as check removes cleared ones later.
func (a *attributes) addEmails(found []email) error {
	if len(a.Emails)+len(found) > 2*maxEmails {
		return refuse(invalidValue, "emails must be at most %d", maxEmails)
	}
	for _, fresh := range found {
		if fresh.Primary {
			for i := range a.Emails {
				a.Emails[i].Primary = false
			}
		}
		a.Emails = slices.DeleteFunc(a.Emails, func(e email) bool { return strings.EqualFold(e.Value, fresh.Value) })
		a.Emails = append(a.Emails, fresh)
	}
	return nil
}

// choose returns the addresses that a path selects; all without a filter. An unknown criterion
// selects nothing.
func (a *attributes) choose(t target) (chosen []*email) {
	for i := range a.Emails {
		e := &a.Emails[i]
		switch t.by {
		case "":
		case "type":
			if !strings.EqualFold(e.Type, t.is) {
				continue
			}
		case "value":
			if !strings.EqualFold(e.Value, t.is) {
				continue
			}
		case "primary":
			if bool(e.Primary) != strings.EqualFold(t.is, "true") {
				continue
			}
		default:
			continue
		}
		chosen = append(chosen, e)
	}
	return chosen
}

func (e *email) set(t target, value json.RawMessage) (err error) {
	switch t.sub {
	case "":
		fresh, err := into[email](t, value)
		if fresh.Type == "" {
			fresh.Type = e.Type
		}
		*e = fresh
		return err
	case "value":
		e.Value, err = into[string](t, value)
	case "type":
		e.Type, err = into[string](t, value)
	case "primary":
		e.Primary, err = into[truth](t, value)
	}
	return err
}
