package telemetry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// spoken is a session with a prompt, a tool call and an answer, and with what was
// said in them.
func spoken(session, words string) object {
	at := func(seconds int) string {
		return stamp(time.Now().Truncate(24 * time.Hour).Add(time.Duration(seconds) * time.Second))
	}
	return object{
		"prompts":        []any{object{"session_id": session, "prompt_id": session + ":p0", "source_prompt_id": "p", "occurred_at": at(0), "prompt_kind": "user"}},
		"tool_calls":     []any{object{"session_id": session, "tool_call_id": "t", "tool_name": "Bash", "occurred_at": at(1), "success": false}},
		"model_requests": []any{object{"session_id": session, "request_id": "r", "message_id": "m", "occurred_at": at(2), "model": "x", "input_tokens": 1}},
		"transcripts": []any{
			object{"session_id": session, "role": "user", "prompt_id": session + ":p0", "source_prompt_id": "p", "occurred_at": at(0), "text": "asked " + words},
			object{
				"session_id": session, "role": "tool", "tool_call_id": "t", "tool_name": "Bash", "occurred_at": at(1), "success": false,
				"input": "called " + words, "output": "printed " + words,
			},
			object{"session_id": session, "role": "assistant", "request_id": "r", "message_id": "m", "occurred_at": at(2), "text": "answered " + words},
		},
	}
}

func (w *world) keepContent(owner *client, on bool) {
	w.T.Helper()
	owner.Do(http.MethodPut, "/api/v1/settings/content", object{"enabled": on}).Want(http.StatusOK)
}

// textsOf returns the texts of a session's events as a caller sees them, in order,
// "-" for null.
func (c *client) textsOf(session string) (texts []string) {
	c.T.Helper()
	for _, e := range c.Get("/v1/sessions/" + session).Want(http.StatusOK).Object()["session"].(map[string]any)["events"].([]any) {
		text, ok := e.(map[string]any)["text"].(string)
		if !ok {
			text = "-"
		}
		texts = append(texts, text)
	}
	return texts
}

// wantNowhere looks for a text in all tables, blobs and the log.
func (w *world) wantNowhere(text string) {
	w.T.Helper()
	if found := w.TablesWith(text); len(found) > 0 {
		w.T.Errorf("%s is in %v", text, found)
	}
	if strings.Contains(w.everything(), text) {
		w.T.Errorf("%s is stored", text)
	}
	if strings.Contains(w.Logged.String(), text) {
		w.T.Errorf("%s is in the log", text)
	}
}

// TestTranscriptsAreDropped: while an organisation keeps no content, nothing of it is
// stored, however it is spelled.
func TestTranscriptsAreDropped(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		content := ada.push(uuid.NewString(), spoken("s", secret)).Want(http.StatusCreated).Field("content")
		if content["kept"] != 0.0 || content["dropped"] != 3.0 || !strings.Contains(fmt.Sprint(content["message"]), "whetstone settings content on") {
			t.Errorf("content: %v", content)
		}
		said, err := json.Marshal(spoken("s", secret)["transcripts"])
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{
			`{"canonical":{"Transcripts":%s}}`, `{"canonical":{"transcripts":1,"TRANSCRIPTS":%s,"transcripts":%[1]s}}`,
			`{"Canonical":{"transcripts":%s}}`, `{"canonical":{"\u0074ranscripts":%s}}`, `{"canonical":{},"CANONICAL":{"transcripts":%s}}`,
			`{"canonical":{"transcripts":{"a":%s}}}`, `{"canonical":{"transcripts":[[%s]]}}`,
		} {
			ada.Do(http.MethodPost, "/api/v1/push", fmt.Sprintf(body, said)).Want(http.StatusCreated)
		}
		w.wantNowhere(secret)
		if texts := ada.textsOf("s"); !cmp.Equal(texts, []string{"-", "-", "-"}) {
			t.Errorf("texts %v", texts)
		}
		if list := ada.Get("/v1/sessions").List("sessions"); len(list) != 1 || list[0]["has_content"] != false {
			t.Errorf("sessions: %v", list)
		}
		if content := ada.push(uuid.NewString(), invocations(check("1", nil))).Want(http.StatusCreated).Object()["content"]; content != nil {
			t.Errorf("content of a push without transcripts: %v", content)
		}
	})
}

