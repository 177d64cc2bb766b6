package repohost

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/audit"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/jobs"
	"github.com/whetstone-dev/whetstone/internal/registry"
	"github.com/whetstone-dev/whetstone/internal/seal"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Service keeps connections and publishes what is pushed to them.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Host     host.Host
	Registry *registry.Service
	Seal     *seal.Keyring
	// OperatorClaims gives an account only to the organisation that the
	// operator names; otherwise one that is nobody's goes to who binds it first.
	OperatorClaims bool
	// Secrets sign the code host's deliveries: the first is in force, others
	// are good during a rotation.
	Secrets []string
	// Interval is how often branches and tags are compared with what was
	// published.
	Interval time.Duration
	// PublicURL is the base of the links on the code host.
	PublicURL string
	Log       *slog.Logger

	pauses      []time.Duration // instead of the schedules, in tests
	syncTimeout time.Duration   // instead of the constant, in tests
}

// Mode returns the organisation's write-back mode.
func (s *Service) Mode(ctx context.Context, orgID string) (Mode, error) {
	return modeOf(ctx, s.DB, orgID)
}

// SetMode changes the organisation's write-back mode.
func (s *Service) SetMode(ctx context.Context, orgID string, m Mode) error {
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := upsertMode(ctx, tx, orgID, m); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Action: "repohost.settings.change", Target: audit.Target{Kind: "organisation", ID: orgID},
			Detail: audit.Detail{"write_back_mode": m},
		})
	})
}

// Installations lists what the organisation has bound, oldest first.
func (s *Service) Installations(ctx context.Context, orgID string) ([]Installation, error) {
	return installationsOfOrg(ctx, s.DB, orgID)
}

// Bind records an installation for its organisation, or changes what is known
// of it. Its account must be the organisation's, or nobody's where the first to
// bind an account gets it; the code host is asked whether the installation is
// the account's. Anything else is a Conflict. A token of nil leaves the one that
// was given for the same account, and "" removes it.
func (s *Service) Bind(ctx context.Context, i Installation) (bound Installation, err error) {
	defer fault.Wrap(&err, "bind installation %d", i.InstallationID)
	if err := s.checkBinding(i); err != nil {
		return bound, err
	}
	if err := s.mayBind(ctx, i.OrgID, i.AccountLogin); err != nil {
		return bound, err
	}
	if err := s.Host.CheckAccount(ctx, i.host()); err != nil {
		return bound, unreachable(err)
	}
	keepToken := i.Token == nil
	i = s.sealed(i)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		i.ID, i.CreatedAt = store.NewID(), store.Now()
		if err := s.claim(ctx, tx, i.OrgID, i.AccountLogin); err != nil {
			return err
		}
		if err := deleteForeign(ctx, tx, i); err != nil {
			return err
		}
		if err := upsertInstallation(ctx, tx, i, keepToken); err != nil {
			return err
		}
		if bound, err = installationOfOrg(ctx, tx, i.OrgID, i.InstallationID); err != nil {
			return err
		}
		return bound.record(ctx, tx, "repohost.installation.bind")
	})
	if fault.Is(err, fault.NotFound) {
		return bound, fault.New(fault.Conflict, "This installation is bound by another organisation")
	}
	return bound, err
}

