package versions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/client"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/local/install"
	"github.com/whetstone-dev/whetstone/internal/release/attestations"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/dsse"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

// The values of trustedKeys.source, which --json prints, and of the file of pins.
const (
	fromPins = "pinned"
	firstUse = "first_use"
	fromFile = "file"
	fromURL  = "url"
	pinsName = "trusted-keys.json"
	pinsForm = 1 // format of the file; another one is refused
	// clockSkew is how far ahead of this machine's clock an attestation may be dated.
	clockSkew = 24 * time.Hour
	// retiredSkew is how far the clocks of the server's replicas may be apart: one of
	// them may sign with a key shortly after another has retired it.
	retiredSkew = time.Hour
)

// A pinnedKey is a key of a server that this machine trusts, or knows to be revoked.
type pinnedKey struct {
	KeyID string `json:"keyid"`
	PEM   string `json:"pem"`
	// Via is the id of the key that endorsed it; "" if it was trusted on first use or
	// by a person.
	Via       string    `json:"via,omitempty"`
	FirstSeen time.Time `json:"first_seen"`
	Revoked   bool      `json:"revoked,omitempty"`
}

// pinnedKeys are the keys of all servers, by address, in a file of the user's
// configuration. The addresses keep servers apart: a key that one of them endorses
// is not trusted for another.
type pinnedKeys struct {
	Version int                    `json:"version"`
	Servers map[string][]pinnedKey `json:"servers"`
}

// pinsPath returns the path of the file of pins.
func pinsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fault.New(fault.Unavailable, "There is no folder to remember keys in: %s; name them with --key", err)
	}
	return filepath.Join(dir, "whetstone", pinsName), nil
}

