package lint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strings"
)

// A Log is a report in the format SARIF 2.1.0, which code hosts and editors
// read. It is encoded as JSON.
type Log struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool       sarifTool     `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifTool struct {
	Driver sarifDriver `json:"driver"`
}

type sarifDriver struct {
	Name            string      `json:"name"`
	SemanticVersion string      `json:"semanticVersion"`
	InformationURI  string      `json:"informationUri"`
	Rules           []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID                   string          `json:"id"`
	ShortDescription     sarifText       `json:"shortDescription"`
	Help                 sarifText       `json:"help"`
	DefaultConfiguration sarifLevel      `json:"defaultConfiguration"`
	Properties           sarifProperties `json:"properties"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifLevel struct {
	Level string `json:"level"`
}

type sarifProperties struct {
	Tags []string `json:"tags"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
	// Fingerprints identify the same finding after lines moved.
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical sarifPhysical `json:"physicalLocation"`
}

type sarifPhysical struct {
	Artifact sarifArtifact `json:"artifactLocation"`
	Region   *sarifRegion  `json:"region,omitempty"`
}

type sarifArtifact struct {
	URI       string `json:"uri"`
	URIBaseID string `json:"uriBaseId"`
}

type sarifRegion struct {
	StartLine int           `json:"startLine"`
	Snippet   *sarifSnippet `json:"snippet,omitempty"`
}

type sarifSnippet struct {
	Text string `json:"text"`
}

const (
	sarifSchema = "https://json.schemastore.org/sarif-2.1.0.json"
	sarifHome   = "https://github.com/whetstone-dev/whetstone/blob/main/docs/validation.md"
	// skillFile is the location of findings about the skill as a whole, since
	// readers need a file.
	skillFile = "SKILL.md"
)

// SARIF returns a report as a SARIF log. The folder is the skill's in its
// repository, or "" for the root: paths in the log begin with it.
func SARIF(r Report, folder string) Log {
	run := sarifRun{
		Tool: sarifTool{sarifDriver{
			Name: EngineName, SemanticVersion: EngineVersion, InformationURI: sarifHome, Rules: sarifRules(r),
		}},
		ColumnKind: "unicodeCodePoints",
		Results:    []sarifResult{},
	}
	for _, f := range r.Findings {
		index := slices.IndexFunc(run.Tool.Driver.Rules, func(rule sarifRule) bool { return rule.ID == f.Code })
		// Without the line, the fingerprint stays the same when lines move.
		fingerprint := sha256.Sum256([]byte(strings.Join([]string{f.Code, f.Path, cmp.Or(f.Evidence, f.Message)}, "\x00")))
		run.Results = append(run.Results, sarifResult{
			RuleID: f.Code, RuleIndex: index, Level: level(f.Severity), Message: sarifText{f.Message},
			Locations:    []sarifLocation{f.location(folder)},
			Fingerprints: map[string]string{"whetstone/v1": hex.EncodeToString(fingerprint[:])},
		})
	}
	return Log{Schema: sarifSchema, Version: "2.1.0", Runs: []sarifRun{run}}
}

// sarifRules lists the rules that the report names, in their usual order.
func sarifRules(r Report) []sarifRule {
	broken := map[string]bool{}
	for _, f := range r.Findings {
		broken[f.Code] = true
	}
	rules := []sarifRule{}
	for _, rule := range Rules() {
		if broken[rule.Code] {
			rules = append(rules, sarifRule{
				ID: rule.Code, ShortDescription: sarifText{rule.Title}, Help: sarifText{rule.Help},
				DefaultConfiguration: sarifLevel{level(rule.Severity)}, Properties: sarifProperties{[]string{string(rule.Category)}},
			})
		}
	}
	return rules
}

func level(s Severity) string {
	if s == Info {
		return "note"
	}
	return string(s)
}

func (f Finding) location(folder string) sarifLocation {
	name := f.Path
	if name == "" {
		name = skillFile
	}
	uri := url.URL{Path: path.Join(strings.TrimPrefix(folder, "/"), name)}
	at := sarifPhysical{Artifact: sarifArtifact{URI: strings.TrimPrefix(uri.EscapedPath(), "./"), URIBaseID: "%SRCROOT%"}}
	if f.Line > 0 {
		at.Region = &sarifRegion{StartLine: f.Line}
		if f.Evidence != "" {
			at.Region.Snippet = &sarifSnippet{f.Evidence}
		}
	}
	return sarifLocation{at}
}
