package otlp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Attributes are those of a record, then of its scope and its resource. The
// first list that has a key wins.
type Attributes [][]*common.KeyValue

func (a Attributes) value(key string) *common.AnyValue {
	for _, list := range a {
		for _, kv := range list {
			if kv.GetKey() == key {
				return kv.GetValue()
			}
		}
	}
	return nil
}

// Text returns the first attribute among keys that has a scalar value, as text;
// "" if none has.
func (a Attributes) Text(keys ...string) string {
	for _, key := range keys {
		if text := TextOf(a.value(key)); text != "" {
			return text
		}
	}
	return ""
}

// Float returns an attribute that is a number, or text that parses as one.
func (a Attributes) Float(key string) (float64, bool) {
	number, err := strconv.ParseFloat(a.Text(key), 64)
	return number, err == nil
}

// HasPrefix reports whether the key of any attribute begins with a prefix.
func (a Attributes) HasPrefix(prefix string) bool {
	for _, list := range a {
		if slices.ContainsFunc(list, func(kv *common.KeyValue) bool { return strings.HasPrefix(kv.GetKey(), prefix) }) {
			return true
		}
	}
	return false
}

// Texts returns an attribute that is a list of strings.
func (a Attributes) Texts(key string) []string { return TextsOf(a.value(key)) }

// Series identifies the time series with these attributes, in any order.
func (a Attributes) Series() string {
	var labels []string
	for i, list := range a {
		for _, kv := range list {
			value, _ := proto.MarshalOptions{Deterministic: true}.Marshal(kv.GetValue()) // it was unmarshalled before
			labels = append(labels, fmt.Sprintf("%d %q %x", i, kv.GetKey(), value))
		}
	}
	slices.Sort(labels)
	return strings.Join(labels, "\n")
}
