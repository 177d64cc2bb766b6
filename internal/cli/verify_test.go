package cli_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

// verified is the result of `whetstone verify`.
type verified struct {
	OK           bool
	Organisation string
	Name         string
	Version      string
	Keys         string
	Unchecked    []string
	Problems     []struct{ Kind, Message string }
	Attestations []struct{ Summary, KeyID string }
}

func (v verified) kinds() (kinds []string) {
	for _, p := range v.Problems {
		kinds = append(kinds, p.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// verify runs the command and checks what it finds wrong; nothing for none.
func (m machine) verify(t *testing.T, want string, args ...string) (out verified) {
	t.Helper()
	r := m.answers(t, &out, append([]string{"verify"}, args...)...)
	if got := strings.Join(out.kinds(), " "); got != want || out.OK != (want == "") || (r.code == term.ExitOK) != out.OK || r.code > term.ExitFailed {
		t.Errorf("%q: exit code %d, problems %v; want %q", args, r.code, out.Problems, want)
	}
	return out
}

// tampered is the service behind a proxy that may change its answers.
type tampered struct {
	service
	change func(path string, body []byte) []byte
}

func startTampered(t *testing.T) *tampered {
	t.Helper()
	s := &tampered{service: startService(t)}
	s.service = s.behind(t, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if s.change == nil {
			next.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding")
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(s.change(r.URL.Path, rec.Body.Bytes()))
	})
	return s
}

// envelopes makes the proxy change the attestations of versions.
func (s *tampered) envelopes(t *testing.T, change func(all []dsse.Envelope) []dsse.Envelope) {
	s.change = func(path string, body []byte) []byte {
		if !strings.HasSuffix(path, "/attestations") {
			return body
		}
		var list struct {
			Attestations []dsse.Envelope `json:"attestations"`
		}
		if err := json.Unmarshal(body, &list); err != nil {
			t.Error(err)
		}
		list.Attestations = change(list.Attestations)
		body, err := json.Marshal(list)
		if err != nil {
			t.Error(err)
		}
		return body
	}
}

func attestationsOf(t *testing.T, s service, entryID, version string) []dsse.Envelope {
	t.Helper()
	var list struct {
		Attestations []dsse.Envelope `json:"attestations"`
	}
	raw := s.api(t).Get("/api/v1/registry/" + entryID + "/versions/" + version + "/attestations").Want(http.StatusOK).Body
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	return list.Attestations
}

func TestVerify(t *testing.T) {
	s := startTampered(t)
	m := s.loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	put(t, dir, "scripts/x.sh", "echo hi\n")
	m.push(t, dir)
	writeSkill(t, dir, "pdf", "two")
	m.push(t, dir)
	m.must(t, "install", "pdf")
	folder := filepath.Join(m.skills(), "pdf")

	first := m.run(t, "verify", folder)
	first.want(t, term.ExitOK, "are not known here yet; from now on these are trusted")
	for _, want := range []string{
		folder + " is default/pdf@1.0.1\n", "signed: pushed by a member with push access to default (",
		"Verified: the files are those that were signed.\n",
	} {
		if !strings.Contains(first.stdout, want) {
			t.Errorf("%q lacks %q", first.stdout, want)
		}
	}
	var raw map[string]any
	m.answers(t, &raw, "verify", folder)
	apptest.WantKeys(t, raw, "ok", "organisation", "name", "version", "state", "content_hash", "path", "problems", "files", "unchecked",
		"attestations", "keys")
	for _, target := range []string{"pdf", "pdf@1.0.0", "default/pdf@1.0.1", entryNamed(t, m, "pdf") + "@1.0.0"} {
		if got := m.verify(t, "", target); got.Keys != "pinned" || got.Name != "pdf" {
			t.Errorf("%s: %+v", target, got)
		}
	}
	m.run(t, "verify", "none").want(t, term.ExitFailed, "No folder and no entry is named none")
	m.run(t, "verify", "pdf@9").want(t, term.ExitFailed, "pdf has no version 9")
	m.run(t, "verify", "./none").want(t, term.ExitFailed, "./none is not a folder")
	m.run(t, "verify", t.TempDir()).want(t, term.ExitFailed, "say what it should be with --as NAME@VERSION")

	t.Run("the author's folder", func(t *testing.T) {
		t.Chdir(t.TempDir())
		writeSkill(t, "pdf", "pdf", "not pushed yet")
		m.verify(t, "", "pdf")
		m.run(t, "verify", "./pdf").want(t, term.ExitFailed, "has no record of pdf")
		t.Chdir(m.skills())
		put(t, "pdf", "more.md", "x")
		m.verify(t, "changed_file", "pdf")
		remove(t, filepath.Join("pdf", "more.md"))
	})

	t.Run("a link to the folder", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "pdf")
		if err := os.Symlink(folder, link); err != nil {
			t.Fatal(err)
		}
		if got := m.run(t, "verify", link, "--as", "pdf", "--strict"); !strings.HasPrefix(got.stdout, link+" is default/pdf@1.0.1\n") {
			t.Errorf("got %q", got.stdout)
		}
		m.verify(t, "", link, "--as", "pdf", "--strict")
		put(t, folder, "more.md", "x")
		m.verify(t, "changed_file", link, "--as", "pdf")
		remove(t, filepath.Join(folder, "more.md"))
		planted := filepath.Join(folder, "linked")
		if err := os.Symlink(t.TempDir(), planted); err != nil {
			t.Fatal(err)
		}
		m.verify(t, "changed_file", link, "--as", "pdf") // only the named link is followed
		remove(t, planted)
	})

	t.Run("files", func(t *testing.T) {
		put(t, folder, "__pycache__/x.pyc", "x")
		if got := m.verify(t, "", folder); !slices.Equal(got.Unchecked, []string{"__pycache__/"}) {
			t.Errorf("unchecked: %v", got.Unchecked)
		}
		put(t, folder, ".env", "PATH=.")
		m.verify(t, "", folder)
		strict := m.run(t, "verify", "--strict", folder)
		strict.want(t, term.ExitFailed, "")
		for _, want := range []string{"PROBLEM: .env is not part of the skill\n", "PROBLEM: __pycache__/ is not", "NOT verified."} {
			if !strings.Contains(strict.stdout, want) {
				t.Errorf("%q lacks %q", strict.stdout, want)
			}
		}
		m.verify(t, "extra_file", "--strict", folder)
		remove(t, filepath.Join(folder, ".env"))
		put(t, folder, "SKILL.md", "changed")
		put(t, folder, "more.md", "added")
		remove(t, filepath.Join(folder, "scripts", "x.sh"))
		got := m.verify(t, "changed_file", folder)
		var messages []string
		for _, p := range got.Problems {
			messages = append(messages, p.Message)
		}
		if want := []string{"SKILL.md was changed", "more.md was added", "scripts/x.sh was removed"}; !slices.Equal(messages, want) {
			t.Errorf("problems %v, want %v", messages, want)
		}
		// A lock file that was changed along does not help.
		lock := filepath.Join(m.skills(), ".whetstone-lock.json")
		content, err := os.ReadFile(lock)
		if err != nil {
			t.Fatal(err)
		}
		var parsed map[string]any
		if err := json.Unmarshal(content, &parsed); err != nil {
			t.Fatal(err)
		}
		record := parsed["skills"].(map[string]any)["pdf"].(map[string]any)
		record["files"] = map[string]any{"SKILL.md": sum("changed"), "more.md": sum("added")}
		forged, err := json.Marshal(parsed)
		if err != nil {
			t.Fatal(err)
		}
		put(t, m.skills(), ".whetstone-lock.json", string(forged))
		m.verify(t, "changed_file", folder)
		record["server"] = "http://evil.example"
		forged, _ = json.Marshal(parsed)
		put(t, m.skills(), ".whetstone-lock.json", string(forged))
		m.run(t, "verify", folder).want(t, term.ExitFailed, "pdf was installed from http://evil.example; if you trust that server")
		m.must(t, "install", "pdf", "--force")
		m.verify(t, "", folder)
		// What another program installed has no record.
		other := filepath.Join(t.TempDir(), "pdf")
		writeSkill(t, other, "pdf", "one")
		put(t, other, "scripts/x.sh", "echo hi\n")
		m.verify(t, "", other, "--as", "pdf@1.0.0")
		m.verify(t, "changed_file", other, "--as", "pdf@1.0.1")
	})

	t.Run("attestations", func(t *testing.T) {
		id := entryNamed(t, m, "pdf")
		before := attestationsOf(t, s.service, id, "1.0.0")
		stranger, err := dsse.Generate()
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			change func(all []dsse.Envelope) []dsse.Envelope
			want   string
		}{
			"none":               {func([]dsse.Envelope) []dsse.Envelope { return []dsse.Envelope{} }, "unsigned"},
			"of another version": {func([]dsse.Envelope) []dsse.Envelope { return before }, "other_subject unsigned"},
			"one more, of another version": {func(all []dsse.Envelope) []dsse.Envelope {
				return append(all, before...)
			}, "other_subject"},
			"swapped payload": {func(all []dsse.Envelope) []dsse.Envelope {
				all[0].Payload = before[0].Payload
				return all
			}, "bad_signature unsigned"},
			"swapped signature": {func(all []dsse.Envelope) []dsse.Envelope {
				all[0].Signatures = before[0].Signatures
				return all
			}, "bad_signature unsigned"},
			"another payload type": {func(all []dsse.Envelope) []dsse.Envelope {
				all[0].PayloadType = "text/plain"
				return all
			}, "malformed unsigned"},
			"a stranger's key": {func(all []dsse.Envelope) []dsse.Envelope {
				payload, _ := base64.StdEncoding.DecodeString(all[0].Payload)
				forged, err := stranger.Sign(intoto.PayloadType, payload)
				if err != nil {
					t.Error(err)
				}
				return []dsse.Envelope{forged}
			}, "unknown_key unsigned"},
			"a stranger's signature": {func(all []dsse.Envelope) []dsse.Envelope {
				payload, _ := base64.StdEncoding.DecodeString(all[0].Payload)
				forged, err := stranger.Sign(intoto.PayloadType, payload)
				if err != nil {
					t.Error(err)
				}
				forged.Signatures[0].KeyID = all[0].Signatures[0].KeyID
				return []dsse.Envelope{forged}
			}, "bad_signature unsigned"},
		} {
			s.envelopes(t, c.change)
			t.Log(name)
			m.verify(t, c.want, "pdf")
			m.verify(t, c.want, folder)
		}
		// The archive is replaced where it is kept.
		s.change = func(path string, body []byte) []byte {
			if strings.HasSuffix(path, "/download") {
				body[len(body)-1] ^= 1
			}
			return body
		}
		m.verify(t, "archive", "pdf")
		m.verify(t, "", folder) // it needs no archive
		s.change = nil
	})

	t.Run("withdrawn", func(t *testing.T) {
		m.must(t, "withdraw", "pdf", "1.0.1", "--reason", "it is bad")
		m.verify(t, "withdrawn", folder)
		m.verify(t, "withdrawn", "pdf@1.0.1")
		m.verify(t, "", "pdf")
	})
}

