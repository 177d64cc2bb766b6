package publishers

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/identity/oidc"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// Service manages trusted publishers and exchanges ID tokens for keys.
type Service struct {
	DB       *store.DB
	Auth     *auth.Service
	Registry *registry.Service
	// Keys fetches and caches the issuers' signing keys.
	Keys *oidc.Keys
	// PublicURL is the audience that tokens must have. A token for another server can't
	// be replayed here.
	PublicURL string
	// AllowPrivate permits issuers without https, for private networks.
	AllowPrivate bool
	Log          *slog.Logger
}

// The lifetime is about what packing and pushing takes: a key that leaks from a log is
// soon useless.
const (
	// KeyLifetime is how long the key of a run works.
	KeyLifetime = 15 * time.Minute
	maxKeyName  = 100 // characters
)

// Create adds a rule to an entry of the caller's organisation. The caller must be allowed
// to push, since the rule passes that permission on. The same rule twice is
// fault.Conflict.
func (s *Service) Create(ctx context.Context, c access.Caller, p Publisher) (_ Publisher, err error) {
	defer fault.Wrap(&err, "trusted publisher of %s", p.Repository)
	if !c.May(access.RegistryPush) {
		return p, fault.New(fault.Denied, "Your key does not have the permission %s and cannot give it", access.RegistryPush)
	}
	e, err := s.Registry.Own(ctx, c.OrgID, p.EntryID)
	if fault.Is(err, fault.NotFound) {
		return p, fault.Invalid("entry_id", "entry_id must be the id of an entry of your organisation")
	}
	if err != nil {
		return p, err
	}
	if err := p.normalise(s.AllowPrivate); err != nil {
		return p, err
	}
	p.ID, p.OrgID, p.EntryName, p.CreatedBy, p.CreatedAt = store.NewID(), c.OrgID, e.Name, c.UserID, store.Now()
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := checkCounts(ctx, tx, p); err != nil {
			return err
		}
		// Create the user that will hold the keys now: two first runs at once would both
		// try to.
		if _, err := s.Auth.PublisherHolder(ctx, tx, c.OrgID); err != nil {
			return err
		}
		if err := insertPublisher(ctx, tx, p); err != nil {
			return err
		}
		return p.record(ctx, tx, "publishers.publisher.create", audit.Detail{
			"provider": p.Provider, "issuer": p.Issuer, "ref": notEmpty(p.Ref), "workflow": notEmpty(p.Workflow),
			"environment": notEmpty(p.Environment), "repository_id": notEmpty(p.RepositoryID),
			"repository_owner_id": notEmpty(p.OwnerID),
		})
	})
	if store.IsDuplicate(err) {
		return p, fault.New(fault.Conflict, "%s has this trusted publisher already", e.Name).Because(err)
	}
	return p, err
}

// notEmpty returns nil for "", which the API and the audit log show as null.
func notEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// checkCounts enforces the limits. Two requests at once may exceed them by one, which
// does no harm.
func checkCounts(ctx context.Context, tx *store.Tx, p Publisher) error {
	all, ofEntry, err := countPublishers(ctx, tx, p.OrgID, p.EntryID)
	switch {
	case err != nil:
		return err
	case all >= maxPublishers:
		return fault.New(fault.Conflict, "The organisation has %d trusted publishers, the maximum; delete some first", all)
	case ofEntry >= maxOfEntry:
		return fault.New(fault.Conflict, "The entry has %d trusted publishers, the maximum; delete some first", ofEntry)
	}
	return nil
}

// List returns a page of an organisation's rules, newest first, and their total number;
// with entryID only those of one entry.
func (s *Service) List(ctx context.Context, orgID, entryID string, p store.Page) ([]Publisher, int, error) {
	total, ofEntry, err := countPublishers(ctx, s.DB, orgID, entryID)
	if err != nil {
		return nil, 0, err
	}
	if entryID != "" {
		total = ofEntry
	}
	all, err := publishersOfOrg(ctx, s.DB, orgID, entryID, p)
	return all, total, err
}

// Delete removes a rule and revokes the keys that its runs still hold. Versions that they
// published keep their provenance.
func (s *Service) Delete(ctx context.Context, orgID, id string) error {
	err := s.DB.InTx(ctx, func(tx *store.Tx) error {
		p, err := publisherByID(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		keys, err := keysOfPublisher(ctx, tx, p)
		if err != nil {
			return err
		}
		if err := s.Auth.RevokeEntryKeys(ctx, tx, orgID, keys); err != nil {
			return err
		}
		if err := deletePublisher(ctx, tx, p); err != nil {
			return err
		}
		return p.record(ctx, tx, "publishers.publisher.delete", audit.Detail{"issuer": p.Issuer})
	})
	// The cache of this replica must not accept a revoked key until its TTL ends.
	s.Auth.Forget()
	return err
}

// record adds the entry to every audit entry: the target is only the repository's name.
func (p *Publisher) record(ctx context.Context, tx *store.Tx, action string, d audit.Detail) error {
	d["entry"], d["entry_name"] = p.EntryID, p.EntryName
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: p.OrgID, Action: action, Target: audit.Target{Kind: "trusted_publisher", ID: p.ID, Name: p.Repository}, Detail: d,
	})
}

