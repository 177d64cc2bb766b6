// Package demo fills an empty service with example data: an organisation with twelve
// skills, three months of sessions, those of the last day with what was said in them, and
// reviews, runs and alerts. It uses the
// capabilities' operations, so that the data is what a real team would have, and a
// fixed seed, so that the figures depend on the current time only. It owns no
// tables.
package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/deliver/sets"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/members"
	"github.com/whetstone-dev/whetstone/internal/identity/auth/serviceaccounts"
	"github.com/whetstone-dev/whetstone/internal/learn/community"
	"github.com/whetstone-dev/whetstone/internal/learn/improve"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals"
	"github.com/whetstone-dev/whetstone/internal/learn/proposals/apply"
	"github.com/whetstone-dev/whetstone/internal/learn/signals"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/observe/content"
	"github.com/whetstone-dev/whetstone/internal/observe/grades"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/events"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/comparisons"
	"github.com/whetstone-dev/whetstone/internal/prove/runs"
	"github.com/whetstone-dev/whetstone/internal/prove/schedules"
	"github.com/whetstone-dev/whetstone/internal/prove/suites"
	"github.com/whetstone-dev/whetstone/internal/publish/publishers"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
	"github.com/whetstone-dev/whetstone/internal/watch/alerts"
)

// A Filler fills a service.
type Filler struct {
	Auth          *auth.Service
	Skills        *skills.Service
	Registry      *registry.Service
	Release       *release.Service
	Teams         *teams.Service
	Installations *installations.Service
	Telemetry     *telemetry.Service
	Content       *content.Service
	Grades        *grades.Service
	Sources       *sources.Service
	Suggestions   *suggestions.Service
	Suites        *suites.Service
	Runs          *runs.Service
	Comparisons   *comparisons.Service
	Schedules     *schedules.Service
	Sets          *sets.Service
	Improve       *improve.Service
	Proposals     *proposals.Service
	Apply         *apply.Service
	Gates         *gates.Service
	Accounts      *serviceaccounts.Service
	Members       *members.Service
	Publishers    *publishers.Service
	Events        *events.Service
	Alerts        *alerts.Service
	Signals       *signals.Service
	Community     *community.Service
	// Receiver is the URL of webhooks that take what alerts and events send.
	Receiver string
	// Progress is where messages about the progress are written.
	Progress io.Writer
	// Thin keeps one of every Thin sessions before the last days, which alerts judge;
	// for tests. 0 keeps all.
	Thin int
}

// filling is the state of one run of Fill.
type filling struct {
	*Filler
	now    time.Time
	random *rand.Rand
	// spending generates what does not change the sessions, see newSpending.
	spending *rand.Rand
	owner    access.Caller
	people   []access.Caller
	skills   []*published
	kept     map[string]keptSkill    // by name
	suites   map[string]suites.Suite // by the name of their skill, of those that belong to a source
}

