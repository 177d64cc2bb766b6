package sessions

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/observe/costs"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Service keeps sessions.
type Service struct {
	DB       *store.DB
	Skills   *skills.Service
	Costs    *costs.Service
	Registry *registry.Service

	// They may be nil.
	Grades     Grades
	Content    Content
	Trials     Trials
	OnReported OnReported
}

// ToolErrors is an outcome to filter by: sessions in which a tool call failed.
const ToolErrors Outcome = "tool_errors"

// A Filter selects sessions; a zero field selects all.
type Filter struct {
	// Skill is the id or name of a skill that the session saw: it was offered,
	// considered or activated. Outcome and Graded are then those of the skill.
	Skill     string
	SkillID   string // of Skill; List looks it up
	Activated *bool  // whether Skill was activated
	// Version is the id of a version that was activated, or with Skill its name.
	Version      string
	VersionID    string // of Version; List looks it up
	Outcome      Outcome
	Graded       *bool
	Agent        string
	UserID       string
	Since, Until *time.Time // of the start; Until is exclusive
	Cursor       string     // the next cursor of the page before
	Limit        int

	after       *position // of Cursor
	maxCompared int
}

// maxCompared is how many sessions one page is looked for in, if no index has all
// conditions of the filter. Without this limit, a page of a rare combination, e.g. of
// an agent and an outcome, would read every session of the organisation.
const maxCompared = 500

// List returns at most Limit sessions of the caller's organisation, newest first,
// and the cursor of the next page, "" at the end. A page may have fewer sessions, or
// none, although more follow: see maxCompared. A skill that does not exist is
// fault.NotFound.
func (s *Service) List(ctx context.Context, c access.Caller, f Filter) (_ []Session, next string, err error) {
	defer fault.Wrap(&err, "sessions")
	// Resolve "me", and refuse what the caller may not see: whose session it is, admins
	// only.
	if f.UserID == "me" {
		f.UserID = c.UserID
	}
	// The list itself shows no names: everyone may see sessions, only admins whose
	// they are.
	if f.UserID != "" && f.UserID != c.UserID && !c.May(access.Admin) {
		return nil, "", fault.New(fault.Denied, "The sessions of another user need the permission %s", access.Admin)
	}
	if f.Activated != nil && f.Skill == "" {
		return nil, "", fault.Invalid("activated", "activated needs skill")
	}
	if f.Cursor != "" {
		if f.after, err = parsePosition(f.Cursor); err != nil {
			return nil, "", err
		}
	}
	if err := s.resolve(ctx, c.OrgID, &f); err != nil {
		return nil, "", err
	}
	// A field of the filter, so that tests can lower it.
	f.maxCompared = maxCompared
	all, last, err := listSessions(ctx, s.DB, c.OrgID, f)
	if err != nil {
		return nil, "", err
	}
	if last != nil {
		next = last.String()
	}
	return all, next, s.complete(ctx, c.OrgID, all)
}

// resolve looks up the skill and the version of a filter. A version that is no name
// of the skill's is taken for an id, which may match nothing.
func (s *Service) resolve(ctx context.Context, orgID string, f *Filter) error {
	f.VersionID = f.Version
	if f.Skill == "" {
		return nil
	}
	k, err := s.Skills.Get(ctx, orgID, f.Skill)
	if err != nil || f.Version == "" {
		f.SkillID = k.ID
		return err
	}
	f.SkillID = k.ID
	timelines, err := registry.History{}.Timelines(ctx, s.DB, []string{k.ID})
	if id, ok := timelines[k.ID].ByName[f.Version]; ok {
		f.VersionID = id
	}
	return err
}

// complete adds the skills and the costs of sessions, and whether they have content.
// It takes one query per kind for the whole page, not one per session.
func (s *Service) complete(ctx context.Context, orgID string, all []Session) error {
	if err := s.addSkills(ctx, all); err != nil {
		return err
	}
	ids := columnsOf(all, func(s Session) string { return s.ID })
	known, err := s.Costs.OfSessions(ctx, orgID, ids)
	if err != nil {
		return err
	}
	var kept map[string]bool
	if s.Content != nil {
		kept, err = s.Content.Has(ctx, orgID, ids)
	}
	for i, one := range all {
		if micros, ok := known[one.ID]; ok {
			all[i].Micros = &micros
		}
		all[i].HasContent = kept[one.ID]
	}
	return err
}

