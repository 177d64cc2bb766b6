package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var expensive = flag.Bool("expensive", false, "TestExpensive sends every variant, 32 at once, and bounds how long /healthz takes")

// memoryLimit is what the server may take in TestExpensive: half of what
// deploy/compose gives it.
const memoryLimit = 512 << 20

// TestExpensive sends to every route and page the most expensive request that
// its limits allow, many at once, to a server in a memory limit. The server
// must survive it, answer nothing but the contract's refusals, and answer
// /healthz all the while.
func TestExpensive(t *testing.T) {
	t.Parallel()
	for _, database := range storetest.Databases(t) {
		if testing.Short() && database == "postgres" {
			continue
		}
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			// Reading archives takes most of the time: only `make expensive` meets the largest.
			files := 1
			if *expensive {
				files = 40
			}
			cage := newCage(t, memoryLimit)
			p := startProcessIn(t, cage, database, "--plan", "enterprise")
			e := &expense{mutator: newMutator(t, p), atOnce: 2}
			if *expensive {
				e.atOnce = 32
			}
			if testing.Short() {
				e.pages = nil
			}
			e.weighDown([2]string{heavyArchive(t, "old", files), heavyArchive(t, "new", files)})
			probe := watchHealth(t, p)
			e.walk()
			worst, probes := probe.stop()
			t.Logf("%d requests, %d at once, to %d operations, %d pages and %d public paths; statuses %v (0: connection closed)",
				e.sent.Load(), e.atOnce, len(e.operations), len(e.pages), len(e.public()), e.statuses)
			peak := residentPeak(t, p)
			t.Logf("at most %d MiB resident, limit %d MiB (%s); /healthz: %d probes, slowest %s",
				peak>>20, memoryLimit>>20, cage, probes, worst.Round(time.Millisecond))
			// In a control group the kernel keeps the limit: a server over it is killed.
			// Resident are also pages of the binary and of the database's files,
			// which the kernel takes back at will and does not count.
			if cage.dir == "" && peak > memoryLimit {
				t.Errorf("the server took %d MiB, over its limit of %d", peak>>20, memoryLimit>>20)
			}
			if *expensive && worst > time.Second {
				t.Errorf("/healthz took %s while expensive requests were under way", worst)
			}
			e.checkLog()
		})
	}
}

// expense sends expensive requests.
type expense struct {
	*mutator
	atOnce int
	sent   atomic.Int64
}

// weighDown gives the organisation the largest things that it may have, for
// the routes to read: a public entry of two versions in which every line, of up to
// 40 MiB, differs, whose SKILL.md is a wide table, and a suite of 500 cases.
func (e *expense) weighDown(archives [2]string) {
	e.Helper()
	heavy := e.org.Things
	heavy["archive"] = archives[0]
	heavy["entry_name"] = "heavy"
	heavy["entry"] = e.publishHeavy("/api/v1/registry", "1.0.0", heavy["archive"])
	e.publishHeavy("/api/v1/registry/"+heavy["entry"]+"/versions", "1.1.0", archives[1])
	form := apptest.Row{Form: [][3]string{{"label", "", "heavy"}, {"skill_id", "", "<skill>"}, {"file", "skill.tar.gz", "<archive>"}}}
	uploaded := e.good(form.Request(e, httpapi.Route{Method: "POST", Path: "/api/v1/cloud-sources/upload"}, heavy))
	heavy["source"], heavy["snapshot"] = e.at(uploaded, "id"), e.at(uploaded, "snapshot.id")
	cases := strings.Repeat(`{"case_kind":"trigger_query","query":"`+strings.Repeat("wide table ", 150)+`","expectation":"should_trigger"},`, 500)
	suite := e.good(apptest.Request{
		Method: "POST", Path: "/api/v1/eval-suites", Header: http.Header{"Content-Type": {"application/json"}},
		Body: []byte(`{"name":"heavy","source_kind":"manual","verifier_kind":"llm_judge","cases_json":[` + strings.TrimSuffix(cases, ",") + `]}`),
	})
	heavy["suite"] = e.at(suite, "suite.id")
}

