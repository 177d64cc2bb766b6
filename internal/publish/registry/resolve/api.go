package resolve

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/treehash"
)

// Mount adds the route that lock files are resolved with.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleResolve, httpapi.Route{
		Permission: access.Read, Method: "POST", Path: "/api/v1/registry/resolve",
		Summary: "Find the versions of what lock files of any client name",
	})
}

// hashInput is a hash in the client's own notation; see treehash.Parse.
type hashInput struct {
	Kind treehash.Kind `json:"kind" enum:"archive,clawhub,clawhub-source,skills-lock,well-known,toolhive,plugin-zip,dirhash" doc:"Whose hash; archive is the SHA-256 of an archive"`
	Hash string        `json:"hash" maxLength:"100" example:"52e0a96a4f749666593447e69292abd777c62eded15d2c3912f690643cf995e0" doc:"As the client writes it; of a plugin also the first 12 digits"`
}

type itemInput struct {
	Name         string      `json:"name,omitempty" maxLength:"200" example:"pdf"`
	Organisation string      `json:"organisation,omitempty" maxLength:"200" doc:"Whose entry the name is; the caller's when omitted"`
	Version      string      `json:"version,omitempty" maxLength:"200" example:"1.2.0"`
	EntryID      string      `json:"entry_id,omitempty" maxLength:"200"`
	FromHere     bool        `json:"from_here,omitempty" doc:"It was installed from this server: then its name finds the entry, even if no hash does"`
	Hashes       []hashInput `json:"hashes,omitempty" maxItems:"8"`
}

type resolveInput struct {
	Body struct {
		Items []itemInput `json:"items" maxItems:"1000" nullable:"false"`
	}
}

// itemOutput is null in every field that the registry doesn't know.
type itemOutput struct {
	State             State   `json:"state" enum:"up_to_date,behind,withdrawn,candidate,modified,unknown" doc:"modified: the entry has no version with these files; unknown: not in this registry, or not visible"`
	MatchedBy         *string `json:"matched_by" enum:"hash,version" doc:"What found the version"`
	EntryID           *string `json:"entry_id" format:"uuid"`
	Name              *string `json:"name"`
	Organisation      *string `json:"organisation" doc:"Whose entry it is"`
	Version           *string `json:"version" doc:"The version that is installed"`
	ContentHash       *string `json:"content_hash" doc:"Of that version"`
	LatestVersion     *string `json:"latest_version" doc:"The current version"`
	LatestContentHash *string `json:"latest_content_hash"`
}

type resolveOutput struct {
	Items []itemOutput `json:"items" nullable:"false" doc:"In the order of the request"`
}

func (s *Service) handleResolve(ctx context.Context, in resolveInput) (resolveOutput, error) {
	items := make([]Item, len(in.Body.Items))
	for n, i := range in.Body.Items {
		items[n] = Item{Name: i.Name, Organisation: i.Organisation, Version: i.Version, EntryID: i.EntryID, Here: i.FromHere}
		for _, h := range i.Hashes {
			items[n].Hashes = append(items[n].Hashes, treehash.Hash{Kind: h.Kind, Hex: h.Hash})
		}
	}
	results, err := s.Resolve(ctx, access.From(ctx).OrgID, items)
	out := resolveOutput{make([]itemOutput, len(results))}
	for n, r := range results {
		out.Items[n] = itemOutput{
			State: r.State, MatchedBy: orNull(r.By), EntryID: orNull(r.EntryID),
			Name: orNull(r.Name), Organisation: orNull(r.Organisation),
			Version: orNull(r.Version), ContentHash: orNull(r.Hash),
			LatestVersion: orNull(r.Latest), LatestContentHash: orNull(r.LatestHash),
		}
	}
	return out, err
}

// orNull is nil for "", which the API shows as null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
