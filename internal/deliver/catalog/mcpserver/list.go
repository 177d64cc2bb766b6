package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// metaPrefix begins our own keys in _meta.
const metaPrefix = "dev.whetstone/"

// maxFiles is how many files the skills of a page have together; a skill is never
// split, so one alone may have more.
const maxFiles = 5_000

// listParams are those of skills/list in the extension
// io.modelcontextprotocol/skills.
type listParams struct {
	mcp.ParamsBase
	Cursor string `json:"cursor,omitempty"`
}

// listResult is a page of the skills of a shelf. ttlMs and cacheScope tell hosts how
// long, and for whom, the list may be cached.
type listResult struct {
	mcp.ResultBase
	ResultType string  `json:"resultType"`
	Skills     []entry `json:"skills"`
	NextCursor string  `json:"nextCursor,omitempty"`
	TTL        int     `json:"ttlMs"`
	CacheScope string  `json:"cacheScope"`
}

// An entry is a skill as hosts see it.
type entry struct {
	URI         string          `json:"uri"`
	Frontmatter json.RawMessage `json:"frontmatter"`
	Resources   []entryFile     `json:"resources"`
	Meta        map[string]any  `json:"_meta,omitempty"`
}

// An entryFile is a file of a skill. Hosts verify the digest after they have read
// the file.
type entryFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// A leftOut is a skipped skill, which hosts would refuse. It is reported to its publisher.
type leftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// complete is the type of every result of ours.
const complete = "complete"

// handleList answers skills/list.
func (s *Service) handleList(ctx context.Context, _ *mcp.ServerSession, in *listParams) (*listResult, error) {
	v := visitOf(ctx)
	if in == nil {
		in = &listParams{}
	}
	// The page may show fewer skills than it has, since invalid ones are left out.
	page, contents, next, err := s.page(v, in.Cursor)
	if err != nil {
		return nil, err
	}
	evidence, err := s.evidence(v, page)
	if err != nil {
		return nil, err
	}
	out := &listResult{ResultType: complete, Skills: []entry{}, NextCursor: next, TTL: ttl, CacheScope: v.cacheScope()}
	var omitted []leftOut
	var shown []*registry.Listed
	for _, l := range page {
		c, ok := contents[l.Current.ID]
		if !ok {
			continue // deleted meanwhile
		}
		if err := c.unlisted(l.Name); err == nil {
			shown = append(shown, &l)
			out.Skills = append(out.Skills, newEntry(address{org: l.OrgName, name: l.Name}, c, evidence[l.Current.ID]))
			// Others need not know what is wrong with a skill that they cannot mend.
		} else if v.own(l) {
			omitted = append(omitted, leftOut{l.Name, err.Error()})
		}
	}
	if len(omitted) > 0 {
		out.SetMeta(map[string]any{metaPrefix + "left_out": omitted})
	}
	s.offered(v, sessionOf(in), shown)
	return out, nil
}

// page returns the skills after a cursor, which is the name of the last one, with
// what they have. Names are unique in a listing, so the cursor stays valid when
// skills come and go.
func (s *Service) page(v *visit, cursor string) (
	page []registry.Listed, contents map[string]*skillContent, next string, err error,
) {
	if cursor != "" && !catalog.ValidName(cursor) {
		return nil, nil, "", fault.Invalid("cursor", "cursor must be a nextCursor of this server")
	}
	list, err := s.listing(v)
	if err != nil {
		return nil, nil, "", err
	}
	start, found := slices.BinarySearchFunc(list, cursor,
		func(l registry.Listed, name string) int { return cmp.Compare(l.Name, name) })
	if found {
		start++
	}
	page = list[start:min(start+pageSize, len(list))]
	if contents, err = s.contents(v.ctx, page); err != nil {
		return nil, nil, "", err
	}
	files := 0
	for i, l := range page {
		if c, ok := contents[l.Current.ID]; ok {
			files += len(c.files)
		}
		// A manifest is sent in full, so a page of large skills could be many
		// megabytes.
		if files > maxFiles && i > 0 {
			page = page[:i]
			break
		}
	}
	if len(page) > 0 && start+len(page) < len(list) {
		next = page[len(page)-1].Name
	}
	return page, contents, next, nil
}

// newEntry describes a version whose SKILL.md is below an address. The frontmatter
// goes out as it was parsed once, see frontmatter.
func newEntry(at address, c *skillContent, evidence map[string]any) entry {
	e := entry{
		URI: at.at(skillFile).String(), Frontmatter: c.frontmatter, Resources: make([]entryFile, len(c.files)),
		Meta: evidence,
	}
	for i, f := range c.files {
		e.Resources[i] = entryFile{URI: at.at(f.Path).String(), Digest: "sha256:" + f.Hash, Size: f.Size}
	}
	return e
}

