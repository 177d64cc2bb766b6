package outbound

import (
	"net/http"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// checkRedirect returns an http.Client.CheckRedirect function. It decides
// whether a redirect is followed, and with which headers. The address of the
// next hop is checked by the dial hook, like that of the first.
func checkRedirect(limit int) func(next *http.Request, via []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if limit == 0 {
			return http.ErrUseLastResponse
		}
		if len(via) > limit {
			return fault.New(fault.BadGateway, "more than %d redirects", limit)
		}
		// 301 and 302 make net/http repeat a POST as a GET, without its body: the
		// answer would be that of another request.
		if next.Method != via[0].Method && via[0].Method != http.MethodHead {
			return http.ErrUseLastResponse
		}
		if err := checkURL(next.URL); err != nil {
			return refuse("the target of a redirect: %s", err)
		}
		// A downgrade would send the request, and what it carries, in the clear.
		if via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https" {
			return refuse("a redirect leads from https to http")
		}
		// net/http sets it to the URL that redirected, which may contain a secret.
		next.Header.Del("Referer")
		// One hop to another origin is enough to distrust all that follow: the
		// other site chose them.
		crossOrigin := func(hop *http.Request) bool {
			return hop.URL.Scheme != via[0].URL.Scheme || hop.URL.Host != via[0].URL.Host
		}
		if crossOrigin(next) || slices.ContainsFunc(via, crossOrigin) {
			// Keep only headers that never carry a credential. net/http drops Authorization and
			// cookies, but not for a subdomain, and an API key may be in any other header.
			for name := range next.Header {
				switch http.CanonicalHeaderKey(name) {
				case "Accept", "Accept-Encoding", "Accept-Language", "Content-Type", "Content-Encoding", "Range", "User-Agent":
				default:
					delete(next.Header, name)
				}
			}
		}
		return nil
	}
}
