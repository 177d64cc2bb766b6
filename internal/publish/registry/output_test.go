package registry_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// TestForOthers fills every field of an entry and lists those that other organisations
// don't see. A new field is among them: decide in ForOthers whether it is public.
func TestForOthers(t *testing.T) {
	t.Parallel()
	var e registry.Entry
	v := reflect.ValueOf(&e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(time.Now()))
		case *string:
			f.Set(reflect.ValueOf(new("x")))
		case int:
			f.SetInt(1)
		default:
			f.SetString("x")
		}
	}
	var private []string
	seen := reflect.ValueOf(e.ForOthers())
	for i := range seen.NumField() {
		if seen.Field(i).IsZero() {
			private = append(private, seen.Type().Field(i).Name)
		}
	}
	if want := []string{"SkillID", "InstallationCount"}; !slices.Equal(private, want) {
		t.Errorf("other organisations do not see %q, want %q", private, want)
	}
}
