package sets

import (
	"context"
	"encoding/base64"
	"slices"
	"sort"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
)

// A Coverage says who has a set.
type Coverage struct {
	Machines     []Machine
	Complete, Of int    // of all machines, not only those of the page
	Next         string // cursor of the next page; "" at the end
}

// A Machine is a device of someone who should have a set.
type Machine struct {
	UserID, Person string
	Device         string // "" if the client names none
	Gap
}

// A Gap is what a machine lacks of a set, by the names of its entries.
type Gap struct {
	Missing, Behind []string
	Extra           int
}

// Complete reports whether nothing is missing or behind.
func (g Gap) Complete() bool { return len(g.Missing)+len(g.Behind) == 0 }

// gap compares what a machine has with the set. What the set can't give is neither missing nor
// behind. A copy with other content than the set's version is behind, whether it is older, newer
// or edited.
func (s Set) gap(has installations.Holding) Gap {
	g := Gap{Missing: []string{}, Behind: []string{}, Extra: len(has)}
	for _, e := range s.Entries {
		hashes, there := has[e.EntryID]
		if there {
			g.Extra--
		}
		other := func(hash string) bool { return hash != e.Pick.Hash && hash != e.Pick.CanonicalHash }
		switch {
		case e.Pick.VersionID == "":
		case !there:
			g.Missing = append(g.Missing, e.Pick.Name)
		case slices.ContainsFunc(hashes, other):
			g.Behind = append(g.Behind, e.Pick.Name)
		}
	}
	return g
}

// Coverage compares the machines of the set's teams with it, of which it returns up to limit after
// a cursor. Members without an installation count as a machine each. It reads a digest for each
// machine, and what a digest stands for once.
func (s *Service) Coverage(ctx context.Context, orgID, id, cursor string, limit int) (c Coverage, err error) {
	defer fault.Wrap(&err, "coverage of set %s", id)
	var after installations.Machine
	if cursor != "" {
		raw, err := base64.RawURLEncoding.DecodeString(cursor)
		user, device, ok := strings.Cut(string(raw), "\x00")
		if err != nil || !ok || !text.Valid(user+device) {
			return c, fault.Invalid("cursor", "cursor must be the next_cursor of an answer")
		}
		after = installations.Machine{UserID: user, DeviceID: device}
	}
	set, err := s.Get(ctx, orgID, id)
	if err != nil {
		return c, err
	}
	c.Machines = []Machine{}
	people, err := s.Teams.MemberIDs(ctx, orgID, set.Teams)
	if err != nil || len(people) == 0 {
		return c, err
	}
	gaps, err := s.count(ctx, set, people, &c)
	if err != nil {
		return c, err
	}
	// One more than the page tells whether another one follows.
	rows, err := s.Installations.MachinesAfter(ctx, orgID, people, after, limit+1)
	if err != nil {
		return c, err
	}
	page := withIdle(people, rows, after, limit+1)
	if len(page) > limit {
		page = page[:limit]
		c.Next = base64.RawURLEncoding.EncodeToString([]byte(placeOf(page[limit-1])))
	}
	return c, s.show(ctx, set, page, gaps, &c)
}

// count fills in the totals, and returns the gaps of machines by digest. Those without one are
// compared by their records, and have "" in front of their user and device.
func (s *Service) count(ctx context.Context, set Set, people []string, c *Coverage) (map[string]Gap, error) {
	fleets, users, err := s.Installations.Fleets(ctx, set.OrgID, people)
	if err != nil {
		return nil, err
	}
	digests := make([]string, len(fleets))
	for i, f := range fleets {
		digests[i] = f.Digest
	}
	held, err := s.Installations.Holdings(ctx, set.OrgID, digests)
	if err != nil {
		return nil, err
	}
	idle := len(people) - users
	none := set.gap(nil)
	c.Of = idle
	if none.Complete() {
		c.Complete = idle
	}
	gaps := map[string]Gap{}
	var unknown []string
	for _, f := range fleets {
		c.Of += f.Machines
		has, known := held[f.Digest]
		if !known { // it waits for its digest, or was counted anew meanwhile
			unknown = append(unknown, f.Digest)
			continue
		}
		gap := set.gap(has)
		gaps[f.Digest] = gap
		if gap.Complete() {
			c.Complete += f.Machines
		}
	}
	if len(unknown) == 0 {
		return gaps, nil
	}
	machines, err := s.Installations.With(ctx, set.OrgID, people, unknown)
	if err != nil {
		return nil, err
	}
	exact, err := s.Installations.Held(ctx, machines)
	for m, has := range exact {
		gap := set.gap(has)
		gaps[placeOf(m)] = gap
		if gap.Complete() {
			c.Complete++
		}
	}
	return gaps, err
}

// placeOf is the key of a machine among digests, which have no NUL.
func placeOf(m installations.Machine) string { return m.UserID + "\x00" + m.DeviceID }

// withIdle adds people without a machine, up to limit in all, in the order of their ids.
func withIdle(people []string, machines []installations.Machine, after installations.Machine, limit int,
) []installations.Machine {
	var all []installations.Machine
	for i := sort.SearchStrings(people, after.UserID); i < len(people) && len(all) < limit; i++ {
		id, found := people[i], false
		for len(machines) > 0 && machines[0].UserID == id {
			all, machines, found = append(all, machines[0]), machines[1:], true
		}
		// Of the cursor's own user, what comes before the cursor was on the page before.
		if !found && id != after.UserID {
			all = append(all, installations.Machine{UserID: id})
		}
	}
	return all[:min(len(all), limit)]
}

// show adds the machines of a page with the names of their people.
func (s *Service) show(
	ctx context.Context, set Set, page []installations.Machine, gaps map[string]Gap, c *Coverage,
) error {
	ids := make([]string, len(page))
	for i, m := range page {
		ids[i] = m.UserID
	}
	users, err := auth.UsersByID(ctx, s.DB, ids)
	for _, m := range page {
		gap, known := gaps[m.Digest]
		if !known {
			gap, known = gaps[placeOf(m)]
		}
		if !known { // without an installation
			gap = set.gap(nil)
		}
		c.Machines = append(c.Machines, Machine{UserID: m.UserID, Person: users[m.UserID].Name, Device: m.DeviceID, Gap: gap})
	}
	return err
}
