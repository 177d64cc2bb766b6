package githuboauth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// A Person is an account at GitHub.
type Person struct {
	ID       int64 // never given to another account, unlike the login
	Name     string
	Email    string // the primary address; "" without one
	Verified bool   // the address
	// Groups are organisations and teams in lower case, each by the name and by the id of
	// the organisation: "acme", "id:4711", "acme/ops", "id:4711/ops".
	Groups []string
}

const (
	perPage = 100
	// maxPages of a list; nobody reads more of their teams.
	maxPages = 20
)

type user struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Name  string `json:"name"`
	Type  string `json:"type"`
}

type organisation struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
}

type membership struct {
	State        string       `json:"state"`
	Organisation organisation `json:"organization"`
	User         user         `json:"user"`
}

type team struct {
	Slug         string       `json:"slug"`
	Organisation organisation `json:"organization"`
}

// Person returns whose access token it is. An account that is not a person's is
// fault.Unauthorized, a GitHub that does not answer fault.BadGateway. It takes a few requests,
// whose results aren't kept beyond the sign-in.
func (c *Client) Person(ctx context.Context, access string) (p Person, err error) {
	var u user
	if err := c.get(ctx, access, "/user", &u); err != nil {
		return p, err
	}
	if u.ID <= 0 || u.Type != "User" {
		return p, fault.New(fault.Unauthorized, "the account is not that of a person")
	}
	p = Person{ID: u.ID, Name: u.Name}
	if p.Name == "" {
		p.Name = u.Login
	}
	// The address of the profile may be any: only this list says what is verified.
	var addresses []struct {
		Email    string `json:"email"`
		Primary  bool   `json:"primary"`
		Verified bool   `json:"verified"`
	}
	if err := c.get(ctx, access, "/user/emails?per_page=100", &addresses); err != nil {
		return p, err
	}
	for _, a := range addresses {
		if a.Primary {
			p.Email, p.Verified = a.Email, a.Verified
			break
		}
	}
	if c.Groups {
		p.Groups, err = c.groups(ctx, access, u.ID)
	}
	return p, err
}

// groups are those of organisations that the person has joined: an invitation does not
// count, which anybody can send. Only active memberships of the person themselves count. Teams of
// organisations that the person hasn't joined are left out.
func (c *Client) groups(ctx context.Context, access string, userID int64) ([]string, error) {
	joined, err := list[membership](ctx, c, access, "/user/memberships/orgs?state=active")
	if err != nil {
		return nil, err
	}
	var groups []string
	names := map[int64][]string{} // by organisation
	for _, m := range joined {
		id := m.Organisation.ID
		if m.State == "active" && id > 0 && (m.User.ID == userID || m.User.ID == 0) { // GitHub may leave the user out
			names[id] = []string{strings.ToLower(m.Organisation.Login), "id:" + strconv.FormatInt(id, 10)}
			groups = append(groups, names[id]...)
		}
	}
	teams, err := list[team](ctx, c, access, "/user/teams?")
	for _, t := range teams {
		for _, name := range names[t.Organisation.ID] {
			groups = append(groups, name+"/"+strings.ToLower(t.Slug))
		}
	}
	return groups, err
}

// list reads all pages. The address of the next one is not taken from the answer. It gives up
// instead of using the first pages only: a missing group would refuse somebody for no visible
// reason.
func list[V any](ctx context.Context, c *Client, access, path string) (all []V, err error) {
	for page := 1; page <= maxPages; page++ {
		var some []V
		if err := c.get(ctx, access, fmt.Sprintf("%s&per_page=%d&page=%d", path, perPage, page), &some); err != nil {
			return nil, err
		}
		all = append(all, some...)
		if len(some) < perPage {
			return all, nil
		}
	}
	return nil, fault.New(fault.Unauthorized, "you are in more than %d organisations or teams", perPage*maxPages)
}

// Check asks whether GitHub answers. It is for the doctor, and needs no token.
func (c *Client) Check(ctx context.Context) error {
	resp, err := c.http().Get(ctx, c.api()+"/")
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests: // it wants to know who asks
		return nil
	}
	return fault.New(fault.BadGateway, "%s answers %d", c.api(), resp.StatusCode)
}

// get sends the access token to the API's host only.
func (c *Client) get(ctx context.Context, access, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api()+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+access)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("User-Agent", "whetstone")
	resp, err := c.http().Do(req)
	if err != nil {
		return unreachable(err)
	}
	defer resp.Body.Close()
	what, _, _ := strings.Cut(path, "?")
	switch {
	case limited(resp):
		return errLimited()
	case resp.StatusCode == http.StatusUnauthorized:
		return fault.New(fault.Unauthorized, "it does not accept the token that it gave")
	case resp.StatusCode == http.StatusForbidden, resp.StatusCode == http.StatusNotFound:
		return fault.New(fault.BadGateway, "it does not let this installation read %s (status %d); its app needs the permission", what, resp.StatusCode)
	case resp.StatusCode != http.StatusOK:
		return fault.New(fault.BadGateway, "%s answers %d", what, resp.StatusCode)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return unreachable(err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fault.New(fault.BadGateway, "the answer of %s is not as expected", what).Because(err)
	}
	return nil
}

// limited reports whether a rate limit is reached, for which GitHub also uses 403. GitHub documents
// both headers for its primary and secondary limits.
func limited(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return resp.Header.Get("Retry-After") != "" || resp.Header.Get("X-Ratelimit-Remaining") == "0"
	}
	return false
}

func errLimited() *fault.Error {
	return fault.New(fault.BadGateway, "it limits how often this installation may ask")
}
