package catalog

import (
	"net/http"
	"strconv"
	"time"
)

// KeysEnd is when catalogs stop to accept API keys in paths: such a key opens far
// more than installers, lock files and vendors should have.
func KeysEnd() time.Time { return time.Date(2027, time.June, 1, 0, 0, 0, 0, time.UTC) }

// keysEnd is KeysEnd, or another time in tests.
func (s *Service) keysEnd() time.Time {
	if s.KeysEnd.IsZero() {
		return KeysEnd()
	}
	return s.KeysEnd
}

const (
	// keyWarning is how often the log tells that a key is used like that.
	keyWarning = time.Hour
	// maxWarned is how many keys the log tells that of in keyWarning.
	maxWarned = 1_000
)

// WarnOfKey tells the client, and the operator's log, if an API key in the path has
// opened a shelf. It must be called before the answer begins.
func (s *Service) WarnOfKey(w http.ResponseWriter, sh Shelf) {
	if sh.keyID == "" {
		return
	}
	s.once.Do(s.init)
	end := s.keysEnd()
	h := w.Header()
	h.Set("Deprecation", "@"+strconv.FormatInt(time.Date(2026, time.November, 16, 0, 0, 0, 0, time.UTC).Unix(), 10)) // RFC 9745
	h.Set("Sunset", end.UTC().Format(http.TimeFormat))                                                               // RFC 8594
	h.Set("Warning", `299 - "API keys open catalogs until `+end.UTC().Format(time.DateOnly)+`; use a catalog token"`)
	if last, ok := s.warned.Get(sh.keyID); !ok || time.Since(last) >= keyWarning {
		s.warned.Put(sh.keyID, time.Now(), 1)
		s.Log.Warn("an API key in a path has opened a catalog; make a catalog token instead",
			"org", sh.OrgName, "key", sh.keyID, "works_until", end)
	}
}
