package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/whetstone-dev/whetstone/internal/app"
	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
)

// signingKeyCommands are the commands `whetstone signing-key`. They work on the keys of
// the whole installation, not of one organisation.
type signingKeyCommands struct {
	List   signingKeyList   `cmd:"" help:"List the keys that sign versions, newest first."`
	Rotate signingKeyRotate `cmd:"" help:"Sign with a new key; what the old one has signed stays valid."`
	Revoke signingKeyRevoke `cmd:"" help:"Revoke a compromised key; what it signed is signed again with another key."`
}

// signingFlags are the flags that open the database and unseal its private keys.
type signingFlags struct {
	config.Database `embed:""`
	SecretKey       config.Secret `placeholder:"KEY,..." help:"The keys that secrets are encrypted with; secret.key in --data when empty."`
}

// with calls do with the service that owns the signing keys. It never creates a secret
// key: one that the server does not have would lock it out of its own secrets.
func (f *signingFlags) with(ctx context.Context, do func(s *attestations.Service) error) error {
	err := app.WithSigningKeys(ctx, f.Database, f.SecretKey, do)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Invalid("secret-key", "secret-key: there is no key yet; `whetstone serve` creates one")
	}
	return err
}

// printKeys prints the public part of keys, in the same shape as the API's.
func printKeys(p *term.Program, keys ...attestations.Key) error {
	out := make([]attestations.KeyOutput, len(keys))
	for i, k := range keys {
		var err error
		if out[i], err = attestations.NewKeyOutput(k); err != nil {
			return err
		}
	}
	return p.Print(attestations.KeysOutput{Keys: out}, func(w io.Writer) {
		fmt.Fprintln(w, "KEY\tSTATUS\tCREATED\tUNTIL\tREASON")
		for _, k := range out {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", k.KeyID, k.Status, term.Day(&k.CreatedAt), term.Day(k.NotAfter),
				term.Cell(k.RevokedReason))
		}
	})
}

// signingKeyList lists the signing keys.
type signingKeyList struct {
	signingFlags `embed:""`
}

// Run lists the keys, newest first, including rotated and revoked ones: clients still
// need them to verify older signatures.
func (c *signingKeyList) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, func(s *attestations.Service) error {
		keys, err := s.Keys(ctx)
		if err != nil {
			return err
		}
		return printKeys(p, keys...)
	})
}

// signingKeyRotate replaces the active key, on a schedule or when people leave.
type signingKeyRotate struct {
	signingFlags `embed:""`
}

// Run makes a new key, which signs from now on. Signatures of the old one stay valid.
func (c *signingKeyRotate) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, func(s *attestations.Service) error {
		k, err := s.Rotate(ctx)
		if err != nil {
			return err
		}
		return printKeys(p, k)
	})
}

// signingKeyRevoke revokes a compromised key, unlike rotate.
type signingKeyRevoke struct {
	signingFlags `embed:""`
	Key          string `arg:"" help:"The key's id, or how it begins."`
	Reason       string `env:"-" required:"" help:"Reason; clients show it."`
}

// Run revokes a key whose private half may be known to others. If it is the active key,
// a new one takes its place. A job of the server signs again what the key has signed.
func (c *signingKeyRevoke) Run(ctx context.Context, p *term.Program) error {
	return c.with(ctx, func(s *attestations.Service) error {
		k, err := s.Revoke(ctx, c.Key, c.Reason)
		if err != nil {
			return err
		}
		if !p.JSON {
			p.Note("Within a few minutes the server signs again what this key has signed. Clients that trusted it must run " +
				"`whetstone verify --trust-keys`.")
		}
		return printKeys(p, k)
	})
}
