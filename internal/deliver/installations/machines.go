package installations

import (
	"context"
	"slices"
	"time"
)

// A machine is a device of a user, or what the user's records without a device say together.
// The table installation_machines has what is installed on each as a digest, and
// installation_holdings what a digest stands for: machines that have the same skills share one,
// so that a question about ten thousand machines is answered from a few of them.

// A Machine is a device of a user with the digest of what it has.
type Machine struct{ UserID, DeviceID, Digest string }

// A Holding is what a machine has: the contents of each entry, which are several if it is
// installed in several folders.
type Holding map[string][]string

// maxHoldings bounds the bytes of cached holdings.
const maxHoldings = 16 << 20

// A Fleet counts machines that have the same skills.
type Fleet struct {
	Digest   string
	Machines int
}

// Held returns what machines have, from their records: it reads all of these, and is for
// machines without a digest.
func (s *Service) Held(ctx context.Context, all []Machine) (map[Machine]Holding, error) {
	held := make(map[Machine]Holding, len(all))
	byPlace := map[[2]string]Machine{}
	var userIDs []string
	for _, m := range all {
		held[m], byPlace[[2]string{m.UserID, m.DeviceID}] = Holding{}, m
		userIDs = append(userIDs, m.UserID)
	}
	err := eachHeld(ctx, s.DB, userIDs, func(userID string, r Installation) {
		m, asked := byPlace[[2]string{userID, r.DeviceID}]
		if asked && !slices.Contains(held[m][r.EntryID], r.ContentHash) {
			held[m][r.EntryID] = append(held[m][r.EntryID], r.ContentHash)
		}
	})
	return held, err
}

type holdingKey struct{ orgID, digest string }

// recountMachines is the job that computes digests that are missing, e.g. after an upgrade, and
// drops holdings that no machine has.
type recountMachines struct{}

// Kind names the job.
func (recountMachines) Kind() string { return "registry.recount-machines" }

const (
	// recountEvery is how often the job runs, and recountBatch how many machines it recounts
	// in one transaction.
	recountEvery = time.Hour
	recountBatch = 200
)