// loadPins reads the pins. No file means no pins. An invalid file is an error: as an
// empty set of pins it would silently trust the server's present keys, whoever made
// them.
func loadPins() (p pinnedKeys, err error) {
	p = pinnedKeys{Version: pinsForm, Servers: map[string][]pinnedKey{}}
	path, err := pinsPath()
	if err != nil {
		return p, err
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.Version != pinsForm || p.Servers == nil {
		return p, fault.New(fault.Conflict, "%s is not valid; fix it, or remove it to trust the keys of servers again", path)
	}
	return p, nil
}

// save writes the pins with a rename, readable by this user only.
func (p pinnedKeys) save() error {
	path, err := pinsPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	content, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return install.ReplaceFile(path, append(content, '\n'), 0o600)
}

// trustedKeys has the keys to verify with, and what the server publishes about them.
type trustedKeys struct {
	source  string
	keys    []dsse.PublicKey     // revoked keys, too, so that they can be named
	revoked map[string]string    // reasons by key id
	retired map[string]time.Time // when a key stopped signing, by key id
	server  string
}

// trust returns the keys to verify with: those of --key, those at --keys-url, or the
// pinned ones. Revocations are always read from the published file, also with --key.
func (c *verifyCommand) trust(ctx context.Context, p *term.Program, s *server.Session) (t trustedKeys, err error) {
	t = trustedKeys{source: fromPins, revoked: map[string]string{}, retired: map[string]time.Time{}, server: s.Server}
	if c.Key != "" {
		raw, err := os.ReadFile(c.Key)
		if err != nil {
			return t, fault.Invalid("key", "key: %s", err)
		}
		if t.keys, err = dsse.ParsePublicKeys(raw); err != nil {
			return t, fault.Invalid("key", "key: %s: %s", c.Key, err)
		}
		t.source = fromFile
	}
	published, err := c.published(ctx, p, s)
	if err != nil {
		return t, err
	}
	for _, k := range published.Keys {
		if k.RevokedAt != nil {
			t.revoked[k.KeyID] = k.RevokedReason
		}
		if k.NotAfter != nil {
			t.retired[k.KeyID] = *k.NotAfter
		}
	}
	switch {
	case c.Key != "":
		return t, nil
	case c.KeysURL != "":
		t.source = fromURL
		for _, k := range published.Keys {
			parsed, err := parseKey(k)
			if err != nil {
				return t, err
			}
			t.keys = append(t.keys, parsed)
		}
		return t, nil
	}
	return t, c.usePins(p, &t, published)
}

// parseKey parses a published key. Its id must be the hash of its bytes: otherwise a
// file could pass off one key as another.
func parseKey(k attestations.KeyOutput) (dsse.PublicKey, error) {
	parsed, err := dsse.ParsePublicKeys([]byte(k.PEM))
	if err != nil || len(parsed) != 1 || parsed[0].ID != k.KeyID {
		return dsse.PublicKey{}, fault.New(fault.BadGateway, "the file of keys has a key that is not valid: %.16s",
			term.Plain(k.KeyID))
	}
	return parsed[0], nil
}

// published reads the file of public keys: that of the server, or the one at
// --keys-url, which gets no API key, since it may be on any host.
func (c *verifyCommand) published(
	ctx context.Context, p *term.Program, s *server.Session,
) (out attestations.KeysOutput, err error) {
	if c.KeysURL == "" {
		return out, s.Call(ctx, http.MethodGet, attestations.KeysPath, nil, &out)
	}
	u, err := url.Parse(c.KeysURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return out, fault.Invalid("keys-url", "keys-url must be an address like https://whetstone.example%s",
			attestations.KeysPath)
	}
	other := client.New(client.Options{Server: u.Scheme + "://" + u.Host, UserAgent: "whetstone/" + p.Version})
	return out, other.Call(ctx, http.MethodGet, u.RequestURI(), nil, &out)
}

// usePins trusts the pinned keys, and those that a trusted one endorses (a rotation).
// The keys of an unknown server are trusted on first use, as with SSH host keys. Pins
// that changed are saved.
func (c *verifyCommand) usePins(p *term.Program, t *trustedKeys, published attestations.KeysOutput) error {
	all, err := loadPins()
	if err != nil {
		return err
	}
	known := all.Servers[t.server]
	now := time.Now().UTC().Truncate(time.Second)
	before := slices.Clone(known)
	switch {
	case len(known) == 0:
		t.source = firstUse
		p.Note("the keys of %s are not known here yet; from now on these are trusted: %s", t.server, describeKeys(published))
		known, err = pinAll(known, published, now)
	case c.TrustKeys:
		known, err = pinAll(known, published, now)
	default:
		known, err = followRotation(known, published, now)
	}
	if err != nil {
		return err
	}
	known = dropRevoked(known, t.revoked)
	for _, k := range known {
		if k.Revoked && t.revoked[k.KeyID] == "" {
			t.revoked[k.KeyID] = "it was revoked before"
		}
		parsed, err := dsse.ParsePublicKeys([]byte(k.PEM))
		if err != nil || len(parsed) != 1 || parsed[0].ID != k.KeyID {
			return fault.New(fault.Conflict, "the remembered key %.16s is not valid; remove it from %s", k.KeyID, pinsName)
		}
		t.keys = append(t.keys, parsed...)
	}
	if slices.Equal(before, known) {
		return nil
	}
	all.Servers[t.server] = known
	return all.save()
}

// describeKeys formats the published keys for a note, so that a person can compare the
// active one with what the operator says.
func describeKeys(published attestations.KeysOutput) string {
	for _, k := range published.Keys {
		if k.Status == attestations.Active {
			return fmt.Sprintf("%.16s (active), %d in all", k.KeyID, len(published.Keys))
		}
	}
	return fmt.Sprint(len(published.Keys))
}

// pinAll pins all published keys that are not pinned yet.
func pinAll(known []pinnedKey, published attestations.KeysOutput, now time.Time) ([]pinnedKey, error) {
	for _, k := range published.Keys {
		if _, err := parseKey(k); err != nil {
			return known, err
		}
		if !isPinned(known, k.KeyID) {
			known = append(known, pinnedKey{KeyID: k.KeyID, PEM: k.PEM, FirstSeen: now})
		}
	}
	return known, nil
}

// isPinned reports whether a key is among the known ones.
func isPinned(known []pinnedKey, id string) bool {
	return slices.ContainsFunc(known, func(k pinnedKey) bool { return k.KeyID == id })
}

// followRotation adds the keys that a trusted, unrevoked one endorses, until there are
// no more: after several rotations, each new key is endorsed by the one before.
func followRotation(known []pinnedKey, published attestations.KeysOutput, now time.Time) ([]pinnedKey, error) {
	// Each pass finds at least one more link of the chain, or changes nothing.
	for range published.Keys {
		for _, k := range published.Keys {
			if k.EndorsedBy == nil || isPinned(known, k.KeyID) {
				continue
			}
			if _, err := parseKey(k); err != nil {
				return known, err
			}
			var trusted []dsse.PublicKey
			for _, t := range known {
				parsed, err := dsse.ParsePublicKeys([]byte(t.PEM))
				if err == nil && !t.Revoked {
					trusted = append(trusted, parsed...)
				}
			}
			payload, by, err := k.EndorsedBy.Verify(attestations.EndorsementType, trusted)
			var endorsed attestations.Endorsed
			if err != nil || dsse.Unmarshal(payload, &endorsed) != nil || endorsed.KeyID != k.KeyID || endorsed.PEM != k.PEM {
				continue
			}
			known = append(known, pinnedKey{KeyID: k.KeyID, PEM: k.PEM, Via: by.ID, FirstSeen: now})
		}
	}
	return known, nil
}

// dropRevoked marks revoked keys permanently, and removes those that are trusted only
// because a revoked one endorsed them: whoever stole the key could endorse keys of
// their own.
func dropRevoked(known []pinnedKey, revoked map[string]string) []pinnedKey {
	gone := map[string]bool{}
	for i, k := range known {
		if _, ok := revoked[k.KeyID]; ok {
			known[i].Revoked = true
		}
		gone[k.KeyID] = known[i].Revoked
	}
	// Repeated, since a removed key may itself have endorsed others.
	for range known {
		known = slices.DeleteFunc(known, func(k pinnedKey) bool {
			if k.Via != "" && gone[k.Via] && !k.Revoked {
				gone[k.KeyID] = true
				return true
			}
			return false
		})
	}
	return known
}

// check verifies the signature of an envelope, and that it is about this version and
// archive. What is wrong is returned as a problem and not as an error, so that all are
// reported.
func (t trustedKeys) check(e dsse.Envelope, of intoto.Version, sha256 string) (one checkedAttestation) {
	fail := func(kind, format string, args ...any) checkedAttestation {
		one.Problem = &verifyProblem{kind, fmt.Sprintf(format, args...)}
		return one
	}
	if len(e.Signatures) == 1 {
		one.KeyID = e.Signatures[0].KeyID
	}
	payload, by, err := e.Verify(intoto.PayloadType, t.keys)
	// A revoked key is named as such even where its signature is valid.
	if reason, ok := t.revoked[one.KeyID]; ok && !errors.Is(err, dsse.ErrForm) {
		return fail("revoked_key", "an attestation is signed with the key %.16s, which was revoked: %s", one.KeyID, reason)
	}
	switch {
	case errors.Is(err, dsse.ErrKey):
		return fail("unknown_key",
			"an attestation is signed with the key %.16s, which is not trusted here; if the server's operator confirms "+
				"this key, use --trust-keys, or --key FILE", one.KeyID)
	case errors.Is(err, dsse.ErrSignature):
		return fail("bad_signature", "the signature of an attestation is wrong: it was changed, or forged")
	case err != nil:
		return fail("malformed", "an attestation cannot be read: %s", err)
	}
	if one.read, err = intoto.Parse(payload); err != nil {
		return fail("malformed", "an attestation cannot be read: %s", err)
	}
	one.PredicateType, one.At, one.Summary = one.read.PredicateType, &one.read.At, one.read.Summary()
	if p := one.read.Provenance; p != nil {
		one.Workflow = p.BuildDefinition.ExternalParameters.Workflow
	}
	if err := one.read.Check(of, sha256); err != nil {
		return fail("other_subject", "an attestation is not about this version: %s", err)
	}
	if end, ok := t.retired[by.ID]; ok && one.read.At.After(end.Add(retiredSkew)) {
		return fail("bad_time", "an attestation of %s is signed with a key that was retired on %s",
			one.read.At.Format(time.DateOnly), end.Format(time.DateOnly))
	}
	if one.read.At.After(time.Now().Add(clockSkew)) {
		return fail("bad_time", "an attestation is dated %s, which is in the future", one.read.At.Format(time.DateOnly))
	}
	return one
}