// A Destination is the entry that a run wants to publish: by id, or by name in an
// organisation. The run has to name it on a server with several organisations, because
// any of them can add a rule for any repository: a skill must not end up in the registry
// of whoever trusted the repository first.
type Destination struct {
	EntryID      string
	Organisation string
	Name         string
}

// A Grant is the reply to an exchange.
type Grant struct {
	Key       string
	ExpiresAt time.Time
	Entry     registry.Entry
	OrgName   string
	Run       Run
}

// Exchange gives a key to the workflow run that an ID token vouches for, if a rule allows
// it. An invalid token, or one that was exchanged before, is fault.Unauthorized. A run
// that no rule allows is fault.Denied, whether or not the entry exists, so that the reply
// doesn't reveal private entries.
func (s *Service) Exchange(ctx context.Context, raw string, to Destination) (g Grant, err error) {
	claimed, err := oidc.Peek(raw, s.PublicURL)
	if err != nil {
		return g, err
	}
	if err := s.checkDestination(ctx, to); err != nil {
		return g, err
	}
	providers, err := providersOfIssuer(ctx, s.DB, claimed.Issuer)
	if err != nil {
		return g, err
	}
	if len(providers) == 0 { // no request goes to an issuer that no rule names (SSRF)
		return g, oidc.ErrNotValid()
	}
	token, err := s.Keys.Verify(ctx, raw, claimed.Issuer, s.PublicURL)
	if err != nil {
		return g, err
	}
	// Two organisations may have declared different providers for the same issuer.
	for _, provider := range providers {
		run, readErr := runOf(token, provider)
		if readErr != nil {
			err = cmp.Or(err, readErr)
			continue
		}
		p, matchErr := s.match(ctx, run, to)
		if matchErr == nil {
			return s.grant(ctx, p, token, run)
		}
		err = matchErr
	}
	return g, err
}

// checkDestination requires an entry id or an organisation once the server has more than
// one organisation.
func (s *Service) checkDestination(ctx context.Context, to Destination) error {
	if to.EntryID != "" || to.Organisation != "" {
		return nil
	}
	several, err := auth.SeveralOrgs(ctx, s.DB)
	if err == nil && several {
		err = fault.Invalid("entry_id", "entry_id or organisation is required: this server has several organisations")
	}
	return err
}

// match finds the rule that allows the run. Rules of different entries that all match are
// fault.Conflict: which entry is meant can't be guessed.
func (s *Service) match(ctx context.Context, run Run, to Destination) (Publisher, error) {
	candidates, err := publishersOfRun(ctx, s.DB, run, to)
	if err != nil {
		return Publisher{}, err
	}
	repinned := slices.ContainsFunc(candidates, func(p Publisher) bool {
		return p.RepositoryID != "" && p.RepositoryID != run.RepositoryID
	})
	candidates = slices.DeleteFunc(candidates, func(p Publisher) bool { return !p.allows(run) })
	if len(candidates) == 0 {
		// Probably a repository that was deleted and recreated, perhaps by an attacker:
		// worth an operator's attention.
		if repinned {
			s.Log.Warn("a workflow was refused: its repository has the name of a trusted one, but another id",
				"issuer", run.Issuer, "repository", run.Repository, "repository_id", run.RepositoryID)
		}
		return Publisher{}, errNoPublisher(run)
	}
	for _, p := range candidates {
		if p.EntryID != candidates[0].EntryID {
			return Publisher{}, fault.New(fault.Conflict,
				"The workflow may publish several entries; say which by entry_id or name")
		}
	}
	return candidates[0], nil
}

// errNoPublisher is the same for a missing entry and a missing rule. It repeats the run's
// own claims, so that people see which one their rule doesn't match.
func errNoPublisher(run Run) error {
	why := ""
	if run.fromPullRequest() {
		why = "; runs of pull requests never do"
	}
	return fault.New(fault.Denied, "No trusted publisher of this entry allows the workflow run (%s)%s", &run, why)
}

