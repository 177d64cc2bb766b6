package suites

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// fetchable are the schemes of environments that a run can fetch.
var fetchable = []string{"https", "http", "s3", blobScheme}

// newCases reads the cases of a suite and gives each its id. The issues are
// those that keep a suite from being stored; what only keeps it from being run
// stands in the cases.
func newCases(orgID string, v VerifierKind, all []Fields) ([]Case, []fault.Issue) {
	if len(all) < 1 || len(all) > maxCases {
		return nil, []fault.Issue{fault.At("cases_json", "cases_json must have 1 to %d cases, not %d", maxCases, len(all))}
	}
	var issues []fault.Issue
	cases := make([]Case, len(all))
	for i, f := range all {
		cases[i] = parseCase(f.clean(), v)
		issues = append(issues, at(i, cases[i].refusals(orgID, v))...)
	}
	if len(issues) > 0 {
		return nil, issues
	}
	complete(cases)
	return cases, nil
}

// at says which case the issues are about.
func at(index int, issues []fault.Issue) []fault.Issue {
	all := make([]fault.Issue, len(issues))
	for i, issue := range issues {
		all[i] = fault.Issue{Path: append([]string{"cases_json", strconv.Itoa(index)}, issue.Path...), Message: issue.Message}
	}
	return all
}

// noNUL replaces escaped NUL characters. An escaped backslash begins no escape.
var noNUL = strings.NewReplacer(`\\`, `\\`, `\u0000`, `\ufffd`)

// clean copies the fields with broken UTF-8 and escaped NUL characters
// replaced, which PostgreSQL would not keep.
func (f Fields) clean() Fields {
	all := make(Fields, len(f))
	for name, value := range f {
		all[strings.ToValidUTF8(name, "\ufffd")] = json.RawMessage(noNUL.Replace(strings.ToValidUTF8(string(value), "\ufffd")))
	}
	return all
}

// refusals are the problems that keep a case from being stored.
func (c Case) refusals(orgID string, v VerifierKind) []fault.Issue {
	r := &reading{fields: c.Fields}
	if r.has("case_kind") && json.Unmarshal(c.Fields["case_kind"], new(string)) != nil {
		return []fault.Issue{fault.At("case_kind", "case_kind must be a string")}
	}
	if (c.Kind != "" || r.has("case_kind")) && !v.allows(c.Kind) {
		return []fault.Issue{fault.At("case_kind", "a suite with the verifier %s has cases of the kinds %s, not %q", v, kindList(v.allowedKinds()), c.Kind)}
	}
	if c.Kind == TaskPackage {
		return c.environmentRefusals(orgID)
	}
	return nil
}

func kindList(kinds []CaseKind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

func (c Case) environmentRefusals(orgID string) []fault.Issue {
	ref := c.Package.EnvironmentRef
	u, err := url.Parse(ref)
	switch {
	case strings.TrimSpace(ref) == "":
		return []fault.Issue{fault.At("environment_ref", "environment_ref is required: <scheme>://<bucket>/<key> or an http or https URL")}
	case err != nil || u.Scheme == "" || u.Host == "" || !isWeb(u) && strings.Trim(u.Path, "/") == "":
		return []fault.Issue{fault.At("environment_ref", "environment_ref must be <scheme>://<bucket>/<key> or an http or https URL")}
	case strings.EqualFold(u.Scheme, blobScheme):
		if _, ok := importedKey(orgID, ref); !ok {
			return []fault.Issue{fault.At("environment_ref", "environment_ref names no environment that this organisation imported")}
		}
	}
	return nil
}

func isWeb(u *url.URL) bool {
	return strings.EqualFold(u.Scheme, "http") || strings.EqualFold(u.Scheme, "https")
}

// complete writes the kinds that were told from the fields, and ids, into the
// cases. An id is made of what the case says, so the same case gets the same
// one when a file is imported again.
func complete(cases []Case) {
	taken := map[string]bool{}
	for _, c := range cases {
		taken[c.ID] = true
	}
	for i := range cases {
		c := &cases[i]
		if c.Kind != "" {
			c.Fields["case_kind"] = quote(string(c.Kind))
		}
		if (&reading{fields: c.Fields}).has("id") {
			continue
		}
		c.ID = freeID(c.Fields.digest(), taken)
		taken[c.ID] = true
		c.Fields["id"] = quote(c.ID)
	}
}

func freeID(base string, taken map[string]bool) string {
	id := base
	for n := 2; taken[id]; n++ {
		id = base + "-" + strconv.Itoa(n)
	}
	return id
}

// digest is a short name for what a case says, whatever the order of its
// fields.
func (f Fields) digest() string {
	sum := sha256.Sum256(f.canonical())
	return hex.EncodeToString(sum[:6])
}

// canonical is the case with sorted fields and without an id.
func (f Fields) canonical() []byte {
	rest := make(map[string]any, len(f))
	for name, raw := range f {
		if name == "id" {
			continue
		}
		var value any
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		if d.Decode(&value) == nil {
			rest[name] = value
		}
	}
	text, _ := json.Marshal(rest) // decoded JSON can be encoded
	return text
}

func quote(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a string can be encoded
	return raw
}

// sameTrigger reports whether two trigger queries ask the same: case and white
// space make no difference to anybody who asks.
func sameTrigger(a, b Case) bool {
	return a.Kind == TriggerQuery && b.Kind == TriggerQuery && a.Expectation == b.Expectation &&
		slices.Equal(strings.Fields(strings.ToLower(a.Query)), strings.Fields(strings.ToLower(b.Query)))
}

// document is the object as text; nil if there is none.
func (f Fields) document() json.RawMessage {
	if f == nil {
		return nil
	}
	raw, _ := json.Marshal(f.clean()) // what was decoded can be encoded
	return raw
}
