package cli_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/cli"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// TestInterrupt presses Ctrl-C while a request runs: the command says what goes on
// and ends with 130.
func TestInterrupt(t *testing.T) {
	const id = "01890000-0000-7000-8000-000000000001"
	for name, c := range map[string]struct {
		args []string
		at   string // the path of the request during which Ctrl-C is pressed
		want string
	}{
		"a run": {
			[]string{"eval", "watch", id},
			"/events",
			"whetstone: interrupted; the run goes on: `whetstone eval watch " + id + "` follows it, `whetstone eval cancel " + id + "` cancels it\n",
		},
		"a push": {
			[]string{"push", skillFolder(t, "pdf", "one")},
			"/api/v1/registry",
			"whetstone: interrupted; it is not known whether pdf was published; `whetstone history pdf` shows it, and pushing again is safe\n",
		},
		"a gate": {
			[]string{"gate", skillFolder(t, "pdf", "one")},
			"/api/v1/gates/" + id,
			"whetstone: interrupted; the gate goes on; `whetstone gates show " + id + "` shows its verdict\n",
		},
		"anything else": {[]string{"list"}, "/api/v1/registry", "whetstone: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancelCause(t.Context())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, c.at):
					interrupt(errors.New("interrupt signal received")) // as signal.NotifyContext does
					<-r.Context().Done()
				case r.URL.Path == "/api/v1/registry":
					_, _ = w.Write([]byte(`{"entries":[{"id":"e1","name":"pdf"}],"pagination":{"total":1}}`))
				case strings.HasSuffix(r.URL.Path, "/gates"):
					w.WriteHeader(http.StatusAccepted)
					_, _ = w.Write([]byte(`{"gate":{"id":"` + id + `","status":"running"}}`))
				case r.URL.Path == "/api/v1/cloud-sources":
					_, _ = w.Write([]byte(`[]`))
				default:
					_, _ = w.Write([]byte(`{}`))
				}
			}))
			defer server.Close()
			t.Setenv("HOME", t.TempDir())
			t.Setenv("WHETSTONE_SERVER", server.URL)
			t.Setenv("WHETSTONE_API_KEY", "st_live_x")
			var stdout, stderr bytes.Buffer
			code := cli.Run(ctx, &term.Program{Stdout: &stdout, Stderr: &stderr, Stdin: strings.NewReader("")}, c.args)
			if got := (result{code, stdout.String(), stderr.String()}); got != (result{term.ExitInterrupted, "", c.want}) {
				t.Errorf("got %+v, want %d and %q", got, term.ExitInterrupted, c.want)
			}
		})
	}
}
