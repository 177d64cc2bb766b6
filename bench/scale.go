package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A scale is how much a host stores.
type scale struct {
	name          string
	organisations int
	observations  int // raw ones, spread over all skills
}

const (
	scaleSkills = 100 // of each organisation
	scaleDays   = 10  // of each skill with figures
	scaleGrowth = 1.5 // from a few organisations to many
	// scalePushed is how many bodies of telemetry are sent in a round at most.
	scalePushed = 2000
)

// scales are the few and the many. SQLite is for one organisation or some: it gets
// a hundredth of the many.
func (l *lab) scales(database string) [2]scale {
	few := scale{"10 organisations", 10, 1_000_000}
	if l.quick {
		few.observations = 100_000
	}
	if l.quick || database == "SQLite" {
		return [2]scale{few, {"100 organisations", 100, few.observations}}
	}
	many := scale{"10 k organisations", 10_000, 3_000_000}
	if l.full {
		many.observations = 100_000_000
	}
	return [2]scale{few, many}
}

// benchScale measures what one of many organisations waits for: each of its requests
// must take as long as on a server with a few.
func benchScale(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.scaleOn)
}

func (l *lab) scaleOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	var sides [2][]scaledRequest
	scales := l.scales(database)
	for i, size := range scales {
		url, err := fresh()
		if err != nil {
			return nil, err
		}
		data, err := l.folder("scale")
		if err != nil {
			return nil, err
		}
		s, err := l.serve(ctx, data, "--database-url", url)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		f := scaleFill{scale: size}
		if err := f.fill(ctx, s, url); err != nil {
			return nil, fmt.Errorf("fill %s: %w", size.name, err)
		}
		if sides[i], err = l.scaledRequests(ctx, s, f); err != nil {
			return nil, err
		}
	}
	var rows []row
	for n, few := range sides[0] {
		sums, err := l.compare(ctx, few.side, sides[1][n].side)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", few.name, err)
		}
		name := fmt.Sprintf("scale: %s, %s, %s, ", database, few.name, scales[1].name)
		rows = append(rows,
			row{Name: name + "p50", Figure: sums[1].p50, Unit: "ms", Beside: scales[0].name, Other: sums[0].p50},
			row{Name: name + "p99", Figure: sums[1].p99, Unit: "ms", Beside: scales[0].name, Other: sums[0].p99, AtMost: scaleGrowth})
	}
	return rows, nil
}

type scaledRequest struct {
	name string
	side side
}

// scaledRequests are what a person of one organisation asks for, one at a time: the time
// that they wait is the figure.
func (l *lab) scaledRequests(ctx context.Context, s *server, f scaleFill) ([]scaledRequest, error) {
	var all []scaledRequest
	add := func(name string, req *http.Request, err error) error {
		if err != nil {
			return err
		}
		request, err := wire(req)
		all = append(all, scaledRequest{name, l.steady(s, request, 1)})
		return err
	}
	for _, read := range [][2]string{
		{"list", "/v1/skills"}, {"detail", "/v1/skills/observed-007"}, {"catalog", "/.well-known/agent-skills/index.json"},
	} {
		req, err := s.request(ctx, http.MethodGet, read[1], nil)
		if err := add(read[0], req, err); err != nil {
			return nil, err
		}
	}
	v, err := signIn(ctx, s)
	if err != nil {
		return nil, err
	}
	req, err := v.request(ctx, "/")
	if err := add("home", req, err); err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"installations": f.installed()})
	if err != nil {
		return nil, err
	}
	req, err = s.request(ctx, http.MethodPost, "/api/v1/registry/sync", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if err := add("sync", req, nil); err != nil {
		return nil, err
	}
	return append(all, scaledRequest{"push", l.pushed(ctx, s)}), nil
}

