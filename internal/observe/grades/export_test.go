package grades

import "context"

// Run grades all sessions of an organisation that are due.
func (s *Service) Run(ctx context.Context, orgID string) error { return s.run(ctx, orgID) }

// StartDue does what the schedule does.
func (s *Service) StartDue(ctx context.Context) error { return s.startDue(ctx) }

// The queries, for the test of their query plans.
var (
	GradersOf       = gradersOf
	HasGrader       = hasGrader
	CountWaiting    = countWaiting
	OrgsWithDue     = orgsWithDue
	SkillsWithDue   = skillsWithDue
	DueSessions     = dueSessions
	GradedAt        = gradedAt
	EvidenceOf      = evidenceOf
	GradesOfSession = gradesOfSession
	FailureGroups   = failureGroups
	FailureExamples = failureExamples
	VerdictPairs    = verdictPairs
	CountUnusable   = countUnusable
	LabelsOf        = labelsOf
	NewestFailures  = newestFailures
)

// QueueBacklog does what the job does after a grader was enabled.
func (s *Service) QueueBacklog(ctx context.Context, orgID string) error {
	return s.queueBacklog(ctx, orgID)
}
