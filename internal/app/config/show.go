package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A Setting is the value of a setting, redacted. Value is what the types' String methods make
// of it, which redact.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Settings lists all settings in the order of the struct, with secrets redacted.
func (c *Config) Settings() []Setting {
	return settings(reflect.ValueOf(*c))
}

// settings walks embedded structs in place, as kong does for flags.
func settings(v reflect.Value) []Setting {
	var all []Setting
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			all = append(all, settings(v.Field(i))...)
			continue
		}
		value := fmt.Sprint(v.Field(i).Interface())
		if list, ok := v.Field(i).Interface().([]string); ok {
			value = strings.Join(list, ",")
		}
		if _, formats := v.Field(i).Interface().(fmt.Stringer); v.Field(i).Kind() == reflect.Map && !formats {
			// A map is shown like the value of its flag, sorted, with secrets redacted.
			var pairs []string
			for _, key := range v.Field(i).MapKeys() {
				pairs = append(pairs, fmt.Sprintf("%s=%s", key, v.Field(i).MapIndex(key).Interface()))
			}
			slices.Sort(pairs)
			value = strings.Join(pairs, ";")
		}
		all = append(all, Setting{Name: flagName(v.Type().Field(i)), Value: value})
	}
	return all
}

// flagName is the name that kong gives to a field, e.g. "database-url" to
// DatabaseURL.
func flagName(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	var b strings.Builder
	runes := []rune(f.Name)
	for i, r := range runes {
		startsWord := i > 0 && unicode.IsUpper(r) &&
			(unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if startsWord {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
