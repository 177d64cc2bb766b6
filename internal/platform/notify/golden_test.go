package notify_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what was sent with a file under review.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; run the test with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the message has changed; if that is meant, run the test with -update (-golden +now):\n%s", diff)
	}
}

func TestBodiesGolden(t *testing.T) {
	for _, c := range []notify.Channel{notify.ChatA, notify.ChatB, notify.Webhook} {
		for name, notice := range notices() {
			t.Run(string(c)+"_"+name, func(t *testing.T) {
				r := receive(t, answer(http.StatusOK, "ok"))
				if got := newSender(t, notify.Options{}).Send(t.Context(), r.target(c), notice); got.Outcome != notify.Delivered {
					t.Fatalf("got %+v", got)
				}
				golden(t, string(c)+"_"+name+".json", indented(t, r.requests()[0].body))
			})
		}
	}
}

// TestPlainBodiesGolden is about what a chat gets that did not take the first.
func TestPlainBodiesGolden(t *testing.T) {
	for _, c := range []notify.Channel{notify.ChatA, notify.ChatB} {
		t.Run(string(c), func(t *testing.T) {
			r := receive(t, answer(http.StatusBadRequest, "invalid_blocks"), answer(http.StatusOK, "ok"))
			got := newSender(t, notify.Options{}).Send(t.Context(), r.target(c), firing())
			if got.Outcome != notify.Delivered || got.Status != http.StatusOK || len(r.requests()) != 2 {
				t.Fatalf("got %+v after %d requests, want it delivered after 2", got, len(r.requests()))
			}
			golden(t, string(c)+"_plain.json", indented(t, r.requests()[1].body))
		})
	}
}

func TestMailGolden(t *testing.T) {
	date := regexp.MustCompile(`(?m)^Date: \w{3}, \d{2} \w{3} \d{4} [\d:]{8} [+-]\d{4}\r$`)
	for name, notice := range notices() {
		t.Run(name, func(t *testing.T) {
			server := serveMail(t, mailSetup{})
			s := newSender(t, server.options("smtp://ada:hunter22@mail.example.org"))
			target := notify.Target{Channel: notify.Email, Address: "ops@example.org"}
			if got := s.Send(t.Context(), target, notice); got.Outcome != notify.Delivered {
				t.Fatalf("got %+v", got)
			}
			mail := server.mails()[0].data
			if !date.MatchString(mail) {
				t.Errorf("no date in\n%s", mail)
			}
			mail = date.ReplaceAllString(mail, "Date: (now)\r")
			golden(t, "email_"+name+".eml", strings.ReplaceAll(mail, "\r\n", "\n"))
		})
	}
}

func indented(t *testing.T, body []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// TestBodiesStayWithinTheLimits sends the longest and the worst names.
func TestBodiesStayWithinTheLimits(t *testing.T) {
	for name, filler := range map[string]string{
		"letters": "x", "runes": "ä", "escapes": "&", "marks": "*", "lines": "a\r\n", "wide": "🦉",
	} {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat(filler, 7_000)
			notice := firing()
			notice.Skill, notice.Note, notice.Version, notice.URL = long, long, &long, "https://w.example.org/"+long
			s := newSender(t, notify.Options{})
			r := receive(t, answer(http.StatusBadRequest, "no"), answer(http.StatusOK, "ok"), answer(http.StatusBadRequest, "no"), answer(http.StatusOK, "ok"))
			for _, c := range []notify.Channel{notify.ChatA, notify.ChatB} {
				if got := s.Send(t.Context(), r.target(c), notice); got.Outcome != notify.Delivered {
					t.Fatalf("got %+v", got)
				}
			}
			for _, sent := range r.requests() {
				var body struct {
					Text    string
					Blocks  []struct{ Text struct{ Text string } }
					Content string
					Embeds  []struct{ Title, Description string }
				}
				if err := json.Unmarshal(sent.body, &body); err != nil {
					t.Fatal(err)
				}
				wantAtMost(t, "text", body.Text, 4000)
				wantAtMost(t, "content", body.Content, 2000)
				for i, block := range body.Blocks {
					wantAtMost(t, "block", block.Text.Text, []int{150, 3000}[i])
				}
				for _, embed := range body.Embeds {
					wantAtMost(t, "description", embed.Description, 4096)
				}
			}
			webhook := s.Send(t.Context(), r.target(notify.Webhook), notice)
			if webhook.Outcome != notify.Failed || webhook.Detail != "the notice is larger than 20000 bytes" {
				t.Errorf("webhook: got %+v", webhook)
			}
		})
	}
}

func wantAtMost(t *testing.T, what, text string, limit int) {
	t.Helper()
	if n := utf8.RuneCountInString(text); n > limit || !utf8.ValidString(text) {
		t.Errorf("%s has %d characters, want at most %d", what, n, limit)
	}
}
