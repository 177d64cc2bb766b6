// Package grades grades sessions of skills: by people, by a judge that holds
// sessions against expectations, and by what happened in them. Pass rates are kept
// by skills, where a grade counts by its basis; what a grade rests on is kept here.
// The package owns the tables grades, grade_failures, grade_failure_labels, graders,
// grader_days, grade_queue and grade_unusable.
package grades

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/observe/sessions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// Service grades sessions.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Skills   *skills.Service
	Sessions *sessions.Service
	Costs    *costs.Service
	Registry *registry.Service
	Sources  *sources.Service
	Judge    *judge.Judge
	Seal     *seal.Keyring // encrypts what is quoted from sessions
	Log      *slog.Logger

	Counter     Counter
	Transcripts Transcripts // may be nil
}

// Reasons is what grades rest on: the words of the judge, and quotations. It needs no service, so
// that the sessions and their content, which grades need, can be given it.
type Reasons struct {
	DB   *store.DB
	Seal *seal.Keyring
	Log  *slog.Logger
}

// A Counter adds gradings to the numbers of skills, and lets everything follow that
// depends on them.
type Counter interface {
	Count(ctx context.Context, tx *store.Tx, r skills.Report) error
}

// Transcripts has the text of sessions, where the organisation keeps it.
type Transcripts interface {
	// Transcript returns a session as text for the judge, by the session's pseudonym
	// (see skills.SessionHash). It reports false if none is kept.
	Transcript(ctx context.Context, orgID, session string) (text string, ok bool, err error)
	// Hold reports whether something of the session is still kept, which does not
	// change until the transaction ends.
	Hold(ctx context.Context, tx *store.Tx, orgID, session string) (kept bool, err error)
}

// A grade is a row of grades.
type grade struct {
	id          string
	orgID       string
	userID      string // whose session it is
	sessionHash string
	skillID     string
	skillName   string
	basis       basis.Basis
	passRate    int64 // in billionths
	passed      bool  // the pass rate reaches the threshold
	gradedBy    *string
	reason      *string
	evidence    []evidence
	judge       *judge.Record // without the answer, which quotes the session
	at          time.Time
	sessionAt   time.Time // of the session's last event
	failures    []failure
}

// evidence is whether a session met an expectation. The quotation is stored
// encrypted, apart from the rest.
type evidence struct {
	Expectation string `json:"expectation"`
	Passed      bool   `json:"passed"`
	quotation   string
}

// billion scales pass rates to integers, as in the tables of skills.
const billion = 1_000_000_000

// gradeID returns the id of a grade: there is one of each origin, which is a person,
// the judge or the outcomes.
func gradeID(orgID, origin string, b basis.Basis, session, skillID string) string {
	return skills.ID(orgID, origin, "grade."+string(b), session+"\n"+skillID)
}

// record stores a grade, in place of the one that it replaces. The transaction has
// locked the user whose session it is.
func (s *Service) record(ctx context.Context, tx *store.Tx, g grade) error {
	rate := float64(g.passRate) / billion
	err := s.Counter.Count(ctx, tx, skills.Report{OrgID: g.orgID, UserID: g.userID, Gradings: []skills.Grading{{
		ID: g.id, Basis: g.basis, SkillName: g.skillName, SessionHash: g.sessionHash, PassRate: &rate,
		At: g.sessionAt, RatedAt: g.at, // old sessions that are graded now say nothing about today
	}}})
	if err != nil {
		return err
	}
	if err := upsertGrade(ctx, tx, g, s.sealed(g)); err != nil {
		return err
	}
	return replaceFailures(ctx, tx, g)
}

// withdraw takes a grade back.
func (s *Service) withdraw(ctx context.Context, tx *store.Tx, orgID, userID, id string) error {
	err := s.Counter.Count(ctx, tx, skills.Report{OrgID: orgID, UserID: userID, Withdrawn: []string{id}})
	if err != nil {
		return err
	}
	return deleteGrades(ctx, tx, `id = $1`, id)
}

