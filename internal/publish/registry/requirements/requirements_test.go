package requirements_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/registrytest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

type object = apptest.Object

var public = object{"visibility": "public"}

// skill is an archive that requires others.
func skill(t *testing.T, name, version, needs string) []byte {
	t.Helper()
	return registrytest.Pack(t, registrytest.File("SKILL.md", fmt.Sprintf(
		"---\nname: %s\ndescription: Does %s %s.\nmetadata:\n  requires: %q\n---\n# Do it\n", name, name, version, needs)))
}

func path(id string) string { return registrytest.EntryPath(id) + "/requirements" }

// states lists what an answer says about each requirement.
func states(r apptest.Response) (all []string) {
	for _, f := range r.Want(http.StatusOK).List("requires") {
		all = append(all, fmt.Sprintf("%v %v", f["name"], f["state"]))
	}
	return all
}

func names(r apptest.Response, list string) (all []string) {
	for _, s := range r.Want(http.StatusOK).List(list) {
		all = append(all, fmt.Sprintf("%v %v", s["name"], s["version"]))
	}
	return all
}

func texts(o object, key string) (all []string) {
	list, _ := o[key].([]any)
	for _, v := range list {
		all = append(all, v.(string))
	}
	return all
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestStates follows a requirement through all of its states.
func TestStates(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		made := ada.Create("report", "1.0.0", skill(t, "report", "1", "pdf >= 1.2, charts")).Want(http.StatusCreated).Object()
		report := apptest.Text(made, "entry", "id")
		same(t, "warnings", texts(made, "warnings"), []string{
			"report requires pdf >= 1.2: pdf is not in the registry", "report requires charts: charts is not in the registry",
		})
		same(t, "at first", states(ada.Get(path(report))), []string{"pdf missing", "charts missing"})

		pdf := ada.Made("pdf", "1.0.0", skill(t, "pdf", "1", ""))
		ada.Made("charts", "nightly", skill(t, "charts", "1", ""))
		same(t, "too old", states(ada.Get(path(report))), []string{"pdf unmet", "charts met"})
		same(t, "in words", texts(ada.Get(path(report)).Object(), "warnings"),
			[]string{"report requires pdf >= 1.2: pdf >= 1.2 is needed, but the current version is 1.0.0"})

		ada.Pushed(pdf, "1.2.0", skill(t, "pdf", "2", ""))
		same(t, "new enough", states(ada.Get(path(report))), []string{"pdf met", "charts met"})
		got := ada.Get(path(pdf)).Want(http.StatusOK)
		same(t, "required by", names(got, "required_by"), []string{"report 1.0.0"})
		same(t, "state for others", got.List("required_by")[0]["state"], any("met"))

		reason := object{"reason": "harmful"}
		ada.Post(registrytest.VersionPath(pdf, "1.2.0")+"/withdraw", reason).Want(http.StatusOK)
		same(t, "withdrawn", states(ada.Get(path(report))), []string{"pdf withdrawn", "charts met"})
		same(t, "required by", ada.Get(path(pdf)).List("required_by")[0]["state"], any("unmet"))

		// A version that requires nothing ends it; the older one is told by its name.
		ada.Pushed(report, "2.0.0", skill(t, "report", "2", ""))
		same(t, "required by", names(ada.Get(path(pdf)), "required_by"), []string(nil))
		same(t, "older version", states(ada.Get(path(report)+"?version=1.0.0")), []string{"pdf withdrawn", "charts met"})
		ada.Post(registrytest.EntryPath(report)+"/rollback", object{"roll_forward": true}).Want(http.StatusOK)
		same(t, "rolled forward", names(ada.Get(path(pdf)), "required_by"), []string{"report 2.0.1"})

		ada.Do(http.MethodDelete, registrytest.EntryPath(report), nil).Want(http.StatusNoContent)
		ada.Get(path(report)).WantErrorWith(http.StatusNotFound, "not found")
		if n := w.Count("registry_requirements"); n != 0 {
			t.Errorf("%d rows are left of a deleted entry", n)
		}
	})
}

