package text

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/url"
	"slices"
	"strings"
)

// hidden replaces a secret.
const hidden = "[secret]"

// minSecret is the length from which a key is a secret. Local servers take any key,
// and people give them "none" or "test", which also occur in ordinary words.
const minSecret = 8

// Secrets are values that no text may have that leaves the service or enters a
// sandbox. They are found as they are and in the encodings in which servers and
// programs repeat them: URL, JSON, base64 and hex. The zero value has none.
type Secrets struct {
	forms  map[[2]byte][]string // by their first bytes, the longest first
	starts *[1 << 16]bool       // whether there are such: three times as fast as asking the map
}

// NewSecrets returns those of the values that are long enough to be secrets.
func NewSecrets(values ...string) Secrets {
	var all []string
	for _, value := range values {
		if value = strings.TrimSpace(value); len(value) >= minSecret {
			all = append(all, formsOf(value)...)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	s := Secrets{map[[2]byte][]string{}, new([1 << 16]bool)}
	for _, form := range all {
		key := [2]byte{form[0], form[1]}
		s.starts[index(key)] = true
		if !slices.Contains(s.forms[key], form) {
			s.forms[key] = append(s.forms[key], form)
		}
	}
	return s
}

// formsOf returns a value and its encodings.
func formsOf(value string) []string {
	raw := []byte(value)
	all := []string{
		value, url.QueryEscape(value), url.PathEscape(value), strings.ReplaceAll(value, "/", `\/`),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(value),
		hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)),
	}
	for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		// In a longer text, e.g. "user:key", it begins at one of three offsets. The
		// characters that it shares with its neighbours are left out.
		for offset := range 3 {
			encoded := e.EncodeToString(append(make([]byte, offset), raw...))
			from, to := (offset*8+5)/6, (offset+len(raw))*8/6
			all = append(all, encoded[from:to])
		}
	}
	return all
}

// Redact replaces the secrets in a text.
func (s Secrets) Redact(t string) string {
	var out strings.Builder
	last := 0
	for i := 0; i < len(t); {
		n, _ := s.at(t[i:], true)
		if n == 0 {
			i++
			continue
		}
		out.WriteString(t[last:i])
		out.WriteString(hidden)
		i += n
		last = i
	}
	if last == 0 {
		return t
	}
	out.WriteString(t[last:])
	return out.String()
}

func index(key [2]byte) int { return int(key[0])<<8 | int(key[1]) }

// at returns the length of the secret that a text begins with, 0 for none. Unless the
// text is complete, more reports that it may be the beginning of one.
func (s Secrets) at(t string, complete bool) (n int, more bool) {
	if s.starts == nil {
		return 0, false
	}
	if len(t) < 2 {
		return 0, !complete && s.begins(t[0])
	}
	key := [2]byte{t[0], t[1]}
	if !s.starts[index(key)] {
		return 0, false
	}
	for _, form := range s.forms[key] {
		if strings.HasPrefix(t, form) {
			return len(form), false
		}
		if !complete && strings.HasPrefix(form, t) {
			return 0, true
		}
	}
	return 0, false
}

func (s Secrets) begins(first byte) bool {
	for key := range s.forms {
		if key[0] == first {
			return true
		}
	}
	return false
}

// A Redactor is a writer that replaces secrets in what is written through it, also
// those that come in parts. It keeps back only what may be the beginning of one.
type Redactor struct {
	secrets Secrets
	to      io.Writer
	kept    []byte
}

// Writer returns a Redactor that writes to another writer.
func (s Secrets) Writer(to io.Writer) *Redactor { return &Redactor{secrets: s, to: to} }

// Write implements io.Writer.
func (r *Redactor) Write(p []byte) (int, error) { return len(p), r.write(p, false) }

// Flush writes what was kept back, once everything was written.
func (r *Redactor) Flush() error { return r.write(nil, true) }

func (r *Redactor) write(p []byte, complete bool) error {
	r.kept = append(r.kept, p...)
	t := string(r.kept)
	var out bytes.Buffer
	i := 0
	for i < len(t) {
		n, more := r.secrets.at(t[i:], complete)
		if more {
			break
		}
		if n > 0 {
			out.WriteString(hidden)
			i += n
			continue
		}
		out.WriteByte(t[i])
		i++
	}
	r.kept = append(r.kept[:0], t[i:]...)
	if out.Len() == 0 {
		return nil
	}
	_, err := r.to.Write(out.Bytes())
	return err
}
