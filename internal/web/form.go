package web

import (
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

// decodeForm reads the fields of a form into the fields of a struct that have a tag, e.g.
// `form:"name"`: a text, without white space around it; whether a box is ticked; a number, 0 if it
// is invalid; or all values of a list. A text `form:"reason,raw"` is as it was typed, and one
// `form:"text,lines"` has no CR, which browsers send.
func decodeForm[T any](r *http.Request) (form T) {
	s := reflect.ValueOf(&form).Elem()
	for i := range s.NumField() {
		name, option, _ := strings.Cut(s.Type().Field(i).Tag.Get("form"), ",")
		if name == "" {
			continue
		}
		value, field := r.FormValue(name), s.Field(i)
		switch field.Kind() {
		case reflect.Bool:
			field.SetBool(value != "")
		case reflect.Int64:
			n, _ := strconv.ParseInt(value, 10, 64) // 0 if invalid
			field.SetInt(n)
		case reflect.Slice:
			for _, v := range r.Form[name] {
				field.Set(reflect.Append(field, reflect.ValueOf(v).Convert(field.Type().Elem())))
			}
		default:
			switch option {
			case "":
				value = strings.TrimSpace(value)
			case "lines":
				value = strings.ReplaceAll(value, "\r\n", "\n")
			}
			field.SetString(value)
		}
	}
	return form
}
