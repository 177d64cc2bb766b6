package telemetry_test

import (
	"bytes"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var otlpPaths = []string{"/v1/logs", "/v1/traces", "/v1/metrics"}

// fieldsOf decodes a protobuf message of numbers and strings.
func fieldsOf(t apptest.T, raw []byte) map[int]any {
	t.Helper()
	fields := map[int]any{}
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			t.Fatalf("no protobuf: %x", raw)
		}
		raw = raw[n:]
		switch kind {
		case protowire.VarintType:
			v, size := protowire.ConsumeVarint(raw)
			fields[int(number)], n = int(v), size
		case protowire.BytesType:
			v, size := protowire.ConsumeString(raw)
			fields[int(number)], n = v, size
		default:
			t.Fatalf("field %d has the wire type %d", number, kind)
		}
		raw = raw[n:]
	}
	return fields
}

// wantPartial sends a message of which some records are rejected.
func (c *client) wantPartial(way otlpWay, m proto.Message, rejected int, message string) {
	c.T.Helper()
	a := c.export(way, m).Want(http.StatusOK)
	if way.json {
		name := map[string]string{
			"LogsData": "rejectedLogRecords", "TracesData": "rejectedSpans", "MetricsData": "rejectedDataPoints",
		}[string(m.ProtoReflect().Descriptor().Name())]
		a.WantBody(object{"partialSuccess": object{name: strconv.Itoa(rejected), "errorMessage": message}})
		return
	}
	partial := fieldsOf(c.T, []byte(fieldsOf(c.T, a.Body)[1].(string)))
	if partial[1] != rejected || partial[2] != message {
		c.T.Errorf("partial success %v, want %d and %q", partial, rejected, message)
	}
}

// TestOTLPPartialSuccess: invalid records are listed; the rest is accepted.
func TestOTLPPartialSuccess(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		for _, way := range otlpWays {
			t.Run(way.name, func(t *testing.T) {
				c := w.org(way.name).in(t)
				s := &claude{session: "s", at: anHourAgo()}
				timeless, future := s.activated("p", "pdf-forms", "user-slash"), s.activated("p", "pdf-forms", "user-slash")
				timeless.TimeUnixNano, timeless.ObservedTimeUnixNano = 0, 0
				future.TimeUnixNano = nanos(time.Now().AddDate(1, 0, 0))
				unrelated := s.event("api_error", "p")
				unrelated.TimeUnixNano, unrelated.ObservedTimeUnixNano = 0, 0
				c.wantPartial(way, logsOf(
					timeless, s.activated("p", "pdf-forms", "user-slash"), future,
					s.activated("p", strings.Repeat("x", 201), "user-slash"), unrelated,
				), 3, "log record 0: it has no time; log record 2: its time lies too far in the future or the past; "+
					"log record 3: skill_name must be a skill's own name of 1 to 200 bytes")
				c.wantFigures("pdf-forms", figures{
					Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1),
					Confidence: share(1), Covered: share(1),
				})

				p := copilot{conversation: "c", trace: "trace-1.........", at: anHourAgo()}
				bad := p.agent([]string{"deploy"}, "deploy")
				bad.StartTimeUnixNano = 1 << 63
				c.wantPartial(way, spansOf(bad, p.tool("call")), 1, "span 0: its time lies too far in the future or the past")
				c.wantFigures("deploy", figures{Sessions: 1, Checks: 1, Triggers: 1, TriggerRate: share(1), Covered: share(0)})
			})
		}
		t.Run("many", func(t *testing.T) {
			c := w.org("many").in(t)
			body := logsOf()
			for range 7 {
				scope := body.ResourceLogs[0].ScopeLogs[0]
				scope.LogRecords = append(scope.LogRecords, &logs.LogRecord{
					Attributes: attributes("event.name", "skill_activated", "skill.name", "x"),
				})
			}
			lines := []string{}
			for i := range 5 {
				lines = append(lines, "log record "+strconv.Itoa(i)+": it has no time")
			}
			c.wantPartial(inJSON, body, 7, strings.Join(lines, "; ")+"; and 2 more")
			if n := w.Count("telemetry_pushes WHERE org_id = $1 AND accepted = 0 AND rejected = 7", c.Org.ID); n != 1 {
				t.Errorf("%d bodies with 7 refusals, want 1", n)
			}
		})
	})
}

// TestOTLPGarbage: a malformed body is answered as OTLP requires, in the encoding
// of the request.
func TestOTLPGarbage(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		deep := anyValue("x")
		for range 200 {
			list := &common.ArrayValue{Values: []*common.AnyValue{deep}}
			deep = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}}
		}
		nested := logsOf(&logs.LogRecord{Body: deep})
		nestedRaw, err := proto.Marshal(nested)
		if err != nil {
			t.Fatal(err)
		}
		nestedJSON, err := otlpJSON(nested)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range otlpPaths {
			for name, raw := range map[string][]byte{
				"text": []byte("hello"), "half a message": {0x0a, 0x20, 0x01}, "bad tag": bytes.Repeat([]byte{0xff}, 11),
				"bad text": {0x0a, 0x06, 0x1a, 0x04, 0xff, 0xfe, 0xfd, 0xfc}, "nested too deeply": nestedRaw,
			} {
				if name == "nested too deeply" && path != "/v1/logs" {
					continue
				}
				a := c.Do(http.MethodPost, path, raw, "Content-Type: application/x-protobuf").Want(http.StatusBadRequest)
				status := fieldsOf(t, a.Body)
				if message, _ := status[2].(string); status[1] != 3 || !strings.HasPrefix(message, "the body is no valid ") ||
					a.Header.Get("Content-Type") != "application/x-protobuf" {
					t.Errorf("%s, %s: %v as %s", path, name, status, a.Header.Get("Content-Type"))
				}
			}
			for name, raw := range map[string]string{
				"nothing": "", "text": "hello", "half an object": `{"resourceLogs":[`, "a list": `[]`,
				"an open string":    `{"traceId":"`,
				"a wrong type":      `{"resourceLogs":1,"resourceSpans":1,"resourceMetrics":1}`,
				"nested too deeply": string(nestedJSON),
			} {
				if name == "nested too deeply" && path != "/v1/logs" {
					continue
				}
				a := c.Do(http.MethodPost, path, raw, "Content-Type: application/json; charset=utf-8").Want(http.StatusBadRequest)
				status := a.Object()
				message, _ := status["message"].(string)
				if status["code"] != 3.0 || !strings.HasPrefix(message, "the body is no valid ") {
					t.Errorf("%s, %s: %s", path, name, a.Body)
				}
			}
			for _, raw := range []string{"", "\x7a\x03abc"} { // no fields, and an unknown one
				a := c.Do(http.MethodPost, path, raw, "Content-Type: application/x-protobuf").Want(http.StatusOK)
				if len(a.Body) > 0 {
					t.Errorf("%s, %q: answer %q, want none", path, raw, a.Body)
				}
			}
			c.Do(http.MethodPost, path, `{"unknown":{"traceId":7}}`, "Content-Type: application/json").
				Want(http.StatusOK).WantBody(object{})
		}
		if keys := w.BlobKeys(); len(keys) > 0 {
			t.Errorf("kept %v, want nothing", keys)
		}
	})
}

// rpcCodes are the google.rpc.Codes of the statuses that OTLP's errors have here.
var rpcCodes = map[int]int{400: 3, 401: 16, 403: 7, 413: 3, 415: 3}

// wantStatus wants an error with a google.rpc.Status in an encoding.
func wantStatus(a apptest.Response, mediaType string, status int, message string) {
	a.T.Helper()
	a.Want(status).WantHeader("Content-Type", mediaType)
	got := map[int]any{}
	if mediaType == "application/json" {
		code, _ := a.Object()["code"].(float64)
		got[1], got[2] = int(code), a.Object()["message"]
	} else {
		got = fieldsOf(a.T, a.Body)
	}
	if diff := cmp.Diff(map[int]any{1: rpcCodes[status], 2: message}, got); diff != "" {
		a.T.Errorf("%s: %q (-want +got):\n%s", a.What, a.Body, diff)
	}
}

// TestOTLPGuards checks authentication, permissions and media types, whose
// errors are OTLP's, too.
func TestOTLPGuards(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		viewer := w.member(c.Org, access.Viewer)
		for _, path := range otlpPaths {
			wantStatus(c.Do(http.MethodPost, path, nil, "Content-Type: application/x-protobuf", "Authorization: "),
				"application/x-protobuf", http.StatusUnauthorized, "Missing API key: send the header Authorization: Bearer <API_KEY>")
			wantStatus(viewer.Do(http.MethodPost, path, nil, "Content-Type: application/x-protobuf"),
				"application/x-protobuf", http.StatusForbidden, "This needs the permission telemetry:write")
			for _, contentType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/"} {
				wantStatus(c.Do(http.MethodPost, path, nil, "Content-Type: "+contentType),
					"application/json", http.StatusUnsupportedMediaType,
					`Content-Type "`+contentType+`" is not read here; send application/x-protobuf or application/json`)
			}
			wantStatus(c.Do(http.MethodPost, path, nil, "Content-Type: application/x-protobuf", "Content-Encoding: br"),
				"application/x-protobuf", http.StatusUnsupportedMediaType, `Content-Encoding "br" is not read here`)
			wantStatus(c.Do(http.MethodPost, path, "no gzip", "Content-Type: application/x-protobuf", "Content-Encoding: gzip"),
				"application/x-protobuf", http.StatusBadRequest, "the body is not valid gzip")
			wantStatus(c.Do(http.MethodPost, path, nil, "Content-Type: application/json", "Authorization: "),
				"application/json", http.StatusUnauthorized, "Missing API key: send the header Authorization: Bearer <API_KEY>")
			c.Do(http.MethodGet, path, nil).Want(http.StatusMethodNotAllowed)
		}
	})
}

// TestOTLPLimits: bodies that are too large, or would be once decoded.
func TestOTLPLimits(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c := w.org("acme")
	protobuf, gzipHeader := "Content-Type: application/x-protobuf", "Content-Encoding: gzip"
	wantStatus(c.Do(http.MethodPost, "/v1/logs", make([]byte, 32<<20+1), protobuf),
		"application/x-protobuf", http.StatusRequestEntityTooLarge, "The body is over the limit of 32 MiB")
	wantStatus(c.Do(http.MethodPost, "/v1/logs", gzipped(make([]byte, 64<<20+1)), protobuf, gzipHeader),
		"application/x-protobuf", http.StatusRequestEntityTooLarge, "The inflated body is over the limit of 64 MiB")
	const many = "The body is over the limit of 2000000 messages; send smaller batches"
	wantStatus(c.Do(http.MethodPost, "/v1/traces", gzipped(bytes.Repeat([]byte{0x0a, 0x00}, 2_000_001)), protobuf, gzipHeader),
		"application/x-protobuf", http.StatusRequestEntityTooLarge, many)
	wantStatus(c.Do(http.MethodPost, "/v1/metrics", gzipped([]byte(`{"resourceMetrics":[`+strings.Repeat("{},", 2_000_001)+`{}]}`)),
		"Content-Type: application/json", gzipHeader),
		"application/json", http.StatusRequestEntityTooLarge, many)
	numbers := make([]byte, 16_000_100)                              // each takes a byte on the wire and eight in memory
	for _, field := range []protowire.Number{2, 8, 1, 10, 2, 2, 1} { // from the counts of an exponential histogram up to the body
		numbers = protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), numbers)
	}
	wantStatus(c.Do(http.MethodPost, "/v1/metrics", gzipped(numbers), protobuf, gzipHeader),
		"application/x-protobuf", http.StatusRequestEntityTooLarge, many)
	if keys := w.BlobKeys(); len(keys) > 0 {
		t.Errorf("kept %v, want nothing", keys)
	}
}

// TestOTLPPrivacy: the identity of the sender and the conversation are redacted
// before anything is stored.
func TestOTLPPrivacy(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		s := &claude{session: "s", at: anHourAgo()}
		const (
			address, account, org, user = "jo@example.net", "784e9f9a-0000", "14451454-16e1-4f42", "a68801ea"
			secret, password, said      = "s3cr3t-t0k3n", "hunter2", "the words that were said"
		)
		records := []*logs.LogRecord{
			s.activated("p1", "pdf-forms", "claude-proactive"),
			s.event("user_prompt", "p1", "prompt", said, "prompt_length", "24", "command_name", "mail "+address),
			s.event("assistant_response", "p1", "response", said),
			s.event("tool_result", "p1", "tool_name", "Bash", "tool_input", said, "error", "mail "+address+" failed",
				"tool_parameters", `{"full_command":"git clone https://jo:`+password+`@git.example.com/r?token=`+secret+`&x=1"}`),
			s.event("plugin_loaded", "p1", "plugin.name", address,
				"gen_ai.data_source.id", "https://jo:"+password+"@git.example.com/r?token="+secret),
			s.event("nested", "p1", "list", []string{address, "git+ssh://jo@host.example.com/x"}, "map",
				attributes("user.email", address, "prompt", said, "kept", "jo%40example.net"),
				"raw", []byte(address), "GEN_AI.Input.Messages", said),
			{TimeUnixNano: nanos(s.at), EventName: "gen_ai.user.message", Body: anyValue(attributes("content", said))},
			verdictOf(s.at, "gen_ai.evaluation.score.label", "pass", "gen_ai.evaluation.explanation", "as "+address+" wanted"),
		}
		body := logsOf(records...)
		body.ResourceLogs[0].Resource.Attributes = append(body.ResourceLogs[0].Resource.Attributes,
			attributes("user.email", address, "process.owner", address)...)
		body.ResourceLogs[0].ScopeLogs[0].Scope.Name = "scope of " + address
		agent := copilot{conversation: "c", trace: "trace-1.........", at: s.at}.agent([]string{"pdf-forms"}, "pdf-forms")
		agent.Name, agent.Status = "by "+address, &trace.Status{Message: address}
		agent.Links = []*trace.Span_Link{{Attributes: attributes("user.email", address)}}
		agent.Events[0].Attributes = append(agent.Events[0].Attributes, attributes("github.copilot.skill.content", said)...)
		for _, way := range []otlpWay{inProtobuf, inJSON} {
			c.take(way, body)
			c.take(way, spansOf(agent))
			c.take(way, counterOf(delta,
				injected(s.at, s.at.Add(time.Second), 1, "user.email", address, "user.account_id", account)))
		}
		kept := w.everything()
		for _, secret := range []string{
			address, "jo%40example.net", "jo@", account, org, user, "user_01FrehyoAK5", "u-17",
			secret, password, said,
		} {
			if i := strings.Index(kept, secret); i >= 0 {
				t.Errorf("%q is kept: ...%q...", secret, kept[max(0, i-80):min(len(kept), i+80)])
			}
		}
		for _, fact := range []string{
			"user.id", "enduser.pseudo.id", "prompt_length", "git.example.com", "terminal.type",
			"pdf-forms", "[email]",
		} {
			if !strings.Contains(kept, fact) {
				t.Errorf("%q is lost", fact)
			}
		}
		if strings.Contains(w.Logged.String(), address) {
			t.Error("the address is in the log")
		}
	})
}

