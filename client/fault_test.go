package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/client"
)

func asError(t *testing.T, err error) *client.Error {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of the server", err)
	}
	return e
}

// unreliable is a proxy that breaks the first answers of a service.
func unreliable(t *testing.T, s service, spoil int32, how func(http.ResponseWriter, *http.Response)) (*client.Client, *atomic.Int32) {
	t.Helper()
	target, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		proxy := httputil.NewSingleHostReverseProxy(target)
		if n <= spoil {
			proxy.ModifyResponse = func(resp *http.Response) error {
				how(w, resp)
				panic(http.ErrAbortHandler) // cuts the connection
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return client.New(client.Options{Server: front.URL, APIKey: s.key}), &requests
}

func lose(http.ResponseWriter, *http.Response) {}

// TestLostAnswers has a server that does its work, and a line that breaks
// before the client hears of it.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s := startService(t)
	c, ctx := s.client(), t.Context()
	t.Run("push happens once", func(t *testing.T) {
		made, err := c.CreateEntry(ctx, upload(t, "pdf", "1.0.0", "one"))
		if err != nil {
			t.Fatal(err)
		}
		broken, requests := unreliable(t, s, 2, lose)
		pushed, err := broken.PushVersion(ctx, made.Entry.ID, upload(t, "pdf", "1.1.0", "two"))
		if err != nil || pushed.Version.Version != "1.1.0" || requests.Load() != 3 {
			t.Errorf("pushed %+v, %v with %d requests", pushed.Version, err, requests.Load())
		}
		if versions, err := c.Versions(ctx, made.Entry.ID); err != nil || len(versions) != 2 {
			t.Errorf("%d versions, %v; want 2", len(versions), err)
		}
	})
	t.Run("create is not repeated", func(t *testing.T) {
		broken, requests := unreliable(t, s, 1, lose)
		_, err := broken.CreateEntry(ctx, upload(t, "csv", "1.0.0", "one"))
		if err == nil || client.Status(err) != 0 || requests.Load() != 1 {
			t.Errorf("got %v with %d requests, want one that got lost", err, requests.Load())
		}
		if e, err := c.EntryByName(ctx, "csv"); err != nil || e.CurrentVersion.Version != "1.0.0" {
			t.Errorf("got %+v, %v; want the entry", e, err)
		}
	})
	t.Run("half a download", func(t *testing.T) {
		u := upload(t, "big", "1.0.0", strings.Repeat("a long text ", 100))
		made, err := c.CreateEntry(ctx, u)
		if err != nil {
			t.Fatal(err)
		}
		half := func(w http.ResponseWriter, resp *http.Response) {
			w.Header().Set("Content-Length", resp.Header.Get("Content-Length"))
			_, _ = io.CopyN(w, resp.Body, resp.ContentLength/2)
			_ = http.NewResponseController(w).Flush()
		}
		broken, requests := unreliable(t, s, 1, half)
		archive, err := broken.DownloadVersion(ctx, made.Entry.ID, "1.0.0", client.Wanted{ContentHash: u.ContentHash})
		if err != nil || hash(archive) != u.ContentHash || requests.Load() != 2 {
			t.Errorf("%d bytes, %v with %d requests", len(archive), err, requests.Load())
		}
	})
	t.Run("half an answer", func(t *testing.T) {
		broken, requests := unreliable(t, s, 1, func(w http.ResponseWriter, _ *http.Response) {
			_, _ = io.WriteString(w, `{"user":{"id":`)
			_ = http.NewResponseController(w).Flush()
		})
		if me, err := broken.Me(ctx); err != nil || me.Role != "owner" || requests.Load() != 2 {
			t.Errorf("me %+v, %v with %d requests", me, err, requests.Load())
		}
	})
}

// TestKeyStaysHome: the key is sent to the server only, not to redirects or downloads.
func TestKeyStaysHome(t *testing.T) {
	var seen []string
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		_, _ = io.WriteString(w, "content")
	}))
	defer stranger.Close()
	home := httptest.NewServer(http.RedirectHandler(stranger.URL, http.StatusTemporaryRedirect))
	defer home.Close()
	c := client.New(client.Options{Server: home.URL, APIKey: "st_live_secret"})

	_, err := c.Me(t.Context())
	wantStatus(t, err, 307, "redirects (307) to "+stranger.URL)
	_, err = c.CreateEntry(t.Context(), upload(t, "pdf", "1.0.0", "one"))
	wantStatus(t, err, 307, "is its address correct?")
	_, err = c.DownloadVersion(t.Context(), "id", "1.0.0", client.Wanted{})
	wantStatus(t, err, 307, "redirects (307) to")
	if len(seen) > 0 {
		t.Fatalf("%d requests followed a redirect", len(seen))
	}
	// A download URL may lead elsewhere, and may be redirected.
	for _, link := range []string{stranger.URL + "/x", home.URL + "/x"} {
		if got, err := c.Download(t.Context(), link, client.Wanted{ContentHash: hash([]byte("content"))}); err != nil || string(got) != "content" {
			t.Errorf("download %q, %v", got, err)
		}
	}
	if diff := cmp.Diff([]string{"", ""}, seen); diff != "" {
		t.Errorf("the key was sent (-want +got):\n%s", diff)
	}
}

func TestDownloadRefused(t *testing.T) {
	var requests atomic.Int32
	content := []byte("content")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write(content)
	}))
	defer server.Close()
	c := client.New(client.Options{Server: server.URL})
	if _, err := c.Download(t.Context(), server.URL, client.Wanted{ContentHash: hash(nil)}); !errors.Is(err, client.ErrHash) {
		t.Errorf("got %v, want that the hash is wrong", err)
	}
	content = bytes.Repeat([]byte{1}, 10<<20+1)
	if _, err := c.Download(t.Context(), server.URL, client.Wanted{ContentHash: hash(content)}); err == nil || !strings.Contains(err.Error(), "larger than 10 MiB") {
		t.Errorf("got %v, want that it is too large", err)
	}
	if requests.Load() != 2 {
		t.Errorf("%d requests, want that nothing was tried again", requests.Load())
	}
	secret := "http://127.0.0.1:1/x?sig=hunter2"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Download(ctx, secret, client.Wanted{}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want no signature in it", err)
	}
}

func TestNotOurs(t *testing.T) {
	for _, test := range []struct{ name, server, body, want string }{
		{"no scheme", "whetstone.example", "", `must begin with http:// or https://`},
		{"other scheme", "ftp://whetstone.example", "", `must begin with http:// or https://`},
		{"no address", "http://a b", "", "invalid character"},
		{"web page", "", "<html>Welcome</html>", "is this a Whetstone server?"},
		{"other JSON", "", `{"user":"ada"}`, "is this a Whetstone server?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, test.body)
			}))
			defer server.Close()
			address := test.server
			if address == "" {
				address = server.URL
			}
			_, err := client.New(client.Options{Server: address}).Me(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
