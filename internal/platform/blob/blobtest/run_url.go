package blobtest

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
)

func sign(t *testing.T, b blob.Bucket, key string, o blob.SignOptions) string {
	t.Helper()
	signed, err := b.SignedURL(t.Context(), key, o)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

type answer struct {
	status int
	header http.Header
	body   string
}

// fetch gets a URL without any key.
func fetch(t *testing.T, address string) answer {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func testSignedURL(t *testing.T, b blob.Bucket) {
	for _, key := range []string{"plain", "odd/a b+c%2Fd?e&f=g#h.txt", "letters/größe-技能"} {
		put(t, b, key, "body of "+key)
		got := fetch(t, sign(t, b, key, blob.SignOptions{
			Expires:     time.Minute,
			Filename:    "../größe \"1\".tar.gz",
			ContentType: "application/gzip",
		}))
		if want := "body of " + key; got.status != http.StatusOK || got.body != want {
			t.Errorf("%s: got %d %q, want 200 %q", key, got.status, got.body, want)
		}
		for name, want := range map[string]string{
			"Content-Type":        "application/gzip",
			"Content-Disposition": "attachment; filename*=utf-8''gr%C3%B6%C3%9Fe%20%221%22.tar.gz",
		} {
			if got := got.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", key, name, got, want)
			}
		}
	}

	got := fetch(t, sign(t, b, "plain", blob.SignOptions{Expires: time.Minute}))
	for name, want := range map[string]string{
		"Content-Type":        "application/octet-stream",
		"Content-Disposition": "attachment",
	} {
		if got := got.header.Get(name); got != want {
			t.Errorf("without options: %s is %q, want %q", name, got, want)
		}
	}
	got = fetch(t, sign(t, b, "missing", blob.SignOptions{Expires: time.Minute}))
	if got.status != http.StatusNotFound {
		t.Errorf("missing: got %d %q, want 404", got.status, got.body)
	}
}

func testTamperedURL(t *testing.T, b blob.Bucket) {
	put(t, b, "mine", "mine")
	put(t, b, "yours", "yours")
	signed, err := url.Parse(sign(t, b, "mine", blob.SignOptions{Expires: time.Minute, Filename: "a", ContentType: "text/plain"}))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, u url.URL) {
		t.Helper()
		if got := fetch(t, u.String()); got.status != http.StatusForbidden {
			t.Errorf("%s: got %d %q, want 403", what, got.status, got.body)
		}
	}

	other := *signed
	other.Path = strings.Replace(signed.Path, "mine", "yours", 1)
	refused("another key", other)
	bare := *signed
	bare.RawQuery = ""
	refused("no signature", bare)
	for name, value := range map[string]string{
		"sig": strings.Repeat("A", 43), "X-Amz-Signature": strings.Repeat("a", 64),
		"expires": "99999999999", "X-Amz-Expires": "3600",
		"filename": "b", "response-content-disposition": "inline",
		"type": "text/html", "response-content-type": "text/html",
	} {
		query := signed.Query()
		if !query.Has(name) {
			continue // The other implementation's name for it.
		}
		query.Set(name, value)
		changed := *signed
		changed.RawQuery = query.Encode()
		refused("another "+name, changed)
	}
}

func testExpiredURL(t *testing.T, b blob.Bucket) {
	put(t, b, "key", "body")
	signed := sign(t, b, "key", blob.SignOptions{Expires: time.Second})
	deadline := time.Now().Add(10 * time.Second)
	for {
		got := fetch(t, signed)
		if got.status == http.StatusForbidden {
			return
		}
		if got.status != http.StatusOK || time.Now().After(deadline) {
			t.Fatalf("got %d %q, want 200 for a second and then 403", got.status, got.body)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func testBadSignOptions(t *testing.T, b blob.Bucket) {
	for name, o := range map[string]blob.SignOptions{
		"no expiry":       {},
		"negative expiry": {Expires: -time.Minute},
		"too long":        {Expires: 8 * 24 * time.Hour},
		"no media type":   {Expires: time.Minute, ContentType: "text/html\r\nX-Evil: 1"},
	} {
		if _, err := b.SignedURL(t.Context(), "key", o); !fault.Is(err, fault.Malformed) {
			t.Errorf("%s: got %v, want Malformed", name, err)
		}
	}
}
