// Package internal_test holds the rules of the house that no compiler checks:
// which package may import which, who may use what, who may write a table.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/whetstone-dev/whetstone/"

// A wing is a folder below internal, with a room for each noun.
type wing struct {
	name  string
	rooms []string
}

// floors are the wings from top to bottom. A wing may import what is on a floor below
// it; wings of one floor import none of each other. Within a wing, edges says which
// room imports which; only the platform's rooms may all import each other.
var floors = [][]wing{
	{{"cmd", nil}},
	{{"cli", nil}},
	{{"app", []string{"doctor", "backup", "demo", "config"}}},
	{{"web", []string{"overview", "privacy"}}},
	{{"watch", []string{"alerts", "incidents"}}},
	{{"deliver", []string{"catalog", "installations", "sets"}}},
	{{"learn", []string{"improve", "proposals", "signals", "community", "suggestions"}}},
	{{"release", []string{"gates", "approvals", "checks", "attestations"}}},
	{{"prove", []string{"suites", "runs", "comparisons", "schedules"}}},
	{{"observe", []string{"telemetry", "sessions", "content", "grades", "costs"}}},
	{{"publish", []string{"registry", "sources", "repohost", "publishers", "teams"}}},
	{
		{"identity", []string{"auth", "oidc"}},
		{"engine", []string{"judge", "agents", "gateway", "sandbox", "environments", "host"}},
		{"local", []string{"transcripts", "hook", "install", "lockfiles"}},
	},
	{{"skill", []string{"skillpkg", "skills", "builtin"}}},
	{{"platform", []string{
		"store", "jobs", "blob", "httpapi", "outbound", "seal", "trace", "metrics", "datadir", "invariants", "audit", "quota",
		"events", "notify", "access",
	}}},
	{{"base", []string{"fault", "text", "stats", "pricing", "lru", "glob", "fsync", "flock", "fair", "spool"}}},
	{{"api", nil}}, // the types of the wire, which the public client has as well
}

// doors are the wings with a package of their own, which is a room beside the others:
// internal/web is what a browser asks, internal/web/overview only reads for it.
var doors = []string{"cmd", "cli", "app", "web", "api"}

// capabilities are the wings whose rooms need an edge also to a lower wing; skills, the
// noun that they share, is one more.
var capabilities = []string{"watch", "deliver", "learn", "release", "prove", "observe", "publish"}

// A room is a noun's folder, in a wing, on a floor.
type room struct {
	name, wing string
	floor      int
}

var rooms = func() map[string]room {
	all := map[string]room{}
	for floor, wings := range floors {
		for _, w := range wings {
			if slices.Contains(doors, w.name) {
				all[doorOf(w.name)] = room{w.name, w.name, floor}
			}
			for _, name := range w.rooms {
				all["internal/"+w.name+"/"+name] = room{name, w.name, floor}
			}
		}
	}
	return all
}()

func doorOf(wing string) string {
	switch wing {
	case "cmd":
		return "cmd/whetstone"
	case "api":
		return "client/api"
	}
	return "internal/" + wing
}

func (r room) isCapability() bool { return r.name == "skills" || slices.Contains(capabilities, r.wing) }

// An edge permits one room to import another.
type edge struct{ from, to, reason string }

