package telemetry_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
)

type record struct {
	ID int `json:"id"`
}

func TestEach(t *testing.T) {
	t.Parallel()
	for array, want := range map[string][]string{
		`[]`:                                nil,
		` [ ] `:                             nil,
		`[{"id":1}, {"id":2}]`:              {`0 1 {"id":1}`, `1 2 {"id":2}`},
		`[{"id":1},null]`:                   {`0 1 {"id":1}`, `1 nil null`},
		`[{"id":"one"},{"id":2}]`:           {`0 nil {"id":"one"}`, `1 nil {"id":2}`},
		`[{"id":1,"id":2}]`:                 {`0 2 {"id":1,"id":2}`},
		"[{\"id\":1,\"x\":\"\xff\"}]":       {"0 1 {\"id\":1,\"x\":\"\xff\"}"},
		`[{"id":1,"more":[1,{"a":["]"]}]}]`: {`0 1 {"id":1,"more":[1,{"a":["]"]}]}`},
		`[7]`:                               {`0 nil 7`},
		`[{"id":1,"x":"\ud800"}]`:           {`0 1 {"id":1,"x":"\ud800"}`},
	} {
		var got []string
		err := telemetry.EachElement(json.RawMessage(array), func(i int, r *record, text json.RawMessage) {
			id := "nil"
			if r != nil {
				id = fmt.Sprint(r.ID)
			}
			got = append(got, fmt.Sprintf("%d %s %s", i, id, text))
		})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", array, err, diff)
		}
	}
}

func TestEachOfNoArray(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{}`, `1`, `"a"`, `true`, ``, `[1`, `[1,]`} {
		if err := telemetry.EachElement(json.RawMessage(text), func(int, *record, json.RawMessage) {}); err == nil {
			t.Errorf("%q is taken for an array", text)
		}
	}
}

// TestEachOfMany has an invalid record among many: only those near it are decoded by the
// caller, and all have their places.
func TestEachOfMany(t *testing.T) {
	t.Parallel()
	const count, wrong = 2500, 1700
	texts := make([]string, count)
	for i := range texts {
		texts[i] = fmt.Sprintf(`{"id":%d}`, i)
	}
	texts[wrong] = `{"id":[]}`
	seen, invalid := 0, 0
	err := telemetry.EachElement(json.RawMessage("["+strings.Join(texts, " , ")+"]"), func(i int, r *record, text json.RawMessage) {
		if i != seen || string(text) != texts[i] || r != nil && r.ID != i {
			t.Errorf("element %d is %v of %s as number %d", i, r, text, seen)
		}
		seen++
		if r == nil {
			invalid++
		}
	})
	if err != nil || seen != count || invalid == 0 || invalid > 1000 {
		t.Errorf("%d elements, %d of them to decode again, %v", seen, invalid, err)
	}
}
