// Package host reads repositories on code hosts, writes commit statuses and
// check-runs back, and opens pull requests. Each of its subpackages is one provider, and hosttest is the
// conformance suite for all of them. It owns no tables.
//
// Errors that a caller can act on have a kind: NotFound for a repository, ref,
// commit or folder that does not exist or that the installation may not see,
// Denied for a missing permission or a suspended installation, Limited (with
// the time to wait) for a rate limit, BadGateway for a host that fails or cannot
// be reached, Malformed or TooLarge for content that cannot become a package.
package host

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// A Host is a code host that repositories are read from.
type Host interface {
	// Provider names the kind of host.
	Provider() Provider
	// CheckAccount asks the host whether the installation belongs to its
	// account. It is a Conflict if not, and nil on a host without accounts.
	CheckAccount(ctx context.Context, at Installation) error
	// Repositories lists the account's repositories that the installation can
	// see, by name.
	Repositories(ctx context.Context, at Installation) ([]Repository, error)
	// Repository finds one by its owner/name. On a host that redirects renamed
	// repositories, its FullName is the new name. One that was transferred to
	// another account is NotFound: its new owner has not given us access.
	Repository(ctx context.Context, r Repo) (Repository, error)
	// Resolve finds the commit of a ref (refs/heads/x, refs/tags/x), a branch, a
	// tag or a SHA. Annotated tags are peeled.
	Resolve(ctx context.Context, r Repo, ref string) (Commit, error)
	// Refs lists all branches and tags with their commits.
	Refs(ctx context.Context, r Repo) (Refs, error)
	// Tree packs the files of a commit below a path ("." for all) as the command
	// line packs a folder. The caller closes the package. A SKILL.md must be at
	// the path itself; whether there is one, the package says.
	Tree(ctx context.Context, r Repo, commit, path string) (*skillpkg.Package, error)
	// File reads one file of a commit. No file at the path is NotFound, and one with
	// more bytes than the limit TooLarge.
	File(ctx context.Context, r Repo, commit, path string, limit int64) ([]byte, error)
	// SetStatus posts a commit status. It may be ErrUnsupported.
	SetStatus(ctx context.Context, r Repo, commit string, s Status) error
	// SetCheck posts a check-run, or the rest of one that has an id. It stores
	// the id and the number of accepted annotations in c, also on an error, so
	// that a retry continues there. Without an id a check-run of the commit with
	// the same external id is taken up. It may be ErrUnsupported.
	SetCheck(ctx context.Context, r Repo, c *Check) error
	// Pull reads a pull request into the repository. It may be ErrUnsupported.
	Pull(ctx context.Context, r Repo, number int64) (Pull, error)
	// OpenPulls lists the open pull requests into the repository, those that changed
	// last first. complete is false if there are more than MaxPullPages pages.
	OpenPulls(ctx context.Context, r Repo) (open []Pull, complete bool, err error)
	// PullFiles lists the paths that a pull request changes, the old ones of moved
	// files, too. complete is false if the host does not list all of them.
	PullFiles(ctx context.Context, r Repo, number int64) (paths []string, complete bool, err error)
	// SetComment creates a comment on a pull request, or changes the one with the
	// id. Without an id one of ours that begins with the marker is changed, so that
	// a retry makes no second one. It stores the id in c.
	SetComment(ctx context.Context, r Repo, c *Comment) error
	// SetIssue creates an issue, or changes the one with the number. Without a
	// number an open issue whose body has the marker is changed, so that a retry
	// makes no second one. It stores number and URL in i. It may be ErrUnsupported.
	SetIssue(ctx context.Context, r Repo, i *Issue) error
	// CommitFile creates a branch with one commit that changes one file, and returns
	// the commit. A branch of that name is left as it is, and its head returned, so
	// that a retry makes no second commit. A file that the branch below does not have
	// is NotFound.
	CommitFile(ctx context.Context, r Repo, c FileCommit) (commit string, err error)
	// OpenPull opens a pull request of a branch of the repository, or finds the one
	// that there is, open or not, so that a retry makes no second one. It may be
	// ErrUnsupported.
	OpenPull(ctx context.Context, r Repo, p NewPull) (Pull, error)
	// MergedPull finds the pull request whose merge made a commit of the repository.
	// None is NotFound. It may be ErrUnsupported.
	MergedPull(ctx context.Context, r Repo, commit string) (MergedPull, error)
	// Reviews lists the reviews of a pull request that were submitted, oldest first. More
	// than MaxReviewPages pages are TooLarge.
	Reviews(ctx context.Context, r Repo, number int64) ([]Review, error)
	// Authors lists the accounts that opened a pull request, or wrote or committed a
	// commit of it. It is TooLarge if the host does not list all commits.
	Authors(ctx context.Context, r Repo, number int64) ([]int64, error)
	// Prepare installs a webhook for pushes to a repository, where that can be
	// done from here. It is idempotent.
	Prepare(ctx context.Context, r Repo) error
}

