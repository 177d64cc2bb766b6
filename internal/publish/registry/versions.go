package registry

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// Sizes of a page, which bound the memory that one request takes.
const (
	// pageVersions is how many versions one query reads.
	pageVersions = 200
	// pageManifests limits the manifests read at once, in bytes: a single one can take
	// half a megabyte.
	pageManifests = 1 << 20
)

// streamVersions replies with the fields of head and the array of all versions, as one
// JSON object. It reads and sends page by page, so that neither many versions nor a slow
// client hold memory or a database connection. Errors on the first page are still proper
// replies.
func (s *Service) streamVersions(ctx context.Context, e Entry, own bool, head any) (httpapi.Stream, error) {
	all := &versionReader{service: s, entry: e, own: own}
	first, err := all.next(ctx)
	if err != nil {
		return nil, err
	}
	if len(first) == 0 { // every entry has a version: this one was deleted in between
		return nil, fault.New(fault.NotFound, "Registry entry not found")
	}
	start, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	start = start[:len(start)-1] // without its closing brace
	if len(start) > 1 {
		start = append(start, ',')
	}
	start = append(start, `"versions":[`...)
	start = append(start, first...)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for piece := start; ; {
			if _, err := w.Write(piece); err != nil {
				return // the client is gone
			}
			more, err := all.next(ctx)
			if err != nil {
				s.Log.Error("the answer with versions was truncated", "entry", e.ID, "error", err)
				panic(http.ErrAbortHandler) // closes the connection, so that the client can't take a partial list for complete
			}
			if len(more) == 0 {
				break
			}
			piece = append([]byte{','}, more...)
		}
		_, _ = w.Write([]byte("]}\n")) // the client is gone if this fails
	}, nil
}

// A versionReader pages through the versions of an entry, newest first.
type versionReader struct {
	service *Service
	entry   Entry
	own     bool // show what only the entry's own organisation may see

	page   []Version // read but not yet returned
	cursor *Version  // the last one read
}

// A streamedVersion embeds the manifest as stored: decoding and encoding it again would
// take most of the request's time.
type streamedVersion struct {
	api.Version
	FileManifest json.RawMessage `json:"file_manifest"`
}

// next returns the next versions as JSON objects separated by commas; empty at the end.
func (r *versionReader) next(ctx context.Context) (text []byte, err error) {
	s := r.service
	if len(r.page) == 0 {
		if r.page, err = versionsAfter(ctx, s.DB, r.entry, r.own, r.cursor, pageVersions); err != nil || len(r.page) == 0 {
			return nil, err
		}
		r.cursor = &r.page[len(r.page)-1]
	}
	// Take versions up to pageManifests bytes of manifests, but at least one.
	n, size := 0, int64(0)
	for n < len(r.page) && (n == 0 || size+r.page[n].manifestSize <= pageManifests) {
		size += r.page[n].manifestSize
		n++
	}
	some := r.page[:n]
	r.page = r.page[n:]
	manifests, err := manifestTexts(ctx, s.DB, ids(some))
	if err != nil {
		return nil, err
	}
	var quality map[string]skills.Quality
	if r.own {
		if quality, err = s.Skills.QualityWithCost(ctx, r.entry.OrgID, ids(some)); err != nil {
			return nil, err
		}
	}
	for _, v := range some {
		manifest, ok := manifests[v.ID]
		if !ok {
			continue // deleted in between
		}
		out := streamedVersion{NewVersionOutput(r.entry, v), json.RawMessage(manifest)}
		if q := quality[v.ID]; r.own {
			out.AggregatePassRate, out.AggregateSessions, out.AggregateTriggerRate = q.PassRate, q.Sessions, q.TriggerRate
			out.PassRateBasis, out.BasisCounts, out.Cost = (*string)(q.PassRates.Basis), api.BasisCounts(q.Bases), q.Cost
		} else {
			out.PushedBy, out.GateID = nil, nil
		}
		one, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		if len(text) > 0 {
			text = append(text, ',')
		}
		text = append(text, one...)
	}
	return text, nil
}
