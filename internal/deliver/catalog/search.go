package catalog

import (
	"cmp"
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

const (
	defaultFound = 20
	maxFound     = 100
	maxQuery     = 200 // bytes; what comes after is not looked at
)

// A foundSkill is a result as "npx skills find" reads it: it shows the name, the
// source and the installs, and installs from the source.
type foundSkill struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Source   string `json:"source"`
	Installs int    `json:"installs"`
}

// handleSearch searches the names and descriptions of a shelf for all words of q.
func (s *Service) handleSearch(w http.ResponseWriter, r *http.Request, sh Shelf) error {
	list, err := s.Listing(r.Context(), sh.Shelf)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit < 1 {
		limit = defaultFound
	}
	out := struct {
		Skills []foundSkill `json:"skills"`
	}{[]foundSkill{}}
	for _, l := range Search(list, query.Get("q"), query.Get("owner"), min(limit, maxFound)) {
		out.Skills = append(out.Skills, foundSkill{
			// The address of the skill's own index, see indexOfOne.
			ID: path.Join(l.OrgName, l.Name), Name: l.Name, Source: s.PublicURL + path.Join(sh.Base, "/", l.Name),
			Installs: l.InstallationCount,
		})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", sh.CacheControl())
	return json.NewEncoder(w).Encode(out)
}

// Search returns the skills that have all words of a query in their name or
// description: those with one in the name first, then by installations.
func Search(list Listing, query, owner string, limit int) []*registry.Listed {
	// A letter that is cut in half at the limit matches nothing, and is no error.
	words := strings.Fields(strings.ToLower(query[:min(len(query), maxQuery)]))
	type hit struct {
		*registry.Listed
		named bool
	}
	var hits []hit
	for i := range list {
		l := &list[i]
		if owner != "" && !strings.EqualFold(owner, l.OrgName) {
			continue
		}
		// Names are in lower case already.
		text, h := strings.ToLower(l.Description), hit{Listed: l}
		missing := slices.ContainsFunc(words, func(word string) bool {
			inName := strings.Contains(l.Name, word)
			h.named = h.named || inName
			return !inName && !strings.Contains(text, word)
		})
		if !missing {
			hits = append(hits, h)
		}
	}
	// Stable, so that equal hits keep the order of the list, which is by name.
	slices.SortStableFunc(hits, func(a, b hit) int {
		if a.named != b.named {
			return cmp.Compare(btoi(b.named), btoi(a.named))
		}
		return cmp.Compare(b.InstallationCount, a.InstallationCount)
	})
	found := make([]*registry.Listed, min(limit, len(hits)))
	for i := range found {
		found[i] = hits[i].Listed
	}
	return found
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
