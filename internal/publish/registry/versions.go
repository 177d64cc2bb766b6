package registry

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

const (
	// pageVersions is how many versions are read from the database at once.
	pageVersions = 200
	// pageManifests is how many bytes of their manifests are: a single one can
	// have half a megabyte.
	pageManifests = 1 << 20
)

// streamVersions answers with the fields of head and all versions of an entry. It
// reads and sends them page by page, so that neither their number nor a slow
// client holds memory or a database connection.
func (s *Service) streamVersions(ctx context.Context, e Entry, own bool, head any) (httpapi.Stream, error) {
	all := &versionReader{service: s, entry: e, own: own}
	first, err := all.next(ctx)
	if err != nil {
		return nil, err
	}
	if len(first) == 0 { // every entry has a version: this one was deleted since it was read
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
				panic(http.ErrAbortHandler) // closes the connection: the client must not take these for all
			}
			if len(more) == 0 {
				break
			}
			piece = append([]byte{','}, more...)
		}
		_, _ = w.Write([]byte("]}\n")) // the client is gone if this fails
	}, nil
}

// A versionReader reads the versions of an entry, newest push first.
type versionReader struct {
	service *Service
	entry   Entry
	own     bool // for the entry's own organisation

	page   []Version // read, and not returned yet
	cursor *Version  // the last one read
}

// A streamedVersion has the manifest as the JSON that is stored: decoding and
// encoding it again would take most of the time of the request.
type streamedVersion struct {
	VersionOutput
	FileManifest json.RawMessage `json:"file_manifest"`
}

// next returns more versions in JSON, separated by commas; none at the end.
func (r *versionReader) next(ctx context.Context) (text []byte, err error) {
	s := r.service
	if len(r.page) == 0 {
		if r.page, err = versionsAfter(ctx, s.DB, r.entry, r.own, r.cursor, pageVersions); err != nil || len(r.page) == 0 {
			return nil, err
		}
		r.cursor = &r.page[len(r.page)-1]
	}
	// As many as have manifests of pageManifests bytes together, at least one.
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
			continue // deleted a moment ago
		}
		out := streamedVersion{NewVersionOutput(r.entry, v), json.RawMessage(manifest)}
		if q := quality[v.ID]; r.own {
			out.AggregatePassRate, out.AggregateSessions, out.AggregateTriggerRate = q.PassRate, q.Sessions, q.TriggerRate
			out.PassRateBasis, out.VersionBasisCounts, out.Cost = q.PassRates.Basis, basisOutput(q.Bases), q.Cost
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