// edges is the graph between rooms of one wing, and between capabilities of all wings.
// It has no circles: what a lower room must tell a higher one goes through a hook with
// one method that the lower one declares and internal/app sets.
var edges = []edge{
	{"alerts", "skills", "rules watch the rates of skills"},
	{"alerts", "registry", "a rule may roll a skill back"},
	{"approvals", "gates", "a candidate becomes current when its gate and people let it pass"},
	{"approvals", "registry", "people approve a version of an entry"},
	{"approvals", "repohost", "a review of the pull request that a version came from is an approval"},
	{"catalog", "content", "what a client reports of a session is redacted as what was said is"},
	{"catalog", "gates", "the verdict of a gate is told to clients as evidence"},
	{"catalog", "grades", "a client reports the outcome of a skill as a grade"},
	{"attestations", "gates", "the decision of a gate is signed"},
	{"attestations", "registry", "versions are signed"},
	{"attestations", "publishers", "the workflow that published a version is signed with it"},
	{"attestations", "runs", "what a run of a version showed is signed"},
	{"attestations", "suites", "a statement names the suites of its runs"},
	{"catalog", "attestations", "clients get what is signed about a version"},
	{"catalog", "installations", "a client that installs from a catalog reports it"},
	{"catalog", "registry", "an index lists entries, and serves their archives"},
	{"catalog", "sessions", "a client names the session of which it reports"},
	{"catalog", "skills", "a grade has a basis"},
	{"catalog", "telemetry", "skills that are listed to a client were offered in its session"},
	{"checks", "gates", "the verdict of a gate is said on the code host, and the head of a pull request is gated"},
	{"checks", "registry", "what became of a version is said on its commit"},
	{"checks", "repohost", "commits and pull requests are those of connections"},
	{"checks", "sources", "the files of a pull request are held as a snapshot"},
	{"checks", "suites", "a case that got worse is shown at its line"},
	{"community", "skills", "bundles name skills"},
	{"costs", "skills", "requests are attributed to skills, and follow their sessions' versions and grades"},
	{"content", "sessions", "what was said belongs to the events of a session"},
	{"content", "skills", "what is kept belongs to a session, by the pseudonym that skills give it"},
	{"gates", "registry", "a gate publishes a candidate, or keeps it back"},
	{"sets", "installations", "who lacks what of a set"},
	{"sets", "registry", "a set gives the newest published version in each range"},
	{"sets", "teams", "sets are for teams, and owned by people and teams"},
	{"comparisons", "runs", "each arm is a run"},
	{"comparisons", "sources", "an arm may be a cloud source, and shows its id"},
	{"comparisons", "suites", "the cases that arms are tried on"},
	{"gates", "runs", "both versions are tried by runs"},
	{"gates", "sources", "the suites of a skill are those of its sources"},
	{"gates", "suites", "a policy names suites"},
	{"grades", "costs", "the judge of a session has a budget in money"},
	{"grades", "content", "labels of failures are redacted as what was said is"},
	{"grades", "registry", "what a skill promises becomes the draft of its expectations"},
	{"grades", "sessions", "a grade is of a session, and shown with it"},
	{"grades", "skills", "a grade counts in the pass rate of a skill"},
	{"grades", "sources", "a skill may be known by its source only"},
	{"improve", "gates", "the rule of gates says whether a winner makes something worse"},
	{"improve", "proposals", "a better skill is proposed, not applied"},
	{"improve", "registry", "a skill is improved at night by its entry"},
	{"improve", "runs", "candidates are scored by runs"},
	{"improve", "skills", "skills in trouble are improved at night"},
	{"improve", "sources", "a candidate is held as a snapshot while it is tried, and a skill outside the registry is improved by its source"},
	{"improve", "suites", "the cases that a candidate is scored on"},
	{"schedules", "runs", "a schedule starts runs, and records what they were made with"},
	{"schedules", "sources", "a subject may be a cloud source, and shows its id"},
	{"schedules", "suites", "a schedule runs a suite with an agent, whose type is the suite's"},
	{"incidents", "alerts", "an incident begins with an alert, whose channel is told of its progress"},
	{"incidents", "installations", "an incident ends when no installation has the bad version"},
	{"incidents", "registry", "an incident ends when its version is current again"},
	{"incidents", "repohost", "the commit of a bad version is marked"},
	{"installations", "registry", "an installation is of an entry, and may be behind its version"},
	{"installations", "skills", "what a user has installed tells which version a skill's observation is about"},
	{"proposals", "gates", "the gate of a version that was proposed says what becomes of it"},
	{"proposals", "registry", "a proposal is made for the current words, and becomes a version"},
	{"proposals", "repohost", "a proposal becomes a pull request of a connection"},
	{"proposals", "signals", "findings become proposals"},
	{"proposals", "skills", "a proposal is about a skill"},
	{"proposals", "sources", "a skill outside the registry has its words in a source"},
	{"publishers", "registry", "a trusted publisher may push versions of one entry"},
	{"registry", "skills", "an entry of type skill belongs to a skill"},
	{"repohost", "registry", "a push to a repository publishes a version"},
	{"runs", "registry", "a run may be about a version"},
	{"runs", "sessions", "a trial opens as a session does"},
	{"runs", "sources", "a run may be about a snapshot"},
	{"runs", "suites", "a run tries the cases of a suite"},
	{"sessions", "costs", "a session shows what its model requests cost"},
	{"sessions", "registry", "a session names the versions of skills that it used"},
	{"sessions", "skills", "a session shows the skills that it used, and their grades"},
	{"signals", "skills", "signals name skills"},
	{"sources", "repohost", "a source may follow a repository"},
	{"sources", "skills", "a source belongs to a skill"},
	{"suggestions", "runs", "failed cases become suggestions"},
	{"suggestions", "sessions", "a session that went wrong becomes a case"},
	{"suggestions", "skills", "a case locks its skill, so that calls at the same time make one suite"},
	{"suggestions", "sources", "suggestions belong to a source"},
	{"suggestions", "suites", "an accepted suggestion becomes a case"},
	{"suggestions", "telemetry", "missed prompts become suggestions"},
	{"suites", "sources", "a suite may belong to a source"},
	{"teams", "registry", "owners are of an entry"},
	{"teams", "repohost", "the CODEOWNERS file of a connected repository names owners"},
	{"telemetry", "costs", "sessions report what their model requests cost"},
	{"telemetry", "content", "a push may have what was said in sessions"},
	{"telemetry", "sessions", "reports of agents become sessions that people can open"},
	{"telemetry", "skills", "sessions become observations of skills"},

	{"app", "backup", "commands save an installation and restore it"},
	{"app", "config", "the wiring follows the settings"},
	{"app", "demo", "an empty installation is filled when that is asked for"},
	{"app", "doctor", "the doctor gets what to look at"},
	{"doctor", "backup", "what refers to blobs is what a backup has, and a restore that did not end is a finding"},
	{"doctor", "config", "settings are looked at"},
	{"web", "overview", "pages show several capabilities side by side"},
	{"web", "privacy", "pages export and delete an organisation"},
	{"auth", "oidc", "people sign in with providers"},
	{"agents", "gateway", "an agent asks one model through it"},
	{"agents", "sandbox", "an agent runs there"},
	{"environments", "sandbox", "images are built there"},
	{"hook", "install", "files are replaced atomically"},
	{"transcripts", "install", "files are replaced atomically"},
	{"pricing", "fault", "a wrong price file is told by field"},
	{"pricing", "text", "names of models are valid text"},
	{"spool", "fault", "a full disk is told as one"},
}

