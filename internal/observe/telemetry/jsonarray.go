package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// elementsAtOnce is how many elements are decoded together. That takes half the time of one by
// one, and all of an array would take as much memory again as the array.
const elementsAtOnce = 1000

// eachElement calls fn with every element of an array and its text, which is a part of the
// array. The element is nil if it is null or no T.
func eachElement[T any](array json.RawMessage, fn func(i int, element *T, text json.RawMessage)) error {
	texts, err := elementTexts(array)
	if err != nil {
		return err
	}
	i := 0
	for part := range slices.Chunk(texts, elementsAtOnce) {
		for n, element := range decodeElements[T](part) {
			fn(i, element, part[n])
			i++
		}
	}
	return nil
}

// elementTexts returns the texts of the elements.
func elementTexts(array []byte) (texts [][]byte, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(array), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	begin, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	if begin.Kind() != '[' {
		return nil, errors.New("not an array")
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		end := d.InputOffset() // the value itself is overwritten by the next
		texts = append(texts, array[end-int64(len(value)):end:end])
	}
	return texts, nil
}

// decodeElements decodes elements. If one of them is no T, all that it returns are nil.
func decodeElements[T any](texts [][]byte) []*T {
	var elements []*T
	array := slices.Concat([]byte{'['}, bytes.Join(texts, []byte{','}), []byte{']'})
	if httpapi.DecodeJSON(array, &elements) != nil {
		return make([]*T, len(texts))
	}
	return elements
}
