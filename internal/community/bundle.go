// Package community takes in what contributors share about a skill, and tells
// its creator what has come. It owns the table community_bundles.
package community

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// A Submission is a bundle that a contributor has sent to a creator.
type Submission struct {
	ID              string
	OrgID           string // of the sender
	CreatorID       string
	SkillName       string
	Digest          string
	ContributorHash string
	Summary         Summary
	Bundle          string
	SubmittedAt     time.Time
}

// A Summary is what can be asked about without reading bundles.
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

// wireBundle is what is taken out of a bundle that the schema has accepted.
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

func (w wireBundle) summary() Summary {
	return Summary{
		SchemaVersion: w.SchemaVersion, ToolVersion: w.ToolVersion, AgentType: w.AgentType, SanitizationLevel: w.SanitizationLevel,
		PositiveQueries: int64(len(w.PositiveQueries)), EvalEntries: int64(len(w.EvalEntries)),
		TotalSessions: int64(w.SessionMetrics.TotalSessions), GradedSessions: int64(w.GradingSummary.GradedSessions),
		AveragePassRate: w.GradingSummary.AveragePassRate, DeployedProposals: int64(w.EvolutionSummary.DeployedProposals),
		CreatedAt: w.CreatedAt.UTC(),
	}
}

// New describes a submission to be made.
type New struct {
	OrgID     string
	CreatorID string
	SkillName string
	Bundle    json.RawMessage
}

// read checks a submission and takes its summary out of the bundle.
func (n New) read(secret []byte) (s Submission, err error) {
	name := strings.TrimSpace(n.SkillName)
	if name == "" {
		return s, fault.Invalid("skill_name", "skill_name must not be blank")
	}
	document, err := check(n.Bundle)
	if err != nil {
		return s, err
	}
	// Encoding again sorts the keys: the same bundle is the same text.
	canonical, err := json.Marshal(document)
	if err != nil {
		return s, err
	}
	var w wireBundle
	if err := json.Unmarshal(canonical, &w); err != nil {
		return s, err
	}
	cutQueries(document)
	kept, err := json.Marshal(document)
	creator := strings.ToLower(n.CreatorID)
	return Submission{
		OrgID: n.OrgID, CreatorID: creator, SkillName: name, Digest: digest(creator, name, string(canonical)),
		ContributorHash: contributorHash(secret, w.ContributorID), Summary: w.summary(), Bundle: string(kept),
	}, err
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:])
}

// contributorHash is how creators see a contributor.
func contributorHash(secret []byte, id string) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(strings.ToLower(id))) // never fails
	return hex.EncodeToString(mac.Sum(nil))[:12]
}

// maxQuery is how much of a query is kept, in characters.
const maxQuery = 500

// cutQueries shortens the queries of a bundle that the schema has accepted.
func cutQueries(document map[string]any) {
	for _, field := range []string{"positive_queries", "eval_entries", "unmatched_queries"} {
		list, _ := document[field].([]any)
		for _, element := range list {
			entry, _ := element.(map[string]any)
			query, _ := entry["query"].(string)
			if runes := []rune(query); len(runes) > maxQuery {
				entry["query"] = string(runes[:maxQuery])
			}
		}
	}
}