// pushed is a side that sends telemetry, each body once.
func (l *lab) pushed(ctx context.Context, s *server) side {
	return func(int) (load, error) {
		var failed error
		bodies := make([][]byte, 0, scalePushed)
		for range scalePushed {
			p := newPush()
			p.Canonical.Prompts, p.Canonical.Gradings = p.Canonical.Prompts[:1], p.Canonical.Gradings[:1]
			p.Canonical.Invocations = p.Canonical.Invocations[:8]
			request, err := s.post(ctx, "/api/v1/push", key, p)
			if err != nil {
				failed = err
			}
			bodies = append(bodies, request)
		}
		return load{addr: s.addr, conns: 1, span: l.span(), status: http.StatusCreated, next: func(_, n int) []byte {
			if n >= len(bodies) {
				return nil
			}
			return bodies[n]
		}}, failed
	}
}

// A scaleFill writes organisations with their skills straight into the database of a
// running server, whose own organisation becomes one of them.
type scaleFill struct {
	scale
	db            *store.DB
	orgID, userID string
	firstDay      int64
}

// scaleChunk is how many organisations are written in one transaction.
const scaleChunk = 200

func (f *scaleFill) fill(ctx context.Context, s *server, url string) error {
	var me struct {
		User, Organisation struct{ ID string }
	}
	if err := s.get(ctx, "/api/v1/me", &me); err != nil {
		return err
	}
	if u, err := neturl.Parse(url); err == nil && u.Scheme == "postgres" {
		// Foreign keys need not be checked. Only a superuser may say so.
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&session_replication_role=replica", "&")
		url = u.String()
	}
	db, err := store.Open(ctx, store.Options{URL: url, MaxConns: 2})
	if err != nil {
		return err
	}
	defer db.Close()
	f.db, f.orgID, f.userID = db, me.Organisation.ID, me.User.ID
	f.firstDay = store.Micros(time.Now())/dayMicros - scaleDays + 1
	writers, writing := errgroup.WithContext(ctx)
	writers.SetLimit(2)
	for first := 0; first < f.organisations; first += scaleChunk {
		writers.Go(func() error { return f.chunk(writing, first, min(first+scaleChunk, f.organisations)) })
	}
	if err := writers.Wait(); err != nil {
		return err
	}
	return settle(ctx, db)
}

