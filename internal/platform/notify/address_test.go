package notify_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

func TestMask(t *testing.T) {
	for _, c := range []struct {
		channel       notify.Channel
		address, want string
	}{
		{notify.ChatA, "https://hooks.example.org" + secretPath, "https://hooks.example.org/…"},
		{notify.ChatB, "https://chat.example.org:8443/x?token=y#z", "https://chat.example.org:8443/…"},
		{notify.Webhook, "http://[::1]:80/", "http://[::1]:80/…"},
		{notify.Webhook, "https://user:password@example.org/", "…"},
		{notify.Webhook, "not a URL", "…"},
		{notify.Email, "ada@example.org", "a…@example.org"},
		{notify.Email, "Ada <Öda@example.org>", "Ö…@example.org"},
		{notify.Email, `"a@b"@example.org`, "a…@example.org"},
		{notify.Email, "ada", "…"},
	} {
		if got := notify.Mask(c.channel, c.address); got != c.want {
			t.Errorf("Mask(%s, %q) = %q, want %q", c.channel, c.address, got, c.want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for _, c := range []struct {
		channel notify.Channel
		address string
		want    string // "" when it is good
	}{
		{notify.ChatA, "https://hooks.example.org/x", ""},
		{notify.Webhook, "ftp://example.org", "URL must begin with http:// or https://"},
		{notify.Email, "ada@example.org", ""},
		{notify.Email, "ada@example.org\n", "must be one mail address, like ada@example.org"},
		{notify.Email, "https://example.org", "must be one mail address, like ada@example.org"},
	} {
		err := notify.CheckAddress(c.channel, c.address)
		if c.want == "" && err != nil || c.want != "" && (!fault.Is(err, fault.Malformed) || err.Error() != c.want) {
			t.Errorf("CheckAddress(%s, %q) = %v, want %q", c.channel, c.address, err, c.want)
		}
	}
}

func TestSecrets(t *testing.T) {
	key := func(n int) string { return "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n)) }
	a, b := notify.NewSecret(), notify.NewSecret()
	if a == b || len(a) != len(key(32)) {
		t.Errorf("made %d and %d letters, want two different secrets of 32 bytes", len(a), len(b))
	}
	for name, good := range map[string]string{"new": a, "facts": secret, "least": key(24), "most": key(64)} {
		if err := notify.CheckSecret(good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string]string{
		"empty": "", "prefix only": "whsec_", "no prefix": strings.TrimPrefix(secret, "whsec_"), "short": key(23), "long": key(65),
		"not base64": "whsec_" + strings.Repeat("!", 32), "unpadded": strings.TrimRight(key(25), "="), "line break": secret + "\n",
		"line break inside": secret[:20] + "\r\n" + secret[20:],
	} {
		err := notify.CheckSecret(bad)
		if !fault.Is(err, fault.Malformed) || err.Error() != "must be whsec_ and the base64 of 24 to 64 bytes" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
