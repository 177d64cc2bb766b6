package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/internal/app/config"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		text  string
		want  time.Duration
		shown string
	}{
		{"60s", time.Minute, "1m0s"},
		{"15m", 15 * time.Minute, "15m0s"},
		{"1h30m", 90 * time.Minute, "1h30m0s"},
		{"250ms", 250 * time.Millisecond, "250ms"},
		{"1d", day, "1d"},
		{"30d", 30 * day, "30d"},
		{"48h", 2 * day, "2d"},
		{"36h", 36 * time.Hour, "36h0m0s"},
		{"65535d", 65535 * day, "65535d"},
	} {
		t.Run(c.text, func(t *testing.T) {
			var got config.Duration
			if err := got.UnmarshalText([]byte(c.text)); err != nil {
				t.Fatal(err)
			}
			if time.Duration(got) != c.want || got.String() != c.shown {
				t.Errorf("%s is shown as %s, want %s shown as %s", time.Duration(got), got, c.want, c.shown)
			}
			var again config.Duration
			text, err := got.MarshalText()
			if err == nil {
				err = again.UnmarshalText(text)
			}
			if err != nil || again != got {
				t.Errorf("%s reads back as %s, %v", text, again, err)
			}
		})
	}
}

func TestDays(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]int{time.Minute: 1, day: 1, 36 * time.Hour: 1, 30 * day: 30} {
		if got := config.Duration(d).Days(); got != want {
			t.Errorf("%s has %d days, want %d", d, got, want)
		}
	}
}

func TestDurationRefused(t *testing.T) {
	for _, text := range []string{"", "soon", "60", "d", "-1d", "-5s", "0", "0s", "0d", "1.5d", "1d12h", "65536d", "1w", " 5s"} {
		var got config.Duration
		err := got.UnmarshalText([]byte(text))
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q is not a duration like 60s, 15m, 12h or 30d", text)) {
			t.Errorf("UnmarshalText(%q) = %v, want an error that says how", text, err)
		}
	}
}

// TestSecretsNeverPrint tries every way in which a value gets into a log, an
// error or an answer by accident.
func TestSecretsNeverPrint(t *testing.T) {
	const secret = "hunter2"
	holder := struct {
		Secret  config.Secret
		Pointer *config.Secret
		URL     config.URL
		Query   config.URL
		Broken  config.URL
		List    []config.Secret
		Map     map[string]config.URL
	}{
		Secret: secret, URL: "postgres://ada:" + secret + "@db.example:5432/w", Query: "postgres://db.example/w?password=" + secret + "&sslmode=disable",
		Broken: "postgres://ada:" + secret + "@db.example:port/w", List: []config.Secret{secret},
		Map: map[string]config.URL{"smtp": "smtp://ada:" + secret + "@mail.example"},
	}
	holder.Pointer = &holder.Secret
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10v", "%.3s"} {
		for _, value := range []any{holder, holder.Secret, holder.URL, holder.Query, holder.Broken, holder.List, holder.Map} {
			check(t, secret, verb, fmt.Sprintf(verb, value))
		}
	}
	text, err := json.Marshal(holder)
	check(t, secret, "JSON", string(text))
	if err != nil {
		t.Error(err)
	}
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("settings", "all", holder, "secret", holder.Secret, "url", holder.URL, "query", holder.Query)
	}
	check(t, secret, "slog", log.String())
	check(t, secret, "error", fmt.Errorf("dial %s: refused", holder.URL).Error())
}

func check(t *testing.T, secret, how, text string) {
	t.Helper()
	hex := fmt.Sprintf("%x", secret)
	if strings.Contains(text, secret) || strings.Contains(strings.ToLower(text), hex) {
		t.Errorf("%s shows the secret: %s", how, text)
	}
}

func TestMasks(t *testing.T) {
	for _, c := range []struct {
		name  string
		value fmt.Stringer
		want  string
	}{
		{"secret", config.Secret("hunter2"), "[secret]"},
		{"no secret", config.Secret(""), ""},
		{"password", config.URL("postgres://ada:hunter2@db.example:5432/w?sslmode=disable"), "postgres://ada:[secret]@db.example:5432/w?sslmode=disable"},
		{"password with odd letters", config.URL("smtp://ada:h%40%3Ax@mail.example:587"), "smtp://ada:[secret]@mail.example:587"},
		{"password in the query", config.URL("postgres://db.example/w?password=hunter2&sslmode=disable"), "postgres://db.example/w?password=[secret]&sslmode=disable"},
		{"user only", config.URL("postgres://ada@db.example/w"), "postgres://ada@db.example/w"},
		{"nothing to hide", config.URL("s3://bucket?region=eu&endpoint=https://s3.example"), "s3://bucket?region=eu&endpoint=https://s3.example"},
		{"path", config.URL("sqlite:/srv/w.db"), "sqlite:/srv/w.db"},
		{"empty", config.URL(""), ""},
		{"not a URL", config.URL("postgres://ada:hunter2@db.example:port"), "[secret]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.value.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
