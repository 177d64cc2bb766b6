package clawhub

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

const (
	// maxItems bounds the bytes of all shelves that are kept for searches.
	maxItems = 32 << 20
	// maxQuery and maxWords bound a search: characters, and words of them.
	maxQuery = 200
	maxWords = 10
	// defaultLimit and maxLimit are how many results a page has.
	defaultLimit = 25
	maxLimit     = 200
)

// An item is a skill as lists and searches see it.
type item struct {
	registry.Listed
	text string // description in lower case
	own  bool   // of the organisation that asks
}

// items returns what lists and searches show, each slug once. A search reads
// all of it in memory: a shelf has at most some thousand skills, whatever the
// number of their versions.
func (s *Service) items(ctx context.Context, v visit) ([]item, error) {
	var all []item
	seen := map[string]bool{}
	shelves := v.listed()
	for _, sh := range shelves {
		items, err := s.shelves.Get(ctx, sh, "", func(ctx context.Context) ([]item, int64, error) {
			listing, err := s.Catalog.Listing(ctx, sh)
			items, size := make([]item, len(listing)), int64(0)
			for i, l := range listing {
				items[i] = item{Listed: l, text: strings.ToLower(l.Summary()), own: sh.Private}
				// About what an item takes in memory; the cache is bounded by it.
				size += int64(1_000 + len(items[i].text))
			}
			return items, size, err
		})
		// The usual case shares the cached slice: callers must not change it.
		if err != nil || len(shelves) == 1 {
			return items, err
		}
		for _, it := range items {
			// The own shelf comes first, so its skill hides a public one of the same
			// name, as in find.
			if !seen[it.Name] {
				seen[it.Name] = true
				all = append(all, it)
			}
		}
	}
	return all, nil
}

// limitOf reads the number of results that a request asks for. An unusable number is
// the default: clients should not fail for it.
func limitOf(query url.Values) int {
	n, err := strconv.Atoi(query.Get("limit"))
	if err != nil || n < 1 {
		return defaultLimit
	}
	return min(n, maxLimit)
}

type searchOutput struct {
	Results []searchResult `json:"results"`
}

// A searchResult is a skill that a search found. Downloads is only known to the
// skill's own organisation; times are in milliseconds.
type searchResult struct {
	Slug        string  `json:"slug"`
	DisplayName string  `json:"displayName"`
	Summary     string  `json:"summary"`
	Version     *string `json:"version"`
	Score       float64 `json:"score"`
	OwnerHandle string  `json:"ownerHandle"`
	Downloads   *int    `json:"downloads,omitempty"`
	UpdatedAt   int64   `json:"updatedAt"`
}

// handleSearch finds skills by words of their names and descriptions. Both bounds
// protect the scan: its cost is skills times words.
func (s *Service) handleSearch(w http.ResponseWriter, r *http.Request, v visit) error {
	query := r.URL.Query()
	asked := strings.ToLower(strings.TrimSpace(text.TruncateRunes(query.Get("q"), maxQuery)))
	words := strings.Fields(asked)
	words = words[:min(len(words), maxWords)]
	items, err := s.items(r.Context(), v)
	if err != nil {
		return err
	}
	type hit struct {
		*item
		score float64
	}
	var hits []hit
	exact := query.Get("mode") == "exact"
	for i := range items {
		it := &items[i]
		if score := it.score(asked, words); score > 0 && (!exact || it.Name == asked) {
			hits = append(hits, hit{it, score})
		}
	}
	// Of equal scores the newest, since the clients show the first few only.
	slices.SortStableFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), b.UpdatedAt.Compare(a.UpdatedAt))
	})
	out := searchOutput{Results: []searchResult{}}
	for _, h := range hits[:min(len(hits), limitOf(query))] {
		out.Results = append(out.Results, h.result(h.score))
	}
	return answer(w, out)
}

// score says how well an item fits a search, from 0 for not at all to 1 for its own
// name. All words must be there.
func (it *item) score(asked string, words []string) float64 {
	switch {
	case len(words) == 0:
		return 0
	case it.Name == asked:
		return 1
	case strings.HasPrefix(it.Name, asked):
		return 0.9
	}
	inName := 0
	for _, word := range words {
		if strings.Contains(it.Name, word) {
			inName++
		} else if !strings.Contains(it.text, word) {
			return 0
		}
	}
	// Between 0.3 for words in the description and 0.8 for words in the name, below
	// a prefix.
	return 0.3 + 0.5*float64(inName)/float64(len(words))
}

// result leaves out a version that is no semantic one: clients would fail to parse
// it.
func (it *item) result(score float64) searchResult {
	out := searchResult{
		Slug: it.Name, DisplayName: it.Name, Summary: it.Summary(), Version: semVer(it.Current.Version), Score: score,
		OwnerHandle: it.OrgName, UpdatedAt: it.UpdatedAt.UnixMilli(),
	}
	if it.own {
		out.Downloads = &it.InstallationCount
	}
	return out
}

