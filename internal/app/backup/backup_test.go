package backup_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/whetstone-dev/whetstone/internal/app/backup"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// TestMove carries a place into another, on every pair of databases and from
// files to S3 and back.
func TestMove(t *testing.T) {
	for _, c := range []struct{ from, fromBlobs, to, toBlobs string }{
		{"sqlite", "files", "sqlite", "files"},
		{"sqlite", "files", "postgres", "s3"},
		{"postgres", "s3", "sqlite", "files"},
		{"postgres", "files", "postgres", "files"},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			source, target := filledPlace(t, c.from, c.fromBlobs), newPlace(t, c.to, c.toBlobs)
			file, m := save(t, source)
			got, err := backup.Restore(t.Context(), target, bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, got.Manifest); diff != "" || m.SignedWith == "" {
				t.Errorf("manifest (-saved +restored):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"acme/skill.git/hooks/update"}, got.LeftOut); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
			if m.Engine != c.from || m.Rows() != 4 || m.Jobs != 1 || m.Blobs.Files != 3 || m.Repositories.Files != 4 {
				t.Errorf("manifest %+v", m)
			}
			if diff := cmp.Diff(rows(t, source), rows(t, target)); diff != "" {
				t.Errorf("rows (-saved +restored):\n%s", diff)
			}
			if diff := cmp.Diff(blobs(t, source.Blobs), blobs(t, target.Blobs)); diff != "" {
				t.Errorf("blobs (-saved +restored):\n%s", diff)
			}
			want := files(t, source.Repositories)
			delete(want, "hook.json")
			delete(want, "acme/skill.git/HEAD.lock")
			delete(want, "acme/skill.git/hooks/update")
			for name, text := range want {
				want[name] = strings.Replace(text, "-rwx------", "-rw-------", 1) // nothing that git reads is run
			}
			if diff := cmp.Diff(want, files(t, target.Repositories)); diff != "" {
				t.Errorf("repositories (-saved +restored):\n%s", diff)
			}
			if info, err := os.Stat(filepath.Join(target.Repositories, "acme/skill.git/refs/heads")); err != nil || !info.IsDir() {
				t.Errorf("git would not take it for a repository: %v", err)
			}
		})
	}
}

