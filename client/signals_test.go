package client_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/improving"
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
	for _, want := range []client.SignalsResult{{Accepted: 12}, {Duplicates: 12}} {
		if got, err := c.SendSignals(ctx, signals); err != nil || got.Accepted != want.Accepted || got.Duplicates != want.Duplicates {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	_, err := c.SendSignals(ctx, nil)
	wantStatus(t, err, 400, "signals")
	got, err := c.SignalsOverview(ctx)
	if err != nil || len(got.Skills) != 1 || got.Skills[0].LastSignalAt.IsZero() {
		t.Fatalf("overview %+v, %v", got, err)
	}
	n, people := int64(12), 3
	if got.AsOf == nil || got.AsOf.IsZero() {
		t.Errorf("as of %v", got.AsOf)
	}
	if got.GeneratedAt.IsZero() || got.CreatorID == "" {
		t.Errorf("generated at %v for %q", got.GeneratedAt, got.CreatorID)
	}
	got.Skills[0].LastSignalAt, got.PendingProposals, got.AsOf, got.GeneratedAt, got.CreatorID = time.Time{}, 0, nil, time.Time{}, ""
	want := client.SignalsOverview{
		Signals: &n, Contributors: &people, ActiveSkills: 1, Source: "contribution_signal",
		Skills: []client.SkillSignals{{SkillName: "pdf", Signals: &n, Contributors: &people, Actionable: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overview (-want +got):\n%s", diff)
	}
	skills := improving.Client{Client: c}
	_, err = skills.Proposal(ctx, "none")
	wantStatus(t, err, 404, "Proposal not found")
	_, err = skills.SetStatus(ctx, "none", "approved")
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
	if got, err := c.BundlesOverview(ctx); err != nil || got.Submissions != 0 { // they are for another
		t.Errorf("overview %+v, %v", got, err)
	}
}
