package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

type loginCommand struct {
	remote `embed:""`
}

type loginOutput struct {
	Server       string   `json:"server"`
	Email        string   `json:"email"`
	Organisation string   `json:"organisation"`
	Plan         string   `json:"plan"`
	Role         string   `json:"role"`
	Permissions  []string `json:"permissions"`
}

// Run stores a key that works: the one given, or one that a person approves.
func (c *loginCommand) Run(ctx context.Context, p *Program) error {
	stored, err := loadCredentials()
	if err != nil {
		return err
	}
	server, err := c.address(stored)
	if err != nil {
		return err
	}
	key := string(c.APIKey)
	if key == "" {
		if key, err = p.approvedKey(ctx, server); err != nil {
			return asFault(err, server)
		}
		// The machine may have got its name meanwhile.
		if stored, err = loadCredentials(); err != nil {
			return err
		}
	}
	me, err := p.session(server, key).Me(ctx)
	if err != nil {
		return asFault(err, server)
	}
	stored.Default = server
	stored.Servers[server] = login{APIKey: key, Email: me.User.Email, Organisation: me.Organisation.Name}
	if err := stored.save(); err != nil {
		return err
	}
	out := loginOutput{server, me.User.Email, me.Organisation.Name, me.Plan, me.Role, me.Permissions}
	return p.print(out, func(w io.Writer) {
		fmt.Fprintf(w, "Logged in at %s as %s (%s of %s, plan %s).\n", server, plain(out.Email), out.Role, plain(out.Organisation), out.Plan)
	})
}

// approvedKey asks a person to approve this machine, and waits.
func (p *Program) approvedKey(ctx context.Context, server string) (string, error) {
	s := p.session(server, "")
	start, err := s.StartDeviceLogin(ctx, "whetstone on "+deviceID())
	if err != nil {
		return "", err
	}
	fmt.Fprintf(p.Stderr, "Open %s and enter the code %s\n", plain(start.VerificationURL), plain(start.UserCode))
	fmt.Fprintf(p.Stderr, "Waiting for up to %s; Ctrl-C gives up.\n", start.ExpiresIn)
	ctx, cancel := context.WithTimeout(ctx, start.ExpiresIn+start.Interval)
	defer cancel()
	ticks := time.NewTicker(max(start.Interval, time.Second))
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", fault.New(fault.Unavailable, "The login was given up").Because(ctx.Err())
		case <-ticks.C:
		}
		poll, err := s.PollDeviceLogin(ctx, start.DeviceCode)
		if err != nil && !passing(err) {
			return "", err
		}
		switch poll.Status {
		case client.DeviceApproved:
			return poll.APIKey, nil
		case client.DeviceDenied:
			return "", fault.New(fault.Denied, "The login was denied")
		case client.DeviceExpired:
			return "", fault.New(fault.Denied, "Nobody approved the login in time; run `whetstone login` again")
		case client.DevicePending:
		}
	}
}

// passing reports whether the next poll may go better.
func passing(err error) bool {
	status := client.Status(err)
	return status == 0 || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

type logoutCommand struct {
	Server string `placeholder:"URL" help:"Address of the server; that of the last login when empty."`
}

// Run forgets a login. The key itself stays good until somebody revokes it.
func (c *logoutCommand) Run(p *Program) error {
	stored, err := loadCredentials()
	if err != nil {
		return err
	}
	server, err := (&remote{Server: c.Server}).address(stored)
	if err != nil {
		return err
	}
	_, known := stored.Servers[server]
	if known {
		delete(stored.Servers, server)
		if stored.Default == server {
			stored.Default = ""
		}
		if err := stored.save(); err != nil {
			return err
		}
	}
	out := map[string]any{"server": server, "was_logged_in": known}
	return p.print(out, func(w io.Writer) {
		if known {
			fmt.Fprintf(w, "Logged out of %s; the key stays good until it is revoked.\n", server)
		} else {
			fmt.Fprintf(w, "There was no login at %s.\n", server)
		}
	})
}