// addSkills adds the skills of sessions: activated ones first, then by name.
func (s *Service) addSkills(ctx context.Context, all []Session) error {
	bySession := map[string]*Session{}
	for i := range all {
		bySession[all[i].ID] = &all[i]
	}
	found, err := skillsOfSessions(ctx, s.DB, columnsOf(all, func(s Session) string { return s.ID }))
	if err != nil || len(found) == 0 {
		return err
	}
	names, err := skills.Names(ctx, s.DB, columnsOf(found, func(k Skill) string { return k.SkillID }))
	if err != nil {
		return err
	}
	var versionIDs []string
	for _, k := range found {
		if k.VersionID != nil {
			versionIDs = append(versionIDs, *k.VersionID)
		}
	}
	versions, err := s.Registry.VersionNames(ctx, versionIDs)
	if err != nil {
		return err
	}
	for _, k := range found {
		if k.VersionID != nil {
			k.Version = versions[*k.VersionID]
		}
		k.Name = names[k.SkillID]
		of := bySession[k.SessionID]
		of.Skills = append(of.Skills, k)
	}
	for i := range all {
		slices.SortFunc(all[i].Skills, func(a, b Skill) int {
			if a.Activated != b.Activated {
				return map[bool]int{true: -1, false: 1}[a.Activated]
			}
			return strings.Compare(a.Name, b.Name)
		})
	}
	return nil
}

// A Detail is a session with a page of its events and all of its grades.
type Detail struct {
	Session
	Steps  []Step  // a page, oldest first
	Next   string  // cursor of the next page of events, "" at the end
	Grades []Grade // oldest first
}

// Get returns a session of the caller's organisation by the agent's own id, with at
// most limit events after the cursor, oldest first. If two people have a session
// with the same id, it is the caller's.
func (s *Service) Get(ctx context.Context, c access.Caller, sessionID, cursor string, limit int) (d Detail, err error) {
	defer fault.Wrap(&err, "session")
	var after position
	if cursor != "" {
		p, err := parsePosition(cursor)
		if err != nil {
			return d, err
		}
		after = *p
	}
	one, err := sessionOf(ctx, s.DB, c.OrgID, c.UserID, sessionID)
	if err != nil {
		return d, err
	}
	all := []Session{one}
	if err := s.complete(ctx, c.OrgID, all); err != nil {
		return d, err
	}
	d.Session = all[0]
	if d.Grades, err = s.gradesOf(ctx, c, d.Session); err != nil {
		return d, err
	}
	// Some agents report a prompt twice: with its text by one signal, without by
	// another.
	except := Kind("")
	if one.Turns > 0 {
		except = UnnamedPrompt // they are the same ones
	}
	// One more than the page from each source: whichever they come from, cut then
	// knows whether another page follows.
	events, err := eventsAfter(ctx, s.DB, one.ID, after, except, limit+1)
	if err != nil {
		return d, err
	}
	d.Steps = columnsOf(events, event.step)
	responses, err := s.Costs.RequestsAfter(ctx, one.ID, time.UnixMicro(after.micros), after.id, limit+1)
	if err != nil {
		return d, err
	}
	for _, r := range responses {
		tokens := r.Tokens.Input + r.Tokens.Output + r.Tokens.CacheRead + r.Tokens.CacheWrite
		d.Steps = append(d.Steps, Step{
			ID: r.ID, Kind: Response, At: r.At, Name: cleanName(r.Model), Tokens: &tokens, Micros: r.Micros,
		})
	}
	for _, g := range d.Grades { // which are stored by skills
		ok := outcomeOf(&g.PassRate) == Passed
		step := Step{ID: g.ID, Kind: Graded, At: g.At, Name: d.SkillName(g.SkillID), OK: &ok}
		if step.after(after) {
			d.Steps = append(d.Steps, step)
		}
	}
	slices.SortFunc(d.Steps, func(a, b Step) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	d.cut(limit)
	return d, s.addTexts(ctx, c, &d)
}

// cut makes the first events the page. The cursor is the last event shown, so that
// events which arrive late, before it, do not shift the next page.
func (d *Detail) cut(limit int) {
	if len(d.Steps) > limit {
		d.Steps = d.Steps[:limit]
		last := d.Steps[limit-1]
		d.Next = position{store.Micros(last.At), last.ID}.String()
	}
}

// Page returns a session that has all of its events with those after the cursor, as
// Get does. Trials are read as a whole and paged here.
func Page(d Detail, cursor string, limit int) (Detail, error) {
	if cursor != "" {
		after, err := parsePosition(cursor)
		if err != nil {
			return d, err
		}
		first := slices.IndexFunc(d.Steps, func(e Step) bool { return e.after(*after) })
		if first < 0 {
			first = len(d.Steps)
		}
		d.Steps = d.Steps[first:]
	}
	d.cut(limit)
	return d, nil
}

// Open is Get, which also opens trials of eval runs. A real session wins over a
// trial of the same id; without Trials it is Get.
func (s *Service) Open(ctx context.Context, c access.Caller, sessionID, cursor string, limit int) (Detail, error) {
	d, err := s.Get(ctx, c, sessionID, cursor, limit)
	if s.Trials == nil || !fault.Is(err, fault.NotFound) {
		return d, err
	}
	if d, err = s.Trials.Session(ctx, c.OrgID, sessionID); err != nil {
		return d, err
	}
	return Page(d, cursor, limit)
}

// addTexts adds the text of events, if it is kept and the caller may read it. The
// content service decides who may read: an empty answer is not an error.
func (s *Service) addTexts(ctx context.Context, c access.Caller, d *Detail) error {
	if !d.HasContent {
		return nil
	}
	texts, err := s.Content.Texts(ctx, c, d.Session, columnsOf(d.Steps, func(e Step) string { return e.ID }))
	for i, e := range d.Steps {
		if text, ok := texts[e.ID]; ok {
			d.Steps[i].Text = &text
		}
	}
	return err
}

// gradesOf returns the grades of a session, oldest first. The figures come from
// skills; the judge's reasons are added by the hook, if any.
func (s *Service) gradesOf(ctx context.Context, c access.Caller, one Session) ([]Grade, error) {
	var of []skills.Session
	for _, k := range one.Skills {
		if k.PassRate != nil {
			of = append(of, skills.Session{SkillID: k.SkillID, Hash: one.ID})
		}
	}
	found, err := skills.SessionGradings(ctx, s.DB, of)
	grades := columnsOf(found, func(g skills.SessionGrading) Grade {
		return Grade{ID: g.ID, SkillID: g.SkillID, PassRate: g.PassRate, Basis: g.Basis, At: g.At}
	})
	slices.SortFunc(grades, func(a, b Grade) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID)) })
	if err != nil || s.Grades == nil || len(grades) == 0 {
		return grades, err
	}
	return grades, s.Grades.Explain(ctx, c, one, grades)
}