// MaxPages bounds the pages of one list that are read from a code host. A
// repository may have any number of tags, each page is a request, and a server
// that is broken may always name one more page.
const MaxPages = 1000

// MaxPullPages bounds the pages of open pull requests that are read: the list is
// read again and again.
const MaxPullPages = 10

// MaxReviewPages bounds the pages of reviews and of commits of a pull request that are
// read: each look at a candidate reads them again.
const MaxReviewPages = 20

// ErrTooManyReviews is the error of a list with more than MaxReviewPages.
func ErrTooManyReviews() error {
	return fault.New(fault.TooLarge, "The pull request has more reviews or commits than are read")
}

// ErrNoMergedPull is the error of a commit that no merge of a pull request made.
func ErrNoMergedPull(commit string) error {
	return fault.New(fault.NotFound, "No merge of a pull request made commit %.7s", commit)
}

// ErrTooManyPages is the error of a list with more than MaxPages.
func ErrTooManyPages() error {
	return fault.New(fault.TooLarge, "The code host's list has more than %d pages", MaxPages)
}

// ErrNoFile is the error of a path that has no file.
func ErrNoFile(path string) error {
	return fault.New(fault.NotFound, "the repository has no file %s", path)
}

// ErrLargeFile is the error of a file that has more bytes than the limit.
func ErrLargeFile(path string, limit int64) error {
	return fault.New(fault.TooLarge, "%s has more than %d bytes", path, limit)
}

// ErrUnsupported reports that the host has no such feature.
var ErrUnsupported = errors.New("the code host does not have this")

// A Provider is a kind of code host.
type Provider string

// The providers.
const (
	Git    Provider = "git"
	GitHub Provider = "github"
	Gitea  Provider = "gitea"
	GitLab Provider = "gitlab"
)

// An Installation gives access to the repositories of one account.
type Installation struct {
	ID      int64
	Account string
	// Token, if not empty, is used instead of the host's own, on hosts with
	// tokens.
	Token string
}

// Owns reports whether a repository belongs to the installation's account.
func (i Installation) Owns(fullName string) bool {
	owner, _, _ := strings.Cut(fullName, "/")
	return CheckFullName(fullName) == nil && AccountKey(owner) == AccountKey(i.Account)
}

// AccountKey normalizes an account's login for comparison: hosts ignore the case
// of ASCII letters, and allow no others.
func AccountKey(login string) string { return strings.ToLower(login) }

// maxPath is the longest full path that GitLab allows.
const maxPath = 255

// CheckAccountLogin validates the login of an account. On GitLab it is the full path of
// a group, e.g. "acme/tools", or the name of a user.
func (p Provider) CheckAccountLogin(login string) error {
	parts := []string{login}
	if p == GitLab && len(login) <= maxPath {
		parts = strings.Split(login, "/")
	}
	if slices.ContainsFunc(parts, func(part string) bool { return !isName(part) }) {
		return fault.New(fault.Malformed, "%q is not the name of an account", login)
	}
	return nil
}

// A Repo is one repository as an installation sees it.
type Repo struct {
	Installation
	FullName string // owner/name, or on GitLab group/subgroup/name
}

// Split returns the owner and the name.
func (r Repo) Split() (owner, name string) { return SplitName(r.FullName) }

// SplitName returns the owner and the name of a repository. The owner may be a path, so
// it is all before the last slash.
func SplitName(fullName string) (owner, name string) {
	at := strings.LastIndexByte(fullName, '/')
	if at < 0 {
		return fullName, ""
	}
	return fullName[:at], fullName[at+1:]
}

// A Repository is a host's description of a repository.
type Repository struct {
	ID            int64
	FullName      string
	Owner, Name   string
	Visibility    string
	DefaultBranch string
	HTMLURL       string
	PushedAt      *time.Time // nil if nothing was pushed yet
}

// A Commit is a commit of a repository.
type Commit struct {
	SHA     string
	Message string
}

// Refs are the branches and tags of a repository: names without refs/heads/
// and refs/tags/, and the SHAs of their commits.
type Refs struct {
	Heads, Tags map[string]string
}