func (e *expense) publishHeavy(path, version, archive string) string {
	e.Helper()
	metadata := `{"name":"heavy","visibility":"public","description":"a heavy skill","version":"` + version + `"}`
	row := apptest.Row{Form: [][3]string{{"metadata", "", metadata}, {"archive", "skill.tar.gz", archive}}}
	return e.at(e.good(row.Request(e, httpapi.Route{Method: "POST", Path: path}, e.org.Things)), "entry.id")
}

// good sends a request that must succeed.
func (e *expense) good(r apptest.Request) apptest.Answer {
	e.Helper()
	a, err := e.client.Do(e.Context(), r, apptest.Bearer(e.key))
	if err != nil || a.Status >= http.StatusBadRequest {
		e.Fatalf("%s %s: %d %.500s %v", r.Method, r.Path, a.Status, a.Body, err)
	}
	return a
}

func (e *expense) at(a apptest.Answer, path string) string {
	e.Helper()
	value, err := a.At(path)
	if err != nil {
		e.Fatal(err)
	}
	return value
}

// heavyArchive is a skill with so many files of 1 MiB: 40 are near the limits of an
// archive. Each line holds the mark, so that two archives have no line in common.
func heavyArchive(tb testing.TB, mark string, count int) string {
	tb.Helper()
	const columns, rows = 60, 400
	table := strings.Repeat("|a", columns) + "|\n" + strings.Repeat("|-", columns) + "|\n" + strings.Repeat("|x\n", rows)
	files := []string{"SKILL.md", "---\nname: heavy\ndescription: Reads wide tables (" + mark + "). Use it for tables.\n---\n" +
		table + strings.Repeat("[a](", 4000)}
	for n := range count {
		var lines strings.Builder
		for i := 0; lines.Len() < 1<<20-64; i++ {
			fmt.Fprintf(&lines, "%s %d\n", mark, i*7+n)
		}
		files = append(files, fmt.Sprintf("references/%d.md", n), lines.String())
	}
	return apptest.Pack(tb, files...)
}

// walk sends the expensive requests of every route, page and public path.
func (e *expense) walk() {
	for _, o := range e.operations {
		if strings.HasSuffix(o.route.Path, "/events") {
			continue // a stream that goes on until the client leaves
		}
		e.flood(o, apptest.Bearer(e.key))
	}
	for _, o := range e.pages {
		if strings.HasSuffix(o.route.Path, "/events") {
			continue
		}
		e.flood(o, http.Header{"Cookie": {e.cookie}})
	}
	for _, path := range e.public() {
		e.burst(path, func() apptest.Request { return apptest.Request{Method: "GET", Path: path} }, nil)
	}
}

// public are the paths that need no key and are in no document.
func (e *expense) public() []string {
	return []string{
		"/.well-known/agent-skills/index.json", "/.well-known/skills/index.json", "/.well-known/skills/heavy/SKILL.md",
		"/.well-known/skills/heavy/references/4.md", "/openapi.json", "/docs", "/readyz", "/metrics", "/login", "/login/device",
	}
}

// flood sends every variant of an operation's request.
func (e *expense) flood(o operation, header http.Header) {
	for _, v := range variants(o) {
		e.burst(o.route.Method+" "+o.route.Path+" "+v.name, func() apptest.Request {
			things := e.org.Things
			if kind := o.row.Spends; kind != "" {
				things = things.With(kind, e.spare[kind])
			}
			r := o.row.Request(e, o.route, things)
			v.grow(&r)
			if o.route.Path == "/api/v1/repohost/webhook" { // without a signature nothing of it would be read
				r.Header.Set(host.EventHeader, "push")
				r.Header.Set(host.DeliveryHeader, uuid.NewString())
				r.Header.Set(host.SignatureHeader, host.Sign(hookSecret, r.Body))
			}
			return r
		}, header)
		if !*expensive && v.name != "good" {
			break // one of the large ones
		}
	}
}

// burst sends requests of one kind, all at once, and judges the answers. What
// they spend is spent by the first: the others find nothing, or a conflict.
func (e *expense) burst(name string, request func() apptest.Request, header http.Header) {
	var group sync.WaitGroup
	for range e.atOnce {
		r := request()
		group.Go(func() {
			ctx, cancel := context.WithTimeout(e.Context(), 2*time.Minute)
			defer cancel()
			status, err := e.measure(ctx, r, header)
			e.sent.Add(1)
			e.note(status, &broken{})
			if ctx.Err() != nil {
				e.fail("%s: no answer in two minutes: %v", name, err)
			}
			if status >= 500 && status != http.StatusServiceUnavailable && status != http.StatusBadGateway {
				e.fail("%s: %d", name, status)
			}
		})
	}
	group.Wait()
	if !e.process.running.Alive() {
		e.Fatalf("the server has died of %s", name)
	}
}

