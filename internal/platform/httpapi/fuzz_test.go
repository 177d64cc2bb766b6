package httpapi_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// FuzzTime: a time that is read is written so that it reads the same, to the
// millisecond.
func FuzzTime(f *testing.F) {
	for _, seed := range []string{`"2026-01-02T03:04:05.678Z"`, `"2026-01-02T03:04:05+14:00"`, `"0000-01-01T00:00:00Z"`, `"9999-12-31T23:59:59.999999999-23:59"`, `null`, `5`, `"x"`, `"2026-01-02t03:04:05z"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var read, again httpapi.Time
		if !json.Valid(raw) || json.Unmarshal(raw, &read) != nil {
			return
		}
		written, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if year := time.Time(read).Year(); year < 0 || year > 9999 {
			return // at an edge an offset leads out of what RFC 3339 has
		}
		if err := json.Unmarshal(written, &again); err != nil || !time.Time(again).Equal(time.Time(read).Truncate(time.Millisecond)) {
			t.Errorf("%s became %s, and that %v, %v", raw, written, time.Time(again), err)
		}
	})
}

// FuzzJSON: what is decoded is what encoding/json decodes, but that no text
// holds a NUL; the body itself is left as it is.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":"\u0000"}`, `"\\u0000"`, `"\\\u0000"`, `[{"a":{"b":[1,{"c":"x"}]}}]`, `{"\u0000":1}`, `"\ud800\u0000"`, `{`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		var got, want any
		err := httpapi.UnmarshalJSON(raw, &got)
		if !bytes.Equal(before, raw) {
			t.Fatal("the body was changed")
		}
		if wantErr := json.Unmarshal(raw, &want); (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		text, _ := json.Marshal(got)    // it came from JSON
		wanted, _ := json.Marshal(want) // as well
		wanted = bytes.ReplaceAll(wanted, []byte(`\\`), []byte("\x01"))
		wanted = bytes.ReplaceAll(bytes.ReplaceAll(wanted, []byte(`\u0000`), []byte("\ufffd")), []byte("\x01"), []byte(`\\`))
		if !sameJSON(text, wanted) {
			t.Errorf("got %s, want %s", text, wanted)
		}
		var target struct {
			A struct{ B []struct{ C int } }
		}
		_ = httpapi.UnmarshalJSON(raw, &target) // the place of what is wrong is looked for
	})
}

// sameJSON compares two texts: a name that comes twice is one in the end.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return false
	}
	one, _ := json.Marshal(x) // they came from JSON
	two, _ := json.Marshal(y)
	return bytes.Equal(one, two)
}

// FuzzURL: an accepted path and query are valid text.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{"/a?b=c", "/%00", "/?a=%ff", "/?a=%zz&b", "/?%00=1", "/a;b?c;d=e", "/?a=b&a=%00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil || len(httpapi.TextIssues(u)) > 0 {
			return
		}
		if !text.Valid(u.Path) {
			t.Errorf("the path %q was accepted", u.Path)
		}
		for name, values := range u.Query() {
			if !text.Valid(strings.Join(values, "")) {
				t.Errorf("the values %q of %q were accepted", values, name)
			}
		}
	})
}

// FuzzMultipart: whatever a form looks like, the answer is one of the
// contract's, and a form that is taken was one.
func FuzzMultipart(f *testing.F) {
	var good bytes.Buffer
	w := multipart.NewWriter(&good)
	_ = w.WriteField("metadata", "{}") // into memory
	part, _ := w.CreateFormFile("archive", "a.tar.gz")
	_, _ = part.Write([]byte("content"))
	_ = w.Close()
	f.Add("multipart/form-data; boundary="+w.Boundary(), good.Bytes())
	f.Add("multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data; name=\"../a\"; filename=\"../../b\"\r\n\r\n1\r\n--x--"))
	f.Add("multipart/form-data; boundary=x", []byte("--x\r\nContent-Disposition: form-data\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=\r\n"))
	f.Add("multipart/form-data", []byte("--x--"))
	f.Add("multipart/mixed; boundary=\"\"", []byte(""))
	api := newFuzzAPI(f)
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		req := httptest.NewRequest(http.MethodPost, "/form", bytes.NewReader(body))
		req.Header.Set("Content-Type", contentType)
		res := httptest.NewRecorder()
		api.ServeHTTP(res, req)
		switch res.Code {
		case http.StatusOK:
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
			if !json.Valid(res.Body.Bytes()) || !utf8.Valid(res.Body.Bytes()) || res.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d with %q", res.Code, res.Body)
			}
		default:
			t.Errorf("%d: %s", res.Code, res.Body)
		}
	})
}

// newFuzzAPI is a frame with one form, for everybody.
func newFuzzAPI(f *testing.F) *httpapi.API {
	f.Helper()
	api := httpapi.New(httpapi.Options{Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Version: "fuzz"})
	httpapi.Add(api, keep, httpapi.Route{Method: "POST", Path: "/form", Public: true, MaxBody: 1 << 20, Form: []httpapi.Part{{Name: "file", File: true}}})
	return api
}