// grant redeems the token and creates the key. Key, single use of the token and pinned
// ids commit together: a crash leaves no key that the audit log doesn't know.
func (s *Service) grant(ctx context.Context, p Publisher, token oidc.Token, run Run) (g Grant, err error) {
	defer fault.Wrap(&err, "trusted publisher %s", p.ID)
	expires := store.Now().Add(KeyLifetime)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if p, err = publisherByID(ctx, tx, p.OrgID, p.ID, tx.Dialect().ForUpdate()); fault.Is(err, fault.NotFound) {
			return errNoPublisher(run)
		} else if err != nil {
			return err
		}
		if !p.allows(run) { // another run may have pinned the ids meanwhile
			return errNoPublisher(run)
		}
		holder, err := s.Auth.PublisherHolder(ctx, tx, p.OrgID)
		if err != nil {
			return err
		}
		// The audit entries name the holder as the actor: there is no signed-in user.
		ctx := access.With(ctx, access.Caller{OrgID: p.OrgID, UserID: holder.ID, Email: holder.Email})
		// A repository's path may be longer than a name.
		k, raw, err := s.Auth.CreateEntryKey(ctx, tx, auth.NewEntryKey{
			OrgID: p.OrgID, EntryID: p.EntryID, ExpiresAt: expires,
			Name: text.TruncateRunes("run "+run.RunID+" of "+run.Repository, maxKeyName),
		})
		if err != nil {
			return err
		}
		x := exchange{token: token.Fingerprint, orgID: p.OrgID, publisherID: p.ID, keyID: k.ID, run: run, expiresAt: expires}
		if token.Expiry.After(expires) {
			x.expiresAt = token.Expiry
		}
		// Remember a used token until it has surely expired. Verification tolerates clock
		// skew of some minutes, which this margin covers.
		x.expiresAt = x.expiresAt.Add(KeyLifetime)
		if inserted, err := insertExchange(ctx, tx, x); err != nil {
			return err
		} else if !inserted {
			return fault.New(fault.Unauthorized, "This token was exchanged already; ask for a new one")
		}
		first := p.RepositoryID == "" && run.RepositoryID != "" || p.OwnerID == "" && run.OwnerID != ""
		if err := usePublisher(ctx, tx, p, run); err != nil {
			return err
		}
		g.Key, g.ExpiresAt, g.Run = raw, expires, run
		return p.record(ctx, tx, "publishers.token.exchange", audit.Detail{"key": k.ID, "run": run, "pinned": first})
	})
	if err != nil {
		return Grant{}, err
	}
	if g.OrgName, err = auth.OrgName(ctx, s.DB, p.OrgID); err != nil {
		return Grant{}, err
	}
	g.Entry, err = s.Registry.Own(ctx, p.OrgID, p.EntryID)
	return g, err
}

// Admitted records which run publishes a version. It's called in the transaction of the
// push, before the version is inserted, and does nothing for ordinary keys. A push that
// claims another source repository is refused, so the provenance can't contradict it.
func (s *Service) Admitted(ctx context.Context, tx *store.Tx, v registry.Version) error {
	c := access.From(ctx)
	if c.EntryID == "" {
		return nil
	}
	x, err := exchangeOfKey(ctx, tx, c.OrgID, c.KeyID)
	if err != nil {
		return err
	}
	if v.SourceRepo != nil && !strings.EqualFold(*v.SourceRepo, x.run.Repository) {
		return fault.Invalid("source_repo", "source_repo must be %s, the repository of the workflow, or be left out",
			x.run.Repository)
	}
	return insertVersionPublisher(ctx, tx, v, x)
}

// A Provenance is the workflow run that published a version.
type Provenance struct {
	OrgID       string // of the rule and the entry
	PublisherID string
	Run         Run
	At          time.Time
}

// Of returns the run that published a version of an organisation's entry. A version
// pushed with an ordinary key is fault.NotFound.
func (s *Service) Of(ctx context.Context, orgID, entryID, version string) (Provenance, error) {
	v, err := s.Registry.VersionNamed(ctx, s.DB, registry.Entry{OrgID: orgID, ID: entryID}, version)
	if fault.Is(err, fault.NotFound) {
		return Provenance{}, errNoRun()
	}
	if err != nil {
		return Provenance{}, err
	}
	all, err := Provenances(ctx, s.DB, []string{v.ID})
	p, ok := all[v.ID]
	if err == nil && (!ok || p.OrgID != orgID) {
		err = errNoRun()
	}
	return p, err
}

func errNoRun() error { return fault.New(fault.NotFound, "Workflow run not found") }

// Sweep deletes redeemed tokens once they have expired and can't be replayed. It runs on
// a schedule.
func (s *Service) Sweep(ctx context.Context) error {
	return deleteExpiredExchanges(ctx, s.DB, store.Now())
}
