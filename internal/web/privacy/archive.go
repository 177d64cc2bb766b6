package privacy

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// The names in an archive.
const (
	manifestName = "manifest.json"
	blobListName = "blobs.jsonl"
	dataDir      = "data/"
	blobsDir     = "blobs/"
)

const (
	// The version changes when a reader of older archives would misread newer ones.
	format        = "whetstone-organisation-export"
	formatVersion = 1
)

// A Manifest describes an archive. It is the last file in it. An archive without it
// is not complete.
type Manifest struct {
	Format       string       `json:"format"`
	Version      int          `json:"version"`
	Schema       int64        `json:"schema"` // the number of the newest migration
	CreatedAt    httpapi.Time `json:"created_at"`
	Organisation string       `json:"organisation_id"`
	Tables       []TableFile  `json:"tables"`
	Blobs        BlobFiles    `json:"blobs"`
	LeftOut      []LeftOut    `json:"left_out"`
}

// A TableFile is the rows of one table. The hashes let a person prove that nothing
// was changed or lost.
type TableFile struct {
	Table   string   `json:"table"`
	File    string   `json:"file"`
	Rows    int64    `json:"rows"`
	Bytes   int64    `json:"bytes"`
	SHA256  string   `json:"sha256"`
	Columns []string `json:"columns"`
	LeftOut []string `json:"left_out_columns"`
}

// BlobFiles are the blobs, which blobs.jsonl lists with their hashes.
type BlobFiles struct {
	List    string `json:"list"`
	Files   int64  `json:"files"`
	Bytes   int64  `json:"bytes"`
	Missing int64  `json:"missing"` // deleted while the archive was made
	SHA256  string `json:"sha256"`  // of the list
}

// LeftOut is a table that is not in archives. Secrets and caches are left out, and
// each has its reason.
type LeftOut struct {
	Table string `json:"table"`
	Why   string `json:"why"`
}

// A listedBlob is a line of blobs.jsonl.
type listedBlob struct {
	Key    string `json:"key"`
	File   string `json:"file"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// An archive is written to a file: its size is not known before, and does not fit
// into memory.
type archive struct {
	zip      *zip.Writer
	at       time.Time
	manifest Manifest
	report   func(rows, blobs int64) error
	rows     int64
}

// WriteArchive writes all that an organisation has to w, and reports its progress. The
// rows are those of one moment. The keys of blobs go through a file: there may be millions.
func (s *Service) WriteArchive(ctx context.Context, orgID string, w io.Writer, report func(rows, blobs int64) error) (err error) {
	defer fault.Wrap(&err, "archive of organisation %s", orgID)
	now := store.Now()
	a := &archive{zip: zip.NewWriter(w), at: now, report: report, manifest: Manifest{
		Format: format, Version: formatVersion, CreatedAt: httpapi.Time(now), Organisation: orgID, Tables: []TableFile{},
	}}
	for _, name := range slices.Sorted(maps.Keys(leftOut)) {
		a.manifest.LeftOut = append(a.manifest.LeftOut, LeftOut{name, leftOut[name]})
	}
	keys, err := os.CreateTemp("", "whetstone-export-*")
	if err != nil {
		return err
	}
	defer keys.Close()
	if err := os.Remove(keys.Name()); err != nil { // it goes with the process
		return err
	}
	buffered := bufio.NewWriter(keys)
	// Blobs are read after it: they are immutable, and one that was deleted since is
	// counted as missing. A long transaction would hold back the database's cleanup.
	err = s.DB.Snapshot(ctx, func(tx *store.Tx) error { return a.addTables(ctx, tx, orgID, buffered) })
	if err != nil {
		return err
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	if _, err := keys.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := a.addBlobs(ctx, s.Blobs, keys); err != nil {
		return err
	}
	content, err := json.MarshalIndent(a.manifest, "", "  ")
	if err != nil {
		return err
	}
	if err := a.add(manifestName, zip.Deflate,
		func(w io.Writer) error { _, err := w.Write(append(content, '\n')); return err }); err != nil {
		return err
	}
	return a.zip.Close()
}

// add writes one file of the archive. Every entry has the same time, that of the
// archive.
func (a *archive) add(name string, method uint16, write func(io.Writer) error) error {
	w, err := a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: method, Modified: a.at})
	if err != nil {
		return err
	}
	return write(w)
}

// addTables writes the rows of all tables, and the keys of their blobs to keys.
func (a *archive) addTables(ctx context.Context, tx *store.Tx, orgID string, keys *bufio.Writer) (err error) {
	if a.manifest.Schema, err = tx.SchemaVersion(ctx); err != nil {
		return err
	}
	p, err := newPlan(ctx, tx)
	if err != nil {
		return err
	}
	tables := p.exported()
	slices.SortFunc(tables, func(a, b table) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	for _, t := range tables {
		if err := a.addTable(ctx, tx, orgID, t); err != nil {
			return err
		}
		err := eachBlob(ctx, tx, t, t.export, orgID, func(key string) error {
			_, err := keys.WriteString(key + "\n")
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addTable writes the rows of a table as JSON lines. Rows go through one buffer, so
// that memory does not depend on the table.
func (a *archive) addTable(ctx context.Context, tx *store.Tx, orgID string, t table) error {
	file := TableFile{
		Table: t.Name, File: dataDir + t.Name + ".jsonl", Columns: t.Columns,
		LeftOut: append([]string{}, t.omitted...),
	}
	err := a.add(file.File, zip.Deflate, func(w io.Writer) error {
		hash := sha256.New()
		out := io.MultiWriter(w, hash)
		var line []byte
		err := tx.DumpWhere(ctx, t.Table, t.export, []any{orgID}, func(row []any) (err error) {
			if line, err = appendRow(line[:0], t.Columns, row); err != nil {
				return err
			}
			file.Rows++
			file.Bytes += int64(len(line)) + 1
			a.rows++
			if _, err := out.Write(append(line, '\n')); err != nil {
				return err
			}
			return a.report(a.rows, 0)
		})
		file.SHA256 = hex.EncodeToString(hash.Sum(nil))
		return err
	})
	a.manifest.Tables = append(a.manifest.Tables, file)
	return err
}

// ofTime matches the columns of times, which are stored as microseconds. Smaller
// numbers in such columns than the oldest time count something else.
var ofTime = regexp.MustCompile(`^(at|since|until|.*_at|.*_until)$`)

const oldest = 1e14 // in 1973

// appendRow appends a row as a JSON object.
func appendRow(line []byte, columns []string, row []any) ([]byte, error) {
	line = append(line, '{')
	for i, value := range row {
		if us, ok := value.(int64); ok && us >= oldest && ofTime.MatchString(columns[i]) {
			value = time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000Z07:00")
		}
		// Text in a column of bytes stays readable.
		if raw, ok := value.([]byte); ok && utf8.Valid(raw) { // others become base64
			value = string(raw)
		}
		encoded, err := encode(value)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			line = append(line, ',')
		}
		line = append(append(append(append(line, '"'), columns[i]...), `":`...), encoded...)
	}
	return append(line, '}'), nil
}

