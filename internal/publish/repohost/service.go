package repohost

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/audit"
	"github.com/whetstone-dev/whetstone/internal/platform/jobs"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/claims"
	"github.com/whetstone-dev/whetstone/internal/publish/repohost/publication"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Service manages connections and publishes commits that are pushed to them.
type Service struct {
	DB       *store.DB
	Jobs     *jobs.Queue
	Host     host.Host
	Registry *registry.Service
	Seal     *seal.Keyring
	// Claims decides who may claim an account of the code host.
	Claims claims.Policy
	// Secrets verify webhooks. The first is current; others are still accepted, for
	// rotation.
	Secrets []string
	// SigningTokens are GitLab's; with any, each delivery must be signed by one, too.
	SigningTokens []string
	// Interval is how often connections are reconciled with their repositories.
	Interval time.Duration
	// PublicURL is the base of links to this server, shown on the code host.
	PublicURL string
	Log       *slog.Logger
	// Backoff overrides the waits after failures of the code host; nil for the default.
	Backoff []time.Duration
	// Owners reads the owners of entries from CODEOWNERS files; may be nil.
	Owners Owners
	// Guard knows which connections only admins and owners may change; may be nil.
	Guard Guard

	// Hooks of capabilities above this one; may be nil.
	OnReport       OnReport
	OnVersionRerun OnVersionRerun
	OnRerun        OnRerun
	OnPull         OnPull
	OnReconcile    OnReconcile
	OnDisconnect   OnDisconnect
	OnReviews      OnReviews

	syncTimeout time.Duration // overrides the constant in tests
}

// Mode returns the organisation's write-back mode.
func (s *Service) Mode(ctx context.Context, orgID string) (Mode, error) {
	return modeOf(ctx, s.DB, orgID)
}

// SetMode changes the organisation's write-back mode.
func (s *Service) SetMode(ctx context.Context, orgID string, m Mode) error {
	if err := m.Check(); err != nil {
		return err
	}
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

// Bind stores or updates an installation of its organisation. The organisation must hold
// the claim on the account, or be entitled to claim it, and the code host must confirm
// that the installation is the account's. Anything else is fault.Conflict. A nil Token
// keeps the stored one (for the same account), and "" removes it.
func (s *Service) Bind(ctx context.Context, i Installation) (bound Installation, err error) {
	defer fault.Wrap(&err, "bind installation %d", i.InstallationID)
	issues := i.issues(s.Host.Provider())
	if i.Token != nil && *i.Token != "" && !s.TakesToken() {
		issues = append(issues, fault.At("token", "token is for GitLab, Gitea and Forgejo only; leave it out"))
	}
	if len(issues) > 0 {
		return bound, fault.Issues(issues...)
	}
	if err := s.Claims.Check(ctx, s.DB, i.OrgID, i.AccountLogin); err != nil {
		return bound, err
	}
	if err := s.Host.CheckAccount(ctx, i.host()); err != nil {
		return bound, asGatewayError(err)
	}
	// No network call inside the transaction, since it locks rows. The claim may have
	// moved since the check above, so it's checked again.
	keepToken := i.Token == nil
	i = s.sealed(i)
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		i.ID, i.CreatedAt = store.NewID(), store.Now()
		if err := s.Claims.Claim(ctx, tx, i.OrgID, i.AccountLogin); err != nil {
			return err
		}
		if err := deleteUnclaimed(ctx, tx, i); err != nil {
			return err
		}
		if err := upsertInstallation(ctx, tx, i, keepToken); err != nil {
			return err
		}
		if bound, err = installationOfOrg(ctx, tx, i.OrgID, i.InstallationID); err != nil {
			return err
		}
		return bound.recordAudit(ctx, tx, "repohost.installation.bind")
	})
	if fault.Is(err, fault.NotFound) {
		return bound, fault.New(fault.Conflict, "This installation is bound by another organisation")
	}
	return bound, err
}

func (i Installation) recordAudit(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: i.OrgID, Action: action, Target: audit.Target{Kind: "installation", ID: i.ID, Name: i.AccountLogin},
		Detail: audit.Detail{"installation_id": i.InstallationID, "suspended": i.Suspended, "token": i.Token != nil},
	})
}

// A ListedRepository is a repository that an installation can read.
// Shown as a warning: two organisations would publish from one repository.
type ListedRepository struct {
	host.Repository
	ConnectedElsewhere bool // by another organisation
}

