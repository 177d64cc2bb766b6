// Package githuboauth asks GitHub who a person is: its OAuth code flow with state and PKCE,
// and a few requests to its API. GitHub gives no ID tokens to web applications, so this
// is not OpenID Connect.
package githuboauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

const (
	timeout = 10 * time.Second // of one request
	maxBody = 4 << 20          // bytes of an answer: 100 teams with their organisations
)

// A Client is this installation as an OAuth app of GitHub.
type Client struct {
	// HTTP is what requests are sent with. Redirects are not followed: they would repeat
	// a secret.
	HTTP     *outbound.Client
	URL      string // e.g. "https://github.com", without a slash at the end
	ID       string
	Secret   string
	Redirect string // where GitHub sends the browser back to
	Groups   bool   // organisations and teams are asked for, too
}

// config asks for the least that identifies a person; read:org only if groups decide something.
func (c *Client) config() *oauth2.Config {
	scopes := []string{"read:user", "user:email"}
	if c.Groups {
		scopes = append(scopes, "read:org")
	}
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: c.Redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{
			AuthURL: c.URL + "/login/oauth/authorize", TokenURL: c.URL + "/login/oauth/access_token",
			AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

// api is the address of the API: that of github.com and of tenants at ghe.com has a host
// of its own, that of Enterprise Servers a path.
func (c *Client) api() string {
	u, err := url.Parse(c.URL)
	if err == nil && (u.Host == "github.com" || strings.HasSuffix(u.Host, ".ghe.com")) {
		return u.Scheme + "://api." + u.Host
	}
	return c.URL + "/api/v3"
}

// AuthURL is where the browser goes to sign in.
func (c *Client) AuthURL(f oidc.Flow) string {
	return c.config().AuthCodeURL(f.State, oauth2.S256ChallengeOption(f.Verifier))
}

// Exchange exchanges a code for an access token. A code that is not accepted is
// fault.Unauthorized; a GitHub that cannot be reached, or refuses this installation, is
// fault.BadGateway. GitHub sends no nonce, as there is no ID token; state and PKCE bind the answer
// to the request.
func (c *Client) Exchange(ctx context.Context, f oidc.Flow, a oidc.Answer) (access string, err error) {
	// Mix-up: GitHub names itself with the second, if at all. Each provider has its own
	// redirect URI besides.
	if a.Issuer != "" && a.Issuer != c.URL && a.Issuer != c.URL+"/login/oauth" {
		return "", fault.New(fault.Unauthorized, "the answer is not from the provider that was asked")
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, c.http().HTTP())
	got, err := c.config().Exchange(ctx, a.Code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return "", exchangeError(err)
	}
	return got.AccessToken, nil
}

func (c *Client) http() *outbound.Client {
	return c.HTTP.With(outbound.Limits{Timeout: timeout, MaxBody: maxBody, MaxRedirects: -1})
}

// errorCode is that of RFC 6749, as far as it may be logged.
var errorCode = regexp.MustCompile(`^[a-z_]{1,40}$`)

// exchangeError says who has to do something. GitHub sends errors with status 200. What
// it wrote is for the log only.
func exchangeError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		why := errors.New("the token endpoint answers " + refused.Response.Status)
		if errorCode.MatchString(refused.ErrorCode) {
			why = fmt.Errorf("%w %s", why, refused.ErrorCode)
		}
		switch refused.ErrorCode {
		case "bad_verification_code", "invalid_grant":
			return fault.New(fault.Unauthorized, "it does not accept the code of this sign-in").Because(why)
		case "incorrect_client_credentials", "invalid_client":
			return fault.New(fault.BadGateway, "it does not accept this installation; the operator must check its client id and secret").Because(why)
		case "redirect_uri_mismatch":
			return fault.New(fault.BadGateway, "its OAuth app has another callback URL than this installation").Because(why)
		case "unverified_user_email":
			return fault.New(fault.Unauthorized, "your primary address is not verified there").Because(why)
		}
		if limited(refused.Response) {
			return errLimited().Because(why)
		}
		return fault.New(fault.BadGateway, "it gave no token").Because(why)
	}
	return unreachable(err)
}

// unreachable is what becomes of an error of the network. What outbound says may be
// shown.
func unreachable(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return fault.New(fault.BadGateway, "it cannot be reached: %s", f.Message).Because(err)
	}
	return fault.New(fault.BadGateway, "its answer cannot be read").Because(err)
}
