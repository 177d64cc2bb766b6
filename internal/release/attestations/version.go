package attestations

import (
	"context"
	"regexp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

// SignVersion signs where a version comes from, in the transaction that writes it.
func (s *Service) SignVersion(ctx context.Context, tx *store.Tx, versionID string) (err error) {
	defer fault.Wrap(&err, "sign version %s", versionID)
	return s.signVersions(ctx, tx, []string{versionID})
}

// signVersions skips versions that were deleted. The caller's transaction holds the versions,
// or has just written them.
func (s *Service) signVersions(ctx context.Context, tx *store.Tx, versionIDs []string) error {
	all, err := factsOf(ctx, tx, versionIDs)
	if err != nil {
		return err
	}
	for _, f := range all {
		st, err := intoto.New(f.of, f.archives, intoto.Provenance, s.provenance(f))
		if err != nil {
			return err
		}
		if err := s.sign(ctx, tx, attestation{orgID: f.OrgID, versionID: f.ID, kind: provenance}, st); err != nil {
			return err
		}
	}
	return nil
}

// provenance says what the row of the version has, so that it is the same whenever it
// is made. Who pushed is named by kind only: everybody may read it.
func (s *Service) provenance(f facts) (p intoto.ProvenancePredicate) {
	b := &p.BuildDefinition
	b.BuildType, b.ExternalParameters.Version = intoto.BuildPush, f.of
	p.RunDetails.Builder.ID = s.PublicURL
	m := &p.RunDetails.Metadata
	m.InvocationID, m.StartedOn, m.FinishedOn = f.ID, f.PushedAt, f.PushedAt
	switch f.Source {
	case registry.FromRepohost:
		b.ExternalParameters.Publisher = "code-host"
	case registry.FromRepohostDirect:
		b.ExternalParameters.Publisher = "code-host-sync"
	default:
		b.ExternalParameters.Publisher = "api"
		if f.Repo != nil || f.Ref != nil {
			b.ExternalParameters.Claimed = &intoto.Claims{Repository: deref(f.Repo), Ref: deref(f.Ref)}
		}
		// A claim stays a claim beside it: only the workflow is verified.
		if w := f.workflow; w != nil {
			b.BuildType, b.ExternalParameters.Publisher, b.ExternalParameters.Workflow = intoto.BuildWorkflow,
				"trusted-publisher", w
			// SLSA wants a URI that can be resolved. Without one, the commit is in the
			// parameters all the same.
			if address := w.Address(); address != "" && isCommit.MatchString(w.Commit) {
				b.ResolvedDependencies = []intoto.Dependency{{
					URI:    "git+" + address,
					Digest: map[string]string{"gitCommit": w.Commit},
				}}
			}
		}
		return p
	}
	b.BuildType = intoto.BuildCodeHost
	b.ExternalParameters.Repository = s.repository(deref(f.Repo))
	b.ExternalParameters.Ref, b.ExternalParameters.Path = deref(f.Ref), deref(f.Path)
	commit := deref(f.Commit)
	if ref := deref(f.Ref); commit == "" && isCommit.MatchString(ref) { // from before commits were kept
		commit = ref
	}
	if commit != "" {
		b.ResolvedDependencies = []intoto.Dependency{
			{URI: "git+" + b.ExternalParameters.Repository, Digest: map[string]string{"gitCommit": commit}},
		}
	}
	return p
}

// Git's SHA-1 or SHA-256.
var isCommit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// repository is the address of one, e.g. "https://github.com/acme/skills"; its name
// if it is on this machine.
func (s *Service) repository(name string) string {
	if s.CodeHost == "" {
		return "file:" + name
	}
	return s.CodeHost + "/" + name
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