// Repositories returns the repositories that an installation of the organisation can
// read.
func (s *Service) Repositories(ctx context.Context, orgID string, installationID int64) (_ []ListedRepository, err error) {
	defer fault.Wrap(&err, "repositories of installation %d", installationID)
	i, err := s.installation(ctx, orgID, installationID)
	if err != nil {
		return nil, err
	}
	found, err := s.Host.Repositories(ctx, i.host())
	if err != nil {
		return nil, asGatewayError(err)
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

// asGatewayError turns a rate limit or refusal of the code host into fault.BadGateway. As
// 429 or 403 it would look as if it were about the caller's own key.
func asGatewayError(err error) error {
	f, ok := errors.AsType[*fault.Error](err)
	if ok && (f.Kind == fault.Limited || f.Kind == fault.Denied) {
		return fault.New(fault.BadGateway, "%s", f.Message).After(f.RetryAfter).Because(err)
	}
	return err
}

// installation returns a usable installation of the organisation with its token
// decrypted. One that isn't bound, isn't claimed, or is suspended is fault.Conflict. All
// access to the code host is checked here.
func (s *Service) installation(ctx context.Context, orgID string, installationID int64) (Installation, error) {
	i, err := installationOfOrg(ctx, s.DB, orgID, installationID)
	switch {
	case fault.Is(err, fault.NotFound):
		return i, fault.New(fault.Conflict, "Installation %d is not bound to this organisation", installationID)
	case err != nil:
		return i, err
	case !i.Claimed:
		return i, s.Claims.ErrNotClaimed(i.AccountLogin)
	case i.Suspended:
		return i, fault.New(fault.Conflict, "Installation %d is suspended", installationID)
	case i.Token == nil:
		return i, nil
	}
	plain, err := s.Seal.Open([]byte(*i.Token), i.tokenPlace())
	token := string(plain)
	i.Token = &token
	return i, err
}

// repoOf returns a connection's repository with the access of its installation.
func (s *Service) repoOf(ctx context.Context, c Connection) (host.Repo, error) {
	i, err := s.installation(ctx, c.OrgID, c.InstallationID)
	return host.Repo{Installation: i.host(), FullName: c.RepoFullName}, err
}

// Connect links a repository to an entry, and installs the webhook if the code host
// supports that. The same folder and entry twice is fault.Conflict.
func (s *Service) Connect(ctx context.Context, c access.Caller, n Connection) (_ Connection, err error) {
	defer fault.Wrap(&err, "connect %s", n.RepoFullName)
	n.OrgID = c.OrgID
	if err := n.Check(s.Host.Provider()); err != nil {
		return n, err
	}
	entry, err := s.Registry.Own(ctx, c.OrgID, n.EntryID)
	if err != nil {
		return n, err
	}
	if err := s.checkConnect(ctx, c, n.EntryID, n.Codeowners); err != nil {
		return n, err
	}
	i, err := s.installation(ctx, c.OrgID, n.InstallationID)
	if err != nil {
		return n, err
	}
	repo := host.Repo{Installation: i.host(), FullName: n.RepoFullName}
	found, err := s.Host.Repository(ctx, repo)
	if err != nil {
		return n, asGatewayError(err)
	}
	n.ID, n.EntryName, n.CreatedBy, n.ChosenBy = store.NewID(), entry.Name, c.UserID, c.UserID
	// Take the code host's spelling of the name: a user may type another case.
	n.RepoID, n.RepoFullName, n.HostDefault = found.ID, found.FullName, found.DefaultBranch
	n.CreatedAt = store.Now()
	n.UpdatedAt, n.ConfiguredAt, n.ChosenAt = n.CreatedAt, n.CreatedAt, n.CreatedAt
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if err := insertConnection(ctx, tx, n); err != nil {
			return err
		}
		return n.recordAudit(ctx, tx, "repohost.connection.create")
	})
	if store.IsDuplicate(err) {
		return n, errConnected()
	}
	if err != nil {
		return n, err
	}
	// After the commit, since a hook may fire at once and has to find its connection. If
	// it can't be installed, the connection is removed again.
	if err := s.Host.Prepare(ctx, repo); err != nil {
		return n, errors.Join(asGatewayError(err), s.Disconnect(context.WithoutCancel(ctx), c, n.ID))
	}
	return n, nil
}

func (c Connection) recordAudit(ctx context.Context, tx *store.Tx, action string) error {
	return audit.Record(ctx, tx, audit.Entry{
		OrgID: c.OrgID, Action: action, Target: audit.Target{Kind: "connection", ID: c.ID, Name: c.RepoFullName},
		Detail: audit.Detail{
			"entry": c.EntryID, "entry_name": c.EntryName, "branch": c.DefaultBranch, "path": c.SkillPath,
			"auto_publish": c.AutoPublish, "write_back": c.WriteBackEnabled, "tags": c.TagPattern,
			"publish_unchanged": c.PublishUnchanged, "open_issues": c.OpenIssues,
			"pull_requests": c.PullRequests, "codeowners": c.Codeowners,
		},
	})
}

// errConnected explains a violation of the unique index on connections.
func errConnected() error {
	return fault.New(fault.Conflict, "This folder of the repository is connected to the entry already")
}

// Change is a partial update of a connection; nil leaves a field unchanged.
type Change struct {
	DefaultBranch    *string
	SkillPath        *string
	AutoPublish      *bool
	WriteBackEnabled *bool
	TagPattern       *string
	PublishUnchanged *bool
	OpenIssues       *bool
	PullRequests     *PullRequests
	Codeowners       *bool
}

