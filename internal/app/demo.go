package app

import (
	"context"
	"io"

	"github.com/whetstone-dev/whetstone/internal/app/demo"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// FillDemo fills an empty database with a demo organisation, and writes its progress
// to progress. It is called before Run; after an error the App is closed. A database that isn't
// empty is refused by the filler.
func (a *App) FillDemo(ctx context.Context, progress io.Writer) error {
	filler, err := a.demo(ctx, progress)
	if err == nil {
		err = filler.Fill(audit.By(ctx, audit.CLI))
	}
	if err != nil {
		a.close(a.parts.db)
	}
	return err
}

// demo returns the filler, and sets up the channel of the demo's alerts and events: a
// receiver in this process, for as long as it runs.
func (a *App) demo(ctx context.Context, progress io.Writer) (_ *demo.Filler, err error) {
	p := a.parts
	if a.receiver, err = demo.Listen(ctx); err != nil {
		return nil, err
	}
	targets, err := outbound.New(a.receiver.Allow(outbound.Options{
		AllowPrivate: a.config.AllowPrivateTargets, Peer: p.outbound.To("webhook"),
	}))
	if err != nil {
		return nil, err
	}
	p.sender.Use(targets)
	return &demo.Filler{
		Auth: p.auth, Skills: p.skills, Registry: p.registry, Release: p.release, Teams: p.teams, Installations: p.installations,
		Telemetry: p.telemetry, Content: p.evidence, Grades: p.grades, Receiver: a.receiver.URL(), Sources: p.sources, Suggestions: p.suggestions,
		Suites: p.suites, Runs: p.runs, Comparisons: p.comparisons, Schedules: p.schedules, Sets: p.sets,
		Improve: p.improve, Proposals: p.proposals, Apply: p.apply, Gates: p.gates,
		Accounts: p.accounts, Members: p.members, Publishers: p.publishers, Events: p.events,
		Alerts: p.alerts, Signals: p.signals, Community: p.community,
		Progress: progress,
	}, nil
}
