package registry

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
)

const (
	// versionsRead is how many versions are read at once for an answer with all
	// of them.
	versionsRead = 200
	// manifestsRead is how many bytes of their manifests are: a single one can
	// have half a megabyte.
	manifestsRead = 1 << 20
)

// streamVersions answers with the fields of head and all versions of an entry. It
// reads and sends them piece by piece, so that neither their number nor a slow
// client takes memory or a connection to the database.
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
				s.Log.Error("versions were cut off", "entry", e.ID, "error", err)
				panic(http.ErrAbortHandler) // or the client could take these for all
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

	read []Version // and not told of yet
	end  *Version  // the last one that was read
}

// A streamedVersion passes the manifest on as it is stored.
type streamedVersion struct {
	versionOutput
	FileManifest json.RawMessage `json:"file_manifest"`
}

// next returns some more versions in JSON, separated by commas; none at the end.
func (r *versionReader) next(ctx context.Context) (text []byte, err error) {
	s := r.service
	if len(r.read) == 0 {
		if r.read, err = versionsAfter(ctx, s.DB, r.entry, r.end, versionsRead); err != nil || len(r.read) == 0 {
			return nil, err
		}
		r.end = &r.read[len(r.read)-1]
	}
	some := r.take()
	ids := make([]string, len(some))
	for i, v := range some {
		ids[i] = v.ID
	}
	manifests, err := manifestTexts(ctx, s.DB, ids)
	if err != nil {
		return nil, err
	}
	quality, err := s.Skills.Quality(ctx, s.DB, ids)
	if err != nil {
		return nil, err
	}
	for _, v := range some {
		manifest, ok := manifests[v.ID]
		if !ok {
			continue // deleted a moment ago
		}
		out := streamedVersion{newVersionOutput(r.entry, v), json.RawMessage(manifest)}
		if q := quality[v.ID]; r.own {
			out.AggregatePassRate, out.AggregateSessions, out.AggregateTriggerRate = q.PassRate, q.Sessions, q.TriggerRate
		} else {
			out.PushedBy = nil
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

// take returns the next versions whose manifests together are not too large, at
// least one.
func (r *versionReader) take() []Version {
	n, size := 0, int64(0)
	for n < len(r.read) && (n == 0 || size+r.read[n].manifestSize <= manifestsRead) {
		size += r.read[n].manifestSize
		n++
	}
	some := r.read[:n]
	r.read = r.read[n:]
	return some
}