// Update changes a connection of the caller's organisation. Where a guarded entry is
// published from, and whether its CODEOWNERS file counts, only admins and its owners may
// change.
func (s *Service) Update(ctx context.Context, by access.Caller, id string, change Change) (c Connection, err error) {
	defer fault.Wrap(&err, "update connection %s", id)
	if c, err = connectionOfOrg(ctx, s.DB, by.OrgID, id, ""); err != nil {
		return c, err
	}
	may, err := s.mayGuarded(ctx, by, c.EntryID)
	if err != nil {
		return c, err
	}
	err = s.DB.InTx(ctx, func(tx *store.Tx) error {
		if c, err = connectionOfOrg(ctx, tx, by.OrgID, id, tx.Dialect().ForUpdate()); err != nil {
			return err
		}
		before := c
		set(&c.DefaultBranch, change.DefaultBranch)
		set(&c.SkillPath, change.SkillPath)
		set(&c.AutoPublish, change.AutoPublish)
		set(&c.WriteBackEnabled, change.WriteBackEnabled)
		set(&c.TagPattern, change.TagPattern)
		set(&c.PublishUnchanged, change.PublishUnchanged)
		set(&c.OpenIssues, change.OpenIssues)
		set(&c.PullRequests, change.PullRequests)
		if err := c.Check(s.Host.Provider()); err != nil {
			return err
		}
		c.UpdatedAt = store.Now()
		if c.chooses(before) {
			// The file of another place would name other owners: it has to be allowed
			// again.
			c.Codeowners, c.ChosenBy, c.ChosenAt = false, by.UserID, c.UpdatedAt
		}
		owners := change.Codeowners != nil && *change.Codeowners != c.Codeowners
		set(&c.Codeowners, change.Codeowners)
		if !may && (owners || c.chooses(before)) {
			if err := s.checkGuarded(ctx, tx, c.OrgID, c.EntryID, owners); err != nil {
				return err
			}
		}
		// Ignore fields that don't decide what is published; what remains must have
		// changed for refused commits to be tried again.
		before.Codeowners, before.ChosenBy, before.ChosenAt = c.Codeowners, c.ChosenBy, c.ChosenAt
		before.WriteBackEnabled, before.OpenIssues, before.PullRequests = c.WriteBackEnabled, c.OpenIssues, c.PullRequests
		before.UpdatedAt = c.UpdatedAt
		if c != before {
			c.ConfiguredAt = c.UpdatedAt
		}
		if err := updateConnection(ctx, tx, c); err != nil {
			return err
		}
		return c.recordAudit(ctx, tx, "repohost.connection.change")
	})
	if store.IsDuplicate(err) {
		return c, errConnected()
	}
	return c, err
}

// set applies one field of a partial update.
func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// Disconnect removes a connection. Versions that it published stay. If its CODEOWNERS
// file counts, this takes owners away, so it needs the same right as setting them.
func (s *Service) Disconnect(ctx context.Context, by access.Caller, id string) (err error) {
	defer fault.Wrap(&err, "disconnect %s", id)
	c, err := connectionOfOrg(ctx, s.DB, by.OrgID, id, "")
	if err != nil {
		return err
	}
	may, err := s.mayGuarded(ctx, by, c.EntryID)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx *store.Tx) error {
		c, err := connectionOfOrg(ctx, tx, by.OrgID, id, tx.Dialect().ForUpdate())
		if err != nil {
			return err
		}
		if !may && c.Codeowners {
			return errOwners()
		}
		if s.OnDisconnect != nil {
			if err := s.OnDisconnect.DeleteOfConnection(ctx, tx, c); err != nil {
				return err
			}
		}
		if err := deleteConnection(ctx, tx, id); err != nil {
			return err
		}
		if err := c.recordAudit(ctx, tx, "repohost.connection.delete"); err != nil {
			return err
		}
		return closeOrphanedDeliveries(ctx, tx, c.RepoFullName)
	})
}

// Connections returns the organisation's connections, oldest first, and the last finished
// attempt of each by connection id.
func (s *Service) Connections(ctx context.Context, orgID string) ([]Connection, map[string]publication.Attempt, error) {
	all, err := connectionsOfOrg(ctx, s.DB, orgID)
	if err != nil {
		return nil, nil, err
	}
	last, err := publication.Last(ctx, s.DB, orgID)
	return all, last, err
}

// Fetch reads a folder of a repository through an installation of the organisation,
// within the time of a request. It returns the ref's commit and the files, which the
// caller closes. An unusable installation is fault.Conflict.
func (s *Service) Fetch(
	ctx context.Context, orgID string, installationID int64, repo, ref, path string,
) (commit string, _ *skillpkg.Package, err error) {
	defer fault.Wrap(&err, "fetch %s", repo)
	ctx, cancel := s.withSyncTimeout(ctx)
	defer cancel()
	defer explainTimeout(ctx, &err)
	folder, err := host.CleanPath(path)
	if err != nil {
		return "", nil, err
	}
	i, err := s.installation(ctx, orgID, installationID)
	if err != nil {
		return "", nil, err
	}
	from := host.Repo{Installation: i.host(), FullName: repo}
	found, err := s.Host.Resolve(ctx, from, ref)
	if err != nil {
		return "", nil, asGatewayError(err)
	}
	pkg, err := s.Host.Tree(ctx, from, found.SHA, folder)
	return found.SHA, pkg, asGatewayError(err)
}
