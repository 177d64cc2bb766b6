package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

const (
	// maxPerFile and maxPerRule limit the size of a report. The omitted
	// findings are counted in a finding of its own.
	maxPerFile = 10
	maxPerRule = 100
	// maxRaw limits the text at fault, in bytes: a word may be as long as its
	// file.
	maxRaw = 4 << 10
	// maxEvidence and maxMessage are in characters.
	maxEvidence = 160
	maxMessage  = 300
)

// A remark becomes a finding: fields that are not set come from the rule.
type remark struct {
	code     string
	path     string
	line     int
	message  string
	evidence string
	severity Severity
	// lower is the number of steps by which the severity is lowered, where
	// something is only mentioned. Below info nothing is reported.
	lower int
}

// A collector gathers findings.
type collector struct {
	findings []Finding // not redacted yet
	files    map[spot]*tally
	seen     map[sighting]bool
}

// A spot is a rule in a file.
type spot struct{ code, path string }

type sighting struct {
	spot
	evidence string
}

// A tally counts the findings of a rule in a file.
type tally struct {
	shown, hidden int
	worst         Severity // of the hidden ones
}

// add adds a remark, and deduplicates those with the same evidence in a file.
func (c *collector) add(r remark) {
	rule, _ := ruleOf(r.code)
	severity, ok := lowered(cmp.Or(r.severity, rule.Severity), r.lower)
	if !ok {
		return
	}
	if c.files == nil {
		c.files, c.seen = map[spot]*tally{}, map[sighting]bool{}
	}
	at := spot{r.code, r.path}
	count := c.files[at]
	if count == nil {
		count = &tally{}
		c.files[at] = count
	}
	if count.shown >= maxPerFile {
		count.hidden++
		count.worst = worseOf(count.worst, severity)
		return
	}
	r.evidence = text.Truncate(r.evidence, maxRaw)
	if r.evidence != "" && c.seen[sighting{at, r.evidence}] {
		return
	}
	c.seen[sighting{at, r.evidence}] = true
	count.shown++
	c.findings = append(c.findings, Finding{
		Code: rule.Code, Category: rule.Category, Severity: severity, Path: r.path, Line: r.line,
		Message: cmp.Or(r.message, rule.Title), Evidence: r.evidence, Remediation: rule.Help,
	})
}

// report sorts the findings, counts the omitted ones, and redacts secrets: a
// report is shown to more people than the skill is.
func (c *collector) report() Report {
	all := slices.Clone(c.findings)
	for at, count := range c.files {
		if count.hidden > 0 {
			message := fmt.Sprintf("%d more findings of this rule in this file are not listed.", count.hidden)
			all = append(all, leftOut(at, count.worst, message))
		}
	}
	slices.SortFunc(all, compare)
	kept := []Finding{}
	shown := map[string]int{}
	rest := map[string]*tally{}
	for _, f := range all {
		if shown[f.Code]++; shown[f.Code] <= maxPerRule {
			kept = append(kept, f)
			continue
		}
		if rest[f.Code] == nil {
			rest[f.Code] = &tally{}
		}
		rest[f.Code].hidden++
		rest[f.Code].worst = worseOf(rest[f.Code].worst, f.Severity)
	}
	for code, count := range rest {
		message := fmt.Sprintf("%d more findings of this rule in other files are not listed.", count.hidden)
		kept = append(kept, leftOut(spot{code: code}, count.worst, message))
	}
	for i := range kept {
		kept[i].Message = text.Ellipsis(text.OneLine(visible(redact(kept[i].Message))), maxMessage)
		kept[i].Evidence = text.Ellipsis(text.OneLine(visible(redact(kept[i].Evidence))), maxEvidence)
	}
	slices.SortFunc(kept, compare)
	return Report{Findings: kept}
}

func leftOut(at spot, severity Severity, message string) Finding {
	rule, _ := ruleOf(at.code)
	return Finding{
		Code: rule.Code, Category: rule.Category, Severity: severity, Path: at.path,
		Message: message, Remediation: rule.Help,
	}
}

func compare(a, b Finding) int {
	return cmp.Or(
		strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), strings.Compare(a.Code, b.Code),
		strings.Compare(a.Message, b.Message), strings.Compare(a.Evidence, b.Evidence),
	)
}

// severities are sorted from the worst.
var severities = [...]Severity{Error, Warning, Info}

// lowered lowers the severity by some steps; ok is false below info.
func lowered(s Severity, steps int) (_ Severity, ok bool) {
	at := slices.Index(severities[:], s) + steps
	if at >= len(severities) {
		return "", false
	}
	return severities[at], true
}

// worseOf returns the worse of two severities, of which the first may be "".
func worseOf(a, b Severity) Severity {
	if a != "" && slices.Index(severities[:], a) < slices.Index(severities[:], b) {
		return a
	}
	return b
}
