package suites

import (
	"context"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/blob"
	"github.com/whetstone-dev/whetstone/internal/platform/quota"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// The cases of a suite are one document, in the last column: they are written
// and read together, the lock on the row makes an append safe, and a list
// without cases does not read them, since neither database reads a long last
// column that is not selected. The column is TEXT, not JSON, which keeps numbers
// and unknown fields as their author wrote them.

const suiteColumns = `id, org_id, source_id, name, source_kind, verifier_kind, supports_no_skill, resource_limits,
	case_count, kind, issues, version, created_by, created_at, updated_at`

func scanSuiteOnly(row store.Row) (Suite, error) { return scanSuite(row) }

// scanSuite scans suiteColumns, and the columns after them into further.
func scanSuite(row store.Row, further ...any) (s Suite, err error) {
	var limits *string
	var issues string
	err = row.Scan(append([]any{
		&s.ID, &s.OrgID, &s.SourceID, &s.Name, &s.SourceKind, &s.VerifierKind, &s.SupportsNoSkill, &limits, &s.CaseCount,
		&s.Kind, &issues, &s.Version, &s.CreatedBy, store.Time(&s.CreatedAt), store.Time(&s.UpdatedAt),
	}, further...)...)
	if err != nil {
		return s, err
	}
	if limits != nil {
		s.ResourceLimits = json.RawMessage(*limits)
	}
	return s, json.Unmarshal([]byte(issues), &s.Issues)
}

// scanDocument scans a suite with its cases, unparsed.
func scanDocument(row store.Row) (Suite, error) {
	var cases string
	s, err := scanSuite(row, &cases)
	s.Document = json.RawMessage(cases)
	return s, err
}

// scanCases scans a suite and parses its cases.
func scanCases(row store.Row) (s Suite, err error) {
	if s, err = scanDocument(row); err != nil {
		return s, err
	}
	s.Cases, err = ParseCases(s.Document, s.VerifierKind)
	return s, err
}

// insertSuite stores a new suite. Parameters follow the order of suiteColumns.
func insertSuite(ctx context.Context, tx *store.Tx, s Suite) error {
	issues, err := json.Marshal(s.Issues)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO eval_suites (`+suiteColumns+`, cases)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		s.ID, s.OrgID, s.SourceID, s.Name, s.SourceKind, s.VerifierKind, s.SupportsNoSkill, limitsText(s), s.CaseCount, s.Kind,
		string(issues), s.Version, s.CreatedBy, store.Micros(s.CreatedAt), store.Micros(s.UpdatedAt), string(s.Document))
	return err
}

func updateSuite(ctx context.Context, tx *store.Tx, s Suite) error {
	issues, err := json.Marshal(s.Issues)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE eval_suites SET name = $3, verifier_kind = $4, supports_no_skill = $5, resource_limits = $6, case_count = $7,
			kind = $8, issues = $9, version = $10, updated_at = $11, cases = $12
		WHERE org_id = $1 AND id = $2`,
		s.OrgID, s.ID, s.Name, s.VerifierKind, s.SupportsNoSkill, limitsText(s), s.CaseCount, s.Kind, string(issues), s.Version,
		store.Micros(s.UpdatedAt), string(s.Document))
	return err
}

func limitsText(s Suite) *string {
	if s.ResourceLimits == nil {
		return nil
	}
	text := string(s.ResourceLimits)
	return &text
}

func deleteSuite(ctx context.Context, tx *store.Tx, s Suite) error {
	_, err := tx.Exec(ctx, `DELETE FROM eval_suites WHERE org_id = $1 AND id = $2`, s.OrgID, s.ID)
	return err
}

// suiteByID returns a suite with its cases. lock is "" or a locking clause.
func suiteByID(ctx context.Context, q store.Querier, orgID, id, lock string) (Suite, error) {
	rows, err := q.Query(ctx, `SELECT `+suiteColumns+`, cases FROM eval_suites WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	return store.One(rows, err, "Eval suite", scanCases)
}

