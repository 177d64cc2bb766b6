package client_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
)

func TestSendSignals(t *testing.T) {
	s := startService(t)
	s.key = s.relayKey(t)
	c := s.client()
	ctx := t.Context()
	var signals []client.Signal
	for _, cohort := range []string{"a", "b", "c"} {
		for _, n := range []string{"1", "2", "3", "4"} {
			signals = append(signals, client.Signal{SkillName: "pdf", SignalType: "missed_trigger", Confidence: 0.5, SourceKey: cohort + n, UserCohort: cohort})
		}
	}
	for _, want := range []struct{ Accepted, Duplicates int }{{12, 0}, {0, 12}} {
		if got, err := c.SendSignals(ctx, signals); err != nil || *got.Accepted != want.Accepted || *got.Duplicates != want.Duplicates {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	_, err := c.SendSignals(ctx, nil)
	wantStatus(t, err, 400, "signals")
	got, err := c.SignalsOverview(ctx)
	if err != nil || len(got.Skills) != 1 || time.Time(got.Skills[0].LastSignalAt).IsZero() {
		t.Fatalf("overview %+v, %v", got, err)
	}
	n, people := int64(12), 3
	if got.AsOf == nil || time.Time(*got.AsOf).IsZero() {
		t.Errorf("as of %v", got.AsOf)
	}
	if time.Time(got.GeneratedAt).IsZero() || got.CreatorID == "" {
		t.Errorf("generated at %v for %q", got.GeneratedAt, got.CreatorID)
	}
	got.Skills[0].LastSignalAt, got.PendingProposals, got.SignalsSource = api.Time{}, 0, api.SignalsSource{Source: got.Source}
	want := api.SignalsOverview{
		Signals: &n, Contributors: &people, ActiveSkills: 1, SignalsSource: api.SignalsSource{Source: "contribution_signal"},
		Skills: []api.SkillSignals{{SkillName: "pdf", Signals: &n, Contributors: &people, Actionable: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overview (-want +got):\n%s", diff)
	}
	approved := "approved"
	_, err = c.Proposal(ctx, "none")
	wantStatus(t, err, 404, "Proposal not found")
	_, err = c.ChangeProposal(ctx, "none", api.ProposalChange{Status: &approved})
	wantStatus(t, err, 404, "Proposal not found")
}

func TestSubmitBundle(t *testing.T) {
	s := startService(t)
	s.key = s.relayKey(t)
	c := s.client()
	ctx := t.Context()
	me := "0192d2b4-6a1e-7cc3-9d53-0a8f6a3d2f10"
	bundle := json.RawMessage(`{"schema_version":"1.0","contributor_id":"0192d2b4-6a1e-7cc3-9d53-0a8f6a3d2f11","created_at":"2026-01-02T03:04:05Z",
		"agent_type":"codex","sanitization_level":"aggressive","positive_queries":[],"eval_entries":[],"session_metrics":{}}`)
	first, err := c.SubmitBundle(ctx, me, "pdf", bundle)
	if err != nil || first == "" {
		t.Fatalf("submission %q, %v", first, err)
	}
	if again, err := c.SubmitBundle(ctx, me, "pdf", bundle); err != nil || again != first {
		t.Errorf("again: %q, %v; want %q", again, err, first)
	}
	_, err = c.SubmitBundle(ctx, me, "pdf", json.RawMessage(`{}`))
	wantStatus(t, err, 400, "is required")
	if got, err := c.BundlesOverview(ctx); err != nil || got.TotalSubmissions != 0 { // they are for another
		t.Errorf("overview %+v, %v", got, err)
	}
}