// TestPublishAnswer says what is wrong, and publishes all the same.
func TestPublishAnswer(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, storetest.Open(t, "sqlite"))
	ada := w.Org("acme", access.Pro)
	made := ada.Create("a", "1.0.0", skill(t, "a", "1", "a, b >= abc")).Want(http.StatusCreated).Object()
	same(t, "warnings", texts(made, "warnings"), []string{
		`metadata.requires: "b >= abc" has no range of versions behind its name, such as >= 1.2 or ^2.0`, "a requires itself",
	})
	id := apptest.Text(made, "entry", "id")
	again := ada.Push(id, "1.0.0", skill(t, "a", "1", "a, b >= abc")).Want(http.StatusOK).Object()
	same(t, "again", texts(again, "warnings"), []string{"a requires itself"})
	plain := ada.Create("plain", "1.0.0", registrytest.Skill(t, "Plain.")).Want(http.StatusCreated).Object()
	if plain["requires"] != nil || plain["warnings"] != nil {
		t.Errorf("there is nothing to say: %v", plain)
	}
}

// TestIsolation shows no private skill of another organisation, in neither direction.
func TestIsolation(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, eve := w.Org("acme", access.Pro), w.Org("Evil Corp", access.Pro)
		secret := ada.Made("secret", "1.0.0", skill(t, "secret", "1", "open"))
		unlisted := ada.Made("hidden", "1.0.0", skill(t, "hidden", "1", ""), object{"visibility": "unlisted"})
		open := ada.Made("open", "1.0.0", skill(t, "open", "1", "secret, hidden, acme/secret"), public)
		probe := eve.Made("probe", "1.0.0", skill(t, "probe", "1", "acme/secret, acme/hidden, acme/none, acme/open, secret, nowhere/x"))
		eve.Made("loud", "1.0.0", skill(t, "loud", "1", "acme/open"), public)

		got := eve.Get(path(probe)).Want(http.StatusOK)
		same(t, "states", states(got), []string{
			"secret missing", "hidden missing", "none missing", "open met", "secret missing", "x missing",
		})
		same(t, "installed along", names(got, "skills"), []string{"open 1.0.0"})
		problems := map[any]bool{}
		for _, f := range got.List("requires")[:3] {
			problems[strings.ReplaceAll(f["problem"].(string), "/"+f["name"].(string), "/X")] = true
		}
		if len(problems) != 1 {
			t.Errorf("a private skill can be told from a missing one: %v", problems)
		}
		same(t, "of a public one, seen by others", states(eve.Get(path(open))), []string{"secret missing", "hidden missing", "secret missing"})
		same(t, "of a public one, seen by its own", states(ada.Get(path(open))), []string{"secret met", "hidden met", "secret met"})
		same(t, "required by, for the owner", names(ada.Get(path(open)), "required_by"), []string{"loud 1.0.0", "secret 1.0.0"})
		same(t, "required by, for others", names(eve.Get(path(open)), "required_by"), []string{"loud 1.0.0", "probe 1.0.0"})
		eve.Get(path(secret)).WantErrorWith(http.StatusNotFound, "not found")
		eve.Get(path(unlisted)).Want(http.StatusOK) // readable with its id
		plan := eve.Post(registrytest.Path+"/requirements", object{"skills": []object{
			{"entry_id": secret, "version": "1.0.0"}, {"entry_id": open, "version": "1.0.0"}, {"entry_id": "no uuid", "version": ""},
		}})
		same(t, "plan", names(plan, "skills"), []string(nil))
		if strings.Contains(string(plan.Body), secret) {
			t.Errorf("the plan has the id of a private entry: %s", plan.Body)
		}
	})
}