// Names returns the names of suites by id.
func Names(ctx context.Context, q store.Querier, ids []string) (map[string]string, error) {
	in, list := q.Dialect().In("$1", ids)
	rows, err := q.Query(ctx, `SELECT id, name FROM eval_suites WHERE id`+in, list)
	names := map[string]string{}
	err = store.Each(rows, err, func(row store.Row) error {
		var id, name string
		err := row.Scan(&id, &name)
		names[id] = name
		return err
	})
	return names, err
}

func suiteExists(ctx context.Context, q store.Querier, orgID, id, lock string) error {
	rows, err := q.Query(ctx, `SELECT id FROM eval_suites WHERE org_id = $1 AND id = $2`+lock, orgID, id)
	_, err = store.One(rows, err, "Eval suite", store.Value[string])
	return err
}

var listed = store.List[Suite]{
	Columns: suiteColumns, Order: `id DESC`, Scan: scanSuiteOnly,
	From: `FROM eval_suites
		WHERE org_id = $1 AND (source_id = $2 OR $2 = '') AND (verifier_kind = $3 OR $3 = '')
			AND ($4 = '' OR lower(name) LIKE lower($4) ESCAPE '\')`,
	Sorts: store.Sorting{"name": "lower(name)", "verifier": "verifier_kind", "cases": "case_count", "created_at": "created_at"},
}

func (f Filter) args(orgID string) []any {
	return []any{orgID, f.SourceID, f.VerifierKind, store.Like(f.Search)}
}

// documentBytes returns the size of the cases of a list, which neither database reads
// for that.
func documentBytes(ctx context.Context, q store.Querier, orgID string, f Filter) (int64, error) {
	rows, err := q.Query(ctx, `
		SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM (SELECT OCTET_LENGTH(cases) AS bytes
			`+listed.From+listed.Sorts.By(f.Sort, listed.Order)+` LIMIT $5 OFFSET $6) AS page`,
		append(f.args(orgID), f.Limit, f.Offset)...)
	return store.One(rows, err, "Size", store.Value[int64])
}

func suitesOfOrg(ctx context.Context, q store.Querier, orgID string, f Filter) ([]Suite, int, error) {
	list := listed
	if f.WithCases {
		list.Columns, list.Scan = suiteColumns+`, cases`, scanDocument
	}
	return list.Page(ctx, q, f.Page, f.args(orgID)...)
}

// OfSource returns the suites of a source, oldest first, with id, name and verifier
// only.
func (s *Service) OfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]Suite, error) {
	rows, err := q.Query(ctx, `
		SELECT id, name, verifier_kind FROM eval_suites WHERE org_id = $1 AND source_id = $2 ORDER BY id`, orgID, sourceID)
	return store.All(rows, err, func(row store.Row) (s Suite, err error) {
		err = row.Scan(&s.ID, &s.Name, &s.VerifierKind)
		return s, err
	})
}

// NewestFor returns the id of the newest suite that takes trigger queries and belongs to
// one of the sources, or to none and has the name.
func (s *Service) NewestFor(ctx context.Context, q store.Querier, orgID string, sourceIDs []string, name string) (string, error) {
	in, list := q.Dialect().In("$3", sourceIDs)
	rows, err := q.Query(ctx, `
		SELECT id FROM eval_suites
		WHERE org_id = $1 AND verifier_kind = $2 AND (source_id`+in+` OR source_id IS NULL AND name = $4)
		ORDER BY id DESC LIMIT 1`, orgID, LLMJudge, list, name)
	return store.One(rows, err, "Eval suite", store.Value[string])
}

func documentsOfSource(ctx context.Context, q store.Querier, orgID, sourceID string) ([]string, error) {
	rows, err := q.Query(ctx, `SELECT cases FROM eval_suites WHERE org_id = $1 AND source_id = $2 ORDER BY id`, orgID, sourceID)
	return store.All(rows, err, store.Value[string])
}

// environmentsOf returns the sizes of the environments that a suite refers to, by blob
// key.
func environmentsOf(ctx context.Context, q store.Querier, suiteID string) (map[string]int64, error) {
	rows, err := q.Query(ctx, `SELECT key, bytes FROM eval_environments WHERE suite_id = $1`, suiteID)
	return sizesByKey(rows, err)
}

