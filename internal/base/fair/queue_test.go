package fair_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fair"
)

func drain(q *fair.Queue[string]) (all []string) {
	for q.Len() > 0 {
		all = append(all, q.Pop())
	}
	return all
}

func TestRoundRobin(t *testing.T) {
	q := &fair.Queue[string]{}
	for _, v := range []string{"a1", "a2", "a3", "a4", "b1", "b2", "c1"} {
		q.Push(v[:1], v)
	}
	want := []string{"a1", "b1", "c1", "a2", "b2", "a3", "a4"}
	if got := slices.Collect(q.All()); !slices.Equal(got, want) {
		t.Errorf("in the order %v, want %v", got, want)
	}
	if got := q.Pop(); got != "a1" {
		t.Fatalf("served %s first", got)
	}
	q.Push("d", "d1") // behind the line that was just served
	if got, want := drain(q), []string{"b1", "c1", "a2", "d1", "b2", "a3", "a4"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
}

func TestOrderWithinALine(t *testing.T) {
	q := &fair.Queue[string]{Before: func(a, b string) bool { return a < b }}
	for _, v := range []string{"a3", "b2", "a1", "b1", "a2"} {
		q.Push(v[:1], v)
	}
	if got, want := drain(q), []string{"a1", "b1", "a2", "b2", "a3"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
}

func TestRemove(t *testing.T) {
	q := &fair.Queue[string]{}
	for _, v := range []string{"a1", "a2", "b1"} {
		q.Push(v[:1], v)
	}
	q.Remove("a", "a1")
	q.Remove("a", "a1") // gone
	q.Remove("x", "x1")
	q.Serve("x", "x1")
	q.Remove("b", "b1")
	if got, want := drain(q), []string{"a2"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
}

// TestDrop: whoever has the most waiting makes room, the last first, and has none
// made by others.
func TestDrop(t *testing.T) {
	q := &fair.Queue[string]{}
	if v, ok := q.Drop("a"); ok {
		t.Errorf("an empty queue dropped %q", v)
	}
	for i := range 10 {
		q.Push("noisy", fmt.Sprint("noisy", i))
	}
	if v, ok := q.Drop("noisy"); ok {
		t.Errorf("dropped %q for the same tenant", v)
	}
	for i := range 4 { // until both have as many
		v, ok := q.Drop("quiet")
		if want := fmt.Sprint("noisy", 9-i); !ok || v != want {
			t.Fatalf("dropped %q, %t, want %q", v, ok, want)
		}
		q.Push("quiet", fmt.Sprint("quiet", i))
	}
	q.Push("quiet", "quiet4")
	q.Push("quiet", "quiet5")
	if v, ok := q.Drop("quiet"); ok {
		t.Errorf("dropped %q for a tenant with as many", v)
	}
}

// TestBoundedWait: however much the others have waiting, as many as there are tenants
// are served before the first of a new line.
func TestBoundedWait(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		q := &fair.Queue[string]{}
		tenants := 1 + random.IntN(8)
		for i := range 500 {
			q.Push(fmt.Sprint(random.IntN(tenants)), fmt.Sprint("noisy", i))
			if random.IntN(3) == 0 {
				q.Pop()
			}
		}
		q.Push("quiet", "quiet")
		before := slices.Index(drain(q), "quiet")
		if before > tenants {
			t.Errorf("seed %d: %d of %d tenants were served before", seed, before, tenants)
		}
	}
}