// TestCandidate is told to its own organisation only.
func TestCandidate(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada, eve := w.Org("acme", access.Pro), w.Org("evil", access.Pro)
		id := ada.Made("pdf", "1.0.0", skill(t, "pdf", "1", "x"), public)
		w.Exec(`UPDATE registry_versions SET state = 'candidate'`)
		w.Exec(`UPDATE registry_entries SET current_version_id = '', current_version = '', current_hash = ''`)
		user := ada.Made("user", "1.0.0", skill(t, "user", "1", "pdf"))
		same(t, "no current version", texts(ada.Get(path(user)).Object(), "warnings"),
			[]string{"user requires pdf: pdf has no current version yet"})
		ada.Get(path(id)).WantErrorWith(http.StatusNotFound, "not found")
		same(t, "by its name", states(ada.Get(path(id)+"?version=1.0.0")), []string{"x missing"})
		eve.Get(path(id)+"?version=1.0.0").WantErrorWith(http.StatusNotFound, "not found")
	})
}

// TestGraphs walks circles, diamonds and long chains once.
func TestGraphs(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		for _, n := range []int{1, 2, 3, 50} {
			ids := make([]string, n)
			for i := range n {
				name := fmt.Sprintf("ring%d-%d", n, i)
				ids[i] = ada.Made(name, "1.0.0", skill(t, name, "1", fmt.Sprintf("ring%d-%d", n, (i+1)%n)))
			}
			got := ada.Get(path(ids[0])).Want(http.StatusOK)
			if len(got.List("skills")) != n-1 {
				t.Errorf("a circle of %d: %d skills", n, len(got.List("skills")))
			}
			if warnings := texts(got.Object(), "warnings"); len(warnings) != 1 || len(warnings[0]) > 200 {
				t.Errorf("a circle of %d: %q", n, warnings)
			}
		}
		// Each layer requires all of the next: 4^20 ways, 80 skills.
		const layers, width = 20, 4
		var top string
		for l := layers - 1; l >= 0; l-- {
			var below []string
			for i := range width {
				if l < layers-1 {
					below = append(below, fmt.Sprintf("layer%d-%d", l+1, i))
				}
			}
			for i := range width {
				name := fmt.Sprintf("layer%d-%d", l, i)
				top = ada.Made(name, "1.0.0", skill(t, name, "1", strings.Join(below, ", ")))
			}
		}
		got := ada.Get(path(top)).Want(http.StatusOK)
		if n := len(got.List("skills")); n != (layers-1)*width || got.Object()["truncated"] != false {
			t.Errorf("%d skills", n)
		}
		if by := texts(got.List("skills")[width], "required_by"); len(by) != width {
			t.Errorf("required by %v", by)
		}
		// More than are installed along.
		var many []string
		for i := range 5 {
			var leaves []string
			for k := range 30 {
				name := fmt.Sprintf("leaf%d-%d", i, k)
				leaves = append(leaves, name)
				ada.Made(name, "1.0.0", skill(t, name, "1", ""))
			}
			name := fmt.Sprintf("branch%d", i)
			many = append(many, name)
			ada.Made(name, "1.0.0", skill(t, name, "1", strings.Join(leaves, ",")))
		}
		all := ada.Made("everything", "1.0.0", skill(t, "everything", "1", strings.Join(many, ",")))
		got = ada.Get(path(all)).Want(http.StatusOK)
		if n := len(got.List("skills")); n != requirements.MaxSkills || got.Object()["truncated"] != true {
			t.Errorf("%d skills, truncated %v", n, got.Object()["truncated"])
		}
	})
}

// TestPlan is for several skills at once.
func TestPlan(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		ada := w.Org("acme", access.Pro)
		c := ada.Made("c", "1.0.0", skill(t, "c", "1", ""))
		ada.Made("b", "1.0.0", skill(t, "b", "1", "c"))
		a := ada.Made("a", "1.0.0", skill(t, "a", "1", "b"))
		ada.Pushed(a, "2.0.0", skill(t, "a", "2", ""))
		plan := func(skills ...object) apptest.Response {
			return ada.Post(registrytest.Path+"/requirements", object{"skills": skills}).Want(http.StatusOK)
		}
		got := plan(object{"entry_id": a, "version": "1.0.0"}, object{"entry_id": c, "version": "1.0.0"})
		same(t, "skills", names(got, "skills"), []string{"b 1.0.0"})
		same(t, "for whom", texts(got.List("skills")[0], "required_by"), []string{"a"})
		same(t, "among those", got.List("required"), []object{{"entry_id": c, "required_by": "b"}})
		same(t, "of the current version", names(plan(object{"entry_id": a, "version": "2.0.0"}), "skills"), []string(nil))
		same(t, "of none", names(plan(), "skills"), []string(nil))
		var many []object
		for range 1001 {
			many = append(many, object{"entry_id": a, "version": "1"})
		}
		ada.Post(registrytest.Path+"/requirements", object{"skills": many}).WantIssueWith("skills", "at most 1000")
	})
}

