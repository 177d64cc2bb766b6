package installations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/platform/store"
)

// Fleets counts the machines of users by what they have, and how many of the users have any.
// Machines that wait for their digest are a fleet with an empty one.
func (s *Service) Fleets(ctx context.Context, orgID string, userIDs []string) (all []Fleet, users int, err error) {
	in, list := s.DB.Dialect().In("$2", userIDs)
	rows, err := s.DB.Query(ctx, `
		SELECT digest, COUNT(*) FROM installation_machines WHERE org_id = $1 AND user_id`+in+` GROUP BY digest`, orgID, list)
	all, err = store.All(rows, err, func(row store.Row) (f Fleet, err error) {
		err = row.Scan(&f.Digest, &f.Machines)
		return f, err
	})
	if err != nil {
		return nil, 0, err
	}
	rows, err = s.DB.Query(ctx, `
		SELECT COUNT(DISTINCT user_id) FROM installation_machines WHERE org_id = $1 AND user_id`+in, orgID, list)
	users, err = store.One(rows, err, "Machines", store.Value[int])
	return all, users, err
}

// eachHeld calls fn for what is installed anywhere of users.
func eachHeld(ctx context.Context, q store.Querier, userIDs []string, fn func(userID string, i Installation)) error {
	in, list := q.Dialect().In("$1", userIDs)
	rows, err := q.Query(ctx, `
		SELECT user_id, entry_id, device_id, content_hash FROM registry_installations
		WHERE user_id`+in+` AND content_hash <> ''`, list)
	return store.Each(rows, err, func(row store.Row) error {
		var userID string
		var i Installation
		if err := row.Scan(&userID, &i.EntryID, &i.DeviceID, &i.ContentHash); err != nil {
			return err
		}
		fn(userID, i)
		return nil
	})
}

func scanMachine(row store.Row) (m Machine, err error) {
	err = row.Scan(&m.UserID, &m.DeviceID, &m.Digest)
	return m, err
}

// MachinesAfter returns up to limit machines of users, in the order of user and device.
func (s *Service) MachinesAfter(
	ctx context.Context, orgID string, userIDs []string, after Machine, limit int,
) ([]Machine, error) {
	in, list := s.DB.Dialect().In("$2", userIDs)
	rows, err := s.DB.Query(ctx, `
		SELECT user_id, device_id, digest FROM installation_machines
		WHERE org_id = $1 AND user_id`+in+` AND (user_id, device_id) > ($3, $4) ORDER BY user_id, device_id LIMIT $5`,
		orgID, list, after.UserID, after.DeviceID, limit)
	return store.All(rows, err, scanMachine)
}

// With returns the machines of users that have one of the digests, e.g. the empty one.
func (s *Service) With(ctx context.Context, orgID string, userIDs, digests []string) ([]Machine, error) {
	in, list := s.DB.Dialect().In("$2", userIDs)
	of, digestList := s.DB.Dialect().In("$3", digests)
	rows, err := s.DB.Query(ctx, `
		SELECT user_id, device_id, digest FROM installation_machines WHERE org_id = $1 AND user_id`+in+` AND digest`+of,
		orgID, list, digestList)
	return store.All(rows, err, scanMachine)
}

// Holdings returns what digests stand for, from memory where it is known: it never changes.
func (s *Service) Holdings(ctx context.Context, orgID string, digests []string) (map[string]Holding, error) {
	s.once.Do(s.init)
	all := make(map[string]Holding, len(digests))
	var missing []string
	for _, digest := range digests {
		if known, ok := s.holdings.Get(holdingKey{orgID, digest}); ok {
			all[digest] = known
		} else {
			missing = append(missing, digest)
		}
	}
	if len(missing) == 0 {
		return all, nil
	}
	in, list := s.DB.Dialect().In("$2", missing)
	rows, err := s.DB.Query(ctx, `
		SELECT digest, holdings FROM installation_holdings WHERE org_id = $1 AND digest`+in, orgID, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var digest, text string
		if err := row.Scan(&digest, &text); err != nil {
			return err
		}
		h := Holding{}
		for line := range strings.SplitSeq(text, "\n") {
			if entryID, hash, ok := strings.Cut(line, " "); ok {
				h[entryID] = append(h[entryID], hash)
			}
		}
		s.holdings.Put(holdingKey{orgID, digest}, h, int64(3*len(text)+200))
		all[digest] = h
		return nil
	})
	return all, err
}