// measure sends a request and reads the answer away. The status is 0 if the
// server closed the connection, as it does on a body over its limit.
func (e *expense) measure(ctx context.Context, r apptest.Request, header http.Header) (int, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, e.process.url+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return 0, err
	}
	for _, h := range []http.Header{r.Header, header} {
		maps.Copy(req.Header, h)
	}
	res, err := e.client.HTTP.Transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}

// A variant makes a good request expensive.
type variant struct {
	name string
	grow func(*apptest.Request)
}

func variants(o operation) []variant {
	all := []variant{{"good", func(*apptest.Request) {}}}
	switch {
	case o.row.Form != nil || o.row.Body == "":
		return all // the archive is large already
	case o.row.Type != "":
		return append(all, variant{"long form", func(r *apptest.Request) {
			r.Body = append(r.Body, ("&padding=" + strings.Repeat("%41", 300<<10))...)
		}})
	}
	limit, inflated := bodyLimits(o.route.Path)
	repeated := func(r *apptest.Request) { r.Body = repeatItems(r.Body, limit) }
	objects := func(r *apptest.Request) { r.Body = pad(r.Body, `[`, `{},`, `{}]`, limit) }
	deep := func(r *apptest.Request) { r.Body = pad(r.Body, ``, `[`, ``, limit) }
	all = append(all, variant{"items", repeated}, variant{"objects", objects}, variant{"depth", deep})
	if inflated > 0 {
		bomb := func(r *apptest.Request) {
			r.Body = compressed(pad(r.Body, `[`, `{},`, `{}]`, inflated))
			r.Header.Set("Content-Encoding", "gzip")
		}
		items := func(r *apptest.Request) {
			r.Body = compressed(repeatItems(r.Body, inflated))
			r.Header.Set("Content-Encoding", "gzip")
		}
		all = slices.Insert(all, 1, variant{"inflated", bomb}, variant{"inflated items", items})
	}
	if o.route.Path == "/api/v1/push" { // first, so that the short form has it
		records := func(r *apptest.Request) {
			r.Body = compressed(distinctRecords())
			r.Header.Set("Content-Encoding", "gzip")
		}
		all = slices.Insert(all, 1, variant{"distinct records", records})
	}
	return all
}

// distinctRecords is a push of model requests and invocations that are all new, each
// of a session of its own: with -expensive nearly as many as a body may hold.
func distinctRecords() []byte {
	count := 5_000
	if *expensive {
		count = 100_000
	}
	var requests, invocations strings.Builder
	at := time.Now().UTC().Format(time.RFC3339)
	for n := range count / 2 {
		session := uuid.NewString()
		fmt.Fprintf(&requests, `{"request_id":"%[1]s","session_id":"%[1]s","occurred_at":"%[2]s","skill_name":"skill-%[3]d",`+
			`"model":"claude-sonnet-4-5","input_tokens":1000,"output_tokens":50},`, session, at, n%100)
		fmt.Fprintf(&invocations, `{"skill_invocation_id":"%[1]s","session_id":"%[1]s","occurred_at":"%[2]s",`+
			`"skill_name":"skill-%[3]d","triggered":true},`, session, at, n%100)
	}
	return []byte(`{"push_id":"` + uuid.NewString() + `","canonical":{"model_requests":[` + strings.TrimSuffix(requests.String(), ",") +
		`],"skill_invocations":[` + strings.TrimSuffix(invocations.String(), ",") + `]}}`)
}

// bodyLimits are the contract's: on the wire, and inflated where gzip is read.
func bodyLimits(path string) (wire, inflated int) {
	switch path {
	case "/api/v1/push", "/v1/logs", "/v1/traces", "/v1/metrics":
		return 32 << 20, 64 << 20
	case "/api/v1/signals":
		return 8 << 20, 8 << 20
	case "/api/v1/community/bundles":
		return 8 << 20, 0
	case "/api/v1/repohost/webhook":
		return 25 << 20, 0
	}
	return 1 << 20, 0
}