func permitted(from, to room) bool {
	return slices.ContainsFunc(edges, func(e edge) bool { return e.from == from.name && e.to == to.name })
}

// A reservation keeps a package, or some names of it, for a few rooms.
type reservation struct {
	of      string   // import path; what lies below it is meant, too
	names   []string // nil reserves the import itself
	rooms   []string
	instead string // what everybody else does
	but     string // a package below it that is for all
}

var reservations = []reservation{
	{module + "internal/app/config", nil, []string{"cmd/whetstone", "internal/cli", "internal/app", "internal/app/doctor"}, "take the values you need as fields, and let internal/app hand them in", ""},
	{module + "internal/platform/seal", nil, []string{"internal/app", "internal/app/doctor", "internal/app/backup", "internal/app/config", "internal/identity/auth", "internal/watch/alerts", "internal/release/attestations", "internal/platform/events", "internal/observe/content", "internal/observe/grades", "internal/publish/repohost"}, "let the table's owner seal and open its own values", ""},
	{
		of: module + "client", rooms: []string{"internal/cli", "client"}, but: module + "client/api",
		instead: "call the capability's own operation: the client is for other processes",
	},
	{"modernc.org/sqlite", nil, []string{"internal/platform/store"}, "take a store.Querier", ""},
	{"database/sql", nil, []string{"internal/platform/store"}, "take a store.Querier", ""},
	{"github.com/pressly/goose", nil, []string{"internal/platform/store"}, "add a pair of files to internal/platform/store/migrations", ""},
	{"github.com/jackc/pgx", nil, []string{"internal/platform/store"}, "take a store.Querier", ""},
	{"github.com/danielgtaylor/huma", nil, []string{"internal/platform/httpapi"}, "add a typed function with httpapi.Add", ""},
	{"github.com/coreos/go-oidc", nil, []string{"internal/identity/oidc"}, "call oidc.Keys.Verify", ""},
	{"golang.org/x/oauth2", nil, []string{"internal/identity/oidc"}, "call oidc.Client.Exchange", ""},
	{"github.com/go-jose/go-jose", nil, []string{"internal/identity/oidc"}, "call oidc.Keys.Verify", ""},
	{"github.com/minio/minio-go", nil, []string{"internal/platform/blob"}, "take a blob.Bucket", ""},
	{
		of: "github.com/go-git/go-git", rooms: []string{"internal/skill/skillpkg", "internal/engine/host", "internal/local/transcripts"},
		instead: "read repositories with gittree.Repository",
	},
	{of: "github.com/go-git/go-git/v5/plumbing/object", instead: "read objects with gittree.Repository: this links OpenPGP in"},
	{"github.com/alecthomas/kong", nil, []string{"internal/cli", "internal/app/config"}, "let internal/app/config read the setting", ""},
	{"os/exec", nil, []string{"internal/engine/sandbox"}, "start foreign programs through internal/engine/sandbox", ""},
	{"os", []string{"StartProcess"}, []string{"internal/engine/sandbox"}, "start foreign programs through internal/engine/sandbox", ""},
	{"syscall", []string{"Exec", "ForkExec", "StartProcess"}, []string{"internal/engine/sandbox"}, "start foreign programs through internal/engine/sandbox", ""},
	{
		"net/http",
		[]string{"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"},
		[]string{"internal/platform/outbound", "client"},
		"take a client of internal/platform/outbound, which guards what it dials",
		"",
	},
}

