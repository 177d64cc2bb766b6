package telemetry_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
)

// archive packs a skill with a description, reproducibly.
func archive(t apptest.T, description string) []byte {
	t.Helper()
	text := "---\nname: pdf\ndescription: " + description + "\n---\n"
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: "SKILL.md", Mode: 0o644, Size: int64(len(text))})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	for _, end := range []func() error{w.Close, z.Close} {
		if err == nil {
			err = end()
		}
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b.Bytes()
}

func contentHash(t apptest.T, description string) string {
	t.Helper()
	sum := sha256.Sum256(archive(t, description))
	return hex.EncodeToString(sum[:])
}

// changeRegistry publishes a version, rolls back to another one, or deletes
// the entry.
func (s *stream) changeRegistry() {
	by := pick(s, "registry of", s.pushers...)
	k := skillKey{by.Org.ID, "pdf"}
	entry := s.m.shelves[k]
	what := rapid.IntRange(0, 5).Draw(s.T, "change")
	switch {
	case entry == nil:
		entry = &shelf{}
		s.m.shelves[k], s.m.named[k] = entry, true
		s.publish(by, entry)
	case what == 0:
		delete(s.m.shelves, k)
		s.must(s.w.registry.Delete(s.Context(), by.Org.ID, entry.id))
	case what < 4 || len(entry.versions) == 1:
		s.publish(by, entry)
	default:
		s.rollBack(by, entry)
	}
}

func (s *stream) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatalf("%v", err)
	}
}

func (s *stream) publish(by *client, entry *shelf) {
	packed := archive(s.T, pick(s, "content", "first", "second", "third"))
	p := registry.Publication{
		OrgID: by.Org.ID, UserID: by.User.ID, Name: "pdf", Type: registry.TypeSkill, Visibility: registry.Org,
		Source: registry.FromCLI, Version: fmt.Sprint(len(entry.versions) + 1),
		Archive: bytes.NewReader(packed), Size: int64(len(packed)),
	}
	var v registry.Version
	var err error
	if entry.id == "" {
		_, v, err = s.w.registry.Create(s.Context(), p)
		entry.id = v.EntryID
	} else {
		_, v, _, err = s.w.registry.Push(s.Context(), entry.id, p)
	}
	s.must(err)
	entry.versions = append(entry.versions, shelved{v.ID, v.ContentHash})
	s.current(entry, v.ID)
}

func (s *stream) rollBack(by *client, entry *shelf) {
	now := entry.currents[len(entry.currents)-1].id
	numbers := []int{}
	for i, v := range entry.versions {
		if v.id != now {
			numbers = append(numbers, i+1)
		}
	}
	to := pick(s, "roll back to", numbers...)
	_, err := s.w.release.Rollback(s.Context(), entry.id,
		release.NewRollback{OrgID: by.Org.ID, UserID: by.User.ID, Target: fmt.Sprint(to)})
	s.must(err)
	s.current(entry, entry.versions[to-1].id)
}

// current moves the time at which the current version became so: observations
// are attributed to the version that was current at their time.
func (s *stream) current(entry *shelf, versionID string) {
	s.ticks++
	since := s.time("since").Add(time.Duration(s.ticks) * time.Millisecond)
	s.w.Exec(`UPDATE registry_currents SET since = $2
		WHERE id = (SELECT MAX(id) FROM registry_currents WHERE entry_id = $1)`, entry.id, store.Micros(since))
	entry.currents = append(entry.currents, current{versionID, since})
}
