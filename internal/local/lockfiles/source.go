package lockfiles

import (
	"net/url"
	"slices"
	"strings"
)

// source reads the address that something was installed from. It notes credentials,
// and returns neither them nor the path after the organisation.
func (p *parser) source(address string) (source, organisation string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", ""
	}
	if u.User != nil {
		p.secret("a password")
	}
	source = u.Scheme + "://" + strings.ToLower(u.Host)
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	for _, text := range append(parts, u.RawQuery, u.Fragment) {
		switch {
		case strings.Contains(text, "st_live_"):
			p.secret("an API key")
		case strings.HasPrefix(text, "ct_"):
			p.secret("a catalog token")
		}
	}
	// A prefix of the server's own may come first: https://host/skills/o/acme.
	if i := slices.Index(parts, "o"); i >= 0 && i+1 < len(parts) && parts[i+1] != "" && !isSecret(parts[i+1]) {
		organisation = parts[i+1]
		source += "/o/" + url.PathEscape(organisation)
	}
	return source, organisation
}

// FromHere reports whether the name of an item finds its entry at a server: the item
// came from there, or its file names an organisation and no server.
func (i Item) FromHere(server string) bool {
	if i.Source == "" {
		return i.Organisation != ""
	}
	source, err := url.Parse(i.Source)
	here, err2 := url.Parse(server)
	return err == nil && err2 == nil && strings.EqualFold(source.Host, here.Host)
}

// Fit drops a text that is longer than any of the registry, which refuses it.
func Fit(text string) string {
	const most = 200
	if len(text) > most {
		return ""
	}
	return text
}

func isSecret(text string) bool {
	return strings.Contains(text, "st_live_") || strings.HasPrefix(text, "ct_")
}

func (p *parser) secret(kind string) {
	if !slices.Contains(p.Secrets, kind) {
		p.Secrets = append(p.Secrets, kind)
	}
}