// clientMayImport is what the public client shares with the service.
var clientMayImport = []string{"client/api", "internal/skill/skillpkg"}

// TestImportsPointDown is rule 1.
func TestImportsPointDown(t *testing.T) {
	report(t, upwardImports(readTree(t)))
}

// TestEdgesHaveNoCircle keeps the graph between rooms in an order.
func TestEdgesHaveNoCircle(t *testing.T) {
	above := map[string][]string{}
	for _, e := range edges {
		above[e.from] = append(above[e.from], e.to)
	}
	var walk func(path []string)
	walk = func(path []string) {
		for _, next := range above[path[len(path)-1]] {
			if slices.Contains(path, next) {
				t.Fatalf("the edges %s -> %s close a circle", strings.Join(path, " -> "), next)
			}
			walk(append(slices.Clone(path), next))
		}
	}
	for _, e := range edges {
		walk([]string{e.from})
	}
}

// TestReservedPackages is rule 4.
func TestReservedPackages(t *testing.T) {
	report(t, reservedUses(readTree(t)))
}

// starters are the packages that start programs.
var starters = map[string]string{
	"internal/engine/sandbox/spawn":                "it gives each program an environment without the server's secrets",
	"internal/engine/sandbox/browser":              "the person's own browser, on the person's own machine",
	"internal/engine/sandbox/relay":                "it runs inside a sandbox, and its environment is that of the agent",
	"internal/engine/sandbox/sandboxtest/attacker": "it attacks the sandbox that it runs in",
}

// starts are the names by which a program is started or an environment handed on. What
// no reservation knows is *exec.Cmd, which a function may get.
var starts = []reservation{
	{of: "os/exec", names: []string{"Command", "CommandContext", "Cmd"}},
	{of: "os", names: []string{"StartProcess", "Environ"}},
	{of: "syscall", names: []string{"Exec", "ForkExec", "StartProcess", "Environ"}},
	{of: "golang.org/x/sys/unix", names: []string{"Exec", "Environ"}},
}

// TestEnvironmentOfPrograms: no program that the server starts gets the server's
// environment, which has its secret key and the passwords of its database.
func TestEnvironmentOfPrograms(t *testing.T) {
	report(t, inheritedEnvironments(readTree(t)))
}

