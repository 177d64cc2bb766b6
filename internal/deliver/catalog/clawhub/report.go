package clawhub

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/lint"
)

const (
	// maxReports is how many versions' reports are kept: some hundred bytes each.
	maxReports = 20_000
	// maxEvidence is how many findings a report has.
	maxEvidence = 50
	// lintMemory is what validating a version takes beside its archive.
	lintMemory = 32 << 20
	// maxChecks is how many versions are validated at once, and checkTimeout how long
	// one may wait and take: everybody can ask for all versions of public skills.
	maxChecks    = 2
	checkTimeout = 30 * time.Second
)

// A report is what validation says about a version. Versions never change, so it
// is always right. findings are those that a person should see before an
// installation; counts are of all.
type report struct {
	counts   lint.Counts    // of all findings
	errors   []string       // codes, each once
	findings []lint.Finding // of security, errors and warnings
}

// report validates a version, once for all requests that want to know.
func (s *Service) report(ctx context.Context, e registry.Entry, versionID string) (report, error) {
	if known, ok := s.reports.Get(versionID); ok {
		return known, nil
	}
	// The work is not bound to the first request: when its client leaves, others
	// still wait for the result, and the cache gains it.
	made := s.checking.DoChan(versionID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		if s.checks.Acquire(ctx, 1) != nil {
			return report{}, fault.New(fault.Unavailable, "The server is busy; try again").After(checkTimeout)
		}
		defer s.checks.Release(1)
		ver, err := s.Registry.VersionByID(ctx, s.DB, e, versionID)
		if err != nil {
			return report{}, err
		}
		release, err := s.Memory.Reserve(ctx, ver.Size+lintMemory)
		if err != nil {
			return report{}, err
		}
		defer release()
		pkg, err := s.Registry.Open(ctx, ver)
		if err != nil {
			return report{}, fault.New(fault.Unavailable, "The archive cannot be read now").Because(err)
		}
		defer pkg.Close()
		found, err := lint.Check(ctx, pkg)
		if err != nil {
			return report{}, err
		}
		rep := report{counts: found.Counts()}
		for _, f := range found.Findings {
			if f.Severity == lint.Error && !slices.Contains(rep.errors, f.Code) {
				rep.errors = append(rep.errors, f.Code)
			}
			if f.Category == lint.Security && f.Severity != lint.Info && len(rep.findings) < maxEvidence {
				rep.findings = append(rep.findings, f)
			}
		}
		// Each report counts as one, so maxReports is a number of versions.
		s.reports.Put(versionID, rep, 1)
		return rep, nil
	})
	select {
	case result := <-made:
		if result.Err != nil {
			return report{}, result.Err
		}
		return result.Val.(report), nil
	case <-ctx.Done():
		return report{}, ctx.Err()
	}
}

// verdict is never malicious: that is for people to decide, who withdraw the
// version, and then it is in no catalog.
func (rep report) verdict() string {
	if len(rep.findings) > 0 {
		return "suspicious"
	}
	return "clean"
}

// moderationOutput is the verdict of the validation, in the clients' words.
// IsMalwareBlocked is always false, see verdict.
type moderationOutput struct {
	IsSuspicious     bool     `json:"isSuspicious"`
	IsMalwareBlocked bool     `json:"isMalwareBlocked"`
	Verdict          string   `json:"verdict"`
	ReasonCodes      []string `json:"reasonCodes"`
	EngineVersion    string   `json:"engineVersion"`
}

// moderation returns the verdict with the codes behind it. Codes appear once each,
// findings may repeat them.
func (rep report) moderation() moderationOutput {
	out := moderationOutput{
		IsSuspicious: len(rep.findings) > 0, Verdict: rep.verdict(), ReasonCodes: []string{}, EngineVersion: lint.Engine,
	}
	for _, f := range rep.findings {
		if !slices.Contains(out.ReasonCodes, f.Code) {
			out.ReasonCodes = append(out.ReasonCodes, f.Code)
		}
	}
	return out
}

type moderationDetail struct {
	Moderation struct {
		moderationOutput
		Evidence []evidenceOutput `json:"evidence"`
	} `json:"moderation"`
}

type evidenceOutput struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Message  string `json:"message"`
	Evidence string `json:"evidence"`
}

func (s *Service) handleModeration(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	rep, err := s.report(r.Context(), l.Entry, l.Current.ID)
	if err != nil {
		return err
	}
	var out moderationDetail
	out.Moderation.moderationOutput = rep.moderation()
	out.Moderation.Evidence = []evidenceOutput{}
	for _, f := range rep.findings {
		// The clients know "warn" and "critical" only.
		severity := "warn"
		if f.Severity == lint.Error {
			severity = "critical"
		}
		out.Moderation.Evidence = append(out.Moderation.Evidence, evidenceOutput{
			Code: f.Code, Severity: severity, File: f.Path, Line: f.Line, Message: f.Message, Evidence: f.Evidence,
		})
	}
	return answer(w, out)
}

