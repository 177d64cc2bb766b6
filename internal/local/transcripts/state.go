package transcripts

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/local/install"
)

// A State is the progress of imports to one server, saved in a file. It may be
// lost without harm: then everything is sent again, and the server deduplicates
// it. Methods are not safe for concurrent use.
type State struct {
	path    string
	content stateFile
	changed bool
	saved   time.Time
}

type stateFile struct {
	Normalizer string              `json:"normalizer"`
	Files      map[string]progress `json:"files"` // by absolute path
	Commits    []sessionCommit     `json:"commits,omitempty"`
}

// progress is how far one transcript was sent.
type progress struct {
	Size       int64      `json:"size"`
	ModTime    time.Time  `json:"modified_at"`
	Checkpoint checkpoint `json:"point"`
	Prompts    bool       `json:"prompts"` // with the texts of the prompts
	Content    bool       `json:"content"` // with what was said
}

// OpenState reads the state from a file. A state that is missing, corrupt or of
// another normalizerVersion is empty. An unknown form is no error: sending again is always
// safe.
func OpenState(path string) (*State, error) {
	s := &State{path: path, content: stateFile{Normalizer: normalizerVersion, Files: map[string]progress{}}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var found stateFile
	if json.Unmarshal(raw, &found) == nil && found.Normalizer == normalizerVersion && found.Files != nil {
		s.content = found
	}
	return s, nil
}

// upToDate reports whether the server has all of a file: its size and
// modification time are unchanged. Texts that are asked for now and were not sent then make it
// stale.
func (s *State) upToDate(f candidate, prompts, content bool) bool {
	p, ok := s.content.Files[f.path]
	return ok && p.Size == f.info.Size() && p.ModTime.Equal(f.info.ModTime()) && (p.Prompts || !prompts) &&
		(p.Content || !content)
}

// checkpoint returns where to resume reading a file.
func (s *State) checkpoint(path string, prompts, content bool) checkpoint {
	p := s.content.Files[path]
	if prompts && !p.Prompts || content && !p.Content {
		return checkpoint{}
	}
	return p.Checkpoint
}

// prune removes the files below a folder that no longer exist. Files of other folders stay: an
// import of a part must not forget the rest.
func (s *State) prune(dir string, present []candidate) {
	exist := map[string]bool{}
	for _, f := range present {
		exist[f.path] = true
	}
	for path := range s.content.Files {
		if !exist[path] && strings.HasPrefix(path, dir+string(filepath.Separator)) {
			delete(s.content.Files, path)
			s.changed = true
		}
	}
}

// saveInterval throttles saves during an import. A crash repeats at most that
// much of it.
const saveInterval = time.Second

func (s *State) save() (err error) {
	if !s.changed {
		return nil
	}
	defer fault.Wrap(&err, "save the progress of the import")
	raw, err := json.Marshal(s.content)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if err := install.ReplaceFile(s.path, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	s.changed, s.saved = false, time.Now()
	return nil
}
