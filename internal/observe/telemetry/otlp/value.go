package otlp

import (
	"encoding/json"
	"strconv"

	common "go.opentelemetry.io/proto/otlp/common/v1"
)

// TextsOf returns the strings of a list, or of a string that holds a list as
// JSON.
func TextsOf(value *common.AnyValue) (all []string) {
	for _, v := range value.GetArrayValue().GetValues() {
		all = append(all, TextOf(v))
	}
	if all == nil && json.Unmarshal([]byte(value.GetStringValue()), &all) != nil {
		return nil
	}
	return all
}

// TextOf returns a scalar as text, "" for anything else.
func TextOf(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *common.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *common.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	}
	return ""
}

// JSONField returns a field of a JSON object if it is a string, else "".
func JSONField(object, field string) string {
	var fields map[string]any
	_ = json.Unmarshal([]byte(object), &fields) // on an error there are none
	value, _ := fields[field].(string)
	return value
}
