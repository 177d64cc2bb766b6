package sessions

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/basis"
)

// OnReported is a hook of a report of sessions: the package grades queues them.
type OnReported interface {
	// Reported is called in the transaction that stores the report. The sessions are
	// given by their pseudonyms (see skills.SessionHash).
	Reported(ctx context.Context, tx *store.Tx, orgID string, sessions []string) error
}

// Grades knows what grades rest on. The package grades, above this one, implements it.
type Grades interface {
	// Explain fills in what grades of a session rest on, as far as the caller may
	// read it.
	Explain(ctx context.Context, c access.Caller, s Session, grades []Grade) error
	// Forget is called in the transaction that deletes sessions, and Erase in that
	// which deletes all of a user's.
	Forget(ctx context.Context, tx *store.Tx, sessions []string) error
	Erase(ctx context.Context, tx *store.Tx, userID string) error
}

// A Grade is a verdict on a session of a skill.
type Grade struct {
	ID       string
	SkillID  string
	PassRate int64 // in billionths
	Basis    basis.Basis
	Judge    string // the model; "" if it is not of a judge
	Evidence []Evidence
	Reason   string
	GradedBy string // the id of the person; "" if it is not of one
	At       time.Time
}

// Evidence is whether a session met one expectation.
type Evidence struct {
	Expectation string
	Passed      bool
	Quotation   string // "" without one
}

// Trials is a hook for the trials of eval runs. They open as sessions do, but are
// none: they are in no list and no figure, and cannot be graded.
type Trials interface {
	// Session returns all of a trial by its session id. The error is a NotFound.
	Session(ctx context.Context, orgID, id string) (Detail, error)
}

// Content stores the text of sessions. Without it no text is kept.
type Content interface {
	// Has returns which of the sessions have content, by their pseudonyms.
	Has(ctx context.Context, orgID string, sessions []string) (map[string]bool, error)
	// Texts returns the text of a session's events, by their ids (see EventID), or
	// nothing if the caller may not read it.
	Texts(ctx context.Context, c access.Caller, s Session, events []string) (map[string]string, error)
	// Forget deletes the content of sessions, with which it goes.
	Forget(ctx context.Context, tx *store.Tx, sessions []string) error
}
