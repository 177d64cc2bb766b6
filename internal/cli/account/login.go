package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// loginCommand logs in to a server in one of three ways: with a key, with an
// invitation, or by approving a code in a browser.
type loginCommand struct {
	server.Flags `embed:""`
	invite       `embed:""`
}

// loginOutput is the stored login as --json prints it, without the key.
type loginOutput struct {
	Server       string   `json:"server"`
	Email        string   `json:"email"`
	Organisation string   `json:"organisation"`
	Plan         string   `json:"plan"`
	Role         string   `json:"role"`
	Permissions  []string `json:"permissions"`
}

// Run stores a key after trying it: the given one, the first one of an invitation, or
// one from a device login that a person approves in a browser. The server becomes the
// default of later commands.
func (c *loginCommand) Run(ctx context.Context, p *term.Program) (err error) {
	if c.Invite != "" {
		address, key, refused := c.accept(ctx, p)
		if refused != nil {
			return refused
		}
		c.Server, c.APIKey = address, config.Secret(key)
		defer func() {
			if err != nil {
				// The invitation is used up and the key is shown once: losing it would
				// lock the person out.
				p.Note("You are a member, but not logged in. Keep your API key, which is not shown again: %s", key)
			}
		}()
	}
	stored, err := server.LoadCredentials()
	if err != nil {
		return err
	}
	address, err := c.Address(stored)
	if err != nil {
		return err
	}
	key := string(c.APIKey)
	if key == "" {
		if key, err = deviceLogin(ctx, p, address); err != nil {
			return server.AsFault(err, address)
		}
		// deviceLogin may have stored a device id.
		if stored, err = server.LoadCredentials(); err != nil {
			return err
		}
	}
	// Store a key only after it has worked: a typo must not replace a good key.
	me, err := server.New(p, address, key).Me(ctx)
	if err != nil {
		return server.AsFault(err, address)
	}
	stored.Default = address
	stored.Servers[address] = server.Login{APIKey: key, Email: me.User.Email, Organisation: me.Organisation.Name}
	if err := stored.Save(); err != nil {
		return err
	}
	out := loginOutput{address, me.User.Email, me.Organisation.Name, me.Plan, me.Role, me.Permissions}
	return p.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "Logged in to %s as %s (%s of %s, plan %s).\n", address, term.Plain(out.Email), out.Role,
			term.Plain(out.Organisation), out.Plan)
	})
}

// deviceLogin prints a code, and polls until a person has approved it in a browser (the
// device authorization grant of RFC 8628). It returns the new key.
func deviceLogin(ctx context.Context, p *term.Program, address string) (key string, err error) {
	s := server.New(p, address, "")
	device, unique := server.DeviceID()
	clientID := "whetstone on " + device
	if !unique {
		// The server revokes the earlier key of the same device id. An id that may be
		// shared with another machine must not revoke that machine's key.
		device = ""
	}
	start, err := s.StartDeviceLogin(ctx, clientID, device)
	if err != nil {
		return "", err
	}
	page := start.VerificationURL + "?code=" + url.QueryEscape(start.UserCode)
	fmt.Fprintf(p.Stderr, "Open %s and enter the code %s\n", term.Plain(start.VerificationURL), term.Plain(start.UserCode))
	fmt.Fprintf(p.Stderr, "or open %s\n", term.Plain(page))
	if p.Interactive && p.Browser != nil && !p.JSON {
		// In the background: the login may be approved on another device while this
		// waits for Enter.
		go func(ctx context.Context) {
			p.Ask(ctx, "Press Enter to open it in a browser.")
			if ctx.Err() == nil {
				p.OpenPage(ctx, address, page)
			}
		}(ctx)
	}
	fmt.Fprintf(p.Stderr, "Waiting for up to %s; press Ctrl-C to cancel.\n", start.ExpiresIn)
	// One interval longer than the code is valid, so that the last poll can return that
	// it has expired.
	ctx, cancel := context.WithTimeout(ctx, start.ExpiresIn+start.Interval)
	defer cancel()
	ticks := time.NewTicker(max(start.Interval, time.Second))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", fault.New(fault.Unavailable, "The login was cancelled").Because(ctx.Err())
		case <-ticks.C:
		}
		poll, err := s.PollDeviceLogin(ctx, start.DeviceCode)
		// Only a refusal ends the wait. Network errors, 429 and 5xx may be gone at the
		// next poll.
		if status := client.Status(err); err != nil && status != 0 &&
			status != http.StatusTooManyRequests && status < http.StatusInternalServerError {
			return "", err
		}
		switch poll.Status {
		case client.DeviceApproved:
			return poll.APIKey, nil
		case client.DeviceDenied:
			return "", fault.New(fault.Denied, "The login was denied")
		case client.DeviceExpired:
			return "", fault.New(fault.Denied, "The login was not approved in time; run `whetstone login` again")
		case client.DevicePending:
		}
	}
}

// logoutCommand has no server.Flags, since it needs no key.
type logoutCommand struct {
	Server string `placeholder:"URL" help:"Address of the server; that of the last login when empty."`
}

// Run deletes the stored login of a server. The key itself is valid until it is
// revoked. Being logged out already is not an error.
func (c *logoutCommand) Run(p *term.Program) error {
	stored, err := server.LoadCredentials()
	if err != nil {
		return err
	}
	address, err := (&server.Flags{Server: c.Server}).Address(stored)
	if err != nil {
		return err
	}
	_, known := stored.Servers[address]
	if known {
		delete(stored.Servers, address)
		if stored.Default == address {
			stored.Default = ""
		}
		if err := stored.Save(); err != nil {
			return err
		}
	}
	out := map[string]any{"server": address, "was_logged_in": known}
	return p.Print(out, func(w io.Writer) {
		if known {
			fmt.Fprintf(w, "Logged out of %s; the key remains valid until it is revoked.\n", address)
		} else {
			fmt.Fprintf(w, "There was no login at %s.\n", address)
		}
	})
}
