package mcpserver

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

const (
	markdown  = "text/markdown"
	directory = "inode/directory"
	// copies is how often the bytes of a file are in memory while it is sent, as base64
	// or with escapes, and in the messages around that.
	copies = 9
	// smallFile is the size up to which that does not count.
	smallFile = 256 << 10
)

// listResources answers resources/list with the SKILL.md of every skill, for clients
// that do not know the extension.
func (s *Service) listResources(ctx context.Context, req mcp.Request) (mcp.Result, error) {
	v := visitOf(ctx)
	in, _ := req.GetParams().(*mcp.ListResourcesParams)
	if in == nil {
		in = &mcp.ListResourcesParams{}
	}
	page, contents, next, err := s.page(v, in.Cursor)
	if err != nil {
		return nil, err
	}
	evidence, err := s.evidence(v, page)
	if err != nil {
		return nil, err
	}
	out := &mcp.ListResourcesResult{Resources: []*mcp.Resource{}, NextCursor: next}
	out.TTLMs, out.CacheScope = ttl, v.cacheScope()
	for _, l := range page {
		c, ok := contents[l.Current.ID]
		// That name would make addresses ambiguous, see parseURI.
		if !ok || l.Name == versionMark {
			continue
		}
		if f, ok := c.file(skillFile); ok {
			out.Resources = append(out.Resources, &mcp.Resource{
				URI: address{org: l.OrgName, name: l.Name, path: skillFile}.String(), Name: l.Name, Description: l.Summary(),
				MIMEType: markdown, Size: f.Size, Meta: evidence[l.Current.ID],
			})
		}
	}
	return out, nil
}

// file finds a file of a version.
func (c *skillContent) file(path string) (skillpkg.ManifestEntry, bool) {
	i := slices.IndexFunc(c.files, func(f skillpkg.ManifestEntry) bool { return f.Path == path })
	if i < 0 {
		return skillpkg.ManifestEntry{}, false
	}
	return c.files[i], true
}

// handleRead answers resources/read. Any file of any version that may be seen can be
// read, whether or not it is listed.
func (s *Service) handleRead(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	v := visitOf(ctx)
	at, err := parseURI(req.Params.URI)
	if err != nil {
		return nil, err
	}
	l, c, err := s.find(v, at)
	if err != nil {
		return nil, err
	}
	f, ok := c.file(at.path)
	if !ok {
		return nil, fault.New(fault.NotFound, "Resource not found")
	}
	raw, err := s.read(v, l.Current, f)
	if err != nil {
		return nil, err
	}
	out := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: mediaType(f.Path, raw)}
	if out.MIMEType == binary || len(raw) == 0 { // an empty text would be left out
		// Never nil: a result needs text or blob, also for an empty file.
		out.Blob = append([]byte{}, raw...)
	} else {
		out.Text = string(raw)
	}
	out.Meta = mcp.Meta{metaPrefix + "version": l.Current.Version, metaPrefix + "digest": "sha256:" + f.Hash}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{out}}, nil
}

// read returns the bytes of a file. The memory of a large one is held until it is
// sent.
func (s *Service) read(v *visit, ver registry.Version, f skillpkg.ManifestEntry) ([]byte, error) {
	// Small files are bounded by the number of requests.
	if f.Size > smallFile {
		release, err := s.Memory.Reserve(v.ctx, copies*f.Size)
		if err != nil {
			return nil, err
		}
		v.hold(release)
	}
	return s.Registry.ReadFile(v.ctx, ver, f)
}

const binary = "application/octet-stream"

// mediaType is never one that a browser would run. Content is of strangers, and a
// host may show it in a browser.
func mediaType(name string, content []byte) string {
	switch {
	case !utf8.Valid(content):
		return binary
	case strings.EqualFold(path.Ext(name), ".md"):
		return markdown
	case strings.EqualFold(path.Ext(name), ".json"):
		return "application/json"
	}
	return "text/plain"
}

// directoryResult is a page of what lies in a folder. It has the fields of
// resources/list; folders have the type inode/directory.
type directoryResult struct {
	mcp.ResultBase
	ResultType string          `json:"resultType"`
	Resources  []*mcp.Resource `json:"resources"`
	NextCursor string          `json:"nextCursor,omitempty"`
	TTL        int             `json:"ttlMs"`
	CacheScope string          `json:"cacheScope"`
}

// handleDirectory answers resources/directory/read with what lies directly in a
// folder of a skill. The cursor is the name of the last one.
func (s *Service) handleDirectory(ctx context.Context, _ *mcp.ServerSession, in *uriParams) (*directoryResult, error) {
	v := visitOf(ctx)
	if in == nil {
		in = &uriParams{}
	}
	at, err := parseURI(in.URI)
	if err != nil {
		return nil, err
	}
	_, c, err := s.find(v, at)
	if err != nil {
		return nil, err
	}
	children := c.children(at)
	// Folders exist only by their files, so an empty one does not exist.
	if len(children) == 0 {
		return nil, fault.New(fault.NotFound, "Resource not found")
	}
	out := &directoryResult{ResultType: complete, TTL: ttl, CacheScope: v.cacheScope(), Resources: []*mcp.Resource{}}
	for _, r := range children {
		if r.Name <= in.Cursor {
			continue
		}
		if len(out.Resources) == pageSize {
			out.NextCursor = out.Resources[pageSize-1].Name
			break
		}
		out.Resources = append(out.Resources, r)
	}
	return out, nil
}

// children lists what lies directly in a folder, ordered by name.
func (c *skillContent) children(at address) []*mcp.Resource {
	prefix := ""
	if at.path != "" {
		prefix = at.path + "/"
	}
	var all []*mcp.Resource
	seen := map[string]bool{}
	for _, f := range c.files {
		rest, ok := strings.CutPrefix(f.Path, prefix)
		if !ok {
			continue
		}
		name, _, folder := strings.Cut(rest, "/")
		// A folder appears once, however many files are below it.
		if seen[name] {
			continue
		}
		seen[name] = true
		r := &mcp.Resource{URI: at.at(prefix + name).String(), Name: name}
		if folder {
			r.MIMEType = directory
		} else {
			r.Size = f.Size
			if strings.EqualFold(path.Ext(name), ".md") {
				r.MIMEType = markdown
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *mcp.Resource) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