// SkillName returns the name of a skill of the session.
func (s Session) SkillName(skillID string) string {
	for _, k := range s.Skills {
		if k.SkillID == skillID {
			return k.Name
		}
	}
	return ""
}

// after reports whether the step belongs behind a cursor.
func (e Step) after(p position) bool { return position{store.Micros(e.At), e.ID}.compare(p) > 0 }

func (s Session) position() position { return position{store.Micros(s.StartedAt), s.ID} }

// A position is where a page of a list that is sorted by time and id begins: the
// keyset cursor.
type position struct {
	micros int64
	id     string
}

// compare orders positions by time, then by id, as the indexes of the lists do.
func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.micros, q.micros), strings.Compare(p.id, q.id))
}

// String returns the opaque form. Clients must not build cursors, so the form may
// change at any time.
func (p position) String() string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(p.micros, 10) + " " + p.id))
}

// parsePosition reads a cursor. The id goes into SQL as an argument; its shape is
// checked to refuse garbage early.
func parsePosition(cursor string) (*position, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	at, id, found := strings.Cut(string(raw), " ")
	micros, parseErr := strconv.ParseInt(at, 10, 64)
	if err != nil || parseErr != nil || !found || !idShape.MatchString(id) {
		return nil, fault.Invalid("cursor", "cursor must be the next_cursor of an earlier answer")
	}
	return &position{micros, id}, nil
}

// Erase deletes all sessions of a user. What skills and costs have counted stays.
func (s *Service) Erase(ctx context.Context, tx *store.Tx, userID string) error {
	if s.Grades != nil {
		if err := s.Grades.Erase(ctx, tx, userID); err != nil {
			return err
		}
	}
	return deleteSessions(ctx, tx, `user_id = $1`, userID)
}

// expireChunk is how many sessions one transaction deletes: each may have
// thousands of events, and SQLite has one writer.
const expireChunk = 100

// Expire deletes the sessions of which nothing was reported since a time. A chunk is
// deleted with all that depends on it, so a crash leaves whole sessions.
func (s *Service) Expire(ctx context.Context, before time.Time) (err error) {
	defer fault.Wrap(&err, "expire sessions")
	for more := true; more; {
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			ids, err := expiredSessions(ctx, tx, before, expireChunk)
			if more = len(ids) == expireChunk; err != nil || len(ids) == 0 {
				return err
			}
			if s.Grades != nil {
				if err := s.Grades.Forget(ctx, tx, ids); err != nil {
					return err
				}
			}
			if s.Content != nil {
				if err := s.Content.Forget(ctx, tx, ids); err != nil {
					return err
				}
			}
			in, list := tx.Dialect().In("$1", ids)
			return deleteSessions(ctx, tx, `id`+in, list)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