// evidence returns what is known about the current versions of skills, by version id.
// How well one does in use, and what its gate decided, is for its own organisation.
func (s *Service) evidence(v *visit, list []registry.Listed) (map[string]map[string]any, error) {
	all := make(map[string]map[string]any, len(list))
	byOrg := map[string][]string{}
	for _, l := range list {
		all[l.Current.ID] = map[string]any{metaPrefix + "version": l.Current.Version, metaPrefix + "publisher": l.OrgName}
		if v.own(l) {
			byOrg[l.OrgID] = append(byOrg[l.OrgID], l.Current.ID)
		}
	}
	for org, ids := range byOrg { // one at most: one's own
		quality, err := s.Registry.Skills.Quality(v.ctx, s.DB, ids)
		if err != nil {
			return nil, err
		}
		for id, q := range quality {
			if q.PassRate != nil {
				all[id][metaPrefix+"pass_rate"] = *q.PassRate
				all[id][metaPrefix+"graded_sessions"] = q.GradedSessions
			}
		}
		if err := s.addVerdicts(v.ctx, org, ids, all); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// addVerdicts adds what the newest gates of versions decided. Versions without a
// gate, or whose gate is undecided, get no key.
func (s *Service) addVerdicts(ctx context.Context, orgID string, ids []string, to map[string]map[string]any) error {
	if s.Gates == nil {
		return nil
	}
	versions, err := registry.VersionsByID(ctx, s.DB, ids)
	var asked []string
	for _, v := range versions {
		if v.GateID != nil {
			asked = append(asked, *v.GateID)
		}
	}
	if err != nil || len(asked) == 0 {
		return err
	}
	verdicts, err := s.Gates.Verdicts(ctx, orgID, asked)
	for id, v := range versions {
		if v.GateID != nil && verdicts[*v.GateID] != nil {
			to[id][metaPrefix+"gate"] = *v.GateID
			to[id][metaPrefix+"gate_verdict"] = string(*verdicts[*v.GateID])
		}
	}
	return err
}

type uriParams struct {
	mcp.ParamsBase
	URI    string `json:"uri"`
	Cursor string `json:"cursor,omitempty"`
}

type getResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	Skill      entry  `json:"skill"`
}

// handleGet answers skills/get.
func (s *Service) handleGet(ctx context.Context, _ *mcp.ServerSession, in *uriParams) (*getResult, error) {
	v := visitOf(ctx)
	if in == nil {
		in = &uriParams{}
	}
	// The address of a skill is that of its SKILL.md.
	at, err := parseURI(in.URI)
	if err == nil && at.path != skillFile {
		err = fault.New(fault.NotFound, "Skill not found")
	}
	if err != nil {
		return nil, err
	}
	l, c, err := s.find(v, at)
	if err != nil {
		return nil, err
	}
	if err := c.unlisted(l.Name); err != nil {
		return nil, fault.New(fault.NotFound, "Hosts would refuse this skill: %s", err)
	}
	evidence, err := s.evidence(v, []registry.Listed{l})
	if err != nil {
		return nil, err
	}
	return &getResult{ResultType: complete, Skill: newEntry(at, c, evidence[l.Current.ID])}, nil
}

// find returns the skill at an address, with the version that it names as the
// current one, and what that has. Candidates and withdrawn versions are in no
// catalog.
func (s *Service) find(v *visit, at address) (registry.Listed, *skillContent, error) {
	// One error for all cases, so that private names cannot be probed.
	unknown := fault.New(fault.NotFound, "Resource not found")
	sh, ok := v.of(at.org)
	if !ok {
		return registry.Listed{}, nil, unknown
	}
	l, err := s.Catalog.Skill(v.ctx, sh, at.name)
	if err == nil && at.version != "" {
		allowed, failed := s.Catalog.Allowed(v.ctx, sh, l.ID)
		switch {
		case failed != nil:
			return l, nil, failed
		case !allowed(at.version):
			return l, nil, unknown
		}
		l.Current, err = s.Registry.VersionNamed(v.ctx, s.DB, l.Entry, at.version)
	}
	if fault.Is(err, fault.NotFound) || err == nil && at.version != "" && l.Current.State != registry.Published {
		return l, nil, unknown
	}
	if err != nil {
		return l, nil, err
	}
	contents, err := s.contents(v.ctx, []registry.Listed{l})
	if err != nil {
		return l, nil, err
	}
	c, ok := contents[l.Current.ID]
	if !ok {
		return l, nil, unknown
	}
	return l, c, nil
}
