package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/seal/sealtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// newPlace is a place without data. Its database is not even migrated.
func newPlace(t *testing.T, engine, bucket string) backup.Place {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: storetest.EmptyURL(t, engine), MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := apptest.NewWorld(t, db, apptest.Options{})
	if bucket == "s3" {
		if w.Blobs, err = blob.Open(t.Context(), blobtest.S3(t)); err != nil {
			t.Fatal(err)
		}
	}
	return backup.Place{
		DB: w.DB, Blobs: w.Blobs, Jobs: w.Queue, Repositories: filepath.Join(t.TempDir(), "repos"),
		Version: "test", Signer: signer{sealtest.Keyring()},
	}
}

// signer signs as internal/app lets it.
type signer struct{ *seal.Keyring }

func (s signer) Sign(message []byte) string { return s.Keyring.Sign(message, "test") }

func (s signer) Verify(message []byte, signature string) error {
	return s.Keyring.Verify(message, "test", signature)
}

// filledPlace has a bit of everything.
func filledPlace(t *testing.T, engine, bucket string) backup.Place {
	t.Helper()
	p := newPlace(t, engine, bucket)
	if err := p.DB.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := p.DB.InTx(t.Context(), func(tx *store.Tx) error {
		for _, text := range []string{
			`INSERT INTO organisations (id, name, plan, created_at) VALUES ('o', 'acme', 'team', 1)`,
			`INSERT INTO users (id, org_id, email, name, role, created_at) VALUES ('u', 'o', 'ada@x', 'Ada', 'owner', 2)`,
			`INSERT INTO api_keys (id, org_id, user_id, name, prefix, hash, created_at, login) VALUES ('a', 'o', 'u', '', 'p', 'h', 2, TRUE), ('b', 'o', 'u', '', 'p', 'i', 3, FALSE)`,
		} {
			if _, err := tx.Exec(t.Context(), text); err != nil {
				return err
			}
		}
		return p.Jobs.Enqueue(t.Context(), tx, work{"x"}, jobs.Unique("k"))
	})
	if err != nil {
		t.Fatal(err)
	}
	content := []byte("content")
	put(t, p.Blobs, fmt.Sprintf("registry/ab/%x.1", sha256.Sum256(content)), content)
	put(t, p.Blobs, "telemetry/o/u/1.gz", []byte("raw"))
	put(t, p.Blobs, "large", bytes.Repeat([]byte("0123456789abcdef"), 1<<17))
	for name, text := range map[string]string{
		"acme/skill.git/HEAD": "ref: refs/heads/main\n", "acme/skill.git/packed-refs": "x", "acme/skill.git/objects/ab/cd": "object",
		"acme/skill.git/hooks/update": "#!/bin/sh\n", "acme/skill.git/HEAD.lock": "not to be saved", "hook.json": "a secret",
	} {
		write(t, filepath.Join(p.Repositories, name), text)
	}
	return p
}

type work struct {
	Name string `json:"name"`
}

// Kind names the job.
func (work) Kind() string { return "test.work" }

func put(t *testing.T, b blob.Bucket, key string, content []byte) {
	t.Helper()
	if err := b.Put(t.Context(), key, bytes.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

func save(t *testing.T, p backup.Place) ([]byte, backup.Manifest) {
	t.Helper()
	var file bytes.Buffer
	m, _, err := backup.Save(t.Context(), p, &file)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), m
}

// rows reads all rows of all tables, sorted.
func rows(t *testing.T, p backup.Place) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := p.DB.Snapshot(t.Context(), func(tx *store.Tx) error {
		tables, err := tx.Tables(t.Context())
		if err != nil {
			return err
		}
		for _, table := range tables {
			if slices.Contains(jobs.OwnTables(), table.Name) {
				continue
			}
			err := tx.Dump(t.Context(), table, func(row []any) error {
				text, err := json.Marshal(row)
				all[table.Name] = append(all[table.Name], string(text))
				return err
			})
			if err != nil {
				return err
			}
			slices.Sort(all[table.Name])
		}
		return p.Jobs.Save(t.Context(), tx, func(j jobs.Saved) error {
			all["jobs"] = append(all["jobs"], j.Kind+j.Key)
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// blobs reads all blobs.
func blobs(t *testing.T, b blob.Bucket) map[string]string {
	t.Helper()
	all := map[string]string{}
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := b.Get(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		_ = body.Close()
		all[info.Key] = string(content)
	}
	return all
}

// files reads all files below a folder with their modes.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		info, statErr := entry.Info()
		if err == nil && statErr == nil {
			all[name[len(dir)+1:]] = info.Mode().Perm().String() + " " + string(content)
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all
}

// needs is a referrer of fixed keys; before is called first.
type needs struct {
	keys   []string
	before func(q store.Querier)
}

func (n needs) References(_ context.Context, q store.Querier, fn func(blob.Ref) error) error {
	if n.before != nil {
		n.before(q)
	}
	for _, key := range n.keys {
		if err := fn(blob.Ref{Key: key}); err != nil {
			return err
		}
	}
	return nil
}

// snapshotNeeds needs one thing at the moment of the snapshot, another now.
type snapshotNeeds struct{ then, now needs }

func (n snapshotNeeds) References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error {
	if _, ok := q.(*store.Tx); ok {
		return n.then.References(ctx, q, fn)
	}
	return n.now.References(ctx, q, fn)
}

// failing is a referrer that fails.
type failing struct{}

func (failing) References(context.Context, store.Querier, func(blob.Ref) error) error {
	return errors.New("failing")
}
