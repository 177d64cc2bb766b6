package telemetry_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// publish publishes versions of an entry, of which the last is current for a
// week, and returns the entry's id.
func (w *world) publish(c *client, name string, versions ...string) (entryID string) {
	c.T.Helper()
	for _, version := range versions {
		packed := archive(c.T, name+" "+version)
		p := registry.Publication{
			OrgID: c.Org.ID, UserID: c.User.ID, Name: name, Type: registry.TypeSkill, Visibility: registry.Org,
			Source: registry.FromCLI, Version: version, Archive: bytes.NewReader(packed), Size: int64(len(packed)),
		}
		var v registry.Version
		var err error
		if entryID == "" {
			_, v, err = w.registry.Create(w.T.Context(), p)
		} else {
			_, v, _, err = w.registry.Push(w.T.Context(), entryID, p)
		}
		if err != nil {
			c.T.Fatalf("%v", err)
		}
		entryID = v.EntryID
	}
	w.Exec(`UPDATE registry_currents SET since = $2 WHERE entry_id = $1`, entryID, store.Micros(time.Now().AddDate(0, 0, -7)))
	return entryID
}

// versionFacts are the checks, sessions and the pass rate of the versions of an
// entry that have any, e.g. "1.0.0 plugin 2, graded".
func (c *client) versionFacts(entryID string) (facts []string) {
	c.T.Helper()
	for _, v := range c.Get("/api/v1/registry/" + entryID).Want(200).List("versions") {
		graded := ""
		if v["aggregate_pass_rate"] != nil {
			graded = ", graded"
		}
		for _, basis := range []string{"hash", "plugin", "installation", "time"} {
			if n := v["version_basis_counts"].(object)[basis]; n != 0.0 {
				facts = append(facts, fmt.Sprint(apptest.Text(v, "version"), " ", basis, " ", n, graded))
			}
		}
	}
	slices.Sort(facts)
	return facts
}

// TestPluginVersions: activations of a plugin's skill count for the version of the
// plugin that their session loaded, if it is from the registry; so do gradings; in
// every order.
func TestPluginVersions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		round := 0
		for _, test := range []struct {
			name, entry, skill string
			loads              [][2]string // marketplaces and versions; ORG is the organisation
			want               string
		}{
			{"no load", "acme:deploy", "acme:deploy", nil, "2.0.0 time 2, graded"},
			{"of our marketplace", "acme:deploy", "acme:deploy", [][2]string{{"whetstone-ORG", "1.0.0"}}, "1.0.0 plugin 2, graded"},
			{"of an unknown one", "acme:deploy", "acme:deploy", [][2]string{{"", "1.0.0"}}, "1.0.0 plugin 2, graded"},
			{"of another one", "acme:deploy", "acme:deploy", [][2]string{{"acme-market", "1.0.0"}}, "2.0.0 time 2, graded"},
			{"of another organisation's", "acme:deploy", "acme:deploy", [][2]string{{"whetstone-other", "1.0.0"}}, "2.0.0 time 2, graded"},
			{"of two", "acme:deploy", "acme:deploy", [][2]string{{"whetstone-ORG", "1.0.0"}, {"acme-market", "3.0.0"}}, "2.0.0 time 2, graded"},
			{"of an unknown version", "acme:deploy", "acme:deploy", [][2]string{{"whetstone-ORG", "3.0.0"}}, "2.0.0 time 2, graded"},
			{"an entry that is a plugin", "acme", "acme:acme", [][2]string{{"whetstone-ORG", "1.0.0"}}, "1.0.0 plugin 2, graded"},
			{"an entry that may be one", "acme", "acme:acme", [][2]string{{"", "1.0.0"}}, ""},
			{"an entry that is none", "acme", "acme:acme", [][2]string{{"acme-market", "1.0.0"}}, ""},
			{"another plugin", "acme", "other:acme", [][2]string{{"whetstone-ORG", "1.0.0"}}, ""},
		} {
			for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
				t.Run(fmt.Sprint(test.name, order), func(t *testing.T) {
					round++
					c := w.org(fmt.Sprint("org", round)).in(t)
					id := w.publish(c, test.entry, "1.0.0", "2.0.0")
					s := &claude{session: "s", at: anHourAgo()}
					activated := s.ofPlugin("p1", "acme", test.skill)
					steps := []func(){
						func() {
							for _, l := range test.loads {
								pairs := []any{"plugin.name", "acme", "plugin.version", l[1]}
								if l[0] != "" {
									pairs = append(pairs, "marketplace.name", strings.ReplaceAll(l[0], "ORG", c.Org.Name))
								}
								c.take(inProtobuf, logsOf(s.event("plugin_loaded", "", pairs...)))
							}
						},
						func() {
							c.take(inProtobuf, logsOf(activated))
							c.push(uuid.NewString(), invocations(check("i", object{"skill_name": test.skill, "occurred_at": stamp(s.at)}))).Want(201)
						},
						func() {
							c.push(uuid.NewString(), object{"grading_results": []object{{
								"grading_id": "g", "skill_name": test.skill, "session_id": "s", "graded_at": stamp(s.at), "pass_rate": 1,
							}}}).Want(201)
						},
					}
					for range 2 { // the second time changes nothing
						for _, i := range order {
							steps[i]()
						}
					}
					var want []string
					if test.want != "" {
						want = []string{test.want}
					}
					if diff := cmp.Diff(want, c.versionFacts(id)); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				})
			}
		}
		w.checkNumbers(t)
	})
}

