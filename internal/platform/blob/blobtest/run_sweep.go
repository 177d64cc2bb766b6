package blobtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

// anyAge makes a sweep take blobs that were stored just now for old ones, also
// where the bucket's clock is a little ahead.
const anyAge = -time.Minute

// testSweep deletes orphans only: not what a row refers to, what is young, or
// what is another owner's.
func testSweep(t *testing.T, b blob.Bucket) {
	for _, key := range []string{"mine/orphan", "mine/alive", "mine/deep/orphan", "minerals/x", "yours/orphan"} {
		put(t, b, key, key)
	}
	asked := 0
	sweep := blob.Sweep{Bucket: b, Prefix: "mine/", Alive: func(_ context.Context, keys []string) ([]string, error) {
		asked += len(keys)
		return []string{"mine/alive", "mine/gone"}, nil
	}}
	run := func(want int) {
		t.Helper()
		if deleted, err := sweep.Run(t.Context()); deleted != want || err != nil {
			t.Errorf("a sweep of age %s deleted %d, %v, want %d", sweep.MinAge, deleted, err, want)
		}
	}
	run(0)
	if asked > 0 {
		t.Errorf("asked about %d young blobs", asked)
	}
	sweep.MinAge = anyAge
	run(2)
	run(0)
	if diff := cmp.Diff([]string{"mine/alive", "minerals/x", "yours/orphan"}, list(t, b, "")); diff != "" {
		t.Errorf("blobs after the sweep (-want +got):\n%s", diff)
	}

	failing := errors.New("no answer")
	sweep.Alive = func(context.Context, []string) ([]string, error) { return nil, failing }
	if deleted, err := sweep.Run(t.Context()); deleted != 0 || !errors.Is(err, failing) {
		t.Errorf("a sweep without an answer deleted %d, %v, want 0, %v", deleted, err, failing)
	}
	sweep.Alive = nil
	run(1)
	if got := list(t, b, "mine/"); len(got) > 0 {
		t.Errorf("%q is left, although no row refers to anything", got)
	}
}

// testSweepInBatches asks about many blobs in few questions.
func testSweepInBatches(t *testing.T, b blob.Bucket) {
	if testing.Short() {
		t.Skip("stores 501 blobs")
	}
	const n = 501
	want := []string{}
	for i := range n {
		key := fmt.Sprintf("many/%03d", i)
		put(t, b, key, "x")
		if i%2 == 0 {
			want = append(want, key)
		}
	}
	var batches []int
	sweep := blob.Sweep{Bucket: b, Prefix: "many/", MinAge: anyAge, Alive: func(_ context.Context, keys []string) ([]string, error) {
		batches = append(batches, len(keys))
		return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return (key[len(key)-1]-'0')%2 == 1 }), nil
	}}
	deleted, err := sweep.Run(t.Context())
	if deleted != n/2 || err != nil {
		t.Errorf("deleted %d, %v, want %d", deleted, err, n/2)
	}
	if diff := cmp.Diff([]int{500, 1}, batches); diff != "" {
		t.Errorf("keys of each question (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, list(t, b, "")); diff != "" {
		t.Errorf("blobs after the sweep (-want +got):\n%s", diff)
	}
}
