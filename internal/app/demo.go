package app

import (
	"context"
	"io"

	"github.com/whetstone-dev/whetstone/internal/app/demo"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
)

// FillDemo fills an empty database with a demo organisation, and writes its progress
// to progress. It is called before Run; after an error the App is closed. A database that isn't
// empty is refused by the filler.
func (a *App) FillDemo(ctx context.Context, progress io.Writer) error {
	err := a.demo(progress).Fill(audit.By(ctx, audit.CLI))
	if err != nil {
		a.close(a.parts.db)
	}
	return err
}

func (a *App) demo(progress io.Writer) *demo.Filler {
	p := a.parts
	return &demo.Filler{
		Auth: p.auth, Skills: p.skills, Registry: p.registry, Release: p.release, Teams: p.teams, Installations: p.installations,
		Telemetry: p.telemetry, Sources: p.sources, Suggestions: p.suggestions,
		Suites: p.suites, Runs: p.runs, Improve: p.improve, Proposals: p.proposals, Apply: p.apply, Gates: p.gates,
		Accounts: p.accounts, Members: p.members, Publishers: p.publishers, Events: p.events,
		Alerts: p.alerts, Signals: p.signals, Community: p.community,
		Progress: progress,
	}
}
