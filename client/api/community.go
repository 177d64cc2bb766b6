package api

import "encoding/json"

// NewBundle is a contribution bundle about a skill.
type NewBundle struct {
	CreatorID string          `json:"creator_id" format:"uuid" doc:"The user whom the bundle is for, perhaps one who has not joined yet"`
	SkillName string          `json:"skill_name" minLength:"1" maxLength:"200"`
	Bundle    json.RawMessage `json:"bundle" doc:"See /api/v1/community/bundles/schema"`
}

// A BundleCount is the number of bundles about a skill.
type BundleCount struct {
	SkillName        string `json:"skill_name"`
	SubmissionCount  int    `json:"submission_count"`
	ContributorCount int    `json:"contributor_count"`
	LatestSubmission Time   `json:"latest_submission"`
}

// A BundlesOverview is what has come for the caller.
type BundlesOverview struct {
	TotalSubmissions  int           `json:"total_submissions"`
	TotalSkills       int           `json:"total_skills"`
	TotalContributors int           `json:"total_contributors"`
	Skills            []BundleCount `json:"skills" nullable:"false" doc:"The newest first"`
}

// A BundlesSource says what an answer is based on.
type BundlesSource struct {
	Source      string `json:"source" enum:"community_bundle"`
	CreatorID   string `json:"creator_id" format:"uuid" doc:"The user behind the key"`
	GeneratedAt Time   `json:"generated_at"`
}

// BundlesSummary is what the bundles about a skill say.
type BundlesSummary struct {
	SkillName        string   `json:"skill_name"`
	SubmissionCount  int      `json:"submission_count"`
	ContributorCount int      `json:"contributor_count"`
	LatestSubmission Time     `json:"latest_submission"`
	TotalSessions    int64    `json:"total_sessions"`
	GradedSessions   int64    `json:"graded_sessions"`
	AveragePassRate  *float64 `json:"average_pass_rate" doc:"Weighted by graded sessions"`
	PassRateTrend    *string  `json:"pass_rate_trend" enum:"up,down,flat" doc:"The later half of the bundles beside the earlier one"`
}

// A SkillBundle is a bundle about a given skill.
type SkillBundle struct {
	SubmissionID    string `json:"submission_id" format:"uuid"`
	ContributorHash string `json:"contributor_hash" example:"0a1b2c3d4e5f"`
	SubmittedAt     Time   `json:"submitted_at"`
}

// SkillBundles are the bundles about a skill of the caller.
type SkillBundles struct {
	BundlesSource
	Skill  *BundlesSummary `json:"skill" doc:"Null if nothing has come"`
	Recent []SkillBundle   `json:"recent_submissions" nullable:"false" doc:"The newest first, 20 at most"`
}

// A Bundle is a contribution bundle that was sent to the caller.
type Bundle struct {
	SubmissionID    string `json:"submission_id" format:"uuid"`
	SkillName       string `json:"skill_name"`
	ContributorHash string `json:"contributor_hash" example:"0a1b2c3d4e5f"`
	SubmittedAt     Time   `json:"submitted_at"`
}

// RecentBundles are the newest bundles for the caller.
type RecentBundles struct {
	BundlesSource
	Submissions []Bundle `json:"submissions" nullable:"false" doc:"The newest first"`
}
