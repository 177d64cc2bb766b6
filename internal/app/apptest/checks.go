package apptest

import (
	"flag"
	"strconv"
	"sync"
)

// checksAsked reports whether the command line says how many checks property tests
// make. It is asked once: setting a flag makes it look as if it were given.
var checksAsked = sync.OnceValue(func() (asked bool) {
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	return asked
})

// FewChecks keeps the usual run of a property test short: it makes so many checks
// unless the command line sets -rapid.checks. Such tests are not parallel, since
// the number is one of the process.
func FewChecks(t T, checks int) {
	t.Helper()
	if checksAsked() {
		return
	}
	if err := flag.Set("rapid.checks", strconv.Itoa(checks)); err != nil {
		t.Fatalf("%v", err)
	}
}
