package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// Owners is a hook that reads the owners of an entry from its repository. It's called
// before a commit is published, with the head of the connection's branch and a function
// to read a file at that commit. A missing file is fault.NotFound, one over the limit
// fault.TooLarge.
type Owners interface {
	ReadOwners(ctx context.Context, c Connection, commit string, file func(path string, limit int64) ([]byte, error)) error
}

// readOwners reads owners at the head of the branch, even for a tag, which may be of any
// age. A permanent failure is only logged: it must not block the version.
func (s *Service) readOwners(ctx context.Context, c Connection, repo host.Repo, head string) error {
	err := s.Owners.ReadOwners(ctx, c, head, func(path string, limit int64) ([]byte, error) {
		content, err := s.Host.File(ctx, repo, head, path, limit)
		// The network call took time. If the connection was changed meanwhile, the file
		// is another folder's or branch's, and must not be stored as its owners.
		if now, gone := connectionByID(ctx, s.DB, c.ID); gone == nil && !now.ChosenAt.Equal(c.ChosenAt) {
			return nil, fault.New(fault.Conflict, "The connection publishes from somewhere else now")
		}
		return content, err
	})
	if err == nil || ctx.Err() != nil || isTransient(err) {
		return err
	}
	s.Log.Warn("the owners of an entry could not be read", "connection", c.ID, "commit", head, "error", err)
	return nil
}
