package web

import (
	"context"
	"encoding/csv"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, f csvFile) *httptest.ResponseRecorder {
	t.Helper()
	send, err := f.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if err := send(w); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFile(t *testing.T) {
	none, rate, at := (*float64)(nil), 2.0/3, time.Date(2026, 5, 1, 12, 0, 0, 5_000_000, time.FixedZone("", 7200))
	w := write(t, csvFile{
		Name: "rows", Head: []string{"text", "number", "rate", "at", "yes"},
		Next: csvOnce([]csvRow{
			{"plain", 12, rate, at, true},
			{`a "quoted", long` + "\n" + "cell", int64(-3), &rate, &at, false},
			{"=HYPERLINK(\"http://x\")", -0.5, none, (*time.Time)(nil), nil},
			{"+1", 1e21, math.MaxInt64, (*string)(nil), (*int64)(nil)},
			{"-1", nil, "@sum", "\tx", "\rx"},
			{"ünïcode 日本", "", "'", " =1", "a=b"},
		}),
	})
	want := "text,number,rate,at,yes\r\n" +
		"plain,12,0.6666666666666666,2026-05-01T10:00:00.005Z,true\r\n" +
		"\"a \"\"quoted\"\", long\r\ncell\",-3,0.6666666666666666,2026-05-01T10:00:00.005Z,false\r\n" +
		"\"'=HYPERLINK(\"\"http://x\"\")\",-0.5,,,\r\n" +
		"'+1,1000000000000000000000,9223372036854775807,,\r\n" +
		"'-1,,'@sum,'\tx,\"'x\"\r\n" + // encoding/csv drops a lone CR
		"ünïcode 日本,,',\" =1\",a=b\r\n"
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := w.Header().Get("Content-Type"); got != "text/csv; charset=utf-8" {
		t.Error(got)
	}
	if got := w.Header().Get("Content-Disposition"); got != `attachment; filename="rows.csv"` {
		t.Error(got)
	}
}

func TestPages(t *testing.T) {
	read := 0
	w := write(t, csvFile{Head: []string{"n"}, Next: csvPages(2, func(_ context.Context, offset int) ([]csvRow, error) {
		read++
		all := []csvRow{{1}, {2}, {3}, {4}}
		return all[min(offset, 4):min(offset+2, 4)], nil
	})})
	if got := w.Body.String(); got != "n\r\n1\r\n2\r\n3\r\n4\r\n" || read != 3 {
		t.Errorf("%q after %d reads", got, read)
	}
}

// TestBounded: a file ends, however many rows there are.
func TestBounded(t *testing.T) {
	w := write(t, csvFile{Head: []string{"n"}, Next: func(context.Context) ([]csvRow, error) {
		return slices.Repeat([]csvRow{{1}}, 700), nil
	}})
	all, err := csv.NewReader(strings.NewReader(w.Body.String())).ReadAll()
	if err != nil || len(all) != maxCSVRows+1 {
		t.Errorf("%d rows, %v", len(all), err)
	}
}

func TestErrors(t *testing.T) {
	failed := errors.New("failed")
	f := csvFile{Head: []string{"n"}, Next: func(context.Context) ([]csvRow, error) { return nil, failed }}
	if _, err := f.Write(t.Context()); !errors.Is(err, failed) {
		t.Errorf("before the first byte: %v", err)
	}
	n := 0
	f.Next = func(context.Context) ([]csvRow, error) {
		if n++; n > 1 {
			return nil, failed
		}
		return []csvRow{{1}}, nil
	}
	send, err := f.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if got := recover(); got != http.ErrAbortHandler { //nolint:errorlint // it is that value
			t.Errorf("a file that is cut off: %v", got)
		}
	}()
	_ = send(httptest.NewRecorder())
	t.Error("a file that is cut off looks whole")
}
