package content_test

import (
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/observe/content"
)

func TestText(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1B2", 9)
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75/x\nq9+dGVzdA==\n-----END RSA PRIVATE KEY-----"
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "Read the file config/app.yaml, then run make test.", "Read the file config/app.yaml, then run make test."},
		{"lines", "a\n\nb\r\nc\n", "a\n\nb\r\nc\n"},
		{"key of the linter's patterns", "push with " + token + " please", "push with [redacted:repohost_token] please"},
		{"documented key", "AKIAIOSFODNN7EXAMPLE", "[redacted:aws_key_id]"},
		{"two in a line", token + " " + token, "[redacted:repohost_token] [redacted:repohost_token]"},
		{"private key", "a\n" + pem + "\nb", "a\n[redacted:private_key]\nb"},
		{"private key in JSON", strings.ReplaceAll(`{"key":"`+pem+`"}`, "\n", `\n`), `{"key":"[redacted:private_key]"}`},
		{"cut private key", "a\n-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75/x\nq9+dGV", "a\n[redacted:private_key]"},
		{"private key within another", pem[:60] + "\n" + pem, "[redacted:private_key]"},
		{"public key", "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----", "-----BEGIN PUBLIC KEY-----\nabc\n-----END PUBLIC KEY-----"},
		{"our own key", "curl with st_live_" + strings.Repeat("aB3", 14) + "x", "curl with [redacted:whetstone_key]"},
		{"environment", "DB_PASSWORD=correcthorse\nHOME=/srv", "DB_PASSWORD=[redacted:assigned]\nHOME=/srv"},
		{"assignment in JSON", `{"api_key": "hunter2hunter2"}`, `{"api_key": "[redacted:assigned]"}`},
		{"assignment in JSON in JSON", `{\"client_secret\":\"hunter2hunter2\"}`, `{\"client_secret\":\"[redacted:assigned]\"}`},
		{"header", "Authorization: Bearer abcdef0123456789", "Authorization: Bearer [redacted:authorization]"},
		{"basic header", "authorization: Basic YWRhOmh1bnRlcjI=", "authorization: Basic [redacted:authorization]"},
		{"password in a URL", "postgres://ada:hunter2@db.internal/x", "postgres://ada:[redacted:connection_string]@db.internal/x"},
		{"count of tokens", `"input_tokens": 123456`, `"input_tokens": 123456`},

		{"email", "write to Ada.Lovelace+x@mail.example.org.", "write to [redacted:email]."},
		{"email with other letters", "jürgen@müller.example", "[redacted:email]"},
		{"encoded email", "?user=ada%40example.org&x=1", "?user=[redacted:email]&x=1"},
		{"email in a list", "<a@b.co>,<c@d.io>", "<[redacted:email]>,<[redacted:email]>"},
		{"package", "lodash@4.17.21 and @types/node", "lodash@4.17.21 and @types/node"},

		{"Linux", "/home/ada/api/main.go", "[redacted:home]/api/main.go"},
		{"macOS", `"/Users/ada lovelace"`, `"[redacted:home] lovelace"`},
		{"URL", "file:///Users/ada/x", "file://[redacted:home]/x"},
		{"Windows", `C:\Users\ada\api`, `[redacted:home]\api`},
		{"Windows in JSON", `{"path":"c:\\Users\\ada\\api"}`, `{"path":"[redacted:home]\\api"}`},
		{"Windows with slashes", `D:/Users/ada/api`, `[redacted:home]/api`},
		{"Windows in Linux", "/mnt/c/Users/ada/api", "/mnt/c[redacted:home]/api"},
		{"folder of an agent", "/srv/.claude/projects/-Users-ada-api/1.jsonl", "/srv/.claude/projects/[redacted:home]-api/1.jsonl"},
		{"only the folder of homes", "ls /home/ and /Users", "ls /home/ and /Users"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := content.Redact(c.text)
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if again := content.Redact(got); again != got {
				t.Errorf("a second time %q", again)
			}
		})
	}
}

// TestAnywhere plants what must go between all sorts of other text.
func TestAnywhere(t *testing.T) {
	for _, planted := range []string{
		"ghp_" + strings.Repeat("a1B2", 9), "AKIAIOSFODNN7EXAMPLE", "sk-ant-" + strings.Repeat("x9", 20), "ada@example.org",
		"/home/ada", "/Users/ada", `C:\Users\ada`,
	} {
		for _, around := range [][2]string{
			{"", ""},
			{`"`, `"`},
			{"\n", "\n"},
			{"(", ")"},
			{"`", "`"},
			{`{\"a\":\"`, `\"}`},
			{"x=", " y"},
			{"<", ">"},
			{"\x00", "\xff"},
			{"é", "é"},
			{strings.Repeat("a ", 5000), strings.Repeat(" b", 5000)},
			{"-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"},
		} {
			got := content.Redact(around[0] + planted + around[1])
			if strings.Contains(got, planted) || strings.Contains(got, "ada") {
				t.Errorf("%q between %.20q and %.20q: %.200q", planted, around[0], around[1], got)
			}
		}
	}
}
