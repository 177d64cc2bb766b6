// Package community stores the contribution bundles that users of a skill send
// to its creator, and reports them to the creator. It owns the table
// community_bundles.
package community

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// A Submission is a bundle that a contributor has sent to a creator.
type Submission struct {
	ID              string
	OrgID           string // of the sender
	CreatorID       string
	SkillName       string
	Digest          string // of creator, skill and bundle: for dedup
	ContributorHash string
	Summary         Summary
	Bundle          string // JSON
	SubmittedAt     time.Time
}

// A Summary is the part of a bundle that is stored in columns, for queries. The bundle itself is
// only read as a whole, by its creator.
type Summary struct {
	SchemaVersion     string
	ToolVersion       *string
	AgentType         string
	SanitizationLevel string
	PositiveQueries   int64
	EvalEntries       int64
	TotalSessions     int64
	GradedSessions    int64
	AveragePassRate   *float64
	DeployedProposals int64
	CreatedAt         time.Time
}

// wireBundle is the part of a validated bundle that the summary is made of.
type wireBundle struct {
	SchemaVersion     string    `json:"schema_version"`
	ContributorID     string    `json:"contributor_id"`
	CreatedAt         time.Time `json:"created_at"`
	ToolVersion       *string   `json:"tool_version"`
	AgentType         string    `json:"agent_type"`
	SanitizationLevel string    `json:"sanitization_level"`
	// The counts are numbers in the schema, not integers: producers in JavaScript may send 3.0.
	SessionMetrics struct {
		TotalSessions float64 `json:"total_sessions"`
	} `json:"session_metrics"`
	GradingSummary struct {
		GradedSessions  float64  `json:"graded_sessions"`
		AveragePassRate *float64 `json:"average_pass_rate"`
	} `json:"grading_summary"`
	EvolutionSummary struct {
		DeployedProposals float64 `json:"deployed_proposals"`
	} `json:"evolution_summary"`
}

// New describes a submission to be stored.
type New struct {
	OrgID     string
	CreatorID string
	SkillName string
	Bundle    json.RawMessage
}

// maxSkillName is the longest name of a skill, in characters.
const maxSkillName = skills.MaxName

// Check validates the fields around the bundle; Submit validates the bundle
// itself with its JSON Schema.
func (n New) Check() error {
	if len(n.Bundle) > maxBundle {
		return fault.New(fault.TooLarge, "The bundle is over the limit of 8 MiB")
	}
	var issues []fault.Issue
	switch {
	case n.CreatorID == "":
		issues = append(issues, fault.At("creator_id", "creator_id is required"))
	case uuid.Validate(n.CreatorID) != nil:
		issues = append(issues, fault.At("creator_id", "creator_id must be a UUID"))
	}
	switch {
	case n.SkillName == "":
		issues = append(issues, fault.At("skill_name", "skill_name is required"))
	case strings.TrimSpace(n.SkillName) == "":
		issues = append(issues, fault.At("skill_name", "skill_name must not be blank"))
	case utf8.RuneCountInString(n.SkillName) > maxSkillName:
		issues = append(issues, fault.At("skill_name", "skill_name must have at most %d characters", maxSkillName))
	}
	if len(n.Bundle) == 0 {
		issues = append(issues, fault.At("bundle", "bundle is required"))
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// read validates the bundle and extracts its summary. The digest is of the whole bundle, before its
// queries are truncated: the same bundle that is sent again is a duplicate even if maxQuery
// changes.
func (n New) read(secret []byte) (s Submission, err error) {
	document, err := decodeBundle(n.Bundle)
	if err != nil {
		return s, err
	}
	canonical, err := encode(document)
	if err != nil {
		return s, err
	}
	var w wireBundle
	if err := json.Unmarshal(canonical, &w); err != nil {
		return s, err
	}
	creator, name := strings.ToLower(n.CreatorID), strings.TrimSpace(n.SkillName)
	kept := canonical
	if truncateQueries(document) {
		if kept, err = encode(document); err != nil {
			return s, err
		}
	}
	// The counts are those of the lists, not those that the producer states.
	queries, _ := document["positive_queries"].([]any) // the schema requires lists
	entries, _ := document["eval_entries"].([]any)
	return Submission{
		OrgID: n.OrgID, CreatorID: creator, SkillName: name, Digest: digestOf(creator, name, canonical),
		ContributorHash: contributorHash(secret, w.ContributorID), Bundle: string(kept),
		Summary: Summary{
			SchemaVersion: w.SchemaVersion, ToolVersion: w.ToolVersion, AgentType: w.AgentType,
			SanitizationLevel: w.SanitizationLevel, PositiveQueries: int64(len(queries)),
			EvalEntries: int64(len(entries)), TotalSessions: int64(w.SessionMetrics.TotalSessions),
			GradedSessions: int64(w.GradingSummary.GradedSessions), AveragePassRate: w.GradingSummary.AveragePassRate,
			DeployedProposals: int64(w.EvolutionSummary.DeployedProposals), CreatedAt: w.CreatedAt.UTC(),
		},
	}, nil
}

// encode sorts the keys and drops white space, which makes the digest independent
// of both. Unlike json.Marshal it leaves <, > and & as they are: escaped, a bundle
// would take up to six times its size.
func encode(document map[string]any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(document)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}

// digestOf identifies a bundle for a creator and a skill. It is of the HTML-escaped
// text, because that is how the digests of stored bundles were computed.
func digestOf(creator, skill string, canonical []byte) string {
	digest := sha256.New()
	_, _ = io.WriteString(digest, creator+"\x00"+skill+"\x00") // a hash takes everything
	var escaped bytes.Buffer
	for part := range slices.Chunk(canonical, 64<<10) {
		escaped.Reset()
		json.HTMLEscape(&escaped, part)
		_, _ = escaped.WriteTo(digest)
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// contributorHash is the pseudonym by which a creator sees a contributor: an
// HMAC, so that it cannot be matched with a list of ids. Twelve hex digits (48 bits) are enough to
// tell a creator's contributors apart.
func contributorHash(secret []byte, id string) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(strings.ToLower(id))) // never fails
	return hex.EncodeToString(mac.Sum(nil))[:12]
}

// maxQuery is how much of a user's query is stored, in characters. Long queries are pasted
// documents, which say little about a trigger and may hold personal data.
const maxQuery = 500

// truncateQueries truncates the queries of a validated bundle, and reports
// whether any was too long.
func truncateQueries(document map[string]any) (truncated bool) {
	for _, field := range []string{"positive_queries", "eval_entries", "unmatched_queries"} {
		list, _ := document[field].([]any)
		for _, element := range list {
			entry, _ := element.(map[string]any)
			query, _ := entry["query"].(string)
			if short := text.TruncateRunes(query, maxQuery); short != query {
				entry["query"], truncated = short, true
			}
		}
	}
	return truncated
}
