package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

const (
	mcpSkills = 5_000
	mcpPage   = 100
	mcpCached = 30  // milliseconds
	mcpCold   = 300 // milliseconds
)

// benchMCP measures skills/list of a large catalog, with what only the organisation
// may see: page by page from memory, and the first page after a start.
func benchMCP(ctx context.Context, l *lab) ([]row, error) {
	folder, err := l.folder("mcp")
	if err != nil {
		return nil, err
	}
	rows, err := l.mcpOn(ctx, "SQLite", "sqlite:"+filepath.Join(folder, "whetstone.db"))
	if err != nil {
		return nil, err
	}
	server, err := l.startPostgres()
	if err != nil {
		return rows, err
	}
	defer server.stop()
	url, err := server.database(ctx)
	if err != nil {
		return rows, err
	}
	more, err := l.mcpOn(ctx, "PostgreSQL", url)
	return append(rows, more...), err
}

func (l *lab) mcpOn(ctx context.Context, database, url string) ([]row, error) {
	data, err := l.folder("mcp")
	if err != nil {
		return nil, err
	}
	s, err := l.serve(ctx, data, "--database-url", url)
	if err != nil {
		return nil, err
	}
	if err := fillSkills(ctx, s, url); err != nil {
		s.stop()
		return nil, err
	}
	cold := time.Duration(0)
	for range l.rounds() {
		s.stop()
		if s, err = l.serve(ctx, data, "--database-url", url); err != nil {
			return nil, err
		}
		took, err := firstPage(ctx, s)
		if err != nil {
			s.stop()
			return nil, err
		}
		if cold == 0 || took < cold {
			cold = took
		}
	}
	defer s.stop()
	pages := make([][]byte, mcpSkills/mcpPage)
	for i := range pages {
		req, err := listSkills(ctx, s, i)
		if err != nil {
			return nil, err
		}
		if pages[i], err = wire(req); err != nil {
			return nil, err
		}
	}
	next := func(_, n int) []byte { return pages[n%len(pages)] }
	sums, err := l.compare(ctx, func(int) (load, error) {
		return load{addr: s.addr, conns: 1, next: next, span: l.span(), status: http.StatusOK}, nil
	})
	if err != nil {
		return nil, err
	}
	name := "mcp: " + database + ", a page of 5 k skills, "
	return []row{
		{Name: name + "p50", Figure: sums[0].p50, Unit: "ms", Beside: limit, Other: mcpCached},
		{Name: name + "p99", Figure: sums[0].p99, Unit: "ms", Beside: limit, Other: mcpCached, AtMost: 1},
		{Name: name + "cold", Figure: float64(cold.Microseconds()) / 1000, Unit: "ms", Beside: limit, Other: mcpCold, AtMost: 1},
	}, nil
}

// firstPage asks for the first page, and reports how long that took.
func firstPage(ctx context.Context, s *server) (time.Duration, error) {
	req, err := listSkills(ctx, s, 0)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	took := time.Since(start)
	if err == nil && strings.Count(string(body), "SKILL.md") != 2*mcpPage {
		err = fmt.Errorf("skills/list: status %d: %.300s", answer.StatusCode, body)
	}
	return took, err
}

// listSkills asks for a page of skills/list.
func listSkills(ctx context.Context, s *server, page int) (*http.Request, error) {
	cursor := ""
	if page > 0 {
		cursor = benchName(page*mcpPage - 1)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"cursor":%q}}`, cursor)
	req, err := s.request(ctx, http.MethodPost, "/o/default/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	return req, nil
}

func benchName(n int) string { return fmt.Sprintf("bench-%06d", n) }

// fillSkills writes skills with two files straight into the database.
func fillSkills(ctx context.Context, s *server, url string) error {
	var me struct {
		User, Organisation struct{ ID string }
	}
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return err
	}
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	f := &filler{db: db, orgID: me.Organisation.ID, userID: me.User.ID, at: store.Micros(time.Now())}
	var entries []filledEntry
	var versions []filledVersion
	for n := range mcpSkills {
		e := filledEntry{newID(), benchName(n), newID(), contentHash(n, "2.0.0")}
		entries, versions = append(entries, e), append(versions, filledVersion{e.versionID, e.id, "2.0.0", e.hash})
	}
	kind := "BLOB"
	if db.Dialect().Name() == "postgres" {
		kind = "BYTEA"
	}
	err = db.InTx(ctx, func(tx *store.Tx) error {
		if _, err := f.entries(entries).Insert(ctx, tx); err != nil {
			return err
		}
		if _, err := f.versions(versions).Insert(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			UPDATE registry_versions SET canonical_hash = content_hash, canonical_key = 'registry/' || id,
				file_paths = '["SKILL.md","references/a.md"]',
				file_manifest = '[{"path":"SKILL.md","hash":"' || content_hash || '","size":123},{"path":"references/a.md","hash":"' ||
					content_hash || '","size":45}]',
				skill_md = CAST('---' || $1 || 'name: ' || (SELECT e.name FROM registry_entries e WHERE e.id = entry_id) || $1 ||
					'description: Filled in by the benchmark.' || $1 || 'license: MIT' || $1 || '---' || $1 || '# Bench' || $1 AS `+kind+`)`, "\n")
		return err
	})
	if err != nil {
		return err
	}
	return settle(ctx, db)
}
