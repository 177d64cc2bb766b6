package client

import (
	"context"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client/api"
)

// Me is the holder of the client's key, and what the key permits.
type Me struct {
	User         User         `json:"user"`
	Organisation Organisation `json:"organisation"`
	Plan         string       `json:"plan"`
	Role         string       `json:"role"`
	Permissions  []string     `json:"permissions"`
	Key          api.Key      `json:"key"` // the one that asks
}

// A User is a member of an organisation.
type User struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	Name  string `json:"name"`
}

// An Organisation owns entries and keys.
type Organisation struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Me returns the holder of the client's key. An invalid key is an *Error with the
// status 401.
func (c *Client) Me(ctx context.Context) (out Me, err error) {
	err = c.get(ctx, "/api/v1/me", nil, &out)
	return out, err
}

// A DeviceLogin waits for a person to enter UserCode at VerificationURL, like the
// device authorization grant of RFC 8628.
type DeviceLogin struct {
	DeviceCode      string // the program's secret
	UserCode        string
	VerificationURL string
	ExpiresIn       time.Duration
	Interval        time.Duration // between two polls
}

// StartDeviceLogin begins a login for the program named clientID. It needs no key.
// The key of an earlier login with the same program and deviceID is revoked; "" stands
// for an unknown device, for which none is.
func (c *Client) StartDeviceLogin(ctx context.Context, clientID, deviceID string) (DeviceLogin, error) {
	in := struct {
		ClientID string `json:"client_id"`
		DeviceID string `json:"device_id,omitempty"`
	}{clientID, deviceID}
	var out struct {
		DeviceCode      string `json:"device_code"`
		UserCode        string `json:"user_code"`
		VerificationURL string `json:"verification_url"`
		ExpiresIn       int    `json:"expires_in"`
		Interval        int    `json:"interval"`
	}
	_, err := c.do(ctx, call{method: http.MethodPost, path: "/api/v1/device-code", body: encode(in)}, &out)
	return DeviceLogin{
		DeviceCode: out.DeviceCode, UserCode: out.UserCode, VerificationURL: out.VerificationURL,
		ExpiresIn: time.Duration(out.ExpiresIn) * time.Second, Interval: time.Duration(out.Interval) * time.Second,
	}, err
}

// A DeviceStatus is the state of a login.
type DeviceStatus string

// The states of a login.
const (
	DevicePending  DeviceStatus = "pending"
	DeviceApproved DeviceStatus = "approved"
	DeviceDenied   DeviceStatus = "denied"
	DeviceExpired  DeviceStatus = "expired"
)

// A DevicePoll is the answer to one poll.
type DevicePoll struct {
	Status DeviceStatus `json:"status"`
	APIKey string       `json:"api_key"`       // once, when approved
	UserID string       `json:"cloud_user_id"` // when approved
	OrgID  string       `json:"org_id"`        // when approved
}

// PollDeviceLogin returns the state of the login. The key is sent only once, so a
// poll whose answer may have been lost is not retried.
func (c *Client) PollDeviceLogin(ctx context.Context, deviceCode string) (out DevicePoll, err error) {
	in := struct {
		DeviceCode string `json:"device_code"`
	}{deviceCode}
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/device-code/poll", body: encode(in)}, &out)
	return out, err
}
