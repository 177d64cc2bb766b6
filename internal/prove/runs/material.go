package runs

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/prove/suites/verify"
)

// materialOf is what the judge reads of a sample: the output, and the files that an
// agent left.
func materialOf(s verify.Sample) string {
	if s.Agent == nil || len(s.Files) == 0 {
		return s.Output
	}
	var b strings.Builder
	b.WriteString(s.Output)
	for _, name := range slices.Sorted(maps.Keys(s.Files)) {
		fmt.Fprintf(&b, "\n\n[file %s]\n%s", text.PlainLine(name), text.Truncate(s.Files[name], maxMaterialFile))
		if b.Len() > maxMaterial {
			break
		}
	}
	return text.Truncate(b.String(), maxMaterial)
}

// Limits of what the judge reads of an agent's files.
const (
	maxMaterialFile = 16 << 10
	maxMaterial     = 64 << 10
)

// criteriaOf returns what the judge holds the output of a rubric case against.
func criteriaOf(c suites.Case) []string {
	switch {
	case c.Graders != nil:
		var all []string
		for _, g := range c.Graders {
			if g.IsJudged() {
				all = append(all, g.Criteria)
			}
		}
		return all
	case len(c.Expectations) > 0:
		return c.Expectations
	}
	return judge.Criteria(c.Rubric)
}