// pad adds a field that no route knows to an object, up to the limit.
func pad(body []byte, begin, item, end string, limit int) []byte {
	object := bytes.TrimSuffix(bytes.TrimSpace(body), []byte("}"))
	if len(object) > 1 {
		object = append(object, ',')
	}
	object = append(object, `"padding":`+begin...)
	room := limit - len(object) - len(end) - 2
	object = append(object, strings.Repeat(item, room/len(item))...)
	if end == "" { // left open, as deep as it can be
		return object
	}
	return append(object, end+"}"...)
}

// repeatItems repeats the items of every list in a document until the limit.
func repeatItems(body []byte, limit int) []byte {
	var document any
	if json.Unmarshal(body, &document) != nil {
		return body
	}
	times := 1
	grown := body
	for {
		times *= 4
		next, err := json.Marshal(withRepeated(document, times))
		if err != nil || len(next) > limit || len(next) == len(grown) {
			return grown
		}
		grown = next
	}
}

func withRepeated(value any, times int) any {
	switch v := value.(type) {
	case map[string]any:
		changed := map[string]any{}
		for name, field := range v {
			changed[name] = withRepeated(field, times)
		}
		return changed
	case []any:
		return slices.Repeat(v, times)
	}
	return value
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level exists; the server inflates as much
	_, _ = w.Write(body)                            // into memory
	_ = w.Close()
	return b.Bytes()
}

// A health probe asks /healthz until it is stopped.
type healthProbe struct {
	cancel context.CancelFunc
	done   chan struct{}
	worst  time.Duration
	count  int
}

func watchHealth(t *testing.T, p *process) *healthProbe {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	probe := &healthProbe{cancel: cancel, done: make(chan struct{})}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}
	go func() {
		defer close(probe.done)
		for ctx.Err() == nil {
			started := time.Now()
			res, err := client.Get(p.url + "/healthz")
			if err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("/healthz does not answer: %v", err)
				return
			}
			_ = res.Body.Close()
			probe.worst = max(probe.worst, time.Since(started))
			probe.count++
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return probe
}

func (h *healthProbe) stop() (worst time.Duration, count int) {
	h.cancel()
	<-h.done
	return h.worst, h.count
}

// A cage bounds a process's memory with a control group where this test may
// make one, and else only measures it.
type cage struct {
	dir     string // of the control group, "" without one
	unified bool   // version 2
	limit   int64  // in bytes, 0 without one
}

func (c *cage) String() string {
	switch {
	case c.dir == "":
		return "measured, no control group here"
	case c.unified:
		return "control group, version 2"
	}
	return "control group, version 1"
}

// newCage makes a control group for a test, and removes it after the server.
func newCage(t *testing.T, limit int64) *cage {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return &cage{limit: limit} // not Linux
	}
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		c := &cage{unified: fields[1] == "", limit: limit}
		root, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		if c.unified {
			root, file = "/sys/fs/cgroup", "memory.max"
		} else if fields[1] != "memory" {
			continue
		}
		c.dir = filepath.Join(root, fields[2], fmt.Sprintf("whetstone-test-%d-%d", os.Getpid(), time.Now().UnixNano()))
		if os.Mkdir(c.dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(c.dir) }) // runs after the server has ended
		if os.WriteFile(filepath.Join(c.dir, file), []byte(strconv.FormatInt(limit, 10)), 0) == nil {
			return c
		}
	}
	return &cage{limit: limit}
}

// prefix starts a command inside the control group, so that the server finds
// its limit there.
func (c *cage) prefix() []string {
	if c.dir == "" {
		return nil
	}
	return []string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(c.dir, "cgroup.procs")}
}

// env tells the server the limit where there is no control group to tell it.
func (c *cage) env() []string {
	if c.dir != "" || c.limit == 0 {
		return nil
	}
	return []string{fmt.Sprintf("GOMEMLIMIT=%d", c.limit*9/10)}
}

// residentPeak is the most memory that the server has had.
func residentPeak(t *testing.T, p *process) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.running.PID()))
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kib int64
			_, err := fmt.Sscan(value, &kib)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	return 0
}
