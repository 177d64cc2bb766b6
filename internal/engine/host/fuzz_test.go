package host_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// FuzzParseEvent: a delivery is refused, or says what happened to which
// repository in names that can be used; a form says the same as plain JSON.
func FuzzParseEvent(f *testing.F) {
	for _, seed := range [][2]string{
		{"push", `{"ref":"refs/heads/main","after":"0123456789012345678901234567890123456789","head_commit":{"id":"x"},"repository":{"id":1,"full_name":"acme/skills","default_branch":"main"}}`},
		{"push", `{"refs":[{"ref":"refs/tags/v1","before":"","after":"0123456789012345678901234567890123456789"}],"repository":{"full_name":"acme/skills"}}`},
		{"push", `{"deleted":true,"after":"0000000000000000000000000000000000000000","repository":{"full_name":"../x"}}`},
		{"installation", `{"action":"deleted","installation":{"id":5,"account":{"login":"acme"}}}`},
		{"installation_repositories", `{"repositories_removed":[{"id":1,"full_name":"a/b"}]}`},
		{"repository", `{"action":"renamed","repository":{"full_name":"a/b"},"changes":{"repository":{"name":{"from":"c"}}}}`},
		{"repository", `{"action":"transferred","repository":{"full_name":"a/b"},"changes":{"owner":{"from":{"user":{"login":"x"}}}}}`},
		{"ping", `{}`},
		{"star", `[]`},
		{"", `null`},
		{"push", `{"repository":null}`},
	} {
		f.Add(seed[0], []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		header := http.Header{host.EventHeader: {kind}, "Content-Type": {"application/json"}}
		header.Set(host.EventHeader, kind)
		e, err := host.ParseEvent(header, body)
		if err != nil {
			if !fault.Is(err, fault.Malformed) {
				t.Fatalf("%v is not about the delivery", err)
			}
			return
		}
		checkEvent(t, e)
		if len(body) == 0 {
			return
		}
		header.Set("Content-Type", "application/x-www-form-urlencoded")
		form, err := host.ParseEvent(header, []byte(url.Values{"payload": {string(body)}}.Encode()))
		if err != nil || form.Kind != e.Kind || form.Repository != e.Repository || len(form.Pushes) != len(e.Pushes) {
			t.Errorf("as a form: %+v, %v; want %+v", form, err, e)
		}
	})
}

func checkEvent(t *testing.T, e host.Event) {
	t.Helper()
	if (e.Kind == host.EventPush || e.Kind == host.EventRepo) && host.CheckFullName(e.Repository.FullName) != nil {
		t.Errorf("the repository %q cannot be used", e.Repository.FullName)
	}
	for _, p := range e.Pushes {
		if p.After != "" && !host.IsSHA(p.After) {
			t.Errorf("the commit %q cannot be used", p.After)
		}
		if p.Branch() != "" && p.Tag() != "" {
			t.Errorf("%q is a branch and a tag", p.Ref)
		}
	}
}

// FuzzVerify: one signature is good, and only of its own body and secret.
func FuzzVerify(f *testing.F) {
	f.Add("secret", "sha256=", []byte("{}"))
	f.Add("", host.Sign("", []byte("{}")), []byte("{}"))
	f.Add("secret", host.Sign("secret", []byte("{}")), []byte("{}"))
	f.Add("secret", strings.ToUpper(host.Sign("secret", []byte("{}"))), []byte("{}"))
	f.Fuzz(func(t *testing.T, secret, claimed string, body []byte) {
		header := http.Header{}
		header.Set(host.SignatureHeader, claimed)
		err := (host.Verifier{Secrets: []string{"", secret}}).Verify(header, body, time.Now())
		if good := secret != "" && claimed == host.Sign(secret, body); good != (err == nil) {
			t.Errorf("signature %q under %q: %v, want good: %t", claimed, secret, err, good)
		}
		if err != nil && !fault.Is(err, fault.Unauthorized) {
			t.Errorf("%v does not say that nobody was let in", err)
		}
		header.Set(host.SignatureHeader, host.Sign(secret, append([]byte("x"), body...)))
		if (host.Verifier{Secrets: []string{secret}}).Verify(header, body, time.Now()) == nil {
			t.Error("the signature of another body is good")
		}
	})
}

// FuzzCleanPath: a folder of a repository stays in it, and is clean already
// when it was cleaned.
func FuzzCleanPath(f *testing.F) {
	for _, seed := range []string{"", ".", "a//b/./c", "../x", "a/../b", "/etc", `a\b`, ".git", "a/.git/b", "a\x00", ".GIT", "..0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := host.CleanPath(text)
		if err != nil {
			return
		}
		outside := got == ".." || strings.HasPrefix(got, "../") || strings.HasPrefix(got, "/")
		if again, err := host.CleanPath(got); err != nil || again != got || path.Clean(got) != got || outside {
			t.Errorf("%q became %q, and that %q, %v", text, got, again, err)
		}
	})
}

// FuzzTarball: what a code host sends is refused with a reason, or is a
// package within the limits.
func FuzzTarball(f *testing.F) {
	f.Add(tarOf(f, "wrapper/SKILL.md", "# x", "wrapper/a/b", "c"), ".")
	f.Add(tarOf(f, "w/a/SKILL.md", "# x", "w/.gitmodules", "[submodule \"a\"]\n\tpath = a/b\n"), "a")
	f.Add(tarOf(f, "../../x", "y", "w//a", "z"), ".")
	f.Add([]byte("nonsense"), "a/b")
	f.Fuzz(func(t *testing.T, content []byte, folder string) {
		folder, err := host.CleanPath(folder)
		if err != nil {
			return
		}
		var packed bytes.Buffer // behind gzip's checksum no fuzzer gets at the tar
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(content) // into memory
		_ = w.Close()
		p, err := host.ReadTarball(t.Context(), &packed, folder)
		if err != nil {
			_, refused := errors.AsType[*skillpkg.Error](err)
			if !refused && fault.Of(err) == fault.Internal {
				t.Fatalf("%v is nobody's fault but ours", err)
			}
			return
		}
		defer func() { _ = p.Close() }()
		for _, file := range p.Installed() {
			if !path.IsAbs(file.Path) && path.Clean(file.Path) == file.Path && !strings.HasPrefix(file.Path, "..") {
				continue
			}
			t.Errorf("accepted %q", file.Path)
		}
	})
}

func tarOf(f *testing.F, files ...string) []byte {
	f.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(files[i+1]))}); err != nil {
			f.Fatal(err)
		}
		_, _ = w.Write([]byte(files[i+1])) // into memory
	}
	_ = w.Close()
	return b.Bytes()
}
