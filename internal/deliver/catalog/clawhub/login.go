package clawhub

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
)

// whoamiOutput is whom a key belongs to. The handle is the organisation, since that
// is what one publishes for.
type whoamiOutput struct {
	User ownerOutput `json:"user"`
}

// handleWhoami answers with the organisation that the caller publishes for.
func (s *Service) handleWhoami(w http.ResponseWriter, _ *http.Request, v visit) error {
	if v.caller.KeyID == "" {
		return errNoKey()
	}
	return answer(w, whoamiOutput{ownerOutput{Handle: v.caller.OrgName, DisplayName: cmp.Or(v.caller.Name, v.caller.Email)}})
}

// maxLogin is how many bytes the body of a login has.
const maxLogin = 16 << 10

type deviceCodeOutput struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int    `json:"expires_in"`
	Interval                int    `json:"interval"`
}

// handleDeviceCode starts a login. The site_url of the client is not looked at: it
// is ClawHub's own unless the person has set another. The answer has the fields of
// RFC 8628, section 3.2.
func (s *Service) handleDeviceCode(w http.ResponseWriter, r *http.Request, _ visit) error {
	s.boundBody(w, r, true, maxLogin)
	var in struct {
		Label string `json:"label"`
	}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	client := "clawhub"
	// The label is shown to the person who approves, so it must not forge other
	// lines.
	if label := text.OneLine(text.Clean(in.Label)); label != "" {
		client += " (" + text.TruncateRunes(label, 100) + ")"
	}
	d, err := s.Auth.StartDevice(r.Context(), client, "")
	if err != nil {
		return err
	}
	page := s.PublicURL + "/device"
	return answer(w, deviceCodeOutput{
		DeviceCode: d.DeviceCode, UserCode: d.UserCode, VerificationURI: page,
		VerificationURIComplete: page + "?code=" + url.QueryEscape(d.UserCode),
		ExpiresIn:               int(d.ExpiresIn.Seconds()), Interval: int(d.Interval.Seconds()),
	})
}

type deviceTokenOutput struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	Scope       string `json:"scope"`
}

// handleDeviceToken answers with the key of a login, once it was approved, or with
// one of the errors of RFC 8628.
func (s *Service) handleDeviceToken(w http.ResponseWriter, r *http.Request, _ visit) error {
	s.boundBody(w, r, true, maxLogin)
	var in struct {
		DeviceCode string `json:"device_code"`
	}
	if err := readJSON(r, &in); err != nil {
		return err
	}
	result, err := s.Auth.PollDevice(r.Context(), strings.TrimSpace(in.DeviceCode))
	if err != nil {
		return err
	}
	reason := ""
	// The errors of section 3.5. slow_down is not used: the limit of the route is
	// enough.
	switch result.Status {
	// The key is given out once; another poll finds the code expired.
	case auth.DeviceApproved:
		return answer(w, deviceTokenOutput{AccessToken: result.RawKey, TokenType: "bearer", Scope: "read write"})
	case auth.DevicePending:
		reason = "authorization_pending"
	case auth.DeviceDenied:
		reason = "access_denied"
	case auth.DeviceExpired:
		reason = "expired_token"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write([]byte(`{"error":"` + reason + `"}`)) // the client is gone if this fails
	return nil
}
