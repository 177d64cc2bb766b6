package versions

import (
	"fmt"
	"io"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// printResult prints a verification for people.
func printResult(w io.Writer, r verification) {
	name := term.Plain(r.Organisation + "/" + r.Name + "@" + r.Version)
	if r.Path != "" {
		fmt.Fprintf(w, "%s is %s\n", r.Path, name)
	} else {
		fmt.Fprintln(w, name)
	}
	for _, a := range r.Attestations {
		if a.Problem == nil {
			fmt.Fprintf(w, "  signed: %s (%s, key %.16s)\n", term.Plain(a.Summary), a.At.Format("2006-01-02 15:04 UTC"),
				term.Plain(a.KeyID))
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "  PROBLEM: %s\n", term.Plain(p.Message))
	}
	if len(r.Unchecked) > 0 && !r.strict {
		fmt.Fprintf(w, "  not part of the skill, and not checked: %s\n", term.Plain(strings.Join(r.Unchecked, ", ")))
	}
	switch {
	case !r.OK:
		fmt.Fprintln(w, "NOT verified.")
	case r.Path != "":
		fmt.Fprintln(w, "Verified: the files are those that were signed.")
	default:
		fmt.Fprintln(w, "Verified: the archive is the one that was signed.")
	}
}
