package telemetry

import (
	"encoding/json"
	"strconv"

	common "go.opentelemetry.io/proto/otlp/common/v1"
)

// said is what a record says of itself, then what its surroundings say: the
// first that has an attribute decides.
type said [][]*common.KeyValue

func (s said) value(key string) *common.AnyValue {
	for _, attributes := range s {
		for _, a := range attributes {
			if a.GetKey() == key {
				return a.GetValue()
			}
		}
	}
	return nil
}

// text is the first of the attributes that has a text, a number or a truth
// value; "" if none has.
func (s said) text(keys ...string) string {
	for _, key := range keys {
		if text := textOf(s.value(key)); text != "" {
			return text
		}
	}
	return ""
}

// float is an attribute that is a number, or a text that is one.
func (s said) float(key string) (float64, bool) {
	number, err := strconv.ParseFloat(s.text(key), 64)
	return number, err == nil
}

// texts is an attribute that is a list of texts, or a text with such a list in
// JSON.
func (s said) texts(key string) (all []string) {
	value := s.value(key)
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

func stringValue(text string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}
}
