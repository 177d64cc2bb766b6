package pricing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// maxFile is the size of the largest price file, in bytes.
const maxFile = 4 << 20

// Load reads a price file.
func Load(path string) (models []Model, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	models, err = Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return models, nil
}

// Parse reads the JSON of a price file: {"models":[...]}. An error names the index
// of the entry and its line. Unknown fields are refused, since a typo would make
// a price the default one.
func Parse(data []byte) ([]Model, error) {
	var file struct {
		Models []json.RawMessage `json:"models"`
	}
	if err := decode(data, &file); err != nil {
		return nil, err
	}
	if file.Models == nil {
		return nil, errors.New("models is missing: a list of prices")
	}
	if len(file.Models) > MaxModels {
		return nil, fmt.Errorf("models has %d entries: at most %d are allowed", len(file.Models), MaxModels)
	}
	models := make([]Model, len(file.Models))
	offset := bytes.IndexByte(data, '[')
	for i, raw := range file.Models {
		// Entries stand in the file as they are, one after the other.
		offset += bytes.Index(data[offset:], raw)
		at := func(err error) error {
			return fmt.Errorf("models[%d] (line %d): %w", i, 1+bytes.Count(data[:offset], []byte("\n")), err)
		}
		// The required prices are pointers here: 0 is a price.
		entry := struct {
			*Model
			Input  *float64 `json:"input"`
			Output *float64 `json:"output"`
		}{Model: &models[i]}
		if err := decode(raw, &entry); err != nil {
			return nil, at(err)
		}
		if entry.Input == nil || entry.Output == nil {
			return nil, at(errors.New("input and output are required"))
		}
		models[i].Input, models[i].Output = *entry.Input, *entry.Output
		if err := models[i].Check(""); err != nil {
			return nil, at(err)
		}
		offset += len(raw)
	}
	return models, nil
}

// decode decodes one JSON value, without unknown fields or anything after it.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s has the wrong type: %s", kind.Field[strings.LastIndexByte(kind.Field, '.')+1:], kind.Value)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}