// checkBinding looks at what a user may say of an installation.
func (s *Service) checkBinding(i Installation) error {
	var issues []fault.Issue
	if host.CheckAccountLogin(i.AccountLogin) != nil {
		issues = append(issues, fault.At("account_login", "account_login must be the name of an account on the code host"))
	}
	if i.Token != nil && *i.Token != "" {
		if !s.TakesToken() {
			issues = append(issues, fault.At("token", "token is for Gitea and Forgejo only; leave it out"))
		} else if !goodToken(*i.Token) {
			issues = append(issues, fault.At("token", "token must be an access token of at most %d characters", maxToken))
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// record writes down what was done to an installation.
func (i Installation) record(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: i.OrgID, Action: action, Target: audit.Target{Kind: "installation", ID: i.ID, Name: i.AccountLogin},
		Detail: audit.Detail{"installation_id": i.InstallationID, "suspended": i.Suspended, "token": i.Token != nil},
	})
}

// A ListedRepository is a repository as a listing has it.
type ListedRepository struct {
	host.Repository
	ConnectedElsewhere bool
}

// Repositories lists what an installation of the organisation can see.
func (s *Service) Repositories(ctx context.Context, orgID string, installationID int64) (_ []ListedRepository, err error) {
	defer fault.Wrap(&err, "repositories of installation %d", installationID)
	i, err := s.installation(ctx, orgID, installationID)
	if err != nil {
		return nil, err
	}
	found, err := s.Host.Repositories(ctx, i.host())
	if err != nil {
		return nil, unreachable(err)
	}
	keys := make([]string, len(found))
	for n, r := range found {
		keys[n] = repoKey(r.FullName)
	}
	elsewhere, err := connectedElsewhere(ctx, s.DB, orgID, keys)
	listed := make([]ListedRepository, len(found))
	for n, r := range found {
		listed[n] = ListedRepository{r, elsewhere[keys[n]]}
	}
	return listed, err
}

// unreachable makes the host's failures those of a gateway: its limits are not
// the caller's, nor are its refusals.
func unreachable(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if ok && (f.Kind == fault.Limited || f.Kind == fault.Denied) {
		return fault.New(fault.BadGateway, "%s", f.Message).After(f.RetryAfter).Because(err)
	}
	return err
}

// installation finds one that the organisation has bound, that is not
// suspended and whose account is the organisation's; another is a Conflict.
// Everything that asks the code host comes through here.
func (s *Service) installation(ctx context.Context, orgID string, installationID int64) (Installation, error) {
	i, err := installationOfOrg(ctx, s.DB, orgID, installationID)
	switch {
	case fault.Is(err, fault.NotFound):
		return i, fault.New(fault.Conflict, "Installation %d is not bound to this organisation", installationID)
	case err != nil:
		return i, err
	case !i.Held:
		return i, s.errForeign(i.AccountLogin)
	case i.Suspended:
		return i, fault.New(fault.Conflict, "Installation %d is suspended", installationID)
	}
	return s.open(i)
}

// Connect links a repository to an entry, and makes the host tell us of its
// pushes where that can be done from here.
func (s *Service) Connect(ctx context.Context, c access.Caller, n Connection) (_ Connection, err error) {
	defer fault.Wrap(&err, "connect %s", n.RepoFullName)
	if issues := n.check(); len(issues) > 0 {
		return n, fault.Issues(issues...)
	}
	entry, err := s.Registry.Own(ctx, c.OrgID, n.EntryID)
	if err != nil {
		return n, err
	}
	i, err := s.installation(ctx, c.OrgID, n.InstallationID)
	if err != nil {
		return n, err
	}
	repo := host.Repo{Installation: i.host(), FullName: n.RepoFullName}
	found, err := s.Host.Repository(ctx, repo)
	if err != nil {
		return n, unreachable(err)
	}
	n.ID, n.OrgID, n.EntryName, n.CreatedBy = store.NewID(), c.OrgID, entry.Name, c.UserID
	n.RepoID, n.RepoFullName = found.ID, found.FullName
	n.CreatedAt = store.Now()
	n.UpdatedAt, n.ConfiguredAt = n.CreatedAt, n.CreatedAt
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertConnection(ctx, tx, n); err != nil {
			return err
		}
		return n.record(ctx, tx, "repohost.connection.create")
	})
	if store.IsDuplicate(err) {
		return n, errConnected()
	}
	if err != nil {
		return n, err
	}
	if err := s.Host.Prepare(ctx, repo); err != nil {
		return n, errors.Join(unreachable(err), s.Disconnect(context.WithoutCancel(ctx), n.OrgID, n.ID))
	}
	return n, nil
}

