package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/client/api"
)

// push makes a body with one invocation of each skill.
func push(id string, skills ...string) []byte {
	var records []string
	for _, skill := range skills {
		records = append(records, fmt.Sprintf(
			`{"skill_invocation_id":"i-%s","session_id":"s","occurred_at":%q,"skill_name":%q,"triggered":true,"confidence":0.5}`,
			skill, time.Now().UTC().Format(time.RFC3339), skill))
	}
	return fmt.Appendf(nil, `{"push_id":%q,"canonical":{"skill_invocations":[%s]}}`, id, strings.Join(records, ","))
}

func TestPush(t *testing.T) {
	c := startService(t).client()
	const id = "0192d2b4-6a1e-7cc3-9d53-0a8f6a3d2f10"
	got, err := c.Push(t.Context(), push(id, "pdf", "custom_skill", strings.Repeat("x", 201)))
	want := api.PushResult{PushID: id, Accepted: 2, Unattributed: 1, Status: "accepted"}
	if len(got.Rejected) != 1 || got.Rejected[0].Kind != "skill_invocation" || got.Rejected[0].Index != 2 || got.Rejected[0].Message == "" {
		t.Errorf("rejected %+v, want the third", got.Rejected)
	}
	got.Rejected = nil
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("result (-want +got), %v:\n%s", err, diff)
	}
	if got, err := c.Push(t.Context(), push(id, "pdf")); err != nil || !got.Duplicate {
		t.Errorf("again: %+v, %v; want it to be known", got, err)
	}
	_, err = c.Push(t.Context(), []byte("nonsense"))
	wantStatus(t, err, 400, "JSON")
}

func TestSkills(t *testing.T) {
	c := startService(t).client()
	ctx := t.Context()
	if got, err := c.Skills(ctx, client.SkillFilter{}); err != nil || got == nil || len(got) != 0 {
		t.Errorf("skills %v, %v; want an empty list", got, err)
	}
	var names []string
	for n := range 101 { // one more than a page
		names = append(names, fmt.Sprintf("skill-%03d", n))
	}
	if _, err := c.Push(ctx, push("0192d2b4-6a1e-7cc3-9d53-0a8f6a3d2f11", append(names, "a/b c?")...)); err != nil {
		t.Fatal(err)
	}
	all, err := c.Skills(ctx, client.SkillFilter{Query: "skill-", Status: "unknown", Sort: "-name"})
	if err != nil || len(all) != 101 || all[0].Name != "skill-100" || all[100].Name != "skill-000" {
		t.Fatalf("%d skills, %v; want 101 from the last to the first", len(all), err)
	}
	if s := all[0]; s.Status != "unknown" || s.UniqueSessions != 1 || *s.TriggerRate != 1 || *s.AvgConfidence != 0.5 || s.PassRate != nil || s.LastSeenAt == nil {
		t.Errorf("skill %+v", s)
	}
	for _, name := range []string{all[0].SkillID, "skill-100", "a/b c?"} {
		got, err := c.Skill(ctx, name, 7)
		if err != nil || len(got.Days) != 7 || got.Days[6].Checks+got.Days[5].Checks != 1 || got.Skill.FirstSeenAt == nil {
			t.Errorf("skill %s: %+v, %v", name, got, err)
		}
	}
	if got, err := c.Skill(ctx, "skill-000", 0); err != nil || len(got.Days) != 30 {
		t.Errorf("%d days, %v; want 30", len(got.Days), err)
	}
	_, err = c.Skill(ctx, "none", 0)
	wantStatus(t, err, 404, "Skill not found")
}