type archives struct{ *registry.Service }

func (a archives) OpenByID(ctx context.Context, orgID, entryID, versionID string) (*skillpkg.Package, error) {
	v, err := a.VersionByID(ctx, a.DB, registry.Entry{OrgID: orgID, ID: entryID}, versionID)
	if err != nil {
		return nil, err
	}
	return a.Open(ctx, v)
}

// TestBackfill reads the versions from before, from the database or their archives,
// and may run twice.
func TestBackfill(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := registrytest.New(t, db)
		w.Requirements.Archives = archives{w.Registry}
		ada := w.Org("acme", access.Pro)
		for i := range 3 {
			ada.Made(fmt.Sprintf("s%d", i), "1.0.0", skill(t, "s", "1", "pdf >= 1, charts"))
		}
		ada.Made("plain", "1.0.0", registrytest.Skill(t, "Plain."))
		w.Exec(`DELETE FROM registry_requirements`)
		w.Exec(`UPDATE registry_versions SET skill_md = NULL WHERE entry_id = (SELECT id FROM registry_entries WHERE name = 's1')`)
		w.Exec(`INSERT INTO registry_requirement_backfill (after_id) VALUES ('')`)
		for range 2 {
			if err := w.Requirements.Backfill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := w.Count("registry_requirements"); n != 6 {
				t.Errorf("%d rows, want 6", n)
			}
		}
		if n := w.Count("registry_requirement_backfill"); n != 0 {
			t.Error("the backfill does not end")
		}
	})
}

// TestHostileNames stores what cannot be misread, and nothing else.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, storetest.Open(t, "sqlite"))
	ada := w.Org("acme", access.Pro)
	ada.Made("pdf", "1.0.0", skill(t, "pdf", "1", ""))
	id := ada.Made("a", "1.0.0", skill(t, "a", "1", "рdf, ../../etc, <script>, '; DROP TABLE x --, pdf > 9 < 1"))
	same(t, "stored", states(ada.Get(path(id))), []string{"рdf missing", "pdf unmet"}) // the first has a Cyrillic letter
	for i := range 100 {
		long := strings.Repeat(fmt.Sprintf("%d-long,", i), 3000)
		ada.Made(fmt.Sprintf("long%d", i), "1.0.0", skill(t, "long", "1", long))
	}
	if n := w.Count("registry_requirements"); n != 2 {
		t.Errorf("%d rows", n)
	}
}

func TestQueryPlans(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		q := storetest.Explainer{
			DB: db, T: t, Refuse: regexp.MustCompile(`^SCAN [rve]\b|Seq Scan on (registry_|organisations)`),
			Allow: regexp.MustCompile(`registry_requirement_backfill`),
		}
		ids := []string{"a", "b"}
		for name, err := range map[string]error{
			"closure":      second(requirements.ClosureOf(ctx, q, "a", ids, 10)),
			"requirements": second(requirements.RequirementsOf(ctx, q, "a", ids)),
			"find":         second(requirements.FindAll(ctx, q, "a", []requires.Requirement{{Name: "a"}})),
			"withdrawn":    second(requirements.WithdrawnOf(ctx, q, ids)),
			"version":      second(requirements.VersionOf(ctx, q, "a", "b", "1")),
			"versions":     second(requirements.VersionsNamed(ctx, q, "a", [][2]string{{"a", "b"}})),
			"dependents":   second(requirements.DependentsOf(ctx, q, "a", requirements.Skill{Name: "x"}, 10)),
			"lacking":      second(requirements.NextLacking(ctx, q, 10)),
		} {
			if err != nil && !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }
