package telemetry_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// stamp formats a time as clients do.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// check is an invocation of the skill pdf that fired in the session s.
func check(id string, with object) object {
	record := object{
		"record_kind": "skill_invocation", "skill_invocation_id": id, "session_id": "s", "skill_name": "pdf",
		"occurred_at": stamp(time.Now()), "triggered": true, "confidence": 0.5, "invocation_mode": "explicit",
	}
	for key, value := range with {
		record[key] = value
	}
	return record
}

func invocations(records ...object) object { return object{"skill_invocations": records} }

// accepted is the response to a push without rejected records.
func accepted(pushID string, n int) object {
	return object{"status": "accepted", "push_id": pushID, "accepted": n, "unattributed": 0, "rejected": []any{}}
}

func duplicate(pushID string) object {
	return object{
		"status": "accepted", "push_id": pushID, "duplicate": true, "accepted": 0, "unattributed": 0, "rejected": []any{},
	}
}

// day returns the numbers of a skill today.
func (c *client) day(skill string) object {
	c.T.Helper()
	return c.Get("/v1/skills/" + skill + "?days=1").Want(http.StatusOK).Object()["daily_stats"].([]any)[0].(object)
}

// wantChecks checks how many invocations of pdf count today.
func (c *client) wantChecks(n int) {
	c.T.Helper()
	if got := c.day("pdf")["checks"]; got != float64(n) {
		c.T.Errorf("%v checks, want %d", got, n)
	}
}

func TestPush(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob, eve := w.member(ada.Org, access.Member), w.org("other")
		id := uuid.NewString()
		ada.push(id, invocations(check("1", nil), check("2", nil))).Want(http.StatusCreated).WantBody(accepted(id, 2))
		ada.push(id, invocations(check("3", nil))).Want(http.StatusOK).WantBody(duplicate(id))
		bob.push(id, invocations(check("3", nil))).Want(http.StatusOK).WantBody(duplicate(id))
		ada.wantChecks(2)

		eve.push(id, invocations(check("1", nil))).Want(http.StatusCreated).WantBody(accepted(id, 1))
		eve.wantChecks(1)
		ada.wantChecks(2)

		ada.push(uuid.NewString(), object{}).Want(http.StatusCreated)
		ada.pushBody(object{"push_id": strings.ToUpper(id), "canonical": object{}}).Want(http.StatusOK).WantBody(duplicate(id))
	})
}

// TestPushWithoutID: the same body of the same user counts once.
func TestPushWithoutID(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Member)
		for _, given := range []object{{}, {"push_id": nil}, {"push_id": ""}, {"push_id": "monday"}} {
			body := object{"canonical": invocations(check(fmt.Sprint(given), nil))}
			for key, value := range given {
				body[key] = value
			}
			first := ada.pushBody(body).Want(http.StatusCreated).Object()["push_id"].(string)
			if _, err := uuid.Parse(first); err != nil {
				t.Errorf("%v: push_id %q", given, first)
			}
			ada.pushBody(body).Want(http.StatusOK).WantBody(duplicate(first))
			ada.Get("/api/v1/push/" + first).Want(http.StatusOK)
			// The same records of another user are other records.
			bob.pushBody(body).Want(http.StatusCreated)
		}
		ada.wantChecks(8)
	})
}

// TestOneBadRecord: an invalid record does not lose the others.
func TestOneBadRecord(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ada := newWorld(t, db).org("acme")
		var records []object
		for i := range 500 {
			records = append(records, check(fmt.Sprint(i), object{"session_id": fmt.Sprint("s", i%50)}))
		}
		records[123]["triggered"] = "yes"
		id := uuid.NewString()
		ada.push(id, invocations(records...)).Want(http.StatusCreated).WantBody(object{
			"status": "accepted", "push_id": id, "accepted": 499, "unattributed": 0,
			"rejected": []any{object{"kind": "skill_invocation", "index": 123, "message": "triggered: unexpected string"}},
		})
		wantStats := object{"checks": 499.0, "sessions": 50.0, "triggers": 499.0}
		for key, want := range wantStats {
			if got := ada.day("pdf")[key]; got != want {
				t.Errorf("%s is %v, want %v", key, got, want)
			}
		}
		got := ada.Get("/api/v1/push/" + id).Want(http.StatusOK).Object()
		received, err := time.Parse(time.RFC3339Nano, got["received_at"].(string))
		if err != nil || time.Since(received) > time.Minute {
			t.Errorf("received_at %v", got["received_at"])
		}
		delete(got, "received_at")
		want := object{"status": "accepted", "push_id": id, "accepted": 499.0, "rejected": 1.0}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("GET of the push: %v, want %v", got, want)
		}
	})
}

func TestPushRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		for _, c := range []struct{ name, body, path, message string }{
			{"empty", ``, "", "the body is not a JSON object: unexpected end of JSON input"},
			{"no JSON", `hello`, "", "the body is not a JSON object: invalid character 'h' looking for beginning of value"},
			{"cut off", `{"canonical":{"sessions":[`, "", "the body is not a JSON object: unexpected end of JSON input"},
			{"no canonical", `{}`, "canonical", "canonical is required: an object of arrays of records"},
			{"null canonical", `{"canonical":null}`, "canonical", "canonical is required: an object of arrays of records"},
			{"array canonical", `{"canonical":[]}`, "canonical", "canonical: unexpected array"},
			{"number as push_id", `{"push_id":5,"canonical":{}}`, "push_id", "push_id: unexpected number"},
		} {
			t.Run(c.name, func(t *testing.T) {
				ada.in(t).Do(http.MethodPost, "/api/v1/push", c.body).WantIssues(c.path, c.message)
			})
		}
		ada.Do(http.MethodPost, "/api/v1/push", `[]`).Want(http.StatusBadRequest)
		if keys := w.BlobKeys(); len(keys) > 0 {
			t.Errorf("kept %v", keys)
		}
	})
}

// TestContentIsNeverRefused: clients do not retry a refused batch.
func TestContentIsNeverRefused(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		rejected := func(body string, want ...object) {
			t.Helper()
			got := ada.Do(http.MethodPost, "/api/v1/push", []byte(body)).Want(http.StatusCreated).Object()
			if fmt.Sprint(got["rejected"]) != fmt.Sprint(apptest.Plain(t, append([]object{}, want...))) {
				t.Errorf("%s: rejected %v, want %v", body, got["rejected"], want)
			}
		}
		rejected(`{"canonical":{"sessions":null,"tomorrows_kind":[{}],"prompts":[]}}`)
		rejected(`{"canonical":{"sessions":{}}}`, object{"index": 0, "kind": "session", "message": "sessions must be an array"})
		rejected(`{"canonical":{"sessions":[null,5,"x",[],{}]}}`,
			object{"index": 0, "kind": "session", "message": "the record must be an object"},
			object{"index": 1, "kind": "session", "message": "the record must be an object"},
			object{"index": 2, "kind": "session", "message": "the record must be an object"},
			object{"index": 3, "kind": "session", "message": "the record must be an object"},
			object{"index": 4, "kind": "session", "message": "session_id is required"})
		if n := len(w.BlobKeys()); n != 3 {
			t.Errorf("%d raw bodies, want all 3", n)
		}
	})
}

func TestWhoMayPush(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		viewer := w.member(ada.Org, access.Viewer)
		writer := w.member(ada.Org, access.Member, access.Write)
		nobody := ada.in(t)
		nobody.Key = "st_live_nobody"
		// Authentication comes before the body is read.
		viewer.Do(http.MethodPost, "/api/v1/push", `{`).
			WantError(http.StatusForbidden, "This needs the permission telemetry:write")
		nobody.Do(http.MethodPost, "/api/v1/push", `{`).Want(http.StatusUnauthorized)
		viewer.Do(http.MethodDelete, "/api/v1/me/data", nil).WantError(http.StatusForbidden, "This needs the permission write")
		id := uuid.NewString()
		writer.push(id, object{}).Want(http.StatusCreated)
		writer.Get("/api/v1/push/"+id).WantError(http.StatusForbidden, "This needs the permission read")
		viewer.Get("/api/v1/push/" + id).Want(http.StatusOK)

		// A key with telemetry:write can report, but not erase.
		machine := w.member(ada.Org, access.Owner, access.TelemetryWrite)
		machine.push(uuid.NewString(), object{}).Want(http.StatusCreated)
		machine.Do(http.MethodDelete, "/api/v1/me/data", nil).WantError(http.StatusForbidden, "This needs the permission write")
		writer.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
	})
}

