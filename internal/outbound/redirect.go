package outbound

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// redirects returns what http.Client asks before each redirect. The address
// of the next hop is checked by the dial like that of the first; here it is
// decided whether and with which headers the hop is made.
func redirects(limit int) func(next *http.Request, via []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if limit == 0 {
			return http.ErrUseLastResponse
		}
		if len(via) > limit {
			return fault.New(fault.BadGateway, "more than %d redirects", limit)
		}
		if err := checkURL(next.URL); err != nil {
			return refuse("the target of a redirect: %s", err)
		}
		if via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return refuse("a redirect leads from https to http")
		}
		// net/http names the URL that redirected, which may hold a secret.
		next.Header.Del("Referer")
		if leaves := leaves(via[0].URL); leaves(next) || slices.ContainsFunc(via, leaves) {
			keepHarmless(next.Header)
		}
		return nil
	}
}

// leaves reports whether a hop goes to another origin than the first request.
// One such hop is enough to distrust all that follow: the other site chose
// them.
func leaves(first *url.URL) func(*http.Request) bool {
	return func(hop *http.Request) bool {
		return hop.URL.Scheme != first.Scheme || hop.URL.Host != first.Host
	}
}

// keepHarmless drops all but the headers that say what is asked for. net/http
// drops Authorization and cookies only, and not on the way to a subdomain; a
// key may just as well be in a header of its own.
func keepHarmless(header http.Header) {
	for name := range header {
		switch http.CanonicalHeaderKey(name) {
		case "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Content-Encoding", "Range", "User-Agent":
		default:
			delete(header, name)
		}
	}
}