// sealed returns the quotations of a grade encrypted, nil without any.
func (s *Service) sealed(g grade) *string {
	quotations, quoted := make([]string, len(g.evidence)), false
	for i, e := range g.evidence {
		quotations[i], quoted = e.quotation, quoted || e.quotation != ""
	}
	if !quoted {
		return nil
	}
	raw, err := json.Marshal(quotations)
	if err != nil {
		panic(err) // strings always marshal
	}
	text := string(s.Seal.Seal(raw, sealPlace(g.id)))
	return &text
}

func sealPlace(id string) seal.Place { return seal.Place{Table: "grades", Column: "sealed", Row: id} }

// unseal adds the quotations to the evidence of a grade.
func (r Reasons) unseal(ctx context.Context, g grade, sealed string) {
	var quotations []string
	raw, err := r.Seal.Open([]byte(sealed), sealPlace(g.id))
	if err == nil {
		err = json.Unmarshal(raw, &quotations)
	}
	if err != nil { // e.g. the key was replaced
		r.Log.WarnContext(ctx, "the quotations of a grade cannot be read", "grade", g.id, "error", err)
		return
	}
	for i := range min(len(quotations), len(g.evidence)) {
		g.evidence[i].quotation = quotations[i]
	}
}

// Reseal encrypts with the first key all quotations that another one encrypted, and
// returns their number.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	defer fault.Wrap(&err, "reseal grades")
	all, err := sealedGrades(ctx, tx)
	if err != nil {
		return 0, err
	}
	for id, sealed := range all {
		renewed, changed, err := s.Seal.Renew([]byte(sealed), sealPlace(id))
		if err != nil {
			return 0, err
		}
		if !changed {
			continue
		}
		if err := updateSealed(ctx, tx, id, string(renewed)); err != nil {
			return 0, err
		}
		count++
	}
	return count, nil
}

// Explain implements sessions.Grades.
func (r Reasons) Explain(ctx context.Context, c access.Caller, of sessions.Session, grades []sessions.Grade) error {
	known, sealed, err := gradesOfSession(ctx, r.DB, of.ID)
	for i := range grades {
		g, ok := known[grades[i].ID]
		if !ok {
			continue
		}
		// A quotation is content of the session.
		if text := sealed[g.id]; text != "" && (of.UserID == c.UserID || c.May(access.EvidenceRead)) {
			r.unseal(ctx, g, text)
		}
		g.explain(&grades[i])
	}
	return err
}

// explain fills in what a grade rests on.
func (g grade) explain(out *sessions.Grade) {
	for _, e := range g.evidence {
		out.Evidence = append(out.Evidence,
			sessions.Evidence{Expectation: e.Expectation, Passed: e.Passed, Quotation: e.quotation})
	}
	if g.judge != nil {
		out.Judge = g.judge.Model
	}
	if g.reason != nil {
		out.Reason = *g.reason
	}
	if g.gradedBy != nil {
		out.GradedBy = *g.gradedBy
	}
}

// Erase deletes what grades of a user's sessions rest on, and what the user wrote
// about those of others. The verdicts stay, as numbers.
func (r Reasons) Erase(ctx context.Context, tx *store.Tx, userID string) error {
	if err := deleteGrades(ctx, tx, `user_id = $1`, userID); err != nil {
		return err
	}
	if err := deleteGrades(ctx, tx, `graded_by = $1`, userID); err != nil {
		return err
	}
	return deleteWaiting(ctx, tx, `user_id = $1`, userID)
}

// Forget deletes what grades of sessions rest on, when the sessions are deleted.
func (r Reasons) Forget(ctx context.Context, tx *store.Tx, sessions []string) error {
	in, list := tx.Dialect().In("$1", sessions)
	if err := deleteGrades(ctx, tx, `session_hash`+in, list); err != nil {
		return err
	}
	return deleteWaiting(ctx, tx, `session_hash`+in, list)
}

// lockedNow returns a time for a grade that is later than that of the one that it
// replaces, of which the newer counts.
func lockedNow(ctx context.Context, tx *store.Tx, userID, id string) (time.Time, error) {
	if err := skills.LockUser(ctx, tx, userID); err != nil {
		return time.Time{}, err
	}
	now := store.Now()
	before, err := gradedAt(ctx, tx, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return now, nil
	case err == nil && !now.After(before):
		return before.Add(time.Microsecond), nil
	}
	return now, err
}
