// Package lint tells the author of a skill what is wrong with it: where it
// breaks the specification, where it will work badly, and where it could do
// harm. It only reads, never runs anything, and the same files give the same
// report. It owns no tables.
package lint

import (
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// What a report says about its maker. The version changes whenever the same
// files may get another report.
const (
	EngineName    = "whetstone-lint"
	EngineVersion = "1.0.0"
	Engine        = EngineName + "/" + EngineVersion
)

// A Category is the family of a rule.
type Category string

// The families: the format, how well the skill will work, what harm it could do.
const (
	Spec     Category = "spec"
	Quality  Category = "quality"
	Security Category = "security"
)

// A Severity says how bad a finding is.
type Severity string

// The severities. An error makes a report fail.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// A Finding is one thing that somebody should look at.
type Finding struct {
	Code     string   `json:"code"`
	Category Category `json:"category"`
	Severity Severity `json:"severity"`
	// Path is that of the file, or "" if the skill as a whole is meant.
	Path string `json:"path"`
	// Line counts from 1; 0 means the whole file.
	Line    int    `json:"line,omitempty"`
	Message string `json:"message"`
	// Evidence is the text at fault, shortened. It never shows a secret.
	Evidence    string `json:"evidence,omitempty"`
	Remediation string `json:"remediation,omitempty"`
}

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
type Counts struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Info    int `json:"info"`
}

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

// Check looks at every file of a package. A skill with faults is no error:
// an error means that the package could not be read or that ctx ended. The
// name is compared with p.Folder, which a caller who knows the folder may set.
func Check(ctx context.Context, p *skillpkg.Package) (_ Report, err error) {
	defer fault.Wrap(&err, "validate")
	c := &check{pkg: p, files: filesOf(p), budget: matchBudget, pieces: theKit()}
	if err := c.readSkill(); err != nil {
		return Report{}, err
	}
	if c.skill != nil {
		c.checkFrontmatter()
		c.checkBody()
		c.checkDescription()
	}
	c.checkCount()
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
		c.checkEvalsPresent()
		c.checkTools()
	}
	return c.found.report(), nil
}

// Refused returns the report of a skill that could not be packed or read
// because err names a trick that a rule is about. Other errors, such as those
// about limits, have no report: ok is false.
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

// A check is the work on one package.
type check struct {
	pkg *skillpkg.Package
	// skill is nil if there is no SKILL.md that can be read.
	skill *skillpkg.Skill
	// files holds the paths of the installed files and of their folders.
	files map[string]bool
	found collector
	// budget is how many bytes may still be matched against patterns.
	budget int
	pieces *kit
	// powers are what scripts do that a skill has to declare.
	powers []power
}

func filesOf(p *skillpkg.Package) map[string]bool {
	files := map[string]bool{}
	for _, f := range p.Installed() {
		for at := f.Path; at != "." && !files[at]; at = path.Dir(at) {
			files[at] = true
		}
	}
	return files
}

// sentence is the message of a refusal, fit to stand alone.
func sentence(e *skillpkg.Error) string {
	message := e.Error()
	if inner, ok := errors.AsType[*fault.Error](e); ok {
		message = inner.Message
	}
	return strings.ToUpper(message[:1]) + message[1:] + "."
}
