package gates

import (
	"context"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/publish/sources"
)

// Owners knows who owns entries. The package teams implements it.
type Owners interface {
	// OwnsAs reports whether the caller owns an entry and may use that: keys that were
	// narrowed may not.
	OwnsAs(ctx context.Context, q store.Querier, c access.Caller, entryID string) (bool, error)
}

// Guard says who may change what gates read.
type Guard struct{ Owners Owners } // nil: only admins may

// MayChange implements sources.Guard. What an enforcing gate reads is as well guarded as
// its policy: an admin may change it, or who owns every entry whose gate reads it. Without it,
// whoever can edit a suite could delete the case that their version fails.
func (g Guard) MayChange(ctx context.Context, q store.Querier, c access.Caller, in sources.GateInput) error {
	if c.May(access.Admin) {
		return nil
	}
	r, err := readersOf(ctx, q, c.OrgID, in)
	if err != nil || !r.any() {
		return err
	}
	owns := len(r.entries) > 0 // of the default policy alone there is no owner
	for _, e := range r.entries {
		if !owns {
			break
		}
		if owns, err = g.owns(ctx, q, c, e.id); err != nil {
			return err
		}
	}
	if owns {
		return nil
	}
	return fault.New(fault.Denied, "%s; an admin may change it%s", r.why(), r.owners()).WithCode(sources.Protected)
}

// owns reports whether the caller owns an entry. Without Owners nobody does, and only admins
// may change what gates read.
func (g Guard) owns(ctx context.Context, q store.Querier, c access.Caller, entryID string) (bool, error) {
	if g.Owners == nil {
		return false, nil
	}
	return g.Owners.OwnsAs(ctx, q, c, entryID)
}

// readers are the entries whose enforcing gate reads something.
type readers struct {
	byDefault bool // the organisation's default policy names it
	entries   []reader
}

type reader struct{ id, name string }

func (r readers) any() bool { return r.byDefault || len(r.entries) > 0 }

// maxNamed is how many entries a refusal names.
const maxNamed = 5

// why says what reads it, e.g. "The enforced gates of csv and pdf read this".
func (r readers) why() string {
	if len(r.entries) == 0 {
		return "The organisation's default gate policy enforces this suite"
	}
	names := make([]string, 0, maxNamed)
	for _, e := range r.entries[:min(maxNamed, len(r.entries))] {
		names = append(names, e.name)
	}
	if more := len(r.entries) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	last := len(names) - 1
	if last == 0 {
		return "The enforced gate of " + names[0] + " reads this"
	}
	return "The enforced gates of " + strings.Join(names[:last], ", ") + " and " + names[last] + " read this"
}

// owners continues the sentence of why with who else may change the input, "" if only admins.
func (r readers) owners() string {
	switch len(r.entries) {
	case 0:
		return ""
	case 1:
		return ", or an owner of " + r.entries[0].name
	}
	return ", or a person who owns all of them"
}