// semVer returns a version that clients can compare, else nil.
func semVer(version string) *string {
	if !isSemVer(version) {
		return nil
	}
	return &version
}

type listOutput struct {
	Items      []listedOutput `json:"items"`
	NextCursor *string        `json:"nextCursor"`
}

type listedOutput struct {
	skillOutput
	LatestVersion *versionOutput `json:"latestVersion,omitempty"`
}

// skillOutput is a skill as all answers of the protocol show it. Tags has "latest"
// only: this registry has no others.
type skillOutput struct {
	Slug        string            `json:"slug"`
	DisplayName string            `json:"displayName"`
	Summary     string            `json:"summary"`
	Tags        map[string]string `json:"tags"`
	Stats       map[string]int    `json:"stats"`
	CreatedAt   int64             `json:"createdAt"`
	UpdatedAt   int64             `json:"updatedAt"`
}

// newSkillOutput tells the number of installations to the skill's own organisation
// only.
func newSkillOutput(l registry.Listed, own bool) skillOutput {
	out := skillOutput{
		Slug: l.Name, DisplayName: l.Name, Summary: l.Summary(), Tags: map[string]string{}, Stats: map[string]int{},
		CreatedAt: l.CreatedAt.UnixMilli(), UpdatedAt: l.UpdatedAt.UnixMilli(),
	}
	if isSemVer(l.Current.Version) {
		out.Tags["latest"] = l.Current.Version
	}
	if own {
		out.Stats["installsCurrent"] = l.InstallationCount
	}
	return out
}

// versionOutput is a version with what its author said about it. The changelog is
// the summary that came with the push.
type versionOutput struct {
	Version   string `json:"version"`
	CreatedAt int64  `json:"createdAt"`
	Changelog string `json:"changelog"`
}

func newVersionOutput(v registry.Version) versionOutput {
	out := versionOutput{Version: v.Version, CreatedAt: v.PushedAt.UnixMilli()}
	if v.ChangeSummary != nil {
		out.Changelog = *v.ChangeSummary
	}
	return out
}

// latestOutput is the current version, unless clients cannot compare it.
func latestOutput(v registry.Version) *versionOutput {
	if !isSemVer(v.Version) {
		return nil
	}
	out := newVersionOutput(v)
	return &out
}

// rank is what a list is sorted by, descending. Ranks by use are 0 for skills of
// others, so that their order tells nothing.
func (it *item) rank(sort string) int64 {
	switch sort {
	case "createdAt", "newest":
		return it.CreatedAt.UnixMicro()
	case "downloads", "installs", "installsCurrent", "installsAllTime", "stars", "trending":
		if it.own {
			return int64(it.InstallationCount)
		}
		return 0
	}
	return it.UpdatedAt.UnixMicro()
}

func (s *Service) handleList(w http.ResponseWriter, r *http.Request, v visit) error {
	query := r.URL.Query()
	sort, prefix := query.Get("sort"), strings.ToLower(strings.TrimSpace(query.Get("prefix")))
	items, err := s.items(r.Context(), v)
	if err != nil {
		return err
	}
	var chosen []*item
	for i := range items {
		if strings.HasPrefix(items[i].Name, prefix) {
			chosen = append(chosen, &items[i])
		}
	}
	slices.SortFunc(chosen, func(a, b *item) int {
		return cmp.Or(cmp.Compare(b.rank(sort), a.rank(sort)), cmp.Compare(a.Name, b.Name))
	})
	// A cursor of another sort is no error: it only starts somewhere else.
	if rank, name, ok := readCursor(query.Get("cursor")); ok {
		// What changed since then may be left out or come twice, but the list ends.
		chosen = slices.DeleteFunc(chosen, func(it *item) bool {
			return cmp.Or(cmp.Compare(rank, it.rank(sort)), cmp.Compare(it.Name, name)) <= 0
		})
	}
	out := listOutput{Items: []listedOutput{}}
	if limit := limitOf(query); len(chosen) > limit {
		chosen = chosen[:limit]
		cursor := newCursor(chosen[limit-1].rank(sort), chosen[limit-1].Name)
		out.NextCursor = &cursor
	}
	ids := make([]string, len(chosen))
	for i, it := range chosen {
		ids[i] = it.Current.ID
	}
	// Only for the page: the cached items do not have the texts of versions.
	versions, err := registry.VersionsByID(r.Context(), s.DB, ids)
	if err != nil {
		return err
	}
	for _, it := range chosen {
		out.Items = append(out.Items, listedOutput{newSkillOutput(it.Listed, it.own), latestOutput(versions[it.Current.ID])})
	}
	return answer(w, out)
}

// newCursor names the last of a page, in a form that clients do not look into.
func newCursor(rank int64, name string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", rank, name))
}

// readCursor reports false for anything but a cursor of ours, which means the first
// page.
func readCursor(cursor string) (rank int64, name string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", false
	}
	number, name, ok := strings.Cut(string(raw), " ")
	rank, err = strconv.ParseInt(number, 10, 64)
	return rank, name, ok && err == nil && text.Valid(name)
}
