package app_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/blob/blobtest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/web/privacy"
)

// TestOrganisationLeaves has two organisations with everything. The archive of one has
// all that is its, and nothing of the other. After its deletion nothing of it is left,
// and the other one notices nothing.
func TestOrganisationLeaves(t *testing.T) {
	each(t, storetest.URL, func(t *testing.T, flags []string) {
		if strings.Contains(fmt.Sprint(flags), "postgres:") { // as in a cluster
			flags = append(flags, "--blob-url", blobtest.S3(t).URL)
		}
		m := newMatrix(t, flags, host.Git)
		m.share()
		ours, theirs := m.archive(m.ours.OrgID), m.archive(m.theirs.OrgID)
		rest := m.archive(m.orgID(t, "default"))
		m.wantAllRows(ours, theirs, rest)
		m.wantOnly(ours, theirMark, theirs)
		m.wantOnly(theirs, ourMark, ours)
		m.wantNoSecrets(ours)

		before := m.look()
		replica := &auth.Service{DB: m.service.DB()}
		owner := m.service.as(t, m.keys["owner"])
		for name, status := range map[string]int{"admin": http.StatusForbidden, "narrowed": http.StatusForbidden, "revoked": http.StatusUnauthorized, "owner": http.StatusBadRequest} {
			m.service.as(t, m.keys[name]).Do(http.MethodDelete, "/api/v1/organization", apptest.Object{"confirm": theirMark + " Ltd"}).Want(status)
		}
		if _, err := replica.Authenticate(t.Context(), m.keys["owner"]); err != nil { // which caches the key
			t.Fatal(err)
		}
		page := m.browser(m.keys["owner"])
		owner.Do(http.MethodDelete, "/api/v1/organization", apptest.Object{"confirm": ourMark + " Ltd"}).Want(http.StatusNoContent)
		for _, name := range []string{"owner", "viewer", "narrowed", "entry"} {
			m.service.as(t, m.keys[name]).Get("/api/v1/me").Want(http.StatusUnauthorized)
		}
		m.wantSignedOut(page)
		apptest.Eventually(t, "the key to end on another replica", func() bool {
			_, err := replica.Authenticate(t.Context(), m.keys["owner"])
			return fault.Is(err, fault.Unauthorized)
		})

		apptest.Eventually(t, "the end of all rows", func() bool { return m.service.Privacy().Purge(t.Context(), m.ours.OrgID) == nil })
		m.wantGone(ours)
		m.wantBlobsGone(ours, theirs)
		m.wantSame(before, m.look())
		if wrong, err := store.VerifyIntegrity(t.Context(), m.service.DB(), false); err != nil || len(wrong) > 0 {
			t.Errorf("the database has %v, %v", wrong, err)
		}
	})
}

// share makes the organisations meet: the other one installs an unlisted skill of ours,
// and both have an archive from before schema 33, whose bytes they share.
func (m *matrix) share() {
	m.Helper()
	m.exec(`UPDATE registry_entries SET visibility = 'unlisted' WHERE id = $1`, m.ours.Things[public])
	m.service.as(m.T, m.keys["other member"]).Post("/api/v1/registry/"+m.ours.Things[public]+"/install",
		apptest.Object{"device_id": "laptop", "install_path": "/x", "content_hash": strings.Repeat("0", 64)}).Want(http.StatusOK)
	for _, org := range []*filled{m.ours, m.theirs} {
		m.exec(`UPDATE registry_versions SET archive_key = $1 WHERE entry_id = $2 AND version = '1.0.0'`, sharedKey, org.Things["entry"])
	}
	if err := m.service.Blobs().Put(m.Context(), sharedKey, strings.NewReader("shared"), 6); err != nil {
		m.Fatal(err)
	}
}

// public is the kind of our thing that the other organisation has installed. Its name
// has no mark.
const public = "undoable"

const sharedKey = "sha256/ab/abababababababababababababababababababababababababababababababab"

func (m *matrix) exec(sql string, args ...any) {
	m.Helper()
	if _, err := m.service.DB().Exec(m.Context(), sql, args...); err != nil {
		m.Fatal(err)
	}
}