// logIn has the person log in on a device, and returns a client with that key.
func (c *client) logIn(deviceID string) *client {
	c.T.Helper()
	ctx, a := c.T.Context(), c.World.Auth
	started, err := a.StartDevice(ctx, "cli", deviceID)
	if err == nil {
		err = a.DecideDevice(ctx, started.UserCode, c.User, true)
	}
	result, pollErr := a.PollDevice(ctx, started.DeviceCode)
	if err := errors.Join(err, pollErr); err != nil {
		c.T.Fatalf("%v", err)
	}
	there := *c.Caller
	there.Key = result.RawKey
	return &client{&there}
}

// TestDeviceVersions: what is pushed or sent by OTLP with the key of a login counts
// for the version on that device, whichever reports of it come first.
func TestDeviceVersions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for i, order := range [][]int{{0, 1}, {1, 0}} {
			c := w.org(fmt.Sprint("acme", i))
			id := w.publish(c, "pdf", "1", "2", "3")
			for version, device := range []string{"laptop", "desktop"} {
				_, err := w.installations.Install(t.Context(), access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}, installations.New{
					EntryID: id, DeviceID: device, ContentHash: contentHash(t, fmt.Sprint("pdf ", version+1)),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			s := &claude{session: "s", at: time.Now()}
			call := s.result("p1", "pdf", "t1", true)
			steps := []func(){
				func() { c.take(inProtobuf, logsOf(call)) }, // with a key that names no device
				func() {
					c.logIn("laptop").push(uuid.NewString(), invocations(check("i", object{
						"occurred_at": stamp(s.at), "session_id": "s", "tool_call_id": "t1",
					}))).Want(201)
				},
			}
			for range 2 { // the second time changes nothing
				for _, i := range order {
					steps[i]()
				}
			}
			c.logIn("desktop").take(inJSON, logsOf((&claude{session: "t", at: time.Now()}).result("p1", "pdf", "t2", true)))
			c.take(inJSON, logsOf((&claude{session: "u", at: time.Now()}).result("p1", "pdf", "t3", true)))
			want := []string{"1 installation 1", "2 installation 1", "3 time 1"}
			if diff := cmp.Diff(want, c.versionFacts(id)); diff != "" {
				t.Errorf("order %v (-want +got):\n%s", order, diff)
			}
		}
		w.checkNumbers(t)
	})
}

// TestVersionCosts: the registry shows what each version cost over all time, to its
// own organisation only.
func TestVersionCosts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		id := w.publish(c, "pdf", "1.0.0", "2.0.0")
		w.Exec(`UPDATE registry_entries SET visibility = 'public' WHERE id = $1`, id)
		long := anHourAgo().AddDate(-1, 0, 0).Format(time.RFC3339)
		versions := c.Get("/api/v1/registry/" + id).Want(200).List("versions")
		c.push("", object{
			"skill_invocations": []object{{
				"skill_invocation_id": "i", "session_id": "s", "occurred_at": long, "skill_name": "pdf", "triggered": true,
				"skill_version_hash": apptest.Text(versions[1], "content_hash"),
			}},
			"model_requests": []object{
				{
					"session_id": "s", "occurred_at": long, "request_id": "r1", "source_prompt_id": "p", "skill_name": "pdf",
					"model": "claude-sonnet-4-5", "input_tokens": 1000, "output_tokens": 100,
				},
				{
					"session_id": "s", "occurred_at": long, "request_id": "r2", "source_prompt_id": "p", "skill_name": "pdf",
					"model": "secret", "cache_read_tokens": 7,
				},
			},
		}).Want(201)
		// 1,000 tokens at 3 dollars and 100 at 15, of which the price of the use's other
		// request is unknown.
		want := object{
			"currency": "USD", "per_use_p50": nil, "per_use_p95": nil, "per_success": nil, "total": 0.0045,
			"tokens":   object{"input": 1000.0, "output": 100.0, "cache_read": 7.0, "cache_write": 0.0},
			"requests": 2.0, "basis": "priced", "unpriced_requests": 1.0, "standing_per_session": nil, "load_per_use": nil,
		}
		for _, path := range []string{"", "/versions"} {
			versions = c.Get("/api/v1/registry/" + id + path).Want(200).List("versions")
			if diff := cmp.Diff(want, versions[1]["cost"]); diff != "" {
				t.Errorf("1.0.0 (-want +got):\n%s", diff)
			}
			if cost, ok := versions[0]["cost"]; cost != nil || !ok {
				t.Errorf("2.0.0, which was not used, costs %v; want null", cost)
			}
			for _, v := range w.org("other" + path[min(1, len(path)):]).Get("/api/v1/registry/" + id + path).Want(200).List("versions") {
				if cost, ok := v["cost"]; cost != nil || !ok {
					t.Errorf("another organisation is told that %v costs %v; want null", v["version"], cost)
				}
			}
		}
	})
}
