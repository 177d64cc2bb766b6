package repohost

import (
	"context"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/host"
	"github.com/whetstone-dev/whetstone/internal/seal"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// Whoever has a token can do with the account what it allows: the database has
// it sealed. Only an installation that is about to be used has it plain.

const maxToken = 500

// TakesToken reports whether the code host knows tokens of accounts.
func (s *Service) TakesToken() bool { return s.Host.Provider() == host.Gitea }

// goodToken keeps out what cannot stand in a header.
func goodToken(token string) bool {
	return len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// sealed is the installation as the database keeps it.
func (s *Service) sealed(i Installation) Installation {
	if i.Token == nil || *i.Token == "" {
		i.Token = nil
		return i
	}
	sealed := string(s.Seal.Seal([]byte(*i.Token), i.tokenPlace()))
	i.Token = &sealed
	return i
}

// open is the installation that the database keeps.
func (s *Service) open(i Installation) (Installation, error) {
	if i.Token == nil {
		return i, nil
	}
	plain, err := s.Seal.Open([]byte(*i.Token), i.tokenPlace())
	if err != nil {
		return i, err
	}
	token := string(plain)
	i.Token = &token
	return i, nil
}

// tokenPlace names the row by what stays when it is bound again.
func (i Installation) tokenPlace() seal.Place {
	return seal.Place{Table: "repohost_installations", Column: "token", Row: fmt.Sprintf("%s/%d", i.OrgID, i.InstallationID)}
}

// Reseal seals with the keyring's first key what was not, and returns how much
// that was. A token that the keyring does not open is an error.
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
