package sessions

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestMerge: merge is a semilattice join, which is why the order and the number
// of reports do not matter.
func TestMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() *int64 {
		if random.IntN(3) == 0 {
			return nil
		}
		n := random.Int64N(3)
		return &n
	}
	report := func() event {
		e := event{
			session: "s", id: "i", kind: Tool, at: time.UnixMicro(random.Int64N(3)), name: []string{"", "Bash", "Read"}[random.IntN(3)],
			duration: (*time.Duration)(some()),
		}
		if n := some(); n != nil {
			ok := *n == 0
			e.ok = &ok
		}
		return e
	}
	for range 10_000 {
		a, b, c := report(), report(), report()
		if !merge(a, b).equal(merge(b, a)) {
			t.Fatalf("not commutative: %+v %+v", a, b)
		}
		if !merge(merge(a, b), c).equal(merge(a, merge(b, c))) {
			t.Fatalf("not associative: %+v %+v %+v", a, b, c)
		}
		if !merge(a, a).equal(a) || !merge(merge(a, b), b).equal(merge(a, b)) {
			t.Fatalf("not idempotent: %+v %+v", a, b)
		}
	}
}

func TestNameShape(t *testing.T) {
	for name, want := range map[string]bool{
		"Bash": true, "mcp__git-hub__search": true, "claude-sonnet-4@20250514": true, "us.anthropic.claude-4:0": true,
		"claude-opus-4[1m]": true, "anthropic/claude": true,
		"": false, "two words": false, "ada@example.org": false, "line\nbreak": false, "Ünïcode": false, "'; DROP": false,
	} {
		if got := cleanName(name) != ""; got != want {
			t.Errorf("%q is a name: %v, want %v", name, got, want)
		}
	}
}

func TestEnd(t *testing.T) {
	now := time.Now()
	before := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	for name, c := range map[string]struct {
		s    Session
		want *time.Time
	}{
		"silent":             {Session{LastAt: *before(2 * time.Hour)}, before(2 * time.Hour)},
		"perhaps going on":   {Session{LastAt: *before(time.Minute)}, nil},
		"reported":           {Session{LastAt: *before(time.Minute), EndedAt: before(time.Minute)}, before(time.Minute)},
		"went on afterwards": {Session{LastAt: *before(time.Second), EndedAt: before(time.Minute)}, before(time.Second)},
	} {
		if got := c.s.End(now); !sameTime(got, c.want) {
			t.Errorf("%s: ended %v, want %v", name, got, c.want)
		}
	}
}
