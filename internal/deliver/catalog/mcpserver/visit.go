package mcpserver

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// A visit is a request with what it may see: the shelf of its path, and what the
// key in its header opens. It is made per HTTP request, which is one message, and
// lives in its context.
type visit struct {
	catalog.Shelf
	caller access.Caller   // the zero Caller without a key
	ctx    context.Context // of the HTTP request: done when the answer is sent
	named  string          // session of the agent, as _meta of the message names it

	mu       sync.Mutex
	sent     bool     // the answer, or the client is gone
	releases []func() // give back the memory of the answer
}

type visitKey struct{}

func withVisit(ctx context.Context, v *visit) context.Context {
	v.ctx = ctx
	return context.WithValue(ctx, visitKey{}, v)
}

// visitOf is the visit of a message. The library hands on the values of the
// request's context.
func visitOf(ctx context.Context) *visit {
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return &visit{ctx: ctx} // sees what is public
	}
	return v
}

// hold keeps a reservation of memory until the answer is sent. A method may still
// run after its client has gone.
func (v *visit) hold(release func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	// The answer is gone, so nothing would call release again.
	if v.sent {
		release()
		return
	}
	v.releases = append(v.releases, release)
}

// release gives back what the visit holds.
func (v *visit) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sent = true
	for _, release := range v.releases {
		release()
	}
}

// visit authorizes a request. Every token that opens nothing gets the same answer,
// whether or not the organisation exists.
func (s *Service) visit(r *http.Request) (*visit, error) {
	if err := httpapi.CheckText(r.URL, nil); err != nil {
		return nil, err
	}
	v := &visit{}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	key = strings.TrimSpace(key)
	shelf := r
	if strings.EqualFold(scheme, "Bearer") && key != "" && !strings.HasPrefix(key, auth.CatalogPrefix) {
		var err error
		if v.caller, err = s.Auth.Authenticate(r.Context(), key); err != nil {
			return nil, err
		}
		httpapi.SetCaller(r, v.caller)
		// The key was checked above; Shelf would take it for a catalog token.
		shelf = r.WithContext(r.Context()) // a copy without the key
		shelf.Header = http.Header{}
	}
	var err error
	v.Shelf, err = s.Catalog.Shelf(shelf)
	if fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Unauthorized, "This token does not open this catalog")
	}
	if v.OrgName != "" && v.caller.OrgName == v.OrgName && v.caller.May(access.Read) {
		v.Private = true
	}
	return v, err
}

// own reports whether a skill is of an organisation whose private figures the visit
// may see.
func (v *visit) own(l registry.Listed) bool {
	return v.Private && v.OrgName == l.OrgName || v.caller.May(access.Read) && v.caller.OrgID == l.OrgID
}

// shelves are what lists show: at the host's root also what the caller's own
// organisation has, first.
func (v *visit) shelves() []registry.Shelf {
	if v.OrgName == "" && v.caller.May(access.Read) {
		return []registry.Shelf{{OrgName: v.caller.OrgName, Private: true}, v.Shelf.Shelf}
	}
	return []registry.Shelf{v.Shelf.Shelf}
}

// of is the shelf that has the skills of one organisation, as far as the visit may
// see them.
func (v *visit) of(org string) (registry.Shelf, bool) {
	switch {
	case v.OrgName == org && org != "":
		return v.Shelf.Shelf, true
	case v.OrgName != "":
		return registry.Shelf{}, false
	}
	return registry.Shelf{OrgName: org, Private: v.caller.May(access.Read) && v.caller.OrgName == org}, true
}

// listing is what a visit may see, ordered by name, each name once. The own shelf
// comes first, and the sort is stable: its skill hides another of the name.
func (s *Service) listing(v *visit) (catalog.Listing, error) {
	var all catalog.Listing
	for _, sh := range v.shelves() {
		list, err := s.Catalog.Listing(v.ctx, sh)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = list // shared: not changed below
			continue
		}
		all = slices.Concat(all, list)
		slices.SortStableFunc(all, func(a, b registry.Listed) int { return cmp.Compare(a.Name, b.Name) })
		all = slices.CompactFunc(all, func(a, b registry.Listed) bool { return a.Name == b.Name })
	}
	return all, nil
}

// allowed leaves out the tools that would refuse the caller.
func (v *visit) allowed(list *mcp.ListToolsResult) *mcp.ListToolsResult {
	if v.caller.May(access.Write) {
		return list
	}
	// The library's list is shared by all requests, so the copy is changed.
	kept := *list
	kept.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *mcp.Tool) bool { return t.Name == outcomeTool })
	return &kept
}
