package repohost

import (
	"context"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/host"
)

// Owners is called before a commit is published, with the head of the connection's
// branch and a function that reads a file of it. No file at the path is fault.NotFound,
// and one that is larger than the limit fault.TooLarge.
type Owners interface {
	ReadOwners(ctx context.Context, c Connection, commit string, file func(path string, limit int64) ([]byte, error)) error
}

// readOwners reads the owners at the head of the branch: a tag may be of any age. What
// fails for good does not keep the version back.
func (s *Service) readOwners(ctx context.Context, c Connection, repo host.Repo, head string) error {
	err := s.Owners.ReadOwners(ctx, c, head, func(path string, limit int64) ([]byte, error) {
		content, err := s.Host.File(ctx, repo, head, path, limit)
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