// A Status is a commit status.
type Status struct {
	State       State
	Context     string
	Description string // truncated to the host's limit
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

// A Check is a check-run with annotations.
type Check struct {
	ID          string // "" for a new one
	Name        string
	ExternalID  string
	HeadSHA     string
	DetailsURL  string
	Conclusion  Conclusion // "" while it is in progress
	Title       string
	Summary     string // truncated to the host's limit
	CompletedAt time.Time
	Annotations []Annotation
	Sent        int  // number of annotations that the host has
	Changed     bool // the run with the id says something else now
}

// A Conclusion is a check-run's verdict.
type Conclusion string

// The conclusions.
const (
	ConclusionSuccess   Conclusion = "success"
	ConclusionFailure   Conclusion = "failure"
	ConclusionNeutral   Conclusion = "neutral"
	ConclusionCancelled Conclusion = "cancelled"
	ConclusionAction    Conclusion = "action_required"
)

// An Annotation is a message about a line of a file.
type Annotation struct {
	Path    string
	Line    int
	Level   Level
	Title   string
	Message string
}

// A Level is the severity of an annotation.
type Level string

// The levels.
const (
	LevelNotice  Level = "notice"
	LevelWarning Level = "warning"
	LevelFailure Level = "failure"
)

// An Issue is a ticket of a repository.
type Issue struct {
	Number int64 // 0 for a new one
	URL    string
	Marker string // is in the body
	Title  string
	Body   string
	Closed bool
}

// A Pull is a pull request into a repository.
type Pull struct {
	Number int64
	Title  string
	URL    string
	// Head is the commit that is to be merged. The repository has it, also if it is a
	// fork's: as refs/pull/NUMBER/head, on GitLab as refs/merge-requests/NUMBER/head.
	Head string
	Base string // the branch that it is to be merged into
	// Fork reports whether the head is in another repository, or in none any more.
	Fork   bool
	Draft  bool
	Closed bool // or merged
	Merged bool
	// CreatedAt is when it was opened.
	CreatedAt time.Time
}

// A MergedPull is a pull request that was merged.
type MergedPull struct {
	Pull
	RepoID int64  // of the repository that it was merged into
	Commit string // that the merge made
	// MergeBase is where its changes begin: people reviewed those from there to the head.
	// "" if the host does not tell.
	MergeBase string
}

// A Review is what an account said about a pull request.
type Review struct {
	ID      int64
	Account int64  // its number, which never changes; 0 if the account is gone
	Login   string // its name now, for people to read
	State   ReviewState
	Commit  string // the head that was reviewed
	URL     string
	At      time.Time
}

// A ReviewState is what a review says.
type ReviewState string

// The states. Other reviews, e.g. comments, leave what the account said before.
const (
	ReviewApproved  ReviewState = "approved"
	ReviewChanges   ReviewState = "changes_requested"
	ReviewDismissed ReviewState = "dismissed"
	ReviewOther     ReviewState = "other"
)

// A FileCommit is a new branch with one commit that changes one file.
type FileCommit struct {
	Branch  string
	Onto    string // the branch that it begins at
	Base    string // the head of that
	Path    string // of the file, from the root of the repository
	Content string
	Message string
}

// A NewPull is a pull request to open.
type NewPull struct {
	Branch string
	Base   string // the branch that it is to be merged into
	Title  string
	Body   string // truncated to the host's limit
}

// A Comment is a comment on a pull request.
type Comment struct {
	ID     int64 // 0 for a new one
	Pull   int64
	Marker string // the body begins with it
	Body   string // truncated to the host's limit
}

// nameForm matches the names of owners and repositories.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// CheckFullName validates the full name of a repository. On GitLab the owner may be a
// subgroup, e.g. "acme/tools/skills".
func (p Provider) CheckFullName(fullName string) error {
	if p != GitLab {
		return CheckFullName(fullName)
	}
	group, name := SplitName(fullName)
	if len(fullName) > maxPath || !isName(name) || p.CheckAccountLogin(group) != nil {
		return fault.New(fault.Malformed, "%q is not group/project", fullName)
	}
	return nil
}

// CheckFullName validates an owner/name.
func CheckFullName(fullName string) error {
	owner, name, ok := strings.Cut(fullName, "/")
	if !ok || !isName(owner) || !isName(name) {
		return fault.New(fault.Malformed, "%q is not owner/repo", fullName)
	}
	return nil
}

func isName(name string) bool {
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
		return "", fault.New(fault.Malformed,
			"a path inside the repository must be relative, with forward slashes and without ..")
	}
	if len(kept) == 0 {
		return ".", nil
	}
	return strings.Join(kept, "/"), nil
}