func (m *matrix) orgID(t *testing.T, name string) string {
	t.Helper()
	o, err := m.service.Auth().OrgByName(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return o.ID
}

// An unpacked is an archive of an organisation.
type unpacked struct {
	privacy.Manifest
	files map[string][]byte
}

// archive makes the archive of an organisation, and checks it against its manifest.
func (m *matrix) archive(orgID string) unpacked {
	m.Helper()
	var packed bytes.Buffer
	err := m.service.Privacy().WriteArchive(m.Context(), orgID, &packed, func(int64, int64) error { return nil })
	if err != nil {
		m.Fatal(err)
	}
	return unpack(m, packed.Bytes())
}

func unpack(m *matrix, packed []byte) (u unpacked) {
	m.Helper()
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		m.Fatal(err)
	}
	u.files = map[string][]byte{}
	for _, f := range r.File {
		body, err := f.Open()
		if err != nil {
			m.Fatal(err)
		}
		if u.files[f.Name], err = io.ReadAll(body); err != nil {
			m.Fatal(err)
		}
	}
	if err := json.Unmarshal(u.files["manifest.json"], &u.Manifest); err != nil {
		m.Fatal(err)
	}
	wantSum := func(name, sum string, size int64) {
		got := sha256.Sum256(u.files[name])
		if hex.EncodeToString(got[:]) != sum || int64(len(u.files[name])) != size {
			m.Errorf("%s has %d bytes with the hash %x; the manifest says %d, %s", name, len(u.files[name]), got, size, sum)
		}
	}
	for _, t := range u.Tables {
		wantSum(t.File, t.SHA256, t.Bytes)
		if n := int64(bytes.Count(u.files[t.File], []byte("\n"))); n != t.Rows {
			m.Errorf("%s has %d lines, the manifest says %d", t.File, n, t.Rows)
		}
	}
	wantSum(u.Blobs.List, u.Blobs.SHA256, int64(len(u.files[u.Blobs.List])))
	for _, b := range u.blobs(m) {
		wantSum(b.File, b.SHA256, b.Size)
	}
	if len(u.files) != len(u.Tables)+int(u.Blobs.Files)+2 || u.Blobs.Missing != 0 {
		m.Errorf("%d files for %d tables and %d blobs; %d blobs are missing", len(u.files), len(u.Tables), u.Blobs.Files, u.Blobs.Missing)
	}
	return u
}

type archivedBlob struct {
	Key, File, SHA256 string
	Size              int64
}

