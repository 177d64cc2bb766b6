package e2e_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var (
	mutations    = flag.Int("mutations", 750, "how many broken requests TestMutations sends to each database's server")
	mutationSeed = flag.Uint64("mutation-seed", 1, "what TestMutations draws from; the same seed gives the same requests")
)

// The bounds of what a server may keep after all the broken requests.
const (
	maxHeapGrowth      = 64 << 20
	maxRSSGrowth       = 256 << 20
	maxGoroutineGrowth = 40
)

// TestMutations builds good requests for every operation of /openapi.json,
// breaks them, and wants nothing but the contract's refusals: no 5xx, no
// panic, no memory kept, and a server that does all it did before.
func TestMutations(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, database, "--plan", "enterprise")
			m := newMutator(t, p)
			before := p.usage(t)
			m.run(*mutations)
			after := p.settle(t)
			m.report(before, after)
			m.checkUsage(before, after)
			m.checkLog()
			key := p.newKey(t, "after")
			p.command(t, "repohost", "allow", "after", "after") // with two organisations, the operator does
			m.filler.Fill(t, key, "after", 4712)                // everything still works
		})
	}
}

// operation is what the document says of a route.
type operation struct {
	route      httpapi.Route
	row        apptest.Row
	statuses   []int
	parameters []string // of the query
	methods    []string // of the path
}

// mutator sends broken requests.
type mutator struct {
	*testing.T
	process    *process
	client     *apptest.Client
	filler     *apptest.Filler
	org        *apptest.Org
	operations []operation
	pages      []operation
	cookie     string

	mu       sync.Mutex
	key      string
	spare    apptest.Things // to be used up
	statuses map[int]int
	kinds    map[string]int // of mutations
	failures int
}

func newMutator(t *testing.T, p *process) *mutator {
	t.Helper()
	m := &mutator{T: t, process: p, client: p.client, key: p.key, statuses: map[int]int{}, kinds: map[string]int{}}
	m.readDocument()
	var routes []httpapi.Route
	for _, o := range m.operations {
		routes = append(routes, o.route)
	}
	m.filler = &apptest.Filler{Client: m.client, Routes: routes, Secret: hookSecret, Repos: p.repos(t)}
	m.org = m.filler.Fill(t, p.key, "mutated", 4711)
	m.org.Things["session"] = uuid.NewString()
	m.renew()
	m.cookie = m.signIn()
	return m
}

// readDocument lists the operations of the real binary, and the pages.
func (m *mutator) readDocument() {
	m.Helper()
	a, err := m.client.Do(m.Context(), apptest.Request{Method: "GET", Path: "/openapi.json"}, nil)
	if err != nil {
		m.Fatal(err)
	}
	var document struct {
		Paths map[string]map[string]declaration
	}
	if err := json.Unmarshal([]byte(a.Body), &document); err != nil {
		m.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(document.Paths[path])) {
			o := m.operation(method, path, document.Paths[path][method])
			o.methods = slices.Collect(maps.Keys(document.Paths[path]))
			m.operations = append(m.operations, o)
		}
	}
	m.listPages()
}

// declaration is the part of the document that says what an operation may
// answer and be asked.
type declaration struct {
	Responses  map[string]any
	Parameters []struct{ In, Name string }
}

func (m *mutator) operation(method, path string, declared declaration) operation {
	m.Helper()
	row, ok := apptest.Rows()[apptest.RouteName(method, path)]
	if !ok {
		m.Fatalf("%s %s has no row in internal/app/apptest: say how it is asked", method, path)
	}
	o := operation{route: httpapi.Route{Method: strings.ToUpper(method), Path: path}, row: row}
	for status := range declared.Responses {
		if n, err := strconv.Atoi(status); err == nil {
			o.statuses = append(o.statuses, n)
		}
	}
	for _, p := range declared.Parameters {
		if p.In == "query" {
			o.parameters = append(o.parameters, p.Name)
		}
	}
	return o
}

// limited are the forms that a few requests a minute may send.
var limited = []string{"/login", "/login/device", "/login/device/finish", "/logout", "/device"}

// listPages lists the pages and forms in a fixed order.
func (m *mutator) listPages() {
	pages := apptest.Pages()
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		method, path, _ := strings.Cut(name, " ")
		if slices.Contains(limited, path) {
			continue
		}
		if path == "/{}" {
			path = "/{$}"
		}
		m.pages = append(m.pages, operation{route: httpapi.Route{Method: method, Path: path}, row: pages[name]})
	}
}

