package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

func TestOf(t *testing.T) {
	deep := fault.New(fault.NotFound, "Review not found")
	for _, c := range []struct {
		name string
		err  error
		want fault.Kind
	}{
		{"nil", nil, fault.Internal},
		{"plain", errors.New("disk on fire"), fault.Internal},
		{"direct", deep, fault.NotFound},
		{"wrapped", fmt.Errorf("review: %w", deep), fault.NotFound},
		{"outermost wins", fault.New(fault.Conflict, "taken").Because(deep), fault.Conflict},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fault.Of(c.err); got != c.want {
				t.Errorf("Of(%v) = %v, want %v", c.err, got, c.want)
			}
		})
	}
}

func TestInvalidSplitsThePath(t *testing.T) {
	err := fault.Invalid("cases_json.3.query", "query is %s", "empty")
	want := []fault.Issue{{Path: []string{"cases_json", "3", "query"}, Message: "query is empty"}}
	if diff := cmp.Diff(want, err.Issues); diff != "" {
		t.Error(diff)
	}
}

func TestWrap(t *testing.T) {
	var none error
	fault.Wrap(&none, "entry %d", 1)
	if none != nil {
		t.Errorf("Wrap made an error of nil: %v", none)
	}
	err := error(fault.New(fault.NotFound, "Entry not found"))
	fault.Wrap(&err, "entry %d", 1)
	if got, want := err.Error(), "entry 1: Entry not found"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !fault.Is(err, fault.NotFound) {
		t.Error("Wrap lost the kind")
	}
}
