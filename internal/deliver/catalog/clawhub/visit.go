package clawhub

import (
	"context"
	"net/http"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

// A visit is a request with what it may see: the shelf of its path, and what the
// key in its header opens.
type visit struct {
	catalog.Shelf
	caller access.Caller // the zero Caller without a key
}

func errNoKey() error {
	return fault.New(fault.Unauthorized, "This needs an API key: run clawhub login")
}

// visit authorizes a request. A wrong token in the path must not show that the
// organisation exists; a wrong key in the header is refused, so that people do not
// take their skills for deleted. A key need not read: it may be for publishing.
func (s *Service) visit(r *http.Request) (v visit, err error) {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	key = strings.TrimSpace(key)
	// A catalog token in the header is left to Shelf, which knows those.
	if strings.EqualFold(scheme, "Bearer") && key != "" && !strings.HasPrefix(key, auth.CatalogPrefix) {
		if v.caller, err = s.Auth.Authenticate(r.Context(), key); err != nil {
			return v, err
		}
		httpapi.SetCaller(r, v.caller)
		r = r.WithContext(r.Context()) // a copy without the key
		r.Header = http.Header{}
	}
	v.Shelf, err = s.Catalog.Shelf(r)
	// One answer for all three, so that organisations cannot be probed.
	if fault.Is(err, fault.Unauthorized) || fault.Is(err, fault.Denied) || fault.Is(err, fault.NotFound) {
		return v, fault.New(fault.NotFound, "Not found")
	}
	if v.caller.OrgName == v.OrgName && v.caller.May(access.Read) {
		v.Private = true
	}
	return v, err
}

// own reports whether a skill is of an organisation whose private skills the visit
// may see.
func (v visit) own(l registry.Listed) bool {
	return v.Private || v.caller.May(access.Read) && v.caller.OrgID == l.OrgID
}

// listed are the shelves that lists and searches show: at the host's root also what
// the caller's own organisation has, first.
func (v visit) listed() []registry.Shelf {
	if v.OrgName == "" && v.caller.May(access.Read) {
		return []registry.Shelf{{OrgName: v.caller.OrgName, Private: true}, v.Shelf.Shelf}
	}
	return []registry.Shelf{v.Shelf.Shelf}
}

// find finds a skill by its slug and, unless that is empty, the handle of its
// owner. What the caller's own organisation has is found before what others
// publish under the same name.
func (s *Service) find(ctx context.Context, v visit, slug, owner string) (registry.Listed, error) {
	shelves := v.listed()
	switch owner = trimHandle(owner); {
	case owner == "":
	case v.OrgName != "":
		if !strings.EqualFold(owner, v.OrgName) {
			return registry.Listed{}, errNoSkill()
		}
	case v.caller.May(access.Read) && strings.EqualFold(owner, v.caller.OrgName):
		// The first one is the caller's own, see listed.
		shelves = shelves[:1]
	default:
		var err error
		if shelves, err = s.ownedBy(ctx, slug, owner); err != nil {
			return registry.Listed{}, err
		}
	}
	for _, sh := range shelves {
		l, err := s.Catalog.Skill(ctx, sh, slug)
		if !fault.Is(err, fault.NotFound) {
			return l, err
		}
	}
	return registry.Listed{}, errNoSkill()
}

func errNoSkill() error { return fault.New(fault.NotFound, "Skill not found") }

// maxPublishers is how many organisations an ambiguous handle names.
const maxPublishers = 10

// ownedBy returns the shelf of the organisation with a handle that publishes a
// skill. Clients send handles in lower case. Of two organisations whose names
// differ in case only, none is guessed: one could publish in the other's name.
func (s *Service) ownedBy(ctx context.Context, slug, owner string) ([]registry.Shelf, error) {
	names, err := registry.OrgsOffering(ctx, s.DB, slug, owner, maxPublishers)
	if err != nil {
		return nil, err
	}
	if len(names) < 2 {
		shelves := make([]registry.Shelf, len(names))
		for i, name := range names {
			shelves[i].OrgName = name
		}
		return shelves, nil
	}
	several := &ambiguousError{
		Code: "AMBIGUOUS_SKILL_SLUG", Slug: slug,
		Message: "Several organisations are called " + owner + "; use the registry address of the one you mean",
	}
	for _, name := range names {
		several.Matches = append(several.Matches, ambiguousMatch{
			OwnerHandle: name, Slug: slug, Ref: "@" + name + "/" + slug, URL: s.PublicURL + catalog.BaseOf(name),
		})
	}
	return nil, several
}

// An ambiguousError is the answer to a handle that several organisations have.
type ambiguousError struct {
	Code    string           `json:"code"`
	Message string           `json:"message"`
	Slug    string           `json:"slug"`
	Matches []ambiguousMatch `json:"matches"`
}

// An ambiguousMatch is one of the organisations that a handle may mean. URL is the
// registry address that means this organisation only.
type ambiguousMatch struct {
	OwnerHandle string `json:"ownerHandle"`
	Slug        string `json:"slug"`
	Ref         string `json:"ref"`
	URL         string `json:"url"`
}

func (e *ambiguousError) Error() string { return e.Message }