// TestTranscriptsAreKept: content is in no place but the sealed one, and only those
// who may read it do.
func TestTranscriptsAreKept(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		owner, stranger := w.org("acme"), w.org("other")
		ada, bob := w.member(owner.Org, access.Member), w.member(owner.Org, access.Member)
		admin := w.member(owner.Org, access.AdminRole)
		w.keepContent(owner, true)
		pushed := uuid.NewString()
		content := ada.push(pushed, spoken("s", secret)).Want(http.StatusCreated).Field("content")
		if diff := cmp.Diff(map[string]any{"kept": 3.0, "dropped": 0.0, "message": ""}, content); diff != "" {
			t.Errorf("content (-want +got):\n%s", diff)
		}
		ada.push(pushed, spoken("s", secret)).Want(http.StatusOK)                // the same push
		ada.push(uuid.NewString(), spoken("s", secret)).Want(http.StatusCreated) // the same again
		bob.push(uuid.NewString(), spoken("of-bob", "bob's")).Want(http.StatusCreated)
		w.wantNowhere(secret)

		all := []string{"asked " + secret, "called " + secret + "\n\nprinted " + secret, "answered " + secret}
		for _, c := range []*client{ada, admin, owner} {
			if diff := cmp.Diff(all, c.textsOf("s")); diff != "" {
				t.Errorf("as %s (-want +got):\n%s", c.User.Role, diff)
			}
		}
		answer := bob.Get("/v1/sessions/s").Want(http.StatusOK)
		if strings.Contains(string(answer.Body), secret) || answer.Field("session")["has_content"] != true || !cmp.Equal(bob.textsOf("s"), []string{"-", "-", "-"}) {
			t.Errorf("a member reads %s", answer.Body)
		}
		stranger.Get("/v1/sessions/s").Want(http.StatusNotFound)
		if n := w.Count(`audit_entries WHERE action = 'evidence.content.read' AND target_name = 's'`); n != 3 {
			t.Errorf("%d readings are recorded, want 3", n)
		}
		w.wantNowhere(secret) // reading leaves nothing behind

		ada.Do(http.MethodDelete, "/api/v1/me/data", nil).Want(http.StatusNoContent)
		w.Settle()
		ada.Get("/v1/sessions/s").Want(http.StatusNotFound)
		if n := w.Count("evidence_texts"); n != 3 {
			t.Errorf("%d texts, want bob's 3", n)
		}
		findings, err := w.evidence.Check(t.Context(), db)
		if err != nil || len(findings) != 1 || findings[0].Status != "ok" {
			t.Errorf("the recount finds %v, %v", findings, err)
		}
	})
}

// TestTranscriptsAreRedacted unseals what is kept and looks for what must not be in it.
func TestTranscriptsAreRedacted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		w.keepContent(ada, true)
		token := "ghp_" + strings.Repeat("a1B2", 9)
		ada.push(uuid.NewString(), spoken("s", "with "+token+" by lovelace@example.org in /home/lovelace/x")).Want(http.StatusCreated)
		kept := strings.Join(ada.textsOf("s"), "\n")
		for _, gone := range []string{token, "lovelace", "example.org"} {
			if strings.Contains(kept, gone) {
				t.Errorf("%s is kept: %s", gone, kept)
			}
		}
		if n := strings.Count(kept, "with [redacted:repohost_token] by [redacted:email] in [redacted:home]/x"); n != 4 {
			t.Errorf("%d texts are redacted, want 4:\n%s", n, kept)
		}
	})
}