func insertEnvironments(ctx context.Context, tx *store.Tx, suiteID string, sizes map[string]int64) error {
	keys := slices.Sorted(maps.Keys(sizes))
	if len(keys) == 0 {
		return nil
	}
	suites, bytes := slices.Repeat([]string{suiteID}, len(keys)), make([]int64, len(keys))
	for i, key := range keys {
		bytes[i] = sizes[key]
	}
	_, err := store.Bulk{Table: "eval_environments", Columns: []store.Column{
		store.Col("suite_id", suites), store.Col("key", keys), store.Col("bytes", bytes),
	}}.Insert(ctx, tx)
	return err
}

// fillSizes sets the sizes of environments that were unknown when a suite first
// referred to them, and returns their sum.
func fillSizes(ctx context.Context, tx *store.Tx, keys []string) (total int64, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	in, list := tx.Dialect().In("$1", keys)
	rows, err := tx.Query(ctx, `
		UPDATE eval_environments SET bytes = known.bytes
		FROM (SELECT key, MAX(bytes) AS bytes FROM eval_environments WHERE key`+in+` GROUP BY key) AS known
		WHERE eval_environments.key = known.key AND eval_environments.bytes = 0 AND known.bytes > 0
		RETURNING eval_environments.bytes`, list)
	filled, err := store.All(rows, err, store.Value[int64])
	for _, size := range filled {
		total += size
	}
	return total, err
}

// deleteEnvironments deletes the references of a suite, and returns the sizes of
// the environments by blob key.
func deleteEnvironments(ctx context.Context, tx *store.Tx, suiteID string) (map[string]int64, error) {
	rows, err := tx.Query(ctx, `DELETE FROM eval_environments WHERE suite_id = $1 RETURNING key, bytes`, suiteID)
	return sizesByKey(rows, err)
}

// knownSizes returns the sizes that some suite has stored already, by blob key.
func knownSizes(ctx context.Context, q store.Querier, keys []string) (map[string]int64, error) {
	in, list := q.Dialect().In("$1", keys)
	rows, err := q.Query(ctx, `SELECT key, MAX(bytes) FROM eval_environments WHERE bytes > 0 AND key`+in+` GROUP BY key`, list)
	return sizesByKey(rows, err)
}

func sizesByKey(rows store.Rows, err error) (map[string]int64, error) {
	sizes := map[string]int64{}
	err = store.Each(rows, err, func(row store.Row) error {
		var key string
		var size int64
		err := row.Scan(&key, &size)
		sizes[key] = size
		return err
	})
	return sizes, err
}

// Stored is the query that recounts the organisations' bytes for the quota. An
// environment counts once for every suite that refers to it.
func Stored() quota.Count {
	return quota.Count{Kind: quota.Evals, SQL: `
		SELECT s.org_id, CAST(SUM(e.bytes) AS BIGINT) AS bytes
		FROM eval_environments e JOIN eval_suites s ON s.id = e.suite_id GROUP BY s.org_id`}
}

// referencedEnvironments returns which of the keys a suite refers to. It tells the
// sweep what is alive.
func referencedEnvironments(ctx context.Context, q store.Querier, keys []string) ([]string, error) {
	in, list := q.Dialect().In("$1", keys)
	rows, err := q.Query(ctx, `SELECT DISTINCT key FROM eval_environments WHERE key`+in, list)
	return store.All(rows, err, store.Value[string])
}

// References calls fn with the blob of every environment that a suite refers to.
func (s *Service) References(ctx context.Context, q store.Querier, fn func(blob.Ref) error) error {
	rows, err := q.Query(ctx, `SELECT DISTINCT key FROM eval_environments`)
	return store.Each(rows, err, func(row store.Row) error {
		key, err := store.Value[string](row)
		if err != nil {
			return err
		}
		ref := blob.Ref{Key: key}
		if name := path.Base(key); isEnvironmentName(name) {
			ref.SHA256 = strings.TrimSuffix(name, ".tar.gz")
		}
		return fn(ref)
	})
}
