package gates_test

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/judge/judgetest"
	"github.com/whetstone-dev/whetstone/internal/learn/suggestions"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/runstest"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/release"
	"github.com/whetstone-dev/whetstone/internal/publish/teams"
	"github.com/whetstone-dev/whetstone/internal/release/gates"
)

// TestMain lets more tests run at once than there are processors: they mostly
// wait for databases and each other.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type object = apptest.Object

// world has an organisation with an entry, a suite of trigger queries on it, and
// a model that decides them.
type world struct {
	*runstest.World
	gates *gates.Service
	*client
	suite object
	model *model
}

// A client calls the API with one person's key.
type client struct {
	*runstest.Client
	entry string
}

// A model routes the queries. The description of a version is its name.
type model struct {
	mu sync.Mutex
	// triggers says whether a version answers to a query in its nth trial, from
	// 1; all do if it is nil.
	triggers func(version, query string, n int) bool
	rejects  func(version, query string) bool // what the model refuses to answer; may be nil
	calls    map[string]int                   // of version and query
	hang     chan struct{}                    // if not nil, answers wait until it is closed
	tokens   map[string]int64                 // that an answer about a version takes; 0 if they aren't reported
}

var versionOf = regexp.MustCompile(`Version (\S+) reads tables`)

func (m *model) respond(r judgetest.Request) judgetest.Reply {
	version := "none"
	if match := versionOf.FindStringSubmatch(r.System); match != nil {
		version = match[1]
	}
	m.mu.Lock()
	hang, key, rejects := m.hang, version+" "+r.User, m.rejects
	m.calls[key]++
	n, triggers := m.calls[key], m.triggers
	m.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if rejects != nil && rejects(version, r.User) {
		return judgetest.Reply{Finish: "refusal"}
	}
	answer := object{"reason": "as scripted", "skill": nil, "confidence": 0.9}
	if version != "none" && (triggers == nil || triggers(version, r.User, n)) {
		answer["skill"] = "pdf"
		if strings.Contains(r.System, "<name>fresh</name>") {
			answer["skill"] = "fresh"
		}
	}
	reply := judgetest.JSON(answer)
	if tokens := m.tokens[version]; tokens > 0 {
		reply.Input, reply.Output = tokens, 0
	}
	return reply
}

// decide sets how queries are decided from now on.
func (m *model) decide(triggers func(version, query string, n int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.triggers, m.calls = triggers, map[string]int{}
}

// reject sets what the model refuses to answer.
func (m *model) reject(rejects func(version, query string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejects = rejects
}

// total is how often the model was asked about a version.
func (m *model) total(version string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, calls := range m.calls {
		if regexp.MustCompile(`^` + regexp.QuoteMeta(version) + ` `).MatchString(key) {
			n += calls
		}
	}
	return n
}

const cases = 20

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{model: &model{calls: map[string]int{}}}
	server := judgetest.New(t, w.model.respond)
	var owners *teams.Service
	w.World = runstest.New(t, db, runstest.Scripted(server), func(rw *runstest.World) {
		w.gates = &gates.Service{
			DB: db, Jobs: rw.Queue, Registry: rw.Registry, Sources: rw.Sources, Suites: rw.Suites, Runs: rw.Runs, Log: rw.Log,
		}
		w.gates.Register()
		owners = &teams.Service{DB: db, Auth: rw.Auth, Registry: rw.Registry}
		rw.Registry.OnPush, rw.Registry.OnEntryDeleted, rw.Sources.Guard = w.gates, w.gates, gates.Guard{Owners: owners}
	})
	owners.Mount(w.API)
	w.Sources.Mount(w.API)
	(&suggestions.Service{DB: db, Jobs: w.Queue, Sources: w.Sources, Suites: w.Suites}).Mount(w.API)
	w.Registry.Mount(w.API)
	(&release.Service{DB: db, Registry: w.Registry}).Mount(w.API)
	w.gates.Mount(w.API)
	w.client = &client{Client: &runstest.Client{Caller: w.OrgWithPlan("acme", access.Team), World: w.World}}
	var all []object
	for i := range cases {
		all = append(all, apptest.With(runstest.Trigger(fmt.Sprintf("query %d", i)), object{"id": fmt.Sprint("case-", i)}))
	}
	w.suite = w.Create(runstest.Judged(all...))
	w.entry = w.push("1.0.0").Want(http.StatusCreated).Text("entry", "id")
	return w
}

// enforce sets the policy of the entry to enforce the suite.
func (w *world) enforce(more ...object) {
	w.T.Helper()
	policy := object{"mode": "enforce", "suites": []any{w.suite["id"]}}
	for _, m := range more {
		policy = apptest.With(policy, m)
	}
	w.Do(http.MethodPut, "/api/v1/registry/"+w.entry+"/gate-policy", object{"policy": policy}).Want(http.StatusOK)
}

// push pushes a version of the entry, or makes the entry.
func (c *client) push(version string) apptest.Response {
	c.T.Helper()
	path := "/api/v1/registry"
	if c.entry != "" {
		path += "/" + c.entry + "/versions"
	}
	return c.Upload(path,
		apptest.Part{Name: "metadata", Content: fmt.Appendf(nil, `{"name":"pdf","version":%q}`, version)},
		apptest.Part{Name: "archive", File: "skill.tar.gz", Content: archiveOf(version)})
}

// gate reads a gate.
func (c *client) gate(id string) object {
	c.T.Helper()
	return c.Get("/api/v1/gates/" + id).Want(http.StatusOK).Field("gate")
}

// decided waits until a gate is over.
func (c *client) decided(id string) object {
	c.T.Helper()
	apptest.Eventually(c.T, "the end of the gate", func() bool { return c.gate(id)["decided_at"] != nil })
	return c.gate(id)
}

// version reads a version of the entry.
func (c *client) version(version string) object {
	c.T.Helper()
	for _, v := range c.Get("/api/v1/registry/" + c.entry + "/versions").Want(http.StatusOK).List("versions") {
		if v["version"] == version {
			return v
		}
	}
	c.T.Fatalf("no version %s", version)
	return nil
}

// want checks what became of a version.
func (c *client) want(version, state string, current bool) {
	c.T.Helper()
	if v := c.version(version); v["state"] != state || v["is_current"] != current {
		c.T.Errorf("version %s is %v, current: %v; want %s and %v", version, v["state"], v["is_current"], state, current)
	}
}

// archiveOf is a version of the skill, packed.
func archiveOf(version string) []byte {
	return runstest.Archive("pdf", "---\nname: pdf\ndescription: Version "+version+" reads tables.\n---\nDo it.\n")
}
