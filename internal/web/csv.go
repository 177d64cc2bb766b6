package web

// Lists can be downloaded as CSV files for spreadsheets. They have the rows that the
// page would show: those that the caller may see and that match the filters.

import (
	"context"
	"encoding/csv"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// maxCSVRows limits a file. A list that has more is narrowed by its filters.
const maxCSVRows = 10_000

// A csvRow has one cell for each column of a file: a string, bool, int, int64, float64 or
// time.Time, or a pointer to one of them, which may be nil. A nil cell is empty: what is
// not known is not 0.
type csvRow []any

// A csvFile is a list. Next returns the rows after those that were read, and no rows at the end.
type csvFile struct {
	Name string // without the suffix, e.g. "skills"
	Head []string
	Next func(ctx context.Context) ([]csvRow, error)
}

// csvPages returns a Next for lists that are read by offset. The function read returns the
// rows of one page. A page that is not full is the last one, so that no empty page
// is read after it.
func csvPages(perPage int, read func(ctx context.Context, offset int) ([]csvRow, error)) func(context.Context) ([]csvRow, error) {
	offset, over := 0, false
	return func(ctx context.Context) ([]csvRow, error) {
		if over {
			return nil, nil
		}
		rows, err := read(ctx, offset)
		offset, over = offset+perPage, len(rows) < perPage
		return rows, err
	}
}

// csvOnce returns a Next for rows that are all there. The rows are released after they
// were written.
func csvOnce(rows []csvRow) func(context.Context) ([]csvRow, error) {
	return func(context.Context) ([]csvRow, error) {
		all := rows
		rows = nil
		return all, nil
	}
}

// Write sends the file. The first rows are read before anything is written, so that the
// caller can answer an error with a page. Later ones abort the response: a file that is cut
// off must not look whole.
func (f csvFile) Write(ctx context.Context) (func(http.ResponseWriter) error, error) {
	rows, err := f.Next(ctx)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", f.Name+".csv"))
		out := csv.NewWriter(w)
		// The library quotes cells with commas, quotes and line breaks.
		out.UseCRLF = true // RFC 4180
		if err := out.Write(f.Head); err != nil {
			return err
		}
		for n := 0; len(rows) > 0; {
			for _, row := range rows[:min(len(rows), maxCSVRows-n)] {
				cells := make([]string, len(row))
				for i, value := range row {
					cells[i] = cell(value)
				}
				if err := out.Write(cells); err != nil {
					return err
				}
			}
			// The last page may be longer than what is left, so rows are cut above.
			if n += len(rows); n >= maxCSVRows {
				break
			}
			out.Flush() // a slow list arrives as it is read
			if rows, err = f.Next(ctx); err != nil {
				panic(http.ErrAbortHandler)
			}
		}
		out.Flush()
		return out.Error()
	}, nil
}

// cell formats a value: numbers in full, times as RFC 3339 in UTC. Numbers have a
// decimal point whatever the language: spreadsheets import them by it.
func cell(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return text.Cell(v)
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case *string:
		return pointed(v)
	case *bool:
		return pointed(v)
	case *int:
		return pointed(v)
	case *int64:
		return pointed(v)
	case *float64:
		return pointed(v)
	case *time.Time:
		return pointed(v)
	}
	return text.Cell(fmt.Sprint(value)) // types based on string
}

// pointed is "" for nil, else the value's cell.
func pointed[T any](v *T) string {
	if v == nil {
		return ""
	}
	return cell(*v)
}
