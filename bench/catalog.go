package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	catalogSkills   = 5_000
	catalogVersions = 20  // of each skill, beside one
	catalogWarm     = 30  // milliseconds
	catalogCold     = 300 // milliseconds
	catalogGrowth   = 1.5 // from one version to many
)

// A catalogRead is what a client asks of a catalog.
type catalogRead struct {
	name, path string
	// kept says that the answer is made of something that is kept in memory, so that
	// the first one takes longer.
	kept bool
}

func catalogReads(org string) []catalogRead {
	hub := "/o/" + org + "/api/v1/"
	return []catalogRead{
		{"discovery index", "/.well-known/agent-skills/index.json", true},
		{"discovery index 0.1.0", "/.well-known/skills/index.json", true},
		{"marketplace.json", "/marketplace.json", true},
		{"npx skills find", "/api/search?q=tables+of&limit=20", true},
		{"ClawHub list", hub + "skills?limit=25&sort=createdAt", true},
		{"ClawHub search", hub + "search?q=tables&limit=25", true},
		{"ClawHub detail", hub + "skills/" + skillName(0), false},
		{"ClawHub resolve", hub + "resolve?slug=" + skillName(0) + "&hash=" + strings.Repeat("0", 64), false},
	}
}

// benchCatalog measures what installers read, of skills with one version each and
// with many: from memory, and right after the start of a server.
func benchCatalog(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, func(ctx context.Context, database string, newURL func() (string, error)) ([]row, error) {
		var sides [2]*catalogSide
		for i, versions := range []int{1, catalogVersions} {
			side, err := l.fillCatalog(ctx, newURL, versions)
			if err != nil {
				return nil, err
			}
			sides[i] = side
		}
		var rows []row
		for _, read := range catalogReads("default") {
			more, err := l.readCatalog(ctx, database, sides, read)
			if err != nil {
				return rows, err
			}
			rows = append(rows, more...)
		}
		return rows, nil
	})
}

// A catalogSide is a database with skills, which servers are started on.
type catalogSide struct{ data, url string }

func (c *catalogSide) serve(ctx context.Context, l *lab) (*server, error) {
	return l.serve(ctx, c.data, "--database-url", c.url)
}

// readCatalog measures one read on both sides.
func (l *lab) readCatalog(ctx context.Context, database string, sides [2]*catalogSide, read catalogRead) ([]row, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://catalog.example"+read.path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept-Encoding", "gzip")
	request, err := wire(req)
	if err != nil {
		return nil, err
	}
	var cold [2]time.Duration
	for i, c := range sides {
		if cold[i], err = l.coldRead(ctx, c, request); err != nil {
			return nil, err
		}
	}
	var warm []side
	for _, c := range sides {
		s, err := c.serve(ctx, l)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		// One client, for the time that it waits is the figure.
		warm = append(warm, l.steady(s, request, 1))
	}
	sums, err := l.compare(ctx, warm...)
	if err != nil {
		return nil, err
	}
	name := "catalog: " + database + ", " + read.name
	one := fmt.Sprintf("1 version, not %d", catalogVersions)
	rows := []row{
		{Name: name + ", p99", Figure: sums[1].p99, Unit: "ms", Beside: limit, Other: catalogWarm, AtMost: 1},
		{Name: name + ", p50", Figure: sums[1].p50, Unit: "ms", Beside: one, Other: sums[0].p50, AtMost: catalogGrowth},
	}
	if read.kept {
		rows = append(rows,
			row{Name: name + ", first", Figure: millis(cold[1]), Unit: "ms", Beside: limit, Other: catalogCold, AtMost: 1},
			row{Name: name + ", first", Figure: millis(cold[1]), Unit: "ms", Beside: one, Other: millis(cold[0]), AtMost: catalogGrowth},
		)
	}
	return rows, nil
}

// coldRead is the median time of the first answer of servers that have just started.
func (l *lab) coldRead(ctx context.Context, c *catalogSide, request []byte) (time.Duration, error) {
	times := make([]time.Duration, 2*l.rounds()+1)
	for i := range times {
		s, err := c.serve(ctx, l)
		if err != nil {
			return 0, err
		}
		// The connection and the key are not what is measured.
		client, err := dial(ctx, s.addr)
		if err == nil {
			err = s.get(ctx, "/api/v1/me", nil)
		}
		if err == nil {
			err = client.send(request, http.StatusOK)
			client.close()
		}
		s.stop()
		if err != nil {
			return 0, err
		}
		times[i] = client.latencies[0]
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// fillCatalog makes a database with public skills, of which the first is a real one.
func (l *lab) fillCatalog(ctx context.Context, newURL func() (string, error), versions int) (*catalogSide, error) {
	url, err := newURL()
	if err != nil {
		return nil, err
	}
	data, err := l.folder("catalog")
	if err != nil {
		return nil, err
	}
	c := &catalogSide{data, url}
	s, err := c.serve(ctx, l)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	r := &registry{server: s}
	if err := r.create(ctx, 0); err != nil {
		return nil, err
	}
	var me struct {
		User, Organisation struct{ ID string }
	}
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return nil, err
	}
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 2})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	f := &catalogFiller{orgID: me.Organisation.ID, userID: me.User.ID, at: store.Micros(time.Now()), versions: versions}
	const chunk = 250
	for first := 1; first < catalogSkills; first += chunk {
		if err := f.chunk(ctx, db, first, min(first+chunk, catalogSkills)); err != nil {
			return nil, err
		}
	}
	// As large as those that people write, which lie in the way of other columns.
	_, err = db.Exec(ctx, `UPDATE registry_versions SET skill_md = $1 WHERE id IN (SELECT current_version_id FROM registry_entries)`,
		bytes.Repeat([]byte("Use this skill to read tables. "), 130))
	if err != nil {
		return nil, err
	}
	return c, settle(ctx, db)
}

