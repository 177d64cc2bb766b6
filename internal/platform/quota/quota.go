// Package quota keeps one organisation from filling the disk of all: it counts the
// bytes that each stores, and refuses more than its plan allows. It counts what
// clients send: the archives of all versions in the registry, the files of sources'
// snapshots, environments of suites, the decompressed bodies of telemetry,
// contribution bundles, and the sealed content of sessions. It owns the table stored_bytes.
package quota

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

// A Kind is what bytes are used for.
type Kind string

// The kinds, each counted by the capability that stores it.
const (
	Registry  Kind = "registry"
	Sources   Kind = "sources"
	Evals     Kind = "evals"
	Telemetry Kind = "telemetry"
	Community Kind = "community"
	Evidence  Kind = "evidence"
)

// Limits are how many bytes an organisation may store, by plan. A plan without an
// entry has no limit.
type Limits map[access.Plan]int64

// unlimited is the text of a missing limit.
const unlimited = "unlimited"

// String writes what UnmarshalText reads.
func (l Limits) String() string {
	parts := make([]string, 0, len(access.Plans()))
	for _, plan := range access.Plans() {
		limit := unlimited
		if n, ok := l[plan]; ok {
			limit = Bytes(n).String()
		}
		parts = append(parts, fmt.Sprintf("%s=%s", plan, limit))
	}
	return strings.Join(parts, ",")
}

// MarshalText writes what UnmarshalText reads.
func (l Limits) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses e.g. "free=1GiB,enterprise=unlimited". Other plans keep their
// limits.
func (l *Limits) UnmarshalText(text []byte) error {
	limits := maps.Clone(*l)
	if limits == nil {
		limits = DefaultLimits()
	}
	for part := range strings.SplitSeq(string(text), ",") {
		plan, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || !slices.Contains(access.Plans(), access.Plan(plan)) {
			return fmt.Errorf("%q is not a plan and its limit, like free=1GiB or team=unlimited", part)
		}
		if value == unlimited {
			delete(limits, access.Plan(plan))
			continue
		}
		var n Bytes
		if err := n.UnmarshalText([]byte(value)); err != nil {
			return err
		}
		limits[access.Plan(plan)] = int64(n)
	}
	*l = limits
	return nil
}

// DefaultLimits are the limits without a setting.
func DefaultLimits() Limits {
	return Limits{access.Free: 1 << 30, access.Pro: 20 << 30, access.Team: 100 << 30}
}

// Bytes is a number of bytes with a binary unit, e.g. 512MiB or 20GiB.
type Bytes int64

var units = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// String is exact and uses the largest possible unit, e.g. "1536MiB".
func (b Bytes) String() string {
	for _, u := range units {
		if b != 0 && int64(b)%u.size == 0 {
			return fmt.Sprintf("%d%s", int64(b)/u.size, u.name)
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// Short is rounded, for people, e.g. "1.5 GiB".
func (b Bytes) Short() string {
	for _, u := range units {
		if int64(b) >= u.size {
			return fmt.Sprintf("%.1f %s", float64(b)/float64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", int64(b))
}

// MarshalText writes what UnmarshalText reads.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText parses a number of bytes with or without a unit.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, size := string(text), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, size = rest, u.size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/size {
		return fmt.Errorf("%q is not a number of bytes like 512MiB or 20GiB", text)
	}
	*b = Bytes(n * size)
	return nil
}
