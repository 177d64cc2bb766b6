package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// All reads all pages of a list. field names it in the answer, e.g. "teams", and the
// path ends with ? or &.
func All[T any](ctx context.Context, s *Session, path, field string) ([]T, error) {
	found := []T{}
	for n := 1; ; n++ {
		var out map[string]json.RawMessage
		if err := s.Call(ctx, http.MethodGet, fmt.Sprintf("%sper_page=100&page=%d", path, n), nil, &out); err != nil {
			return nil, err
		}
		var items []T
		var pagination struct{ Total int }
		if err := json.Unmarshal(out[field], &items); err != nil {
			return nil, fmt.Errorf("%s: the field %s of the answer is not valid: %w", path, field, err)
		}
		if err := json.Unmarshal(out["pagination"], &pagination); err != nil {
			return nil, fmt.Errorf("%s: the pagination of the answer is not valid: %w", path, err)
		}
		found = append(found, items...)
		if len(items) == 0 || len(found) >= pagination.Total {
			return found, nil
		}
	}
}