func (m *mutator) signIn() string {
	m.Helper()
	a, err := m.client.Do(m.Context(), apptest.Request{
		Method: "POST", Path: "/login", Body: []byte("api_key=" + m.key), Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	}, nil)
	cookie, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	if err != nil || cookie == "" {
		m.Fatalf("signing in: %d %v", a.Status, err)
	}
	return cookie
}

// senders is how many requests are under way at once.
const senders = 4

// run sends n broken requests. The number of a request decides what it is.
func (m *mutator) run(n int) {
	m.Helper()
	numbers := make(chan int)
	var group sync.WaitGroup
	for range senders {
		group.Go(func() {
			for number := range numbers {
				m.mutate(number)
			}
		})
	}
	for number := range n {
		if number%400 == 399 {
			m.renew()
		}
		numbers <- number
	}
	close(numbers)
	group.Wait()
}

// renew takes a new key: some limits are the key's. And it puts back what
// requests have used up.
func (m *mutator) renew() {
	a, err := m.client.Do(m.Context(), apptest.Request{
		Method: "POST", Path: "/api/v1/keys", Body: []byte(`{"name":"next"}`), Header: http.Header{"Content-Type": {"application/json"}},
	}, apptest.Bearer(m.process.key))
	key, atErr := a.At("api_key")
	if err != nil || atErr != nil {
		m.Errorf("a good request for a key failed: %d %s %v", a.Status, a.Body, err)
		return
	}
	fresh := apptest.Things{}
	for _, o := range slices.Concat(m.operations, m.pages) {
		if kind := o.row.Spends; kind != "" && fresh[kind] == "" {
			fresh[kind] = m.org.Make(kind)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key, m.spare = key, fresh
}

// mutate sends one broken request and looks at the answer.
func (m *mutator) mutate(number int) {
	d := newDraw(*mutationSeed, number)
	m.mu.Lock()
	key, spare := m.key, m.spare
	m.mu.Unlock()
	o, header := m.operations[d.below(len(m.operations))], apptest.Bearer(key)
	page := d.below(8) == 0
	if page {
		o, header = m.pages[d.below(len(m.pages))], http.Header{"Cookie": {m.cookie}}
	}
	things := m.org.Things
	if kind := o.row.Spends; kind != "" {
		things = things.With(kind, spare[kind])
	}
	r := &broken{Request: o.row.Request(m, o.route, things), operation: o, draw: d}
	for name, values := range header {
		r.Header[name] = values
	}
	for range 1 + d.below(3) {
		r.mutate()
	}
	status, problem := m.process.send(m.T, r, page)
	m.note(status, r)
	if problem != "" {
		m.fail("%s\nrequest %d of seed %d: %s", problem, number, *mutationSeed, r)
	}
}

func (m *mutator) note(status int, r *broken) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.statuses[status]++
	for _, kind := range r.kinds {
		m.kinds[kind]++
	}
}

// maxFailures is how many broken promises are shown.
const maxFailures = 30

func (m *mutator) fail(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures++; m.failures <= maxFailures {
		m.Errorf(format, args...)
	}
}

func (m *mutator) report(before, after usage) {
	var total, faults int
	for status, n := range m.statuses {
		total += n
		if status >= 500 {
			faults += n
		}
	}
	m.Logf("mutated requests: %d to %d operations and %d pages, seed %d; 5xx: %d; failures: %d", total, len(m.operations), len(m.pages), *mutationSeed, faults, m.failures)
	m.Logf("statuses: %v (0: the server closed the connection)", m.statuses)
	m.Logf("mutations: %v", m.kinds)
	m.Logf("before: %v; after: %v", before, after)
}

func (m *mutator) checkUsage(before, after usage) {
	if after.heap > before.heap+maxHeapGrowth || after.rss > before.rss+maxRSSGrowth || after.goroutines > before.goroutines+maxGoroutineGrowth {
		m.Errorf("the server keeps too much: before %v, after %v", before, after)
	}
}

var badLine = regexp.MustCompile(`(?m)^.*(panic|level=ERROR|fatal error|DATA RACE).*$`)

func (m *mutator) checkLog() {
	log, err := os.ReadFile(filepath.Join(m.process.dir, "server.log"))
	if err != nil {
		m.Fatal(err)
	}
	if lines := badLine.FindAllString(string(log), 10); lines != nil {
		m.Errorf("the log tells of faults of ours:\n%s", strings.Join(lines, "\n"))
	}
}

// usage is what a process holds.
type usage struct {
	rss, heap, goroutines int64
}

func (u usage) String() string {
	return fmt.Sprintf("RSS %d MiB, heap %d MiB, %d goroutines", u.rss>>20, u.heap>>20, u.goroutines)
}