// chunk writes the organisations from first up to end. The first of all is the server's.
func (f *scaleFill) chunk(ctx context.Context, first, end int) error {
	at := store.Micros(time.Now())
	each := max(1, f.observations/f.organisations/scaleSkills) // observations of a skill
	const org = `'scale-org-' || CAST(n AS TEXT)`
	own := `(SELECT CASE WHEN n = 0 THEN CAST($3 AS TEXT) ELSE ` + org + ` END AS id, n FROM counted)`
	numbers := func(name string, count int) string {
		return fmt.Sprintf(`(WITH RECURSIVE %[1]ss (%[1]s) AS (SELECT 0 UNION ALL SELECT %[1]s + 1 FROM %[1]ss WHERE %[1]s + 1 < %[2]d)
			SELECT %[1]s FROM %[1]ss) AS %[1]ss`, name, count)
	}
	skills := ` FROM ` + own + ` AS o CROSS JOIN ` + numbers("k", scaleSkills)
	const id = `o.id || '-skill-' || CAST(k AS TEXT)`
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO organisations (id, name, plan, created_at)
			SELECT ` + org + `, ` + org + `, 'team', CAST($3 AS BIGINT) FROM counted WHERE n > 0`, []any{at}},
		{`INSERT INTO users (id, org_id, email, name, role, created_at)
			SELECT 'scale-user-' || CAST(n AS TEXT), ` + org + `, 'u' || CAST(n AS TEXT) || '@bench.example', 'u', 'owner', CAST($3 AS BIGINT)
			FROM counted WHERE n > 0`, []any{at}},
		{`INSERT INTO skills (id, org_id, name, created_at)
			SELECT ` + id + `, o.id, 'observed-' || substr(CAST(1000 + k AS TEXT), 2), CAST($4 AS BIGINT)` + skills, []any{f.orgID, at}},
		{`INSERT INTO skill_totals (subject_id, unique_sessions, graded_sessions, first_seen_at, last_seen_at)
			SELECT ` + id + `, 100, 100, CAST($4 AS BIGINT), CAST($4 AS BIGINT)` + skills, []any{f.orgID, at}},
		{`INSERT INTO skill_days (subject_id, day, sessions, trigger_sessions, last_sessions, last_trigger_sessions,
				checks, triggers, confidence_sum, confidence_count, graded_sessions, pass_rate_sum)
			SELECT ` + id + `, CAST($4 AS BIGINT) + d, 10, 10, 10, 10, 100, 60, 30000000000, 60, 10, 9000000000` + skills +
			` CROSS JOIN ` + numbers("d", scaleDays), []any{f.orgID, f.firstDay}},
		{`INSERT INTO registry_entries (id, org_id, created_by, name, entry_type, description, visibility, skill_id, current_version_id,
				current_version, current_hash, installation_count, created_at, updated_at)
			SELECT ` + id + `, o.id, ` + f.user() + `, 'observed-' || substr(CAST(1000 + k AS TEXT), 2), 'skill', 'Filled in by the benchmark.', 'org',
				` + id + `, ` + id + `, '1.0.0', ` + f.hash() + `, 0, CAST($5 AS BIGINT), CAST($5 AS BIGINT)` + skills, []any{f.orgID, f.userID, at}},
		{`INSERT INTO registry_versions (id, entry_id, version, content_hash, tree_digest, archive_key, size, description, file_manifest, source,
				rolled_back, pushed_by, pushed_at)
			SELECT ` + id + `, ` + id + `, '1.0.0', ` + f.hash() + `, ` + f.hash() + `, 'registry/' || ` + id + `, 1000, '', '[]', 'cli', FALSE,
				` + f.user() + `, CAST($5 AS BIGINT)` + skills, []any{f.orgID, f.userID, at}},
		{
			`INSERT INTO registry_installations (id, entry_id, content_hash, org_id, user_id, device_id, install_path, installed_at, last_seen_at)
			SELECT ` + id + `, ` + id + `, ` + f.hash() + `, o.id, ` + f.user() + `, 'bench', 'skills', CAST($5 AS BIGINT), CAST($5 AS BIGINT)` + skills,
			[]any{f.orgID, f.userID, at},
		},
		{
			`INSERT INTO skill_observations (id, org_id, user_id, skill_id, session_hash, is_check, triggered, confidence, weight, mode,
				occurred_at, normalized_at)
			SELECT ` + id + ` || '-' || CAST(m AS TEXT), o.id, ` + f.user() + `, ` + id + `, ` + id + ` || '-' || CAST(m / 10 AS TEXT), TRUE, TRUE,
				900000000, 1, 'implicit', CAST($5 AS BIGINT) - m * CAST(60000000 AS BIGINT), CAST($5 AS BIGINT)` + skills + ` CROSS JOIN ` + numbers("m", each),
			[]any{f.orgID, f.userID, at},
		},
	} {
		if _, err := f.db.Exec(ctx, counted+statement.sql, append([]any{first, end}, statement.args...)...); err != nil {
			return fmt.Errorf("%w in %s", err, statement.sql)
		}
	}
	return nil
}

// user is SQL for the one person of an organisation.
func (scaleFill) user() string {
	return `CASE WHEN o.n = 0 THEN CAST($4 AS TEXT) ELSE 'scale-user-' || CAST(o.n AS TEXT) END`
}

// hash is SQL for a content hash of its own for each skill.
func (scaleFill) hash() string {
	return `substr('` + contentHash(0, "scale") + `', 1, 48) || substr(CAST(1000000000000000 + o.n * 1000 + k AS TEXT), 1, 16)`
}

// installed is what the server's own organisation has installed.
func (f *scaleFill) installed() []syncItem {
	items := make([]syncItem, scaleSkills)
	prefix := contentHash(0, "scale")[:48]
	for k := range items {
		items[k] = syncItem{fmt.Sprintf("%s-skill-%d", f.orgID, k), fmt.Sprintf("%s%d", prefix, 1_000_000_000_000_000+k)}
	}
	return items
}