type securityOutput struct {
	Status      string `json:"status"`
	HasWarnings bool   `json:"hasWarnings"`
	Engine      string `json:"engine"`
}

// security is the short form that versions carry.
func (rep report) security() securityOutput {
	return securityOutput{Status: rep.verdict(), HasWarnings: len(rep.findings) > 0, Engine: lint.Engine}
}

// verifyOutput is all that is known about the trustworthiness of a version. The
// schema is the clients' own; Evidence is an addition of ours, which they ignore.
type verifyOutput struct {
	Schema               string            `json:"schema"`
	OK                   bool              `json:"ok"`
	Decision             string            `json:"decision"`
	Reasons              []string          `json:"reasons"`
	Slug                 string            `json:"slug"`
	DisplayName          string            `json:"displayName"`
	PageURL              string            `json:"pageUrl"`
	PublisherHandle      string            `json:"publisherHandle"`
	PublisherDisplayName string            `json:"publisherDisplayName"`
	PublisherProfileURL  *string           `json:"publisherProfileUrl"`
	Version              string            `json:"version"`
	ResolvedFrom         string            `json:"resolvedFrom"`
	Tag                  *string           `json:"tag"`
	CreatedAt            int64             `json:"createdAt"`
	Card                 *string           `json:"card"`
	Artifact             artifactOutput    `json:"artifact"`
	Provenance           *provenanceOutput `json:"provenance"`
	Security             struct {
		securityOutput
		Validation lint.Counts `json:"validation"`
	} `json:"security"`
	Signature *signatureOutput `json:"signature"`
	Evidence  *evidenceDetail  `json:"evidence,omitempty"`
}

// artifactOutput is the archive of a version. contentHash is that of the archive as
// stored, which attestations name.
type artifactOutput struct {
	ContentHash string `json:"contentHash"`
	Size        int64  `json:"size"`
	Files       int    `json:"files"`
}

type provenanceOutput struct {
	Source     registry.Source `json:"source"`
	Repository string          `json:"repository"`
	Ref        *string         `json:"ref"`
}

// handleVerify answers whether a version passed validation, where it comes from,
// what is signed about it, and to its own organisation how well it does.
func (s *Service) handleVerify(w http.ResponseWriter, r *http.Request, v visit) error {
	l, err := s.asked(r, v)
	if err != nil {
		return err
	}
	ver, err := s.askedVersion(r, v, l)
	if err != nil {
		return err
	}
	rep, err := s.report(r.Context(), l.Entry, ver.ID)
	if err != nil {
		return err
	}
	out := verifyOutput{
		// Validation decides alone: a suspicious skill that is valid passes, and the
		// client shows its findings.
		Schema: "clawhub.skill.verify.v1", OK: len(rep.errors) == 0, Decision: "pass", Reasons: append([]string{}, rep.errors...),
		Slug: l.Name, DisplayName: l.Name, PageURL: s.page(l.Entry), PublisherHandle: l.OrgName, PublisherDisplayName: l.OrgName,
		Version: ver.Version, ResolvedFrom: "latest", CreatedAt: ver.PushedAt.UnixMilli(),
		Artifact: artifactOutput{ver.ContentHash, ver.Size, len(ver.Manifest)},
	}
	if !out.OK {
		out.Decision = "fail"
	}
	query := r.URL.Query()
	if tag := query.Get("tag"); query.Get("version") != "" {
		out.ResolvedFrom = "version"
	} else if tag != "" {
		out.ResolvedFrom, out.Tag = "tag", &tag
	}
	if ver.SourceRepo != nil {
		out.Provenance = &provenanceOutput{ver.Source, *ver.SourceRepo, ver.SourceRef}
	}
	out.Security.securityOutput, out.Security.Validation = rep.security(), rep.counts
	if out.Signature, out.Evidence, err = s.signed(r.Context(), ver, v.own(l)); err != nil {
		return err
	}
	if v.own(l) {
		quality, err := s.Registry.Skills.Quality(r.Context(), s.DB, []string{ver.ID})
		if err != nil {
			return err
		}
		q := quality[ver.ID]
		if out.Evidence == nil {
			out.Evidence = &evidenceDetail{}
		}
		// Use in sessions is for the own organisation only: it would tell others how
		// a company works.
		out.Evidence.useOutput = &useOutput{q.PassRate, q.GradedSessions, q.Sessions}
	}
	return answer(w, out)
}