// A catalogFiller writes skills as pushes would have.
type catalogFiller struct {
	orgID, userID string
	at            int64
	versions      int // of each skill
}

func (f *catalogFiller) chunk(ctx context.Context, db *store.DB, from, to int) error {
	var entries []filledEntry
	var versions []filledVersion
	for n := from; n < to; n++ {
		e := filledEntry{id: newID(), name: fmt.Sprintf("skill-%d", n)}
		for i := range f.versions {
			version := fmt.Sprintf("1.%d.0", i)
			v := filledVersion{id: newID(), entryID: e.id, version: version, hash: contentHash(n, version)}
			e.versionID, e.hash = v.id, v.hash
			versions = append(versions, v)
		}
		entries = append(entries, e)
	}
	return db.InTx(ctx, func(tx *store.Tx) error {
		for _, table := range f.tables(entries, versions) {
			if _, err := table.Insert(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *catalogFiller) tables(entries []filledEntry, versions []filledVersion) []store.Bulk {
	description := func(id string) string {
		return "Reads tables of files, and writes them in another form. Use it when " + strings.Repeat("a person asks for a table, ", 8) + id
	}
	var paths, manifest []string
	for _, path := range []string{"SKILL.md", "assets/logo.png", "references/forms.md", "references/tables.md", "scripts/read.py", "scripts/write.py"} {
		paths = append(paths, fmt.Sprintf("%q", path))
		manifest = append(manifest, fmt.Sprintf(`{"path":%q,"hash":"%064d","size":4000}`, path, len(path)))
	}
	tables := []store.Bulk{
		{Table: "registry_entries", Columns: []store.Column{
			column("id", entries, func(e filledEntry) string { return e.id }),
			column("name", entries, func(e filledEntry) string { return e.name }),
			column("current_version_id", entries, func(e filledEntry) string { return e.versionID }),
			column("current_hash", entries, func(e filledEntry) string { return e.hash }),
			same("current_version", entries, fmt.Sprintf("1.%d.0", f.versions-1)),
			same("org_id", entries, f.orgID), same("created_by", entries, f.userID), same("entry_type", entries, "skill"),
			column("description", entries, func(e filledEntry) string { return description(e.id) }), same("visibility", entries, "public"),
			same("installation_count", entries, int64(0)), same("created_at", entries, f.at), same("updated_at", entries, f.at),
		}},
		{Table: "registry_names", Columns: []store.Column{
			column("name", entries, func(e filledEntry) string { return e.name }), same("org_id", entries, f.orgID),
		}},
		{Table: "registry_versions", Columns: []store.Column{
			column("id", versions, func(v filledVersion) string { return v.id }),
			column("entry_id", versions, func(v filledVersion) string { return v.entryID }),
			column("version", versions, func(v filledVersion) string { return v.version }),
			column("content_hash", versions, func(v filledVersion) string { return v.hash }),
			column("canonical_hash", versions, func(v filledVersion) string { return v.hash }),
			column("tree_digest", versions, func(v filledVersion) string { return v.hash }),
			column("archive_key", versions, func(v filledVersion) string { return "registry/" + v.hash[:2] + "/" + v.hash + "." + v.id }),
			column("description", versions, func(v filledVersion) string { return description(v.entryID) }),
			same("size", versions, int64(assetBytes)), same("file_manifest", versions, "["+strings.Join(manifest, ",")+"]"),
			same("file_paths", versions, "["+strings.Join(paths, ",")+"]"), same("change_summary", versions, "Reads merged cells."),
			same("source", versions, "cli"), same("rolled_back", versions, false),
			same("pushed_by", versions, f.userID), same("pushed_at", versions, f.at),
		}},
	}
	for _, kind := range []string{"clawhub", "skills-lock", "plugin-zip", "git-tree"} {
		tables = append(tables, store.Bulk{Table: "registry_tree_hashes", Columns: []store.Column{
			same("kind", versions, kind),
			column("hash", versions, func(v filledVersion) string { return v.hash }),
			column("entry_id", versions, func(v filledVersion) string { return v.entryID }),
			column("version_id", versions, func(v filledVersion) string { return v.id }),
		}})
	}
	return tables
}