// Fill adds the example data to the organisation of the first start. A database that
// has anything else is a fault.Conflict and stays unchanged. Data that jobs derive,
// such as suggestions and runs, appears when they have run.
func (f *Filler) Fill(ctx context.Context) (err error) {
	defer fault.Wrap(&err, "demo")
	owner, err := f.onlyOwner(ctx)
	if err != nil {
		return err
	}
	if err := f.checkEmpty(ctx, owner); err != nil {
		return err
	}
	one := &filling{
		Filler: f, now: time.Now().UTC(), random: newRandom(), spending: newSpending(), owner: owner,
		suites: map[string]suites.Suite{}, kept: read[map[string]keptSkill]("sessions.yaml"),
	}
	if f.Improve.Judge.Describe().RouteOnly { // else the organisation has a model, which writes better
		f.Improve.Judge = judge.NewRecorded(judge.Recorded{Rewrite: one.rewrite})
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"people", one.addPeople},
		{"skills and their versions", one.publish},
		{"teams and owners", one.addTeams},
		{"machines and other systems", one.connectSystems},
		{"90 days of sessions", one.pushSessions},
		{"sessions with their content and grades", one.keep},
		{"installations", one.install},
		{"sources, suites and reviews", one.addSources},
		{"runs of an agent", one.addRecordings},
		{"signals and bundles of contributors", one.contribute},
		{"improve runs and proposals", one.propose},
		{"gates and approvals", one.pushCandidates},
		{"alerts", one.addAlerts},
	} {
		fmt.Fprintf(f.Progress, "filling the demo organisation: %s\n", step.name)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// newRandom returns a generator with a fixed seed.
func newRandom() *rand.Rand { return rand.New(rand.NewPCG(12, 90)) }

// errNotEmpty also says what to do instead.
func errNotEmpty(what string) error {
	return fault.New(fault.Conflict,
		"The database is in use: it has %s. The demo fills only an empty one: "+
			"start without --demo, or use another folder with --data", what)
}

// onlyOwner returns the only user of a new installation.
func (f *Filler) onlyOwner(ctx context.Context) (access.Caller, error) {
	orgs, err := f.Auth.Orgs(ctx)
	if err != nil {
		return access.Caller{}, err
	}
	if len(orgs) != 1 || orgs[0].Name != "default" {
		return access.Caller{}, errNotEmpty("organisations of its own")
	}
	users, err := f.Auth.Users(ctx, orgs[0].ID)
	if err != nil {
		return access.Caller{}, err
	}
	if len(users) != 1 {
		return access.Caller{}, errNotEmpty(fmt.Sprintf("%d people", len(users)))
	}
	return callerOf(orgs[0], users[0]), nil
}

func callerOf(o auth.Organisation, u auth.User) access.Caller {
	return access.Caller{
		OrgID: o.ID, OrgName: o.Name, UserID: u.ID, Email: u.Email, Name: u.Name,
		Plan: o.Plan, Role: u.Role, Permissions: u.Role.Permissions(),
	}
}

// checkEmpty looks for data that the first start does not create.
func (f *Filler) checkEmpty(ctx context.Context, owner access.Caller) error {
	org, first := owner.OrgID, store.Page{Limit: 1}
	for _, check := range []struct {
		things string
		count  func() (int, error)
	}{
		{"skills", func() (int, error) { _, n, err := f.Skills.List(ctx, org, skills.Filter{Limit: 1}); return n, err }},
		{
			"registry entries",
			func() (int, error) {
				_, n, err := f.Registry.List(ctx, org, registry.Filter{Page: first})
				return n, err
			},
		},
		{"sources", func() (int, error) { all, err := f.Sources.List(ctx, org, sources.Filter{}); return len(all), err }},
		{"suites", func() (int, error) { _, n, err := f.Suites.List(ctx, org, suites.Filter{Page: first}); return n, err }},
		{"alerts", func() (int, error) { _, n, err := f.Alerts.Rules(ctx, org, first); return n, err }},
		{"skills with signals", func() (int, error) { o, err := f.Signals.Overview(ctx, org); return len(o.Skills), err }},
		{
			"community bundles",
			func() (int, error) { o, err := f.Community.Overview(ctx, owner.UserID); return o.Submissions, err },
		},
	} {
		n, err := check.count()
		if err != nil {
			return err
		}
		if n > 0 {
			return errNotEmpty(check.things)
		}
	}
	return nil
}

func (f *filling) addPeople(ctx context.Context) error {
	org := auth.Organisation{ID: f.owner.OrgID, Name: f.owner.OrgName, Plan: f.owner.Plan}
	for _, p := range []struct {
		name, email string
		role        access.Role
	}{
		{"Ada Okafor", "ada@acme.example", access.AdminRole},
		{"Bram de Vries", "bram@acme.example", access.Member},
		{"Chiara Russo", "chiara@acme.example", access.Member},
		{"Deniz Kaya", "deniz@acme.example", access.Member},
		{"Emil Lindqvist", "emil@acme.example", access.Member},
	} {
		u, err := f.Auth.CreateUser(ctx, auth.NewUser{OrgID: org.ID, Email: p.email, Name: p.name, Role: p.role})
		if err != nil {
			return err
		}
		f.people = append(f.people, callerOf(org, u))
	}
	return nil
}

// addTeams makes two teams, which own the first skills, and the set of one of them.
func (f *filling) addTeams(ctx context.Context) error {
	for i, name := range []string{"Platform", "Documents"} {
		t, err := f.Teams.Create(ctx, f.owner, name, "")
		if err != nil {
			return err
		}
		members := []string{f.people[i].UserID, f.people[i+1].UserID}
		if _, _, err := f.Teams.SetMembers(ctx, f.owner.OrgID, t.ID, members); err != nil {
			return err
		}
		if _, err := f.Teams.SetOwners(ctx, f.owner.OrgID, f.skills[i].entry.ID,
			teams.Selection{Teams: []string{t.ID}}); err != nil {
			return err
		}
		if name != "Documents" {
			continue
		}
		if _, err := f.Sets.Create(ctx, f.owner, sets.New{
			Name: "office", Description: "What everybody who writes for customers should have.",
			Entries: []sets.NewEntry{{Name: "pdf-forms"}, {Name: "invoice-reader"}, {Name: "slide-deck"}},
			Teams:   []string{t.ID}, Repositories: []string{"acme/handbook"}, Required: true,
		}); err != nil {
			return err
		}
	}
	return nil
}
