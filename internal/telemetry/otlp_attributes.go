package telemetry

import (
	"encoding/json"
	"strconv"

	common "go.opentelemetry.io/proto/otlp/common/v1"
)

// attributes are those of a record, then of its scope and its resource. The
// first list that has a key wins.
type attributes [][]*common.KeyValue

func (a attributes) value(key string) *common.AnyValue {
	for _, list := range a {
		for _, kv := range list {
			if kv.GetKey() == key {
				return kv.GetValue()
			}
		}
	}
	return nil
}

// text returns the first attribute among keys that has a scalar value, as text;
// "" if none has.
func (a attributes) text(keys ...string) string {
	for _, key := range keys {
		if text := textOf(a.value(key)); text != "" {
			return text
		}
	}
	return ""
}

// float returns an attribute that is a number, or text that parses as one.
func (a attributes) float(key string) (float64, bool) {
	number, err := strconv.ParseFloat(a.text(key), 64)
	return number, err == nil
}

// texts returns an attribute that is a list of strings.
func (a attributes) texts(key string) []string { return textsOf(a.value(key)) }

// textsOf returns the strings of a list, or of a string that holds a list as
// JSON.
func textsOf(value *common.AnyValue) (all []string) {
	for _, v := range value.GetArrayValue().GetValues() {
		all = append(all, textOf(v))
	}
	if all == nil && json.Unmarshal([]byte(value.GetStringValue()), &all) != nil {
		return nil
	}
	return all
}

func textOf(v *common.AnyValue) string {
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

// jsonField returns a field of a JSON object if it is a string, else "".
func jsonField(object, field string) string {
	var fields map[string]any
	_ = json.Unmarshal([]byte(object), &fields) // on an error there are none
	value, _ := fields[field].(string)
	return value
}