// TestManyChunks has more rows than one member takes, and a row larger than
// any.
func TestManyChunks(t *testing.T) {
	t.Parallel()
	source, target := filledPlace(t, "sqlite", "files"), newPlace(t, "sqlite", "files")
	err := source.DB.InTx(t.Context(), func(tx *store.Tx) error {
		for i := range 60 {
			value := bytes.Repeat([]byte{byte(i)}, 200<<10)
			if i == 30 {
				value = bytes.Repeat(value, 40)
			}
			if _, err := tx.Exec(t.Context(), `INSERT INTO service_secrets (name, value, created_at) VALUES ($1, $2, 0)`,
				fmt.Sprint(i), value); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	file, _ := save(t, source)
	if _, err := backup.Restore(t.Context(), target, bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(rows(t, source), rows(t, target)) {
		t.Error("the rows differ")
	}
}

// TestDamaged spoils the file in many ways: none is taken for whole, and none
// leaves anything in the database.
func TestDamaged(t *testing.T) {
	t.Parallel()
	file, _ := save(t, filledPlace(t, "sqlite", "files"))
	spoilt := map[string][]byte{"longer": append(bytes.Clone(file), "more"...), "empty": nil, "text": []byte("a text")}
	for i := range 16 {
		at := len(file) * i / 16
		spoilt[fmt.Sprint("cut at ", at)] = file[:at]
		flipped := bytes.Clone(file)
		flipped[at] ^= 0x10
		if !bytes.Equal(unpacked(flipped), unpacked(file)) { // some bits of the compression mean nothing
			spoilt[fmt.Sprint("flipped at ", at)] = flipped
		}
	}
	target := newPlace(t, "sqlite", "files")
	for name, content := range spoilt {
		target.Blobs, target.Repositories = blobtest.Files(t), t.TempDir()
		_, err := backup.Restore(t.Context(), target, bytes.NewReader(content))
		// The header is used before its checksum is read: another key or schema in
		// it is refused like that of a whole file.
		other := fault.Is(err, fault.Conflict) && !bytes.Equal(header(content), header(file))
		if !fault.Is(err, fault.Malformed) && !other {
			t.Errorf("%s: %v, want a Malformed fault", name, err)
		}
	}
	for table, found := range rows(t, target) {
		t.Errorf("the database has rows in %s: %v", table, found)
	}
	target.Blobs, target.Repositories = blobtest.Files(t), t.TempDir()
	if _, err := backup.Restore(t.Context(), target, bytes.NewReader(file)); err != nil {
		t.Errorf("the whole file afterwards: %v", err)
	}
}

// header is the content of a file's first member, nil if that cannot be told.
func header(file []byte) []byte {
	zst, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil
	}
	defer zst.Close()
	members := tar.NewReader(zst)
	if _, err := members.Next(); err != nil {
		return nil
	}
	content, _ := io.ReadAll(members) // as far as it goes
	return content
}

// unpacked is what a file holds, nil if that cannot be told.
func unpacked(file []byte) []byte {
	zst, err := zstd.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil
	}
	defer zst.Close()
	content, err := io.ReadAll(zst)
	if err != nil {
		return nil
	}
	return content
}

// TestCutOff leaves what a killed process would, and says so.
func TestCutOff(t *testing.T) {
	t.Parallel()
	file, _ := save(t, filledPlace(t, "sqlite", "files"))
	target := newPlace(t, "sqlite", "files")
	_, err := backup.Restore(t.Context(), target, bytes.NewReader(file[:len(file)-1]))
	if _, begun := errors.AsType[*backup.Unfinished](err); !begun || !fault.Is(err, fault.Malformed) {
		t.Fatalf("all but the last byte: %v, want it to be unfinished", err)
	}
	if err := backup.CheckFinished(t.Context(), target.Blobs); !fault.Is(err, fault.Conflict) {
		t.Errorf("CheckFinished: %v, want a Conflict", err)
	}
	if _, err := backup.Restore(t.Context(), target, bytes.NewReader(file)); !fault.Is(err, fault.Conflict) ||
		!strings.Contains(err.Error(), "cut off") {
		t.Errorf("Restore into what is left: %v, want a Conflict", err)
	}
	if _, _, err := backup.Save(t.Context(), target, io.Discard); !fault.Is(err, fault.Conflict) {
		t.Errorf("Save of what is left: %v, want a Conflict", err)
	}
}

func TestNotEmpty(t *testing.T) {
	file, _ := save(t, filledPlace(t, "sqlite", "files"))
	for _, c := range []struct {
		name, want string
		fill       func(p *backup.Place)
	}{
		{"database", "database is not empty", func(p *backup.Place) { p.DB = filledPlace(t, "sqlite", "files").DB }},
		{"database of postgres", "database is not empty", func(p *backup.Place) { p.DB = filledPlace(t, "postgres", "files").DB }},
		{"blobs", "blobs is not empty", func(p *backup.Place) { put(t, p.Blobs, "x", nil) }},
		{"repositories", "repositories is not empty", func(p *backup.Place) { write(t, filepath.Join(p.Repositories, "a/b.git/HEAD"), "x") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t, "sqlite", "files")
			c.fill(&p)
			before := blobs(t, p.Blobs)
			_, err := backup.Restore(t.Context(), p, bytes.NewReader(file))
			if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a Conflict with %q", err, c.want)
			}
			if diff := cmp.Diff(before, blobs(t, p.Blobs)); diff != "" {
				t.Errorf("the blobs changed:\n%s", diff)
			}
		})
	}
}

// TestGoneBlobs tells what went with its row from what was lost, and from what
// is not what it should be.
func TestGoneBlobs(t *testing.T) {
	t.Parallel()
	p := filledPlace(t, "sqlite", "files")
	late := []byte("late")
	rotten := "registry/ab/" + strings.Repeat("ab", 32) + ".1"
	put(t, p.Blobs, rotten, []byte("rotten"))
	p.Referrers = []backup.Referrer{snapshotNeeds{
		then: needs{keys: []string{"large", "deleted", "lost", rotten}},
		now:  needs{keys: []string{"lost"}},
	}, needs{keys: []string{"zz-late"}, before: func(store.Querier) { put(t, p.Blobs, "zz-late", late) }}}
	_, m := save(t, p)
	if diff := cmp.Diff([][]string{{"deleted"}, {"lost"}, {rotten}}, [][]string{m.Deleted, m.Lost, m.Damaged}); diff != "" {
		t.Errorf("deleted, lost, damaged (-want +got):\n%s", diff)
	}
	if m.Blobs.Files != 5 {
		t.Errorf("%d blobs, want 5 with the late one", m.Blobs.Files)
	}
}

func TestSaveFile(t *testing.T) {
	t.Parallel()
	p := filledPlace(t, "sqlite", "files")
	dir := t.TempDir()
	name := filepath.Join(dir, "b.tar.zst")
	m, size, err := backup.SaveFile(t.Context(), p, name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Size() != size || info.Mode().Perm() != 0o600 || m.Blobs.Files != 3 {
		t.Errorf("%v, %v, size %d, manifest %+v", info, err, size, m)
	}
	// A failure leaves the old file and nothing else.
	p.Referrers = []backup.Referrer{failing{}}
	if _, _, err := backup.SaveFile(t.Context(), p, name); err == nil {
		t.Error("saved")
	}
	if left := files(t, dir); len(left) != 1 {
		t.Errorf("left are %d files, want the old one", len(left))
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no full disk here:", err)
	}
	defer full.Close()
	p.Referrers = nil
	if _, _, err := backup.Save(t.Context(), p, full); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("on a full disk: %v", err)
	}
}
