package scim

import (
	"encoding/json"
	"regexp"
	"strings"
)

// A filter is a conjunction of comparisons, by attribute in lower case, e.g.
// {"username": "ada@example.org"}. Providers use filters to find a user or a group before they
// create it.
type filter map[string]string

// comparison matches one comparison and what follows it, e.g.
//
//	userName eq "ada@example.org" and active eq true
var comparison = regexp.MustCompile(`^\s*([A-Za-z0-9:._$-]+(?:\[[^\]]*\])?(?:\.[A-Za-z]+)?)\s+(?i:eq)\s+("(?:[^"\\]|\\.)*"|true|false)\s*(?:$|(?i:and)\s+)`)

const supported = `supported are comparisons with eq of userName, externalId, id and emails.value of users, and of displayName, ` +
	`externalId, id and members.value of groups, joined by and`

// parseFilter parses the part of RFC 7644, section 3.4.2.2 that it takes to find a resource, and
// refuses everything else: a filter that was half understood would give the provider somebody
// else's user.
func parseFilter(s string) (filter, error) {
	f := filter{}
	if len(s) > maxFilter {
		return nil, refuse(invalidFilter, "filter must have at most %d bytes", maxFilter)
	}
	for s != "" {
		m := comparison.FindStringSubmatch(s)
		if m == nil {
			return nil, refuse(invalidFilter, "The filter is not understood; %s", supported)
		}
		var value string
		if err := json.Unmarshal([]byte(m[2]), &value); err != nil {
			return nil, refuse(invalidFilter, "The filter compares with %s, which is no text; %s", m[2], supported)
		}
		if err := checkText("a value of the filter", value); err != nil {
			return nil, refuse(invalidFilter, "%s", messageOf(err))
		}
		name := filterName(m[1])
		if _, twice := f[name]; twice {
			return nil, refuse(invalidFilter, "The filter compares %s twice", m[1])
		}
		f[name] = value
		s = s[len(m[0]):]
	}
	return f, nil
}

// filterName is the attribute that is compared: "emails[type eq \"work\"].value" and
// "emails" are "emails.value". Addresses are compared whatever their type, since only one of them
// is stored as a column.
func filterName(attribute string) string {
	name := withoutSchema(strings.ToLower(attribute))
	if before, after, ok := strings.Cut(name, "["); ok {
		_, after, _ = strings.Cut(after, "]")
		name = before + after
	}
	switch name {
	case "emails", "members":
		return name + ".value"
	}
	return name
}

// withoutSchema removes the schema in front of an attribute in lower case.
func withoutSchema(name string) string {
	for _, schema := range []string{userSchema, groupSchema} {
		if rest, ok := strings.CutPrefix(name, strings.ToLower(schema)+":"); ok {
			return rest
		}
	}
	return name
}
