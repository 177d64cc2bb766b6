package config

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// SecretValues returns the keys, tokens and passwords of the settings, e.g. to hide them in
// what a model's server repeats. It leaves out what surrounds them (schemes, users, hosts,
// paths) and words that are no secrets: hidden everywhere, those would damage texts.
func (c *Config) SecretValues() []string {
	all := strings.Split(string(c.SecretKey), ",")
	for _, key := range []Secret{c.BootstrapKey, c.JudgeKey, c.RepohostToken, c.RepohostWebhookSecret} {
		all = append(all, string(key))
	}
	all = append(all, strings.Split(string(c.RepohostSigningToken), ",")...)
	for _, keys := range []Secrets{c.ModelKey, c.OIDCClientSecret} {
		for _, key := range keys {
			all = append(all, string(key))
		}
	}
	// A model may repeat a single line of it.
	if pem, err := c.RepohostPrivateKey.PEM(); err == nil { // otherwise the start fails where the key is used
		all = append(all, pemLines(string(pem))...)
	}
	for _, headers := range []Secrets{c.AuditOTLPHeader, c.TraceOTLPHeader} {
		for name, value := range headers {
			all = append(all, headerSecrets(name, string(value))...)
		}
	}
	urls := []URL{
		c.DatabaseURL, c.DatabaseReadURL, c.BlobURL, c.SMTPURL, c.JudgeURL, c.RepohostURL, c.AuditOTLPEndpoint,
		c.TraceOTLPEndpoint,
	}
	for _, u := range slices.AppendSeq(urls, maps.Values(c.Model)) {
		all = append(all, u.secrets()...)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" || slices.Contains(placeholders, strings.ToLower(s)) })
}

// placeholders are passwords and keys of local servers that texts have as ordinary words.
var placeholders = []string{
	"password", "postgres", "postgresql", "minioadmin", "changeme", "whetstone", "anything", "no-key-required",
	"sk-no-key-required",
	"not-needed", "notneeded", "not-required", "placeholder", "undefined",
}

// secretName matches names of parameters and headers whose values are secrets. Drivers read
// sslkey from a file.
var secretName = regexp.MustCompile(`(?i)password|secret|token|key|auth|cookie|credential`)

// secrets returns the password and the secret parameters of a URL. A password like the user's
// name or the host is that of a local test server.
func (u URL) secrets() (all []string) {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return nil
	}
	if password, _ := parsed.User.Password(); password != parsed.User.Username() && password != parsed.Hostname() {
		all = append(all, password)
	}
	for name, values := range parsed.Query() {
		if secretName.MatchString(name) && name != "sslkey" {
			all = append(all, values...)
		}
	}
	return all
}

// manyDigits matches a word that no person reads as one, e.g. a key in a header whose name
// does not say so.
var manyDigits = regexp.MustCompile(`^\S*(\d\S*){4}$`)

// headerSecrets returns the secret of a header: without its scheme, e.g. "abc" of
// "Authorization: Bearer abc". An ordinary header, e.g. "X-Tenant: acme", has none.
func headerSecrets(name, value string) []string {
	value = value[strings.LastIndexByte(value, ' ')+1:]
	if !secretName.MatchString(name) && (len(value) < 16 || !manyDigits.MatchString(value)) {
		return nil
	}
	return []string{value}
}

// pemLines returns the lines of a key, each of which is a secret.
func pemLines(pem string) (all []string) {
	for line := range strings.Lines(pem) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") && !strings.Contains(line, ":") {
			all = append(all, line)
		}
	}
	return all
}