func TestGetPush(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada, eve := w.org("acme"), w.org("other")
		id := uuid.NewString()
		ada.push(id, object{}).Want(http.StatusCreated)
		for _, name := range []string{id, strings.ToUpper(id)} {
			ada.Get("/api/v1/push/" + name).Want(http.StatusOK)
			ada.Do(http.MethodHead, "/api/v1/push/"+name, nil).Want(http.StatusOK)
			eve.Get("/api/v1/push/"+name).WantError(http.StatusNotFound, "Push not found")
		}
		ada.Get("/api/v1/push/"+uuid.NewString()).WantError(http.StatusNotFound, "Push not found")
		ada.Get("/api/v1/push/monday").WantError(http.StatusNotFound, "Push not found")
		ada.Do(http.MethodHead, "/api/v1/push/"+uuid.NewString(), nil).Want(http.StatusNotFound)
	})
}

func TestVerify(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		bob := w.member(ada.Org, access.Member, access.Write) // any good key will do
		ask := func() object {
			t.Helper()
			got := bob.Get("/api/v1/alpha/verify").Want(http.StatusOK).Object()
			if _, err := time.Parse("2006-01-02T15:04:05.000Z", got["key_created_at"].(string)); err != nil {
				t.Error(err)
			}
			if prefix := got["key_prefix"].(string); !strings.HasPrefix(bob.Key, prefix) || len(prefix) > 12 {
				t.Errorf("key_prefix %q", prefix)
			}
			delete(got, "key_created_at")
			delete(got, "key_prefix")
			return got
		}
		none := object{"enrolled": true, "last_push_at": nil, "last_push_status": nil, "total_pushes": 0.0}
		if got := ask(); fmt.Sprint(got) != fmt.Sprint(none) {
			t.Errorf("before: %v, want %v", got, none)
		}
		ada.push("", object{}).Want(http.StatusCreated)
		for _, id := range []string{uuid.NewString(), uuid.NewString()} {
			bob.push(id, object{}).Want(http.StatusCreated)
		}
		got := ask()
		if at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["last_push_at"])); err != nil || time.Since(at) > time.Minute {
			t.Errorf("last_push_at %v", got["last_push_at"])
		}
		delete(got, "last_push_at")
		want := object{"enrolled": true, "last_push_status": "accepted", "total_pushes": 2.0}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after: %v, want %v", got, want)
		}
	})
}

func zipped(t *testing.T, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBodyLimits needs only one database.
func TestBodyLimits(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	ada := w.org("acme")
	body, err := json.Marshal(object{"canonical": invocations(check("1", nil))})
	if err != nil {
		t.Fatal(err)
	}
	mebibyte := bytes.Repeat([]byte(" "), 1<<20)
	zippedSpaces := func(mib int) []byte { return bytes.Repeat(zipped(t, mebibyte), mib) } // one after the other is one
	push := func(body []byte, headers ...string) apptest.Response {
		t.Helper()
		return ada.Do(http.MethodPost, "/api/v1/push", body, headers...)
	}
	const gz = "Content-Encoding: gzip"
	push(append(bytes.Repeat(mebibyte, 32), body...)).
		WantError(http.StatusRequestEntityTooLarge, "The body is over the limit of 32 MiB")
	push(append(zippedSpaces(64), zipped(t, body)...), gz).
		WantError(http.StatusRequestEntityTooLarge, "The inflated body is over the limit of 64 MiB")
	push(zipped(t, body)[:40], gz).WantIssues("", "the body is not valid gzip")
	push(body, gz).WantIssues("", "the body is not valid gzip")
	push(body, "Content-Encoding: br").WantError(http.StatusUnsupportedMediaType, `Content-Encoding "br" is not read here`)
	push(append(zippedSpaces(33), zipped(t, body)...), gz).Want(http.StatusCreated) // more than may go over the wire as it is
	ada.wantChecks(1)

	// A body without Content-Length.
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/push", chunks{bytes.NewReader(body)})
	req.Header.Set("Authorization", "Bearer "+ada.Key)
	if req.ContentLength != -1 {
		t.Fatalf("Content-Length %d", req.ContentLength)
	}
	recorder := httptest.NewRecorder()
	if w.API.ServeHTTP(recorder, req); recorder.Code != http.StatusCreated {
		t.Errorf("chunked: status %d: %s", recorder.Code, recorder.Body)
	}
}

// chunks hides the length of a reader, so that the body is sent chunked.
type chunks struct{ *bytes.Reader }

func (c chunks) Read(p []byte) (int, error) { return c.Reader.Read(p[:min(len(p), 16)]) }

// Len would disclose it.
func (chunks) Len(int) {}
