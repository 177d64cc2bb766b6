package repohost

import (
	"context"
	"fmt"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/engine/host"
	"github.com/whetstone-dev/whetstone/internal/platform/seal"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// A token grants access to the whole account, so it's encrypted (sealed) in the database.
// Only an Installation that is about to be used has it in plain text.

// TakesToken reports whether installations can have their own token.
func (s *Service) TakesToken() bool {
	return slices.Contains([]host.Provider{host.Gitea, host.GitLab}, s.Host.Provider())
}

// Subgroups reports whether the owner of a repository can have several parts, e.g.
// "acme/tools".
func (s *Service) Subgroups() bool { return s.Host != nil && s.Host.Provider() == host.GitLab }

// sealed returns the installation with its token encrypted; "" becomes nil.
func (s *Service) sealed(i Installation) Installation {
	if i.Token == nil || *i.Token == "" {
		i.Token = nil
		return i
	}
	sealed := string(s.Seal.Seal([]byte(*i.Token), i.tokenPlace()))
	i.Token = &sealed
	return i
}

// tokenPlace binds the sealed token to its row, by fields that survive binding the
// installation again.
func (i Installation) tokenPlace() seal.Place {
	return seal.Place{Table: "repohost_installations", Column: "token", Row: fmt.Sprintf("%s/%d", i.OrgID, i.InstallationID)}
}

// Reseal re-encrypts, with the keyring's first key, every token encrypted with another
// key, and returns their number. A token that can't be decrypted is an error.
func (s *Service) Reseal(ctx context.Context, tx *store.Tx) (count int, err error) {
	all, err := installationsWithToken(ctx, tx)
	if err != nil {
		return 0, err
	}
	for _, i := range all {
		renewed, changed, err := s.Seal.Renew([]byte(*i.Token), i.tokenPlace())
		if err != nil {
			return count, err
		}
		if !changed {
			continue
		}
		if err := updateToken(ctx, tx, i.ID, string(renewed)); err != nil {
			return count, err
		}
		count++
	}
	return count, nil
}