// TestVerifyKeys rotates and revokes keys.
func TestVerifyKeys(t *testing.T) {
	s := startTampered(t)
	m := s.loggedIn(t)
	dir := skillFolder(t, "pdf", "one")
	m.push(t, dir)
	m.verify(t, "", "pdf")
	type keys struct {
		Keys []struct{ KeyID, PEM, Status string }
	}
	var first, second, list keys
	s.mustInto(t, &first, "signing-key", "list")
	pem := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(pem, []byte(first.Keys[0].PEM), 0o600); err != nil {
		t.Fatal(err)
	}
	m.verify(t, "", "pdf", "--key", pem)
	m.verify(t, "", "pdf", "--keys-url", s.url+"/.well-known/whetstone-keys.json")
	m.run(t, "verify", "pdf", "--key", filepath.Join(dir, "SKILL.md")).want(t, term.ExitUsage, "no public key in PEM form")
	m.run(t, "verify", "pdf", "--keys-url", "file:///etc/passwd").want(t, term.ExitUsage, "keys-url must be an address")

	// The old key vouches for the new one; what it signed before still counts.
	s.mustInto(t, &second, "signing-key", "rotate")
	writeSkill(t, dir, "pdf", "two")
	m.push(t, dir)
	m.verify(t, "", "pdf@1.0.0")
	if got := m.verify(t, "", "pdf@1.0.1"); got.Attestations[0].KeyID != second.Keys[0].KeyID {
		t.Errorf("signed with %v", got.Attestations)
	}
	m.verify(t, "unknown_key unsigned", "pdf@1.0.1", "--key", pem)

	// A server that has another key, and none that vouches for it, is refused.
	stranger, err := dsse.Generate()
	if err != nil {
		t.Fatal(err)
	}
	public := stranger.Public()
	s.change = func(path string, body []byte) []byte {
		if strings.HasSuffix(path, "/attestations") {
			var list struct {
				Attestations []dsse.Envelope `json:"attestations"`
			}
			_ = json.Unmarshal(body, &list)
			payload, _ := base64.StdEncoding.DecodeString(list.Attestations[0].Payload)
			forged, _ := stranger.Sign(intoto.PayloadType, payload)
			list.Attestations = []dsse.Envelope{forged}
			body, _ = json.Marshal(list)
		}
		if strings.HasSuffix(path, "keys.json") {
			body, _ = json.Marshal(map[string]any{"keys": []any{map[string]any{
				"keyid": public.ID, "pem": public.PEM, "status": "active", "created_at": time.Now(),
			}}})
		}
		return body
	}
	m.verify(t, "unknown_key unsigned", "pdf@1.0.1")
	s.change = nil
	m.verify(t, "", "pdf@1.0.1")

	// A statement dated after its key was retired is refused.
	s.change = func(path string, body []byte) []byte {
		if strings.HasSuffix(path, "keys.json") {
			body = []byte(strings.ReplaceAll(string(body), `"not_after":null`, `"not_after":"2020-01-01T00:00:00Z"`))
		}
		return body
	}
	m.verify(t, "bad_time unsigned", "pdf@1.0.1")
	s.change = nil

	// The active key is stolen: nothing that it signed counts, also where the server does not say so any more.
	s.mustInto(t, &list, "signing-key", "revoke", second.Keys[0].KeyID[:16], "--reason", "stolen laptop")
	got := m.verify(t, "revoked_key unsigned", "pdf@1.0.1")
	if !strings.Contains(got.Problems[0].Message, "which was revoked: stolen laptop") {
		t.Errorf("problems %v", got.Problems)
	}
	m.verify(t, "", "pdf@1.0.0")
	s.change = func(path string, body []byte) []byte {
		if strings.HasSuffix(path, "keys.json") {
			body = []byte(strings.NewReplacer(`"status":"revoked"`, `"status":"active"`, `"revoked_at":"2`, `"was":"2`).Replace(string(body)))
		}
		return body
	}
	m.verify(t, "revoked_key unsigned", "pdf@1.0.1")
	s.change = nil
	// The third key has nobody who vouches for it.
	writeSkill(t, dir, "pdf", "three")
	m.push(t, dir)
	m.verify(t, "unknown_key unsigned", "pdf@1.0.2")
	m.verify(t, "", "pdf@1.0.2", "--trust-keys")
	m.verify(t, "", "pdf@1.0.2")

	put(t, filepath.Join(m.home, ".config", "whetstone"), "trusted-keys.json", "{")
	m.run(t, "verify", "pdf").want(t, term.ExitFailed, "trusted-keys.json is not valid")
}

func sum(content string) string {
	digest := sha256.Sum256([]byte(content))
	return hex.EncodeToString(digest[:])
}
