package transcripts

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/install"
)

// A State remembers which parts of which transcripts a server has. It may be
// lost without harm: then everything is sent again, and the server notices.
type State struct {
	path    string
	content stateFile
	changed bool
	saved   time.Time
}

type stateFile struct {
	Normalizer string              `json:"normalizer"`
	Files      map[string]progress `json:"files"` // by absolute path
}

// progress is how far one transcript has been sent.
type progress struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modified_at"`
	Point   point     `json:"point"`
	Prompts bool      `json:"prompts"` // with the texts of the prompts
}

// OpenState reads the state in a file. One that is missing, broken or of
// other rules than ours is empty.
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

// has reports whether the server has all of a file as it is now.
func (s *State) has(f found, prompts bool) bool {
	p, ok := s.content.Files[f.path]
	return ok && p.Size == f.info.Size() && p.ModTime.Equal(f.info.ModTime()) && (p.Prompts || !prompts)
}

// from returns where to go on in a file.
func (s *State) from(path string, prompts bool) point {
	p := s.content.Files[path]
	if prompts && !p.Prompts {
		return point{}
	}
	return p.Point
}

func (s *State) set(path string, p progress) {
	s.content.Files[path] = p
	s.changed = true
}

// forget drops the files below a folder that are not there any more.
func (s *State) forget(dir string, there []found) {
	exist := map[string]bool{}
	for _, f := range there {
		exist[f.path] = true
	}
	for path := range s.content.Files {
		if !exist[path] && strings.HasPrefix(path, dir+string(filepath.Separator)) {
			delete(s.content.Files, path)
			s.changed = true
		}
	}
}

// saveEvery is how much of an import a crash of the machine may repeat.
const saveEvery = time.Second

// saveSoon saves the state unless that was done just now.
func (s *State) saveSoon() error {
	if time.Since(s.saved) < saveEvery {
		return nil
	}
	return s.save()
}

func (s *State) save() (err error) {
	if !s.changed {
		return nil
	}
	defer fault.Wrap(&err, "remember what was imported")
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
