package suites

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// environmentSchemes are the URL schemes of environments that a run can fetch.
var environmentSchemes = []string{"https", "http", "s3", blobScheme}

// newCases parses the cases of a suite and gives each an id. The issues are those
// that keep the suite from being stored; what only keeps it from being run is in
// the problems of the cases.
func newCases(orgID string, v VerifierKind, all []Fields) ([]Case, []fault.Issue) {
	if len(all) < 1 || len(all) > maxCases {
		return nil, []fault.Issue{fault.At("cases_json", "cases_json must have 1 to %d cases, not %d", maxCases, len(all))}
	}
	var issues []fault.Issue
	cases := make([]Case, len(all))
	for i, f := range all {
		cases[i] = parseCase(cleanFields(f), v)
		issues = append(issues, inCase(i, cases[i].validate(orgID, v))...)
	}
	if len(issues) > 0 {
		return nil, issues
	}
	setKindsAndIDs(cases)
	return cases, nil
}

// inCase makes the paths of a case's issues relative to the suite, e.g.
// cases_json.0.query.
func inCase(index int, issues []fault.Issue) []fault.Issue {
	all := make([]fault.Issue, len(issues))
	for i, issue := range issues {
		all[i] = fault.Issue{Path: append([]string{"cases_json", strconv.Itoa(index)}, issue.Path...), Message: issue.Message}
	}
	return all
}

// noNUL replaces escaped NUL characters. It matches escaped backslashes first: the
// backslash in \\u0000 does not begin an escape.
var noNUL = strings.NewReplacer(`\\`, `\\`, `\u0000`, `\ufffd`)

// cleanFields returns a copy without invalid UTF-8 and escaped NUL characters, which
// PostgreSQL refuses.
func cleanFields(f Fields) Fields {
	all := make(Fields, len(f))
	for name, value := range f {
		value := strings.ToValidUTF8(string(value), "\ufffd")
		all[strings.ToValidUTF8(name, "\ufffd")] = json.RawMessage(noNUL.Replace(value))
	}
	return all
}

// validate returns the issues that keep a case from being stored.
func (c Case) validate(orgID string, v VerifierKind) []fault.Issue {
	p := &caseParser{fields: c.Fields}
	if p.has("case_kind") && json.Unmarshal(c.Fields["case_kind"], new(string)) != nil {
		return []fault.Issue{fault.At("case_kind", "case_kind must be a string")}
	}
	if (c.Kind != "" || p.has("case_kind")) && !v.allows(c.Kind) {
		return []fault.Issue{fault.At("case_kind", "a suite with the verifier %s has cases of the kinds %s, not %q",
			v, kindList(v.allowedKinds()), c.Kind)}
	}
	if c.Kind == TaskPackage {
		return c.validateEnvironment(orgID)
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

// validateEnvironment checks the form of a task package's environment_ref, and that a
// reference to an imported environment is one of the organisation's own.
func (c Case) validateEnvironment(orgID string) []fault.Issue {
	ref := c.Package.EnvironmentRef
	u, err := url.Parse(ref)
	switch {
	case strings.TrimSpace(ref) == "":
		return []fault.Issue{fault.At("environment_ref",
			"environment_ref is required: <scheme>://<bucket>/<key> or an http or https URL")}
	case err != nil || u.Scheme == "" || u.Host == "",
		u.Scheme != "http" && u.Scheme != "https" && strings.Trim(u.Path, "/") == "": // only a web URL needs no key
		return []fault.Issue{fault.At("environment_ref",
			"environment_ref must be <scheme>://<bucket>/<key> or an http or https URL")}
	case u.Scheme == blobScheme:
		if _, ok := importedKey(orgID, ref); !ok {
			return []fault.Issue{fault.At("environment_ref",
				"environment_ref names no environment that this organisation imported")}
		}
	}
	return nil
}

// setKindsAndIDs writes the kinds that were inferred, and missing ids, into the
// cases. An id is a digest of the case, so that the same case gets the same id
// when a file is imported again.
func setKindsAndIDs(cases []Case) {
	taken := map[string]bool{}
	for _, c := range cases {
		taken[c.ID] = true
	}
	for i := range cases {
		c := &cases[i]
		if c.Kind != "" {
			c.Fields["case_kind"] = quote(string(c.Kind))
		}
		if (&caseParser{fields: c.Fields}).has("id") {
			continue
		}
		base := fieldsDigest(c.Fields)
		c.ID = base
		for n := 2; taken[c.ID]; n++ {
			c.ID = base + "-" + strconv.Itoa(n)
		}
		taken[c.ID] = true
		c.Fields["id"] = quote(c.ID)
	}
}

// fieldsDigest returns a short hash of the fields without the id. It doesn't depend on their
// order, since the encoder sorts them.
func fieldsDigest(f Fields) string {
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
	canonical, _ := json.Marshal(rest) // decoded JSON can be encoded
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:6])
}

// quote encodes a JSON string.
func quote(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // a string can be encoded
	return raw
}

// triggerKey is equal for trigger queries that are duplicates: upper case and white
// space make no difference. It is "" for other cases.
func (c Case) triggerKey() string {
	if c.Kind != TriggerQuery {
		return ""
	}
	return string(c.Expectation) + " " + strings.Join(strings.Fields(strings.ToLower(c.Query)), " ")
}

// encodeFields returns the object as JSON to be stored; nil if there is none.
func encodeFields(f Fields) json.RawMessage {
	if f == nil {
		return nil
	}
	raw, _ := json.Marshal(cleanFields(f)) // what was decoded can be encoded
	return raw
}
