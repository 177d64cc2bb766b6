// Package host reads repositories on code hosts and tells them what came of a
// commit. Its folders hold one provider each, hosttest what all of them must
// do. It owns no tables.
//
// Errors that a caller can act on have a kind: NotFound for a repository, ref,
// commit or folder that is not there or not for this installation, Denied for
// a missing permission or a suspended installation, Limited (with a time to
// wait) for a rate limit, BadGateway for a host that fails or cannot be
// reached, Malformed or TooLarge for content that cannot become a package.
package host

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/skillpkg"
)

// A Host is a code host that repositories are read from.
type Host interface {
	// Provider names the kind of host.
	Provider() Provider
	// CheckAccount asks the host whether the installation is one of its
	// account, and is a Conflict if not. Where there is nobody to ask it is nil.
	CheckAccount(ctx context.Context, at Installation) error
	// Repositories lists what the installation can see of its account, by name.
	Repositories(ctx context.Context, at Installation) ([]Repository, error)
	// Repository finds one by its owner/name. On a host that knows where a
	// renamed one went, its FullName is the new name. One that went to another
	// account is NotFound, and nothing private of it is read by its old name.
	Repository(ctx context.Context, r Repo) (Repository, error)
	// Resolve finds the commit that a ref (refs/heads/x, refs/tags/x), a
	// branch, a tag or a SHA stands for. Annotated tags are peeled.
	Resolve(ctx context.Context, r Repo, ref string) (Commit, error)
	// Refs lists all branches and tags with their commits.
	Refs(ctx context.Context, r Repo) (Refs, error)
	// Tree packs the files of a commit below a path ("." for all) the way the
	// command line packs a folder. The caller closes the package. Whether there
	// is a SKILL.md is asked of the package; it stands at the path itself.
	Tree(ctx context.Context, r Repo, commit, path string) (*skillpkg.Package, error)
	// SetStatus posts a commit status. It may be ErrUnsupported.
	SetStatus(ctx context.Context, r Repo, commit string, s Status) error
	// SetCheck posts a check-run, or more of one that has an id. It keeps the
	// id and how many annotations were taken in c, also on an error, so that
	// another call goes on where this one stopped. It may be ErrUnsupported.
	SetCheck(ctx context.Context, r Repo, c *Check) error
	// Prepare makes the host tell us of pushes to a repository, where that can
	// be done from here. It may be called any number of times.
	Prepare(ctx context.Context, r Repo) error
}

// ErrUnsupported says that the host has no such thing.
var ErrUnsupported = errors.New("the code host does not have this")

// A Provider is a kind of code host.
type Provider string

// The providers.
const (
	Git    Provider = "git"
	GitHub Provider = "github"
	Gitea  Provider = "gitea"
)

// An Installation is what gives access to the repositories of one account.
type Installation struct {
	ID      int64
	Account string
	// Token is used instead of the host's own, if it is not empty and the host
	// knows tokens.
	Token string
}

// Owns reports whether a repository is one of the installation's account.
func (i Installation) Owns(fullName string) bool {
	owner, _, _ := strings.Cut(fullName, "/")
	return CheckFullName(fullName) == nil && AccountKey(owner) == AccountKey(i.Account)
}

// AccountKey is an account's login as logins are compared: hosts ignore the
// case of ASCII letters, and have no others.
func AccountKey(login string) string { return strings.ToLower(login) }

// CheckAccountLogin refuses what cannot be the login of an account.
func CheckAccountLogin(login string) error {
	if !goodName(login) {
		return fault.New(fault.Malformed, "%q is not the name of an account", login)
	}
	return nil
}

// A Repo is one repository as an installation sees it.
type Repo struct {
	Installation
	FullName string // owner/name
}

// Split returns the owner and the name.
func (r Repo) Split() (owner, name string) {
	owner, name, _ = strings.Cut(r.FullName, "/")
	return owner, name
}

// A Repository is what a host tells of one.
type Repository struct {
	ID            int64
	FullName      string
	Owner, Name   string
	Visibility    string
	DefaultBranch string
	HTMLURL       string
	PushedAt      *time.Time // nil: nothing was pushed yet
}

// A Commit is what a ref stands for.
type Commit struct {
	SHA     string
	Message string
}

// Refs are the branches and tags of a repository: names without refs/heads/
// and refs/tags/, and the commits they stand for.
type Refs struct {
	Heads, Tags map[string]string
}

// A Status is what a commit's line of results shows.
type Status struct {
	State       State
	Context     string
	Description string // cut to what hosts take
	TargetURL   string
}

// A State is a status's verdict.
type State string

// The states.
const (
	StatePending State = "pending"
	StateSuccess State = "success"
	StateFailure State = "failure"
	StateError   State = "error"
)

// A Check is a check-run, with remarks on single lines.
type Check struct {
	ID          string // "" for one to be made
	Name        string
	ExternalID  string
	HeadSHA     string
	DetailsURL  string
	Conclusion  Conclusion
	Title       string
	Summary     string // cut to what hosts take
	CompletedAt time.Time
	Annotations []Annotation
	Sent        int // how many annotations the host has
}

// A Conclusion is a check-run's verdict.
type Conclusion string

// The conclusions.
const (
	ConclusionSuccess Conclusion = "success"
	ConclusionFailure Conclusion = "failure"
	ConclusionNeutral Conclusion = "neutral"
)

// An Annotation is a remark on a line of a file.
type Annotation struct {
	Path    string
	Line    int
	Level   Level
	Title   string
	Message string
}

// A Level is how bad an annotation is.
type Level string

// The levels.
const (
	LevelNotice  Level = "notice"
	LevelWarning Level = "warning"
	LevelFailure Level = "failure"
)

// nameForm is what hosts allow in the names of owners and repositories.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// CheckFullName refuses what is not owner/name.
func CheckFullName(fullName string) error {
	owner, name, ok := strings.Cut(fullName, "/")
	if !ok || !goodName(owner) || !goodName(name) {
		return fault.New(fault.Malformed, "%q is not owner/repo", fullName)
	}
	return nil
}

func goodName(name string) bool {
	return nameForm.MatchString(name) && name != "." && name != ".." && !strings.HasPrefix(name, "-")
}

// shaForm is a whole commit id.
var shaForm = regexp.MustCompile(`^[0-9a-f]{40}$`)

// IsSHA reports whether a ref is a whole commit id.
func IsSHA(ref string) bool { return shaForm.MatchString(ref) }

// CleanPath returns a folder of a repository as path.Clean would write it, "."
// for the root. A path that leaves the repository is Malformed.
func CleanPath(path string) (string, error) {
	if path == "" || path == "." {
		return ".", nil
	}
	bad := strings.HasPrefix(path, "/") || strings.ContainsAny(path, "\\\x00") || len(path) > 500
	var kept []string
	for segment := range strings.SplitSeq(path, "/") {
		switch segment {
		case "", ".":
			continue
		case "..", ".git":
			bad = true
		}
		kept = append(kept, segment)
	}
	if bad {
		return "", fault.New(fault.Malformed, "a path inside the repository must be relative, with forward slashes and without ..")
	}
	if len(kept) == 0 {
		return ".", nil
	}
	return strings.Join(kept, "/"), nil
}
