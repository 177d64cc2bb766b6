// Package community stores the contribution bundles that users of a skill send
// to its creator, and reports them to the creator. It owns the table
// community_bundles.
package community

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/text"
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

// A Summary is the part of a bundle that is stored in columns, for queries.
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
	PositiveQueries   []any     `json:"positive_queries"`
	EvalEntries       []any     `json:"eval_entries"`
	SessionMetrics    struct {
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
	var issues []fault.Issue
	if uuid.Validate(n.CreatorID) != nil {
		issues = append(issues, fault.At("creator_id", "creator_id must be a UUID"))
	}
	if strings.TrimSpace(n.SkillName) == "" {
		issues = append(issues, fault.At("skill_name", "skill_name must not be blank"))
	} else if utf8.RuneCountInString(n.SkillName) > maxSkillName {
		issues = append(issues, fault.At("skill_name", "skill_name must have at most %d characters", maxSkillName))
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// read validates the bundle and extracts its summary.
func (n New) read(secret []byte) (s Submission, err error) {
	document, err := decodeBundle(n.Bundle)
	if err != nil {
		return s, err
	}
	// Marshalling sorts the keys and drops white space, which makes the digest
	// independent of both.
	canonical, err := json.Marshal(document)
	if err != nil {
		return s, err
	}
	var w wireBundle
	if err := json.Unmarshal(canonical, &w); err != nil {
		return s, err
	}
	truncateQueries(document)
	truncated, err := json.Marshal(document)
	creator, name := strings.ToLower(n.CreatorID), strings.TrimSpace(n.SkillName)
	digest := sha256.Sum256([]byte(strings.Join([]string{creator, name, string(canonical)}, "\x00")))
	return Submission{
		OrgID: n.OrgID, CreatorID: creator, SkillName: name, Digest: hex.EncodeToString(digest[:]),
		ContributorHash: contributorHash(secret, w.ContributorID), Bundle: string(truncated),
		Summary: Summary{
			SchemaVersion: w.SchemaVersion, ToolVersion: w.ToolVersion, AgentType: w.AgentType,
			SanitizationLevel: w.SanitizationLevel, PositiveQueries: int64(len(w.PositiveQueries)),
			EvalEntries: int64(len(w.EvalEntries)), TotalSessions: int64(w.SessionMetrics.TotalSessions),
			GradedSessions: int64(w.GradingSummary.GradedSessions), AveragePassRate: w.GradingSummary.AveragePassRate,
			DeployedProposals: int64(w.EvolutionSummary.DeployedProposals), CreatedAt: w.CreatedAt.UTC(),
		},
	}, err
}

// contributorHash is the pseudonym by which a creator sees a contributor: an
// HMAC, so that it cannot be matched with a list of ids.
func contributorHash(secret []byte, id string) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(strings.ToLower(id))) // never fails
	return hex.EncodeToString(mac.Sum(nil))[:12]
}

// maxQuery is how much of a user's query is stored, in characters.
const maxQuery = 500

// truncateQueries truncates the queries of a validated bundle.
func truncateQueries(document map[string]any) {
	for _, field := range []string{"positive_queries", "eval_entries", "unmatched_queries"} {
		list, _ := document[field].([]any)
		for _, element := range list {
			entry, _ := element.(map[string]any)
			if query, ok := entry["query"].(string); ok {
				entry["query"] = text.TruncateRunes(query, maxQuery)
			}
		}
	}
}
