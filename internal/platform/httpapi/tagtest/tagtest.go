// Package tagtest checks that the limits in the tags of an endpoint's input, from
// which the OpenAPI schema is made, are those of the domain type's Check.
package tagtest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Want fails the test unless a field of the input has the tag with the limit.
// The field is a path, e.g. "Body.SkillName"; limits may be numbers, or for
// "enum" a slice of words.
func Want(t *testing.T, input any, field, tag string, limit any) {
	t.Helper()
	typ := reflect.TypeOf(input)
	var f reflect.StructField
	for _, name := range strings.Split(field, ".") {
		var ok bool
		if f, ok = typ.FieldByName(name); !ok {
			t.Fatalf("%s has no field %s", typ, name)
		}
		if typ = f.Type; typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
	}
	want := fmt.Sprint(limit)
	if v := reflect.ValueOf(limit); v.Kind() == reflect.Slice {
		want = strings.ReplaceAll(strings.Trim(want, "[]"), " ", ",")
	}
	if got := f.Tag.Get(tag); got != want {
		t.Errorf("%s has %s:%q, want %q", field, tag, got, want)
	}
}
