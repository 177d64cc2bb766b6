package storetest

import (
	_ "embed"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// Databases are those on which a test runs: "sqlite" and "postgres". `make test` leaves out
// PostgreSQL where other tests execute the same statements, and fail in the same way, as
// covered.txt says; `make test-rest` makes up for it.
func Databases(t testing.TB) []string {
	t.Helper()
	chosen := os.Getenv("WHETSTONE_TEST_DATABASES")
	switch {
	case chosen == "short" && covered()[testID(t)]:
		return []string{"sqlite"}
	case chosen == "rest" && covered()[testID(t)]:
		return []string{"postgres"}
	case chosen == "rest":
		return nil
	case chosen == "sqlite" || chosen == "postgres":
		return []string{chosen}
	default:
		return []string{"sqlite", "postgres"}
	}
}

// testID is the folder of the test's package, and its name, e.g. "internal/web.TestHome".
func testID(t testing.TB) string {
	name, _, _ := strings.Cut(t.Name(), "/")
	info, _ := debug.ReadBuildInfo() // go test always has it
	return strings.TrimSuffix(strings.TrimPrefix(info.Path, info.Main.Path+"/"), ".test") + "." + name
}

// coveredText has a line for each package: its folder, and the names of its tests that need
// no PostgreSQL of their own in `make test`. `make covered` writes it.
//
//go:embed covered.txt
var coveredText string

var covered = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(coveredText) {
		words := strings.Fields(line)
		for _, name := range words[min(1, len(words)):] {
			all[words[0]+"."+name] = true
		}
	}
	return all
})
