package browser_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/browser"
)

const server = "https://whetstone.example/team"

func TestOpen(t *testing.T) {
	t.Parallel()
	const page = server + "/skills/a%20b?x=1&y=%2F#top"
	display := map[string]string{"DISPLAY": ":0"}
	for name, c := range map[string]struct {
		system string
		env    map[string]string
		want   []string // nil for none
	}{
		"linux":               {"linux", display, []string{"xdg-open", page}},
		"wayland":             {"linux", map[string]string{"WAYLAND_DISPLAY": "wayland-0"}, []string{"xdg-open", page}},
		"linux, no display":   {"linux", nil, nil},
		"mac":                 {"darwin", nil, []string{"open", page}},
		"mac by ssh":          {"darwin", map[string]string{"SSH_CONNECTION": "1"}, nil},
		"windows":             {"windows", nil, []string{"rundll32", "url.dll,FileProtocolHandler", page}},
		"ci":                  {"linux", map[string]string{"DISPLAY": ":0", "CI": "true", "BROWSER": "firefox"}, nil},
		"chosen":              {"linux", map[string]string{"BROWSER": "firefox"}, []string{"firefox", page}},
		"chosen, with a flag": {"linux", map[string]string{"DISPLAY": ":0", "BROWSER": "sh -c %s"}, nil},
		"none":                {"linux", map[string]string{"DISPLAY": ":0", "BROWSER": "none"}, nil},
	} {
		var got []string
		o := browser.Opener{
			System: c.system, Getenv: func(name string) string { return c.env[name] },
			Start: func(_ context.Context, argv []string) error { got = argv; return nil },
		}
		err := o.Open(t.Context(), server, page)
		if !slices.Equal(got, c.want) || (c.want == nil) != errors.Is(err, browser.ErrNone) {
			t.Errorf("%s: started %q, %v; want %q", name, got, err, c.want)
		}
	}
}

func TestForeignAddresses(t *testing.T) {
	t.Parallel()
	o := browser.Opener{
		System: "darwin", Getenv: func(string) string { return "" },
		Start: func(_ context.Context, argv []string) error { t.Errorf("started %q", argv); return nil },
	}
	for _, page := range []string{
		"https://evil.example/team/", "http://whetstone.example/team/", "file:///etc/passwd", "javascript:alert(1)",
		"https://whetstone.example/other", "https://whetstone.example/teams", "https://a@whetstone.example/team/", "--help", "",
		server + "/a b", server + "/a\nb", "https://whetstone.example:443/team/x", "//whetstone.example/team/x",
	} {
		if err := o.Open(t.Context(), server, page); err == nil {
			t.Errorf("%q is opened", page)
		}
	}
}
