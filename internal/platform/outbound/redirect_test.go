package outbound_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// hops answers /n with a redirect to /n-1, and /0 with "done".
func hops(w http.ResponseWriter, r *http.Request) {
	n := r.URL.Path[1] - '0'
	if n == 0 {
		_, _ = io.WriteString(w, "done")
		return
	}
	http.Redirect(w, r, "/"+string('0'+n-1), http.StatusFound)
}

func TestRedirectLimit(t *testing.T) {
	s := serve(t, hops)
	none, _ := newClient(t, outbound.Options{AllowPrivate: true})
	two := none.With(outbound.Limits{MaxRedirects: 2})
	for _, tc := range []struct {
		name   string
		client *outbound.Client
		path   string
		status int // 0 means an error
	}{
		{"none by default", none, "/1", http.StatusFound},
		{"exactly the limit", two, "/2", http.StatusOK},
		{"too many", two, "/3", 0},
		{"none again", two.With(outbound.Limits{MaxRedirects: -1}), "/1", http.StatusFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, err := tc.client.Get(t.Context(), s.URL+tc.path)
			if tc.status == 0 {
				if !fault.Is(err, fault.BadGateway) || !strings.HasSuffix(err.Error(), "more than 2 redirects") {
					t.Errorf("got %v, want a BadGateway error about redirects", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tc.status {
				t.Errorf("got status %d, want %d", resp.StatusCode, tc.status)
			}
		})
	}
}

// TestRedirectedPost is answered with the redirect where net/http would repeat the
// request as a GET.
func TestRedirectedPost(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/new" {
			_, _ = w.Write([]byte(r.Method)) // the client is gone if this fails
			return
		}
		status, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			t.Error(err)
		}
		http.Redirect(w, r, "/new", status)
	})
	c, _ := newClient(t, outbound.Options{AllowPrivate: true, MaxRedirects: 3})
	for status, want := range map[int]int{
		http.StatusMovedPermanently: http.StatusMovedPermanently, http.StatusFound: http.StatusFound,
		http.StatusTemporaryRedirect: http.StatusOK, http.StatusPermanentRedirect: http.StatusOK,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprint(s.URL, "/", status), strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close() // it was only read
		if err != nil || resp.StatusCode != want || want == http.StatusOK && string(body) != http.MethodPost {
			t.Errorf("%d: got %d %q, %v, want %d", status, resp.StatusCode, body, err, want)
		}
	}
}

func TestRedirectRefused(t *testing.T) {
	redirectTo := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.Header.Get("X-To"))
		w.WriteHeader(http.StatusFound)
	}
	plain := serve(t, redirectTo)
	secure, roots := serveTLS(t, nil, redirectTo)
	for _, tc := range []struct {
		name, from, to, want string
	}{
		{"private address", plain.URL, "http://10.0.0.1/x", "refused: 10.0.0.1 is a private address; set --allow-private-targets to allow it"},
		{"scheme-relative", plain.URL, "//169.254.169.254/latest", "refused: 169.254.169.254 is a link-local address; set --allow-private-targets to allow it"},
		{"name of a private address", plain.URL, "http://inside.example/x", "refused: inside.example resolves to a private address; set --allow-private-targets to allow it"},
		{"downgrade", secure.URL, plain.URL, "refused: a redirect leads from https to http"},
		{"scheme", plain.URL, "file:///etc/passwd", "refused: the target of a redirect: URL must begin with http:// or https://"},
		{"credentials", plain.URL, "http://u:p@127.0.0.1/", "refused: the target of a redirect: URL must not contain a user name or a password"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, g := newClient(t, outbound.Options{
				AllowList:    []string{"127.0.0.1"},
				MaxRedirects: 3,
				RootCAs:      roots,
				Resolver:     answers{"inside.example": {{"10.0.0.7"}}},
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.from, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("X-To", tc.to)
			resp, err := c.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			if !outbound.IsRefused(err) || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if len(g.reached) != 1 {
				t.Errorf("reached %v, want the first hop only", g.reached)
			}
		})
	}
}

func TestRedirectHeaders(t *testing.T) {
	var got http.Header
	keep := func(_ http.ResponseWriter, r *http.Request) { got = r.Header }
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if back := r.URL.Query().Get("back"); back != "" {
			http.Redirect(w, r, back, http.StatusFound)
			return
		}
		keep(w, r)
	})
	first := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/back":
			http.Redirect(w, r, other.URL+"?back="+"http://"+r.Host+"/end", http.StatusFound)
		default:
			keep(w, r)
		}
	})
	harmless := http.Header{"Accept": {"application/gzip"}, "User-Agent": {"whetstone"}, "Accept-Encoding": {"gzip"}}
	all := harmless.Clone()
	all.Set("Authorization", "Bearer s3cret")
	all.Set("Cookie", "s3cret=1")
	all.Set("X-Api-Key", "s3cret")
	for _, tc := range []struct {
		path string
		want http.Header
	}{
		{"/same", all},
		{"/away", harmless},
		{"/back", harmless},
	} {
		t.Run(tc.path, func(t *testing.T) {
			c, _ := newClient(t, outbound.Options{AllowPrivate: true, MaxRedirects: 2})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.URL+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header = all.Clone()
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("headers of the last hop (-want +got):\n%s", diff)
			}
		})
	}
}
