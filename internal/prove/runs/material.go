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

// materialOf returns the text that the judge reads: the output, and behind it the files
// that an agent left, sorted by name, each after a line "[file NAME]".
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

// Byte limits of what the judge reads: of one file, and of everything together.
const (
	maxMaterialFile = 16 << 10
	maxMaterial     = 64 << 10
)

// criteriaOf returns the criteria against which the judge reads the output of a rubric
// case: those of its judged graders, else its expectations, else its rubric's.
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