func inheritedEnvironments(files []*source) (problems []string) {
	for _, f := range files {
		if f.forTests || starters[f.dir] != "" {
			continue
		}
		var found []token.Pos
		for _, r := range starts {
			found = append(found, f.uses(r)...)
		}
		_, commands := f.imports()["os/exec"]
		ast.Inspect(f.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if slices.ContainsFunc(n.Lhs, isEnv) && (commands || slices.ContainsFunc(n.Rhs, isNil)) {
					found = append(found, n.Pos())
				}
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && commands && method.Sel.Name == "Environ" && !slices.Contains(found, method.Pos()) {
					found = append(found, n.Pos())
				}
			}
			return true
		})
		for _, use := range found {
			problems = append(problems, f.at(use)+" may hand on the server's environment: start programs with spawn.Command")
		}
	}
	return problems
}

func isEnv(e ast.Expr) bool {
	field, ok := e.(*ast.SelectorExpr)
	return ok && field.Sel.Name == "Env"
}

func isNil(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "nil"
}

// TestPackageComments wants to know what each package does for someone.
func TestPackageComments(t *testing.T) {
	report(t, missingComments(readTree(t)))
}

// TestNoInitFunctions looks at the tests, too: two servers live in one of them.
func TestNoInitFunctions(t *testing.T) {
	report(t, initFunctions(readTree(t)))
}

func report(t *testing.T, problems []string) {
	t.Helper()
	for _, problem := range problems {
		t.Error(problem)
	}
}

func upwardImports(files []*source) (problems []string) {
	homeless := map[string]bool{}
	for _, f := range files {
		if f.forTests || homeless[f.room] {
			continue
		}
		if _, ok := rooms[f.room]; !ok && f.room != "client" {
			homeless[f.room] = true
			problems = append(problems, f.room+" is in no wing: add it to floors in internal/arch_test.go")
			continue
		}
		for imported := range f.imports() {
			if problem := importProblem(f.room, imported); problem != "" {
				problems = append(problems, f.path+": "+problem)
			}
		}
	}
	return problems
}

func importProblem(from, imported string) string {
	local, ok := strings.CutPrefix(imported, module)
	if !ok {
		return ""
	}
	to := roomOf(local)
	a, b := rooms[from], rooms[to]
	switch {
	case isForTests(local):
		return fmt.Sprintf("product code imports %s: only tests may", local)
	case to == from || to == "client" || b.name == "" && from != "client": // what is in no wing has a problem of its own
		return ""
	case from == "client":
		if slices.Contains(clientMayImport, to) {
			return ""
		}
		return fmt.Sprintf("the public client imports %s: whoever uses it gets that, too; it may import %s only", local, clientMayImport)
	case b.floor < a.floor:
		return fmt.Sprintf("%s (wing %s) imports %s (wing %s): imports point down; declare an interface where it is used and let internal/app hand the value in", from, a.wing, to, b.wing)
	case b.floor == a.floor && a.wing != b.wing:
		return fmt.Sprintf("%s imports %s: the wings %s and %s stand side by side", from, to, a.wing, b.wing)
	case permitted(a, b) || a.wing == "platform" && b.wing == "platform":
		return ""
	case a.wing == b.wing || a.isCapability() && b.isCapability():
		return fmt.Sprintf("%s imports %s: add the edge to edges in internal/arch_test.go with its reason, or, "+
			"if it would close a circle, declare a hook with one method and let internal/app set it", from, to)
	}
	return ""
}

func reservedUses(files []*source) (problems []string) {
	for _, f := range files {
		if f.forTests {
			continue
		}
		for _, r := range reservations {
			if slices.Contains(r.rooms, f.room) {
				continue
			}
			for _, use := range f.uses(r) {
				problems = append(problems, fmt.Sprintf("%s uses %s, which is for %s only: %s", f.at(use), r.of, strings.Join(r.rooms, " and "), r.instead))
			}
		}
	}
	return problems
}

