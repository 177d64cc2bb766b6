package client

import (
	"context"
	"net/http"
	"time"
)

// Me tells whose key the client has, and what it may do.
type Me struct {
	User         User         `json:"user"`
	Organisation Organisation `json:"organisation"`
	Plan         string       `json:"plan"`
	Role         string       `json:"role"`
	Permissions  []string     `json:"permissions"`
}

// A User is a person of an organisation.
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

// Me asks whose key the client has. A bad key is an *Error with the status 401.
func (c *Client) Me(ctx context.Context) (out Me, err error) {
	_, err = c.do(ctx, call{method: http.MethodGet, path: "/api/v1/me", repeatable: true}, &out)
	return out, err
}

// A DeviceLogin waits for a person to enter UserCode at VerificationURL.
type DeviceLogin struct {
	DeviceCode      string // the program's secret
	UserCode        string
	VerificationURL string
	ExpiresIn       time.Duration
	Interval        time.Duration // between two polls
}

// StartDeviceLogin begins a login for the program that calls itself clientID.
// It needs no key.
func (c *Client) StartDeviceLogin(ctx context.Context, clientID string) (DeviceLogin, error) {
	in := struct {
		ClientID string `json:"client_id"`
	}{clientID}
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

// A DeviceStatus is where a login stands.
type DeviceStatus string

// Where a login stands.
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

// PollDeviceLogin asks once where the login stands. The answer that has the
// key comes once: a poll is not repeated when it may have been lost.
func (c *Client) PollDeviceLogin(ctx context.Context, deviceCode string) (out DevicePoll, err error) {
	in := struct {
		DeviceCode string `json:"device_code"`
	}{deviceCode}
	_, err = c.do(ctx, call{method: http.MethodPost, path: "/api/v1/device-code/poll", body: encode(in)}, &out)
	return out, err
}