// recount writes the digests of a user's devices anew. It must be called in the transaction of
// every change of their records. It locks the machines before it reads the records: of two reports
// of one machine, the later one counts what the other has written.
func recount(ctx context.Context, tx *store.Tx, orgID, userID string, devices []string) error {
	slices.Sort(devices)
	devices = slices.Compact(devices)
	for _, device := range devices {
		_, err := tx.Exec(ctx, `
			INSERT INTO installation_machines (user_id, device_id, org_id, digest) VALUES ($1, $2, $3, '')
			ON CONFLICT (user_id, device_id) DO UPDATE SET org_id = excluded.org_id`, userID, device, orgID)
		if err != nil {
			return err
		}
	}
	held := map[string][]string{} // lines, by device
	in, list := tx.Dialect().In("$2", devices)
	rows, err := tx.Query(ctx, `
		SELECT entry_id, device_id, content_hash FROM registry_installations WHERE user_id = $1 AND device_id`+in, userID, list)
	err = store.Each(rows, err, func(row store.Row) error {
		var entryID, device, hash string
		err := row.Scan(&entryID, &device, &hash)
		lines := held[device]
		if hash != "" { // else nothing is installed there
			lines = append(lines, entryID+" "+hash)
		}
		held[device] = lines
		return err
	})
	if err != nil {
		return err
	}
	for _, device := range devices {
		lines, there := held[device]
		if !there {
			_, err := tx.Exec(ctx, `DELETE FROM installation_machines WHERE user_id = $1 AND device_id = $2`, userID, device)
			if err != nil {
				return err
			}
			continue
		}
		slices.Sort(lines)
		text := strings.Join(slices.Compact(lines), "\n")
		sum := sha256.Sum256([]byte(text))
		digest := hex.EncodeToString(sum[:])
		// Touched even if it is there, which keeps the job that drops holdings from it.
		_, err := tx.Exec(ctx, `
			INSERT INTO installation_holdings (org_id, digest, holdings) VALUES ($1, $2, $3)
			ON CONFLICT (org_id, digest) DO UPDATE SET digest = excluded.digest`, orgID, digest, text)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE installation_machines SET digest = $3 WHERE user_id = $1 AND device_id = $2`,
			userID, device, digest)
		if err != nil {
			return err
		}
	}
	return nil
}

// recountWaiting recounts the machines of all organisations that wait for it, and drops holdings of
// no machine.
func (s *Service) recountWaiting(ctx context.Context, _ recountMachines) error {
	for done := false; !done; {
		err := s.DB.InTx(ctx, func(tx *store.Tx) error {
			rows, err := tx.Query(ctx, `
				SELECT user_id, device_id, org_id FROM installation_machines WHERE digest = ''
				ORDER BY user_id, device_id LIMIT $1`,
				recountBatch)
			waiting, err := store.All(rows, err, func(row store.Row) (w [3]string, err error) {
				err = row.Scan(&w[0], &w[1], &w[2])
				return w, err
			})
			done = len(waiting) < recountBatch
			for _, w := range waiting {
				if err == nil {
					err = recount(ctx, tx, w[2], w[0], []string{w[1]})
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := s.DB.Exec(ctx, `
		DELETE FROM installation_holdings WHERE NOT EXISTS (
			SELECT 1 FROM installation_machines m
			WHERE m.org_id = installation_holdings.org_id AND m.digest = installation_holdings.digest)`)
	return err
}

// awaitMachines marks the machines that have an entry as waiting for their digest. One whose
// last record is of that entry is gone with it.
func awaitMachines(ctx context.Context, tx *store.Tx, entryID string) error {
	const having = `(user_id, device_id) IN (SELECT user_id, device_id FROM registry_installations WHERE entry_id = $1)`
	_, err := tx.Exec(ctx, `
		DELETE FROM installation_machines WHERE `+having+` AND NOT EXISTS (
			SELECT 1 FROM registry_installations o WHERE o.user_id = installation_machines.user_id
				AND o.device_id = installation_machines.device_id AND o.entry_id <> $1)`, entryID)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE installation_machines SET digest = '' WHERE `+having, entryID)
	return err
}
