package backup

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// A chunk of rows is a line of JSON, the chunkHead, followed by the values of all
// rows: a byte for the kind, then an integer as a varint, a float as eight bytes in
// big endian, text and bytes with their length as a varint before them.

type chunkHead struct {
	Table   string   `json:"table"`
	Columns []string `json:"columns"`
	Rows    int      `json:"rows"`
}

// The kinds of values. They are part of the format and must not change.
const (
	null       = 'n'
	integer    = 'i'
	float      = 'f'
	text       = 't'
	binaryKind = 'b'
)

var errChunk = errors.New("rows are not well formed")

// appendRow encodes the values that both databases have. Each has its kind with
// it: the databases name the types of their columns differently. JSON would be larger, and
// would round integers above 2^53 in some readers.
func appendRow(b []byte, row []any) ([]byte, error) {
	for _, v := range row {
		switch v := v.(type) {
		case nil:
			b = append(b, null)
		case int64:
			b = binary.AppendVarint(append(b, integer), v)
		case float64:
			b = binary.BigEndian.AppendUint64(append(b, float), math.Float64bits(v))
		case string:
			b = append(binary.AppendUvarint(append(b, text), uint64(len(v))), v...)
		case []byte:
			b = append(binary.AppendUvarint(append(b, binaryKind), uint64(len(v))), v...)
		default:
			return nil, fmt.Errorf("a value of type %T cannot be saved", v)
		}
	}
	return b, nil
}

// readChunk decodes a chunk, which may be forged: every length is checked before
// it is used.
func readChunk(chunk []byte) (head chunkHead, rows [][]any, err error) {
	line, rest, ok := bytes.Cut(chunk, []byte("\n"))
	if !ok {
		return head, nil, errChunk
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return head, nil, errChunk
	}
	// Every value takes at least a byte, so that a forged count cannot allocate more
	// than the chunk's own size allows.
	if head.Rows < 0 || len(head.Columns) == 0 || head.Rows > len(rest)/len(head.Columns) {
		return head, nil, errChunk
	}
	// One allocation for all rows; they are slices of it.
	values := make([]any, head.Rows*len(head.Columns))
	for i := range values {
		if values[i], rest, err = readValue(rest); err != nil {
			return head, nil, err
		}
	}
	if len(rest) > 0 {
		return head, nil, errChunk
	}
	for n := len(head.Columns); len(values) > 0; values = values[n:] {
		rows = append(rows, values[:n:n])
	}
	return head, rows, nil
}

// readValue decodes one value, and returns what follows it.
func readValue(b []byte) (v any, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errChunk
	}
	kind, b := b[0], b[1:]
	switch kind {
	case null:
		return nil, b, nil
	case integer:
		n, size := binary.Varint(b)
		if size <= 0 {
			return nil, nil, errChunk
		}
		return n, b[size:], nil
	case float:
		if len(b) < 8 {
			return nil, nil, errChunk
		}
		return math.Float64frombits(binary.BigEndian.Uint64(b)), b[8:], nil
	case text, binaryKind:
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, nil, errChunk
		}
		value, rest := b[size:size+int(n)], b[size+int(n):] // n is at most len(b)
		if kind == text {
			return string(value), rest, nil
		}
		return value, rest, nil
	}
	return nil, nil, errChunk
}