// TestTranscriptsAlone: what was said makes a session, and bad records are rejected
// alone.
func TestTranscriptsAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ada := w.org("acme")
		w.keepContent(ada, true)
		all := spoken("s", "hello")["transcripts"].([]any)
		for _, wrong := range []object{
			{"role": "user", "session_id": "s", "prompt_id": "p"},
			{"role": "user", "session_id": "s", "occurred_at": stamp(time.Now()), "text": "x"},
			{"role": "tool", "session_id": "s", "occurred_at": stamp(time.Now()), "input": "x"},
			{"role": "assistant", "session_id": "s", "occurred_at": stamp(time.Now()), "text": "x"},
			{"role": "system", "session_id": "s", "occurred_at": stamp(time.Now()), "prompt_id": "p"},
			{"role": "user", "occurred_at": stamp(time.Now()), "prompt_id": "p"},
			{"role": "user", "session_id": "s", "occurred_at": stamp(time.Now()), "prompt_id": "p", "text": 1},
		} {
			all = append(all, wrong)
		}
		answer := ada.push(uuid.NewString(), object{"transcripts": all}).Want(http.StatusCreated)
		if rejected := answer.List("rejected"); len(rejected) != 7 || answer.Field("content")["kept"] != 3.0 {
			t.Errorf("%s", answer.Body)
		}
		if diff := cmp.Diff([]string{"asked hello", "called hello\n\nprinted hello"}, ada.textsOf("s")); diff != "" {
			t.Errorf("texts (-want +got):\n%s", diff)
		}
		// The answer is shown as soon as its model request is reported.
		ada.push(uuid.NewString(), object{"model_requests": spoken("s", "")["model_requests"]}).Want(http.StatusCreated)
		if texts := ada.textsOf("s"); len(texts) != 3 || texts[2] != "answered hello" {
			t.Errorf("texts %q", texts)
		}
	})
}

// TestTooManyTranscripts: a push has a limit of its own, since redaction takes long.
func TestTooManyTranscripts(t *testing.T) {
	w := newWorld(t, storetest.Open(t, "sqlite"))
	ada := w.org("acme")
	w.keepContent(ada, true)
	said := spoken("s", "x")
	said["transcripts"].([]any)[0].(object)["text"] = strings.Repeat("word ", 2<<20)
	content := ada.push(uuid.NewString(), said).Want(http.StatusCreated).Field("content")
	if content["kept"] != 0.0 || content["dropped"] != 3.0 || !strings.Contains(fmt.Sprint(content["message"]), "8 MiB") {
		t.Errorf("content: %v", content)
	}
	if n := w.Count("agent_session_events"); n != 2 {
		t.Errorf("%d events, want the prompt and the tool call", n)
	}
}

// TestContentExpires: content goes with its session, and before it if only that is
// reported again.
func TestContentExpires(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.evidence.Register()
		w.Work()
		ada := w.org("acme")
		w.keepContent(ada, true)
		ada.push(uuid.NewString(), spoken("old", "x")).Want(http.StatusCreated)
		ada.push(uuid.NewString(), spoken("again", "x")).Want(http.StatusCreated)
		long := store.Micros(time.Now().Add(-retention - 2*time.Hour))
		w.Exec(`UPDATE agent_sessions SET reported_at = $1 WHERE session_id = 'old'`, long)
		w.Exec(`UPDATE evidence_texts SET received_at = $1 WHERE session_id = $2`, long, skills.SessionHash(ada.User.ID, "again"))
		w.run(retainJob{})
		if n := w.Count("evidence_texts"); n != 3 {
			t.Errorf("%d texts after the session expired, want 3", n)
		}
		w.run(contentJob{})
		if n := w.Count("evidence_texts") + w.Count("evidence_sessions"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		if list := ada.Get("/v1/sessions").List("sessions"); len(list) != 1 || list[0]["has_content"] != false {
			t.Errorf("sessions: %v", list)
		}
	})
}

type contentJob struct{}

func (contentJob) Kind() string { return "evidence.retain" }