// encode is json.Marshal without the escapes for HTML.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

// addBlobs writes the blobs with the keys that a file lists, some of them twice. The
// list comes after them, through a second file.
func (a *archive) addBlobs(ctx context.Context, bucket blob.Bucket, keys io.Reader) error {
	list, err := os.CreateTemp("", "whetstone-export-*")
	if err != nil {
		return err
	}
	defer list.Close()
	if err := os.Remove(list.Name()); err != nil {
		return err
	}
	hash := sha256.New()
	lines := json.NewEncoder(io.MultiWriter(list, hash))
	lines.SetEscapeHTML(false)
	// Hashes take 32 bytes each, where keys may be long.
	seen := map[[sha256.Size]byte]bool{}
	scanner := bufio.NewScanner(keys)
	for scanner.Scan() {
		sum := sha256.Sum256(scanner.Bytes())
		if seen[sum] {
			continue
		}
		seen[sum] = true
		// Blobs are read one by one: many at once would take the bucket from others.
		found, err := a.addBlob(ctx, bucket, scanner.Text())
		if fault.Is(err, fault.NotFound) {
			a.manifest.Blobs.Missing++
			continue
		}
		if err != nil {
			return err
		}
		a.manifest.Blobs.Files++
		a.manifest.Blobs.Bytes += found.Size
		if err := lines.Encode(found); err != nil {
			return err
		}
		if err := a.report(a.rows, a.manifest.Blobs.Files); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	if _, err := list.Seek(0, io.SeekStart); err != nil {
		return err
	}
	a.manifest.Blobs.List, a.manifest.Blobs.SHA256 = blobListName, hex.EncodeToString(hash.Sum(nil))
	return a.add(blobListName, zip.Deflate, func(w io.Writer) error { _, err := io.Copy(w, list); return err })
}

// addBlob stores a blob as it is: nearly all of them are compressed.
func (a *archive) addBlob(ctx context.Context, bucket blob.Bucket, key string) (listedBlob, error) {
	body, _, err := bucket.Get(ctx, key)
	if err != nil {
		return listedBlob{}, err
	}
	defer body.Close()
	out, hash := listedBlob{Key: key, File: blobsDir + key}, sha256.New()
	err = a.add(out.File, zip.Store, func(w io.Writer) error {
		out.Size, err = io.Copy(io.MultiWriter(w, hash), body)
		return err
	})
	out.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return out, err
}