// uses returns where the file imports the package, or mentions one of the
// reserved names other than as *T: a pointer is handed in, not made.
func (f *source) uses(r reservation) (found []token.Pos) {
	for imported, name := range f.imports() {
		if imported != r.of && !strings.HasPrefix(imported, r.of+"/") || imported == r.but {
			continue
		}
		if r.names == nil {
			return []token.Pos{f.file.Name.Pos()}
		}
		pointers := map[ast.Expr]bool{}
		ast.Inspect(f.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StarExpr:
				pointers[n.X] = true
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				if ok && pkg.Name == name && slices.Contains(r.names, n.Sel.Name) && !pointers[n] {
					found = append(found, n.Pos())
				}
			}
			return true
		})
	}
	return found
}

func missingComments(files []*source) (problems []string) {
	documented := map[string]bool{}
	for _, f := range files {
		if f.isTest() {
			continue
		}
		want := "Package " + f.file.Name.Name + " "
		if f.file.Name.Name == "main" {
			want = "Command " + path.Base(f.dir) + " "
		}
		documented[f.dir] = documented[f.dir] || f.file.Doc != nil && strings.HasPrefix(f.file.Doc.Text(), want)
	}
	for dir, ok := range documented {
		if !ok {
			problems = append(problems, fmt.Sprintf("%s: no file begins with a comment \"Package ...\" (or \"Command ...\"): say what it does for someone, and which tables it owns", dir))
		}
	}
	return problems
}

func initFunctions(files []*source) (problems []string) {
	for _, f := range files {
		for _, decl := range f.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
				problems = append(problems, fmt.Sprintf("%s has an init function: build the value where it is used, or in internal/app", f.at(fn.Pos())))
			}
		}
	}
	return problems
}

// source is one parsed Go file of the module.
type source struct {
	path     string // from the module's root
	dir      string
	room     string
	forTests bool // a _test.go file, or one of a package named ...test
	text     string
	file     *ast.File
	files    *token.FileSet
}

// readTree returns every Go file of this module.
func readTree(t *testing.T) []*source {
	t.Helper()
	all, err := parseTree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parseTree does its work once for all rules.
var parseTree = sync.OnceValues(func() (all []*source, err error) {
	root := os.DirFS("..")
	err = fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipDir(root, p)
		}
		if path.Ext(p) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		f, err := parseSource(p, string(text))
		all = append(all, f)
		return err
	})
	return all, err
})

// skipDir leaves out what is no package of this module.
func skipDir(root fs.FS, p string) error {
	if p == "." {
		return nil
	}
	_, err := fs.Stat(root, path.Join(p, "go.mod"))
	if base := path.Base(p); err == nil || base == "testdata" || strings.HasPrefix(base, ".") {
		return fs.SkipDir
	}
	return nil
}

func parseSource(p, text string) (*source, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	dir := path.Dir(p)
	f := &source{path: p, dir: dir, room: roomOf(dir), text: text, file: file, files: files}
	f.forTests = f.isTest() || isForTests(dir)
	return f, nil
}

func (f *source) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.path, f.files.Position(pos).Line)
}

// imports maps the import paths to the names under which the file knows them.
func (f *source) imports() map[string]string {
	all := map[string]string{}
	for _, spec := range f.file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it
		}
		all[imported] = path.Base(imported)
		if spec.Name != nil {
			all[imported] = spec.Name.Name
		}
	}
	return all
}

// roomOf is the room that a package's folder belongs to: the innermost one that floors
// has, or the folder below internal or cmd where it has none.
func roomOf(dir string) string {
	for at := dir; at != "."; at = path.Dir(at) {
		if _, ok := rooms[at]; ok {
			return at
		}
	}
	elements := strings.Split(dir, "/")
	if elements[0] != "internal" && elements[0] != "cmd" {
		return elements[0]
	}
	return strings.Join(elements[:min(len(elements), 2)], "/")
}

// roomNamed is the folder of the room of a name, or internal/name.
func roomNamed(name string) string {
	for folder, r := range rooms {
		if r.name == name {
			return folder
		}
	}
	return "internal/" + name
}

// isForTests reports whether a package only helps tests: storetest, e2e.
func isForTests(dir string) bool {
	return strings.HasSuffix(dir, "test") || dir == "e2e" || strings.HasPrefix(dir, "e2e/")
}