// everything returns all that is stored: the rows of all tables, and all blobs,
// inflated.
func (w *world) everything() string {
	w.T.Helper()
	var all strings.Builder
	for table, columns := range w.Columns() {
		rows, err := w.DB.Query(w.T.Context(), `SELECT `+columns+` FROM `+table)
		texts, err := store.All(rows, err, store.Value[string])
		if err != nil {
			w.T.Fatal(err)
		}
		all.WriteString(strings.Join(texts, "\n") + "\n")
	}
	for _, key := range w.BlobKeys() {
		all.WriteString(key + "\n" + w.inflated(key) + "\n")
	}
	err := filepath.WalkDir(w.BlobDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all.WriteString(path + "\n" + string(raw) + "\n")
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return all.String()
}

// inflated returns the decompressed content of a blob.
func (w *world) inflated(key string) string {
	w.T.Helper()
	packed, _, err := w.Blobs.Get(w.T.Context(), key)
	if err != nil {
		w.T.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		w.T.Fatal(err)
	}
	raw, err := io.ReadAll(r)
	if err != nil {
		w.T.Fatal(err)
	}
	return string(raw)
}

// TestOTLPKeepsBodies: the raw body is stored until its sender erases it; the
// numbers stay.
func TestOTLPKeepsBodies(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		c := w.org("acme")
		s := &claude{session: "s", at: anHourAgo()}
		c.take(inJSON, logsOf(s.activated("p1", "pdf-forms", "user-slash"), s.event("api_request", "p1", "cost_usd", 0.5)))
		keys := w.BlobKeys()
		if len(keys) != 1 || !regexp.MustCompile(`^telemetry/`+c.Org.ID+`/.*[0-9a-f-]{36}\.logs\.pb\.gz$`).MatchString(keys[0]) {
			t.Fatalf("kept %v, want one body", keys)
		}
		data := &logs.LogsData{}
		if err := proto.Unmarshal([]byte(w.inflated(keys[0])), data); err != nil {
			t.Fatal(err)
		}
		if n := len(data.ResourceLogs[0].ScopeLogs[0].LogRecords); n != 2 {
			t.Errorf("%d records are kept, want 2", n)
		}
		if got := c.Get("/api/v1/alpha/verify").Object()["total_pushes"]; got != 1.0 {
			t.Errorf("total_pushes %v, want 1", got)
		}
		w.Work()
		c.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		w.Settle()
		if keys := w.BlobKeys(); len(keys) > 0 {
			t.Errorf("still kept: %v", keys)
		}
		c.take(inJSON, logsOf(s.activated("p2", "pdf-forms", "user-slash")))
		c.wantFigures("pdf-forms", figures{
			Sessions: 1, Checks: 2, Triggers: 2, TriggerRate: share(1), Confidence: share(1),
			Covered: share(1),
		})
	})
}

// TestDocumentedExamples runs the commands of the documentation.
func TestDocumentedExamples(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil && os.Getenv("WHETSTONE_REQUIRE") != "all" {
		t.Skip("curl is not installed; run `make setup`")
	}
	document, err := os.ReadFile("../../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, storetest.Open(t, "sqlite"))
	c := w.org("acme")
	server := httptest.NewServer(w.API)
	t.Cleanup(server.Close)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(document), -1)
	ran := 0
	for _, block := range blocks {
		if !strings.Contains(block[1], "curl ") {
			continue
		}
		command := exec.CommandContext(t.Context(), "sh", "-eu", "-c", block[1])
		command.Env = append(os.Environ(), "WHETSTONE_SERVER="+server.URL, "WHETSTONE_API_KEY="+c.Key)
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("%v in\n%s\n%s", err, block[1], out)
		}
		ran++
	}
	if ran < 3 {
		t.Errorf("ran %d examples, want at least three", ran)
	}
	c.wantFigures("pdf-forms", figures{
		Sessions: 2, Checks: 3, Triggers: 3, TriggerRate: share(1),
		Confidence: share(0.95), Covered: share(2.0 / 3),
	})
}
