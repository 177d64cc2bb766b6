// Package lint is a static analysis of skills: it reports violations of the
// specification, quality problems and security risks, such as prompt injection,
// secrets and data exfiltration. It never runs anything, and is deterministic:
// the same files give the same report. It owns no tables.
package lint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// The name and version of the linter in reports. The version changes whenever
// the same files may get another report.
const (
	EngineName    = "whetstone-lint"
	EngineVersion = "1.1.0"
	Engine        = EngineName + "/" + EngineVersion
)

// A Category is the family of a rule.
type Category = api.Category

// The categories: the format, how well the skill will work, what harm it could do.
const (
	Spec     Category = "spec"
	Quality  Category = "quality"
	Security Category = "security"
)

// A Severity is the severity of a finding.
type Severity = api.Severity

// The severities. An error makes a report fail.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// A Finding is one violation of a rule.
type Finding = api.Finding

// A Report is what was found in one skill, sorted by path, line and code.
type Report struct {
	Findings []Finding `json:"findings"`
}

// The states of a report.
const (
	StatusPass = "pass"
	StatusWarn = "warn"
	StatusFail = "fail"
)

// Status is fail if there is any error, warn if there is any warning, else pass.
func (r Report) Status() string {
	switch n := r.Counts(); {
	case n.Error > 0:
		return StatusFail
	case n.Warning > 0:
		return StatusWarn
	}
	return StatusPass
}

// Counts are the findings of each severity.
type Counts = api.FindingCounts

// Counts counts the findings.
func (r Report) Counts() Counts {
	var n Counts
	for _, f := range r.Findings {
		switch f.Severity {
		case Error:
			n.Error++
		case Warning:
			n.Warning++
		case Info:
			n.Info++
		}
	}
	return n
}

// Check checks every file of a package. A skill with findings is not an error:
// an error means that the package could not be read or that ctx ended. The name
// of the skill is compared with p.Folder, which the caller may set.
func Check(ctx context.Context, p *skillpkg.Package) (_ Report, err error) {
	defer fault.Wrap(&err, "validate")
	c := &check{pkg: p, files: map[string]bool{}, budget: matchBudget, compiled: compiledPatterns()}
	// Links in Markdown may lead to folders, and through symbolic links.
	for _, f := range p.Installed() {
		for at := f.Path; at != "." && !c.files[at]; at = path.Dir(at) {
			c.files[at] = true
		}
	}
	if err := c.readSkill(); err != nil {
		return Report{}, err
	}
	if c.skill != nil {
		c.checkFrontmatter()
		c.checkBody()
		c.checkDescription()
	}
	if n := len(p.Files); n > manyFiles {
		c.found.add(remark{code: "sec.file.too_many", message: fmt.Sprintf("The skill has %d files; %d are plenty.",
			n, manyFiles)})
	}
	err = p.Walk(ctx, func(f skillpkg.File, r io.Reader) error {
		content := make([]byte, f.Size)
		if _, err := io.ReadFull(r, content); err != nil {
			return err
		}
		return c.checkFile(ctx, f, content)
	})
	if err != nil {
		return Report{}, err
	}
	if c.budget < 0 {
		c.found.add(remark{code: "sec.file.not_scanned"})
	}
	if c.skill != nil {
		if !c.files["evals"] {
			c.found.add(remark{code: "qual.evals.missing"})
		}
		c.checkTools()
	}
	return c.found.report(), nil
}

// Refused returns the report of a skill that could not be packed or read because
// of something that is also a rule, e.g. a symbolic link out of its folder. For
// other errors, such as exceeded limits, ok is false.
func Refused(err error) (_ Report, ok bool) {
	refusal, ok := errors.AsType[*skillpkg.Error](err)
	if !ok {
		return Report{}, false
	}
	if _, ok := ruleOf(string(refusal.Code)); !ok {
		return Report{}, false
	}
	var found collector
	found.add(remark{code: string(refusal.Code), message: sentence(refusal)})
	return found.report(), true
}

// NotFolder returns the report of a skill whose path leads to a file.
func NotFolder() Report {
	var found collector
	found.add(remark{code: "spec.root.not_directory"})
	return found.report()
}

// A check is the state of Check.
type check struct {
	pkg *skillpkg.Package
	// skill is nil if there is no SKILL.md that can be read.
	skill *skillpkg.Skill
	// files are the paths of the installed files and of their folders.
	files map[string]bool
	found collector
	// budget is the number of bytes that may still be matched against patterns.
	budget   int
	compiled *patternSet
	// powers are the places where scripts need a tool that a skill has to declare.
	powers []power
}

// sentence is the message of an error as a sentence.
func sentence(e *skillpkg.Error) string {
	message := e.Error()
	if inner, ok := errors.AsType[*fault.Error](e); ok {
		message = inner.Message
	}
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