func (u unpacked) blobs(m *matrix) (all []archivedBlob) {
	m.Helper()
	for line := range bytes.Lines(u.files[u.Blobs.List]) {
		var b archivedBlob
		if err := json.Unmarshal(line, &b); err != nil {
			m.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// wantAllRows recounts: every row of every table that is not left out is in one of the
// archives.
func (m *matrix) wantAllRows(all ...unpacked) {
	m.Helper()
	sums, filled := map[string]int64{}, 0
	for _, u := range all {
		for _, t := range u.Tables {
			sums[t.Table] += t.Rows
		}
	}
	leftOut := map[string]bool{}
	for _, l := range all[0].LeftOut {
		leftOut[l.Table] = true
	}
	for table, sum := range sums {
		rows, err := m.service.DB().Query(m.Context(), "SELECT COUNT(*) FROM "+table)
		n, err := store.One(rows, err, "Count", store.Value[int64])
		if err != nil {
			m.Fatal(err)
		}
		if n > 0 {
			filled++
		}
		if n != sum {
			m.Errorf("%s has %d rows, the archives have %d", table, n, sum)
		}
	}
	blobs := map[string]bool{}
	for _, u := range all {
		for _, b := range u.blobs(m) {
			blobs[b.Key] = true
		}
	}
	for _, r := range app.Referrers() {
		err := r.References(m.Context(), m.service.DB(), func(ref blob.Ref) error {
			if !blobs[ref.Key] {
				m.Errorf("the blob %s is in no archive: add how rows name it to blobKeys in internal/web/privacy", ref.Key)
			}
			return nil
		})
		if err != nil {
			m.Fatal(err)
		}
	}
	for table := range m.columns {
		library := strings.HasPrefix(table, "goose_") || table == "schema_compat"
		if _, ok := sums[table]; !ok && !leftOut[table] && !library {
			m.Errorf("%s is neither in archives nor named as left out", table)
		}
	}
	m.Logf("%d tables in archives, %d of them with rows; ours has %d blobs", len(sums), filled, all[0].Blobs.Files)
}

// wantOnly wants nothing of another organisation in an archive: no mark, and no id but
// that of the public skill which it has installed.
func (m *matrix) wantOnly(u unpacked, mark string, other unpacked) {
	m.Helper()
	for name, content := range u.files {
		if r, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
			if content, err = io.ReadAll(r); err != nil {
				m.Fatal(err)
			}
		}
		if i := bytes.Index(content, []byte(mark)); i >= 0 {
			m.Errorf("%s has the mark of another organisation: %.200s", name, content[max(0, i-100):])
		}
	}
	text := string(slices.Concat(u.tables()...))
	for id := range other.ids(m) {
		if strings.Contains(text, `"`+id+`"`) && id != m.ours.Things[public] {
			m.Errorf("the archive has the id %s of another organisation", id)
		}
	}
}

func (u unpacked) tables() (all [][]byte) {
	for _, t := range u.Tables {
		all = append(all, u.files[t.File])
	}
	return all
}

// ids are the ids of all rows in an archive, by their table.
func (u unpacked) ids(m *matrix) map[string]string {
	m.Helper()
	ids := map[string]string{}
	for _, t := range u.Tables {
		scanner := bufio.NewScanner(bytes.NewReader(u.files[t.File]))
		scanner.Buffer(nil, 16<<20)
		for scanner.Scan() {
			var row struct {
				ID any `json:"id"`
			}
			if err := json.Unmarshal(scanner.Bytes(), &row); err != nil {
				m.Fatal(err)
			}
			if id, ok := row.ID.(string); ok && id != "" {
				ids[id] = t.Table
			}
		}
	}
	return ids
}

// wantNoSecrets: neither secrets nor what they are recognised by are in an archive.
func (m *matrix) wantNoSecrets(u unpacked) {
	m.Helper()
	text, looked := string(slices.Concat(u.tables()...)), 0
	for _, query := range []string{
		`SELECT hash FROM api_keys`, `SELECT hash FROM sessions`, `SELECT hash FROM catalog_tokens`, `SELECT hash FROM invitations`,
		`SELECT hash FROM device_codes`, `SELECT hash FROM scim_tokens`,
		`SELECT secret FROM event_webhooks`, `SELECT url FROM event_webhooks`, `SELECT secret FROM alert_rules WHERE secret IS NOT NULL`, `SELECT address FROM alert_rules WHERE channel = 'webhook'`,
	} {
		rows, err := m.service.DB().Query(m.Context(), query)
		secrets, err := store.All(rows, err, store.Value[string])
		if err != nil {
			m.Fatal(err)
		}
		for _, secret := range secrets {
			looked++
			if secret != "" && strings.Contains(text, secret) {
				m.Errorf("the archive has %q, which is in %s", secret, query)
			}
		}
	}
	for name, key := range m.keys {
		if strings.Contains(text, key) {
			m.Errorf("the archive has the key of %s", name)
		}
	}
	if looked < 20 {
		m.Errorf("only %d secrets were looked for", looked)
	}
}

// wantGone looks for every id that was in an archive, and for its organisation's mark,
// in every row of the database.
func (m *matrix) wantGone(u unpacked) {
	m.Helper()
	ids := u.ids(m)
	for _, line := range m.dump("") {
		table, _, _ := strings.Cut(line, " ")
		// The job itself, and the login that nobody has approved, are no organisation's.
		if table == "organisation_deletions" || strings.Contains(line, "privacy.purge") ||
			table == "device_codes" && strings.Contains(line, "pending") {
			continue
		}
		if table == "audit_entries" && strings.Contains(line, "privacy.organisation.delete") {
			if strings.Contains(line, "@") || strings.Contains(line, ourMark) || strings.Contains(line, m.ours.Things["user"]) {
				m.Errorf("what the operator keeps names somebody: %s", line)
			}
			continue
		}
		if strings.Contains(line, ourMark) {
			m.Errorf("a row is left: %.300s", line)
		}
		for field := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(` []"/,:{}`, r) }) {
			if of := ids[field]; of != "" && field != m.ours.Things[public] { // which their own log names
				m.Errorf("a row has the id %s of %s: %.300s", field, of, line)
			}
		}
	}
}

// wantBlobsGone wants the other organisation's blobs and no others.
func (m *matrix) wantBlobsGone(ours, theirs unpacked) {
	m.Helper()
	kept := map[string]bool{}
	for _, b := range theirs.blobs(m) {
		kept[b.Key] = true
	}
	if !kept[sharedKey] {
		m.Error("no archive is shared")
	}
	for _, b := range ours.blobs(m) {
		if _, err := m.service.Blobs().Stat(m.Context(), b.Key); (err == nil) != kept[b.Key] {
			m.Errorf("the blob %s: %v", b.Key, err)
		}
	}
	for key := range kept {
		if _, err := m.service.Blobs().Stat(m.Context(), key); err != nil {
			m.Errorf("a blob of the other organisation: %v", err)
		}
	}
	for info, err := range m.service.Blobs().List(m.Context(), "") {
		if err != nil {
			m.Fatal(err)
		}
		if strings.Contains(info.Key, m.ours.OrgID) {
			m.Errorf("the blob %s is left", info.Key)
		}
	}
}

// wantSignedOut wants the page that asks a browser to sign in.
func (m *matrix) wantSignedOut(browser http.Header) {
	m.Helper()
	a, err := m.client.Do(m.Context(), apptest.Request{Method: "GET", Path: "/account"}, browser)
	if err != nil || !strings.HasPrefix(a.Header.Get("Location"), "/login") {
		m.Errorf("a browser of the organisation gets %s, %v", fmt.Sprint(a.Status, a.Header), err)
	}
}
