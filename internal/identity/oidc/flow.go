package oidc

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/outbound"
)

// Metadata is the discovery document of an issuer, as far as it is used.
type Metadata struct {
	Issuer        string   `json:"issuer"`
	Keys          string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	UserInfo      string   `json:"userinfo_endpoint"`
	EndSession    string   `json:"end_session_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	// NamesItself says that the answer to the browser has the parameter iss (RFC 9207).
	NamesItself bool `json:"authorization_response_iss_parameter_supported"`
}

// Discover returns what an issuer says about itself. The answer, also a failure, is
// reused for refetchAfter. If the issuer cannot be reached, or cannot sign people in, the
// error is fault.BadGateway. It has the same cache as the keys, since both are fetched together.
func (k *Keys) Discover(ctx context.Context, issuer string) (Metadata, error) {
	f := k.lookup(issuer)
	if k.since(f.triedAt) >= refetchAfter {
		var err error
		if f, err = k.refetch(ctx, issuer); err != nil {
			return Metadata{}, err
		}
	}
	if f.err != nil {
		return Metadata{}, f.err
	}
	return f.about, f.about.check()
}

// check refuses endpoints that aren't https, unless the issuer itself is plain http, as in a test
// or on localhost.
func (m Metadata) check() error {
	endpoints := []string{m.Authorization, m.Token}
	for _, optional := range []string{m.UserInfo, m.EndSession} {
		if optional != "" {
			endpoints = append(endpoints, optional)
		}
	}
	for _, endpoint := range endpoints {
		u, err := url.Parse(endpoint)
		safe := err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" &&
			strings.HasPrefix(m.Issuer, "http://"))
		if !safe {
			return errUnreachable(m.Issuer, errors.New("its discovery document has no endpoint with https to sign people in"))
		}
	}
	return nil
}

// A Client is this installation at an identity provider. It has no state, so one is made for each
// request.
type Client struct {
	Keys *Keys
	// HTTP asks for tokens. Redirects are not followed: they would repeat a secret.
	HTTP     *outbound.Client
	Issuer   string
	ID       string
	Secret   string // "" for a public client
	Scopes   []string
	Redirect string // where the provider sends the browser back to
}

// A Flow is what binds the answer of a provider to the request: state to the browser,
// the nonce to the ID token, and the verifier to the code (PKCE). All three are random and used
// once.
type Flow struct {
	State, Nonce, Verifier string
}

// NewVerifier returns a secret for PKCE.
func NewVerifier() string { return oauth2.GenerateVerifier() }

func (c *Client) config(m Metadata) *oauth2.Config {
	// Without a style the library would try both, and so send a code twice.
	// client_secret_basic is the default of OpenID Connect Core, section 9.
	style := oauth2.AuthStyleInHeader
	if c.Secret == "" || len(m.AuthMethods) > 0 && !slices.Contains(m.AuthMethods, "client_secret_basic") {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: c.Redirect, Scopes: c.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization, TokenURL: m.Token, AuthStyle: style},
	}
}

// AuthURL is where the browser goes to sign in.
func (c *Client) AuthURL(ctx context.Context, f Flow) (string, error) {
	m, err := c.Keys.Discover(ctx, c.Issuer)
	if err != nil {
		return "", err
	}
	return c.config(m).AuthCodeURL(f.State, oauth2.S256ChallengeOption(f.Verifier), oauth2.SetAuthURLParam("nonce", f.Nonce)), nil
}

// An Answer is what the provider sent back with the browser.
type Answer struct {
	Code   string
	Issuer string // the parameter iss; "" without one
}

// Exchange exchanges a code for an ID token, verifies that, and returns it with the
// access token. What is not valid is fault.Unauthorized; a provider that cannot be
// reached, or refuses this installation, is fault.BadGateway, and an ID token of more than
// MaxSignInToken fault.TooLarge. The checks are those of OpenID Connect Core, section 3.1.3.7.
func (c *Client) Exchange(ctx context.Context, f Flow, a Answer) (Token, string, error) {
	m, err := c.Keys.Discover(ctx, c.Issuer)
	if err != nil {
		return Token{}, "", err
	}
	// Mix-up: another provider could have sent the browser here, to get a code of this
	// one, or to plant its own.
	if a.Issuer != "" && a.Issuer != c.Issuer || a.Issuer == "" && m.NamesItself {
		return Token{}, "", fault.New(fault.Unauthorized, "The answer is not from the provider that was asked")
	}
	client := c.HTTP.With(outbound.Limits{Timeout: fetchTimeout, MaxBody: maxTokens, MaxRedirects: -1}).HTTP()
	client.Transport = wholeAnswers{client.Transport}
	got, err := c.config(m).Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), a.Code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Token{}, "", exchangeError(err)
	}
	raw, _ := got.Extra("id_token").(string)
	if raw == "" {
		return Token{}, "", fault.New(fault.BadGateway, "The provider sent no ID token; its scopes must have openid")
	}
	if len(raw) > MaxSignInToken {
		return Token{}, "", errTokenTooLarge()
	}
	// The size and the claims that need no key are checked before a key is fetched.
	if _, err := peek(raw, c.ID); err != nil {
		return Token{}, "", err
	}
	t, err := c.Keys.verify(ctx, raw, c.Issuer, c.ID)
	if err != nil {
		return t, "", err
	}
	var said struct {
		Nonce string `json:"nonce"`
		Party string `json:"azp"`
	}
	if err := t.Claims(&said); err != nil {
		return t, "", err
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(said.Nonce), []byte(f.Nonce)) != 1:
		return t, "", fault.New(fault.Unauthorized, "The ID token is for another sign-in")
	case said.Party != "" && said.Party != c.ID, said.Party == "" && len(t.Audience) > 1:
		return t, "", fault.New(fault.Unauthorized, "The ID token is for another application")
	case t.Subject == "" || len(t.Subject) > 255:
		return t, "", fault.New(fault.Unauthorized, "The ID token names no user: its sub must have 1 to 255 characters")
	}
	return t, got.AccessToken, nil
}

func errTokenTooLarge() error {
	return fault.New(fault.TooLarge, "The ID token is larger than %d KiB", MaxSignInToken>>10)
}

// wholeAnswers reads an answer before it returns it: an answer that is too large is an
// error of the request, whose kind the oauth2 package keeps. Without that, the error would be one
// of reading JSON.
type wholeAnswers struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t wholeAnswers) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// exchangeError says who has to do something. What the provider wrote is for the log
// only.
func exchangeError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		why := errors.New("the token endpoint answers " + refused.Response.Status + " " + refused.ErrorCode)
		switch refused.ErrorCode {
		case "invalid_grant":
			return fault.New(fault.Unauthorized, "The provider does not accept the code of this sign-in; start again").Because(why)
		case "invalid_client", "unauthorized_client":
			return fault.New(fault.BadGateway, "The provider does not accept this installation; the operator must check its client id and secret").Because(why)
		}
		return fault.New(fault.BadGateway, "The provider did not give a token; try again, or tell the operator").Because(why)
	}
	if fault.Is(err, fault.TooLarge) {
		return errTokenTooLarge()
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return fault.New(fault.BadGateway, "The provider cannot be reached: %s", f.Message).Because(err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fault.New(fault.BadGateway, "The provider's answer cannot be read; try again, or tell the operator").Because(err)
}

// UserInfo adds claims to a token that the provider tells on request only, such as the
// groups of GitLab. Those of the token win, but the address and whether it is verified
// come from one of both. A provider without the endpoint adds none. Userinfo isn't signed; its
// trust is that of the TLS connection and of the subject being the same.
func (c *Client) UserInfo(ctx context.Context, t Token, access string) (Token, error) {
	m, err := c.Keys.Discover(ctx, c.Issuer)
	if err != nil || m.UserInfo == "" {
		return t, err
	}
	more := map[string]json.RawMessage{}
	if err := getJSON(ctx, c.HTTP, m.UserInfo, access, &more); fault.Is(err, fault.TooLarge) {
		return t, errTokenTooLarge()
	} else if err != nil {
		return t, errUnreachable(c.Issuer, err)
	}
	// The answer could be about somebody else (token substitution).
	var subject string
	if json.Unmarshal(more["sub"], &subject) != nil || subject != t.Subject {
		return t, fault.New(fault.Unauthorized, "The provider tells about another person than it signed in")
	}
	own := map[string]json.RawMessage{}
	if err := t.Claims(&own); err != nil {
		return t, err
	}
	// An address from one source must not be called verified by the other.
	both := func(c map[string]json.RawMessage) bool { return c["email"] != nil && c["email_verified"] != nil }
	drop := own
	if both(own) || !both(more) {
		drop = more
	}
	delete(drop, "email")
	delete(drop, "email_verified")
	maps.Copy(more, own)
	t.claims, err = json.Marshal(more)
	return t, err
}

// getJSON asks with an access token. It follows no redirects, which would send the token elsewhere.
func getJSON(ctx context.Context, client *outbound.Client, from, access string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+access)
	req.Header.Set("Accept", "application/json")
	resp, err := client.With(outbound.Limits{Timeout: fetchTimeout, MaxBody: maxAnswer, MaxRedirects: -1}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fault.New(fault.BadGateway, "it answers %d", resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errors.New("its answer is not JSON")
	}
	return nil
}
