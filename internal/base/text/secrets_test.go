package text

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

const secret = `sk-A/b+c"d~0123456789`

// encodings of a text, by name.
var encodings = map[string]func(string) string{
	"plain":     func(s string) string { return s },
	"json":      func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"slash":     func(s string) string { return strings.ReplaceAll(s, "/", `\/`) },
	"query":     url.QueryEscape,
	"path":      url.PathEscape,
	"hex":       func(s string) string { return hex.EncodeToString([]byte(s)) },
	"HEX":       func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"base64":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64url": func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
}

// TestSecrets finds a secret in every encoding and wherever it stands, in one piece
// and when it is written in two, split anywhere.
func TestSecrets(t *testing.T) {
	s := NewSecrets("none", secret, secret+"-longer", "")
	for name, encode := range encodings {
		for _, before := range []string{"", "x", "xy", "user:", "sk-A/", secret[:12]} {
			for _, after := range []string{"", "z", "-long", "-longer"} {
				whole := encode(before + secret + after)
				got := s.Redact(whole)
				wantHidden(t, name, whole, got)
				for at := range len(whole) {
					var out strings.Builder
					w := s.Writer(&out)
					_, _ = w.Write([]byte(whole[:at])) // into memory
					_, _ = w.Write([]byte(whole[at:]))
					_ = w.Flush()
					if out.String() != got {
						t.Fatalf("%s: %q split at %d is %q, want %q", name, whole, at, &out, got)
					}
				}
			}
		}
	}
	for _, plain := range []string{"", "s", "sk", "none of it", secret[:len(secret)-1], strings.Repeat(secret[:5], 20)} {
		if got := s.Redact(plain); got != plain {
			t.Errorf("%q became %q", plain, got)
		}
	}
}

// wantHidden checks that a text has none of the encodings of the secret.
func wantHidden(t *testing.T, name, whole, got string) {
	t.Helper()
	if !strings.Contains(got, hidden) {
		t.Errorf("%s: %q is left as it is", name, whole)
	}
	for _, part := range []string{"0123456789", hex.EncodeToString([]byte("0123456789")), "MDEyMzQ1Njc4O"} {
		if strings.Contains(strings.ToLower(got), strings.ToLower(part)) {
			t.Errorf("%s: %q became %q", name, whole, got)
		}
	}
}

// TestRedactorKeepsNothingBack passes on at once what cannot be a part of a secret.
func TestRedactorKeepsNothingBack(t *testing.T) {
	var out strings.Builder
	w := NewSecrets(secret).Writer(&out)
	_, _ = w.Write([]byte("data: {}\n\n")) // into memory
	if out.String() != "data: {}\n\n" {
		t.Errorf("got %q", &out)
	}
	_, _ = w.Write([]byte("data: sk-A"))
	if got := strings.TrimPrefix(out.String(), "data: {}\n\n"); got != "data: " {
		t.Errorf("got %q", got)
	}
}

func BenchmarkSecrets(b *testing.B) {
	s, page := NewSecrets(secret, "whsec_0123456789", "AKIA0123456789abc"), strings.Repeat("The quick brown fox asks a model. ", 2000)
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		s.Redact(page)
	}
}