// record writes down what was done to a connection.
func (c Connection) record(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: c.OrgID, Action: action, Target: audit.Target{Kind: "connection", ID: c.ID, Name: c.RepoFullName},
		Detail: audit.Detail{
			"entry": c.EntryID, "entry_name": c.EntryName, "branch": c.DefaultBranch, "path": c.SkillPath,
			"auto_publish": c.AutoPublish, "write_back": c.WriteBackEnabled, "tags": c.TagPattern,
		},
	})
}

func errConnected() error {
	return fault.New(fault.Conflict, "This folder of the repository is connected to the entry already")
}

// Change is what a patch changes; nil leaves a field as it is.
type Change struct {
	DefaultBranch    *string
	SkillPath        *string
	AutoPublish      *bool
	WriteBackEnabled *bool
	TagPattern       *string
}

// Update changes a connection of the organisation.
func (s *Service) Update(ctx context.Context, orgID, id string, change Change) (c Connection, err error) {
	defer fault.Wrap(&err, "update connection %s", id)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if c, err = connectionOfOrg(ctx, tx, orgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before := c
		change.apply(&c)
		if issues := c.check(); len(issues) > 0 {
			return fault.Issues(issues...)
		}
		c.UpdatedAt = store.Now()
		before.WriteBackEnabled, before.UpdatedAt = c.WriteBackEnabled, c.UpdatedAt
		if c != before {
			c.ConfiguredAt = c.UpdatedAt
		}
		if err := updateConnection(ctx, tx, c); err != nil {
			return err
		}
		return c.record(ctx, tx, "repohost.connection.change")
	})
	if store.IsDuplicate(err) {
		return c, errConnected()
	}
	return c, err
}

func (change Change) apply(c *Connection) {
	set(&c.DefaultBranch, change.DefaultBranch)
	set(&c.SkillPath, change.SkillPath)
	set(&c.AutoPublish, change.AutoPublish)
	set(&c.WriteBackEnabled, change.WriteBackEnabled)
	set(&c.TagPattern, change.TagPattern)
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// Disconnect removes a connection. What it published stays.
func (s *Service) Disconnect(ctx context.Context, orgID, id string) (err error) {
	defer fault.Wrap(&err, "disconnect %s", id)
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		c, err := connectionOfOrg(ctx, tx, orgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		if err := deleteConnection(ctx, tx, id); err != nil {
			return err
		}
		if err := c.record(ctx, tx, "repohost.connection.delete"); err != nil {
			return err
		}
		return settleDeliveries(ctx, tx, c.RepoFullName)
	})
}

// Connections lists the organisation's connections, oldest first, with the
// last attempt of each that has one.
func (s *Service) Connections(ctx context.Context, orgID string) ([]Connection, map[string]Attempt, error) {
	all, err := connectionsOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, nil, err
	}
	last, err := lastAttempts(ctx, s.DB, orgID)
	return all, last, err
}

// Fetch reads a folder of a repository for the organisation that has bound the
// installation: the commit that the ref stands for, and its files, which the
// caller closes. An installation that is not bound is a Conflict.
func (s *Service) Fetch(ctx context.Context, orgID string, installationID int64, repo, ref, path string) (commit string, _ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "fetch %s", repo)
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	defer tooSlow(ctx, &err)
	folder, err := host.CleanPath(path)
	if err != nil {
		return "", nil, err
	}
	i, err := s.installation(ctx, orgID, installationID)
	if err != nil {
		return "", nil, err
	}
	at := host.Repo{Installation: i.host(), FullName: repo}
	found, err := s.Host.Resolve(ctx, at, ref)
	if err != nil {
		return "", nil, unreachable(err)
	}
	pkg, err := s.Host.Tree(ctx, at, found.SHA, folder)
	return found.SHA, pkg, unreachable(err)
}
