// Package sarif writes reports of the linter in the format SARIF 2.1.0.
package sarif

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

// A Log is a report in the format SARIF 2.1.0, which code hosts and editors
// read. It is encoded as JSON.
type Log struct {
	Schema  string    `json:"$schema"`
	Version string    `json:"version"`
	Runs    []toolRun `json:"runs"`
}

type toolRun struct {
	Tool       tool     `json:"tool"`
	ColumnKind string   `json:"columnKind"`
	Results    []result `json:"results"`
}

type tool struct {
	Driver driver `json:"driver"`
}

type driver struct {
	Name            string      `json:"name"`
	SemanticVersion string      `json:"semanticVersion"`
	InformationURI  string      `json:"informationUri"`
	Rules           []ruleEntry `json:"rules"`
}

type ruleEntry struct {
	ID                   string        `json:"id"`
	ShortDescription     message       `json:"shortDescription"`
	Help                 message       `json:"help"`
	DefaultConfiguration configuration `json:"defaultConfiguration"`
	Properties           properties    `json:"properties"`
}

type message struct {
	Text string `json:"text"`
}

type configuration struct {
	Level string `json:"level"`
}

type properties struct {
	Tags []string `json:"tags"`
}

type result struct {
	RuleID    string     `json:"ruleId"`
	RuleIndex int        `json:"ruleIndex"`
	Level     string     `json:"level"`
	Message   message    `json:"message"`
	Locations []location `json:"locations"`
	// Fingerprints identify the same finding after lines moved.
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type location struct {
	Physical physicalLocation `json:"physicalLocation"`
}

type physicalLocation struct {
	Artifact artifact `json:"artifactLocation"`
	Region   *region  `json:"region,omitempty"`
}

type artifact struct {
	URI       string `json:"uri"`
	URIBaseID string `json:"uriBaseId"`
}

type region struct {
	StartLine int      `json:"startLine"`
	Snippet   *snippet `json:"snippet,omitempty"`
}

type snippet struct {
	Text string `json:"text"`
}

const (
	schema = "https://json.schemastore.org/sarif-2.1.0.json"
	home   = "https://github.com/whetstone-dev/whetstone/blob/main/docs/validation.md"
	// skillFile is the location of findings about the skill as a whole, since
	// readers need a file.
	skillFile = "SKILL.md"
)

// New returns a report as a SARIF log. The folder is the skill's in its
// repository, or "" for the root: paths in the log begin with it.
func New(r lint.Report, folder string) Log {
	run := toolRun{
		Tool: tool{driver{
			Name: lint.EngineName, SemanticVersion: lint.EngineVersion, InformationURI: home, Rules: ruleEntries(r),
		}},
		ColumnKind: "unicodeCodePoints",
		Results:    []result{},
	}
	for _, f := range r.Findings {
		index := slices.IndexFunc(run.Tool.Driver.Rules, func(rule ruleEntry) bool { return rule.ID == f.Code })
		// Without the line, the fingerprint stays the same when lines move.
		fingerprint := sha256.Sum256([]byte(strings.Join([]string{f.Code, f.Path, cmp.Or(f.Evidence, f.Message)}, "\x00")))
		run.Results = append(run.Results, result{
			RuleID: f.Code, RuleIndex: index, Level: level(f.Severity), Message: message{f.Message},
			Locations:    []location{locate(f, folder)},
			Fingerprints: map[string]string{"whetstone/v1": hex.EncodeToString(fingerprint[:])},
		})
	}
	return Log{Schema: schema, Version: "2.1.0", Runs: []toolRun{run}}
}

// ruleEntries lists the rules that the report names, in their usual order.
func ruleEntries(r lint.Report) []ruleEntry {
	broken := map[string]bool{}
	for _, f := range r.Findings {
		broken[f.Code] = true
	}
	rules := []ruleEntry{}
	for _, rule := range lint.Rules() {
		if broken[rule.Code] {
			rules = append(rules, ruleEntry{
				ID: rule.Code, ShortDescription: message{rule.Title}, Help: message{rule.Help},
				DefaultConfiguration: configuration{level(rule.Severity)},
				Properties:           properties{[]string{string(rule.Category)}},
			})
		}
	}
	return rules
}

func level(s lint.Severity) string {
	if s == lint.Info {
		return "note"
	}
	return string(s)
}

func locate(f lint.Finding, folder string) location {
	name := f.Path
	if name == "" {
		name = skillFile
	}
	uri := url.URL{Path: path.Join(strings.TrimPrefix(folder, "/"), name)}
	at := physicalLocation{Artifact: artifact{URI: strings.TrimPrefix(uri.EscapedPath(), "./"), URIBaseID: "%SRCROOT%"}}
	if f.Line > 0 {
		at.Region = &region{StartLine: f.Line}
		if f.Evidence != "" {
			at.Region.Snippet = &snippet{f.Evidence}
		}
	}
	return location{at}
}
