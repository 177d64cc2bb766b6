package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills/curate"
)

// Bundle is the plugin with all skills of an organisation's marketplace. It is
// called "everything-skills" where a skill has its name.
const Bundle = "everything"

// unfit are the characters that the name of a marketplace must not have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Marketplace returns the name of the marketplace with the skills of an
// organisation's registry, e.g. "whetstone-acme".
func Marketplace(orgName string) string { return "whetstone-" + unfit.ReplaceAllString(orgName, "-") }

// ownMarketplace returns the name of the organisation's marketplace.
func ownMarketplace(ctx context.Context, q store.Querier, orgID string) (string, error) {
	name, err := auth.OrgName(ctx, q, orgID)
	return Marketplace(name), err
}

// idHash is what Claude Code reports of a plugin as plugin_id_hash.
func idHash(plugin, marketplace string) string {
	sum := sha256.Sum256([]byte(plugin + "@" + marketplace + "claude-plugin-telemetry-v1"))
	return hex.EncodeToString(sum[:8])
}

// recognise names the marketplace of loads that are known to be from the
// organisation's own one only by the hash of their plugin.
func recognise(ctx context.Context, tx *store.Tx, c access.Caller, loads []Load) ([]Load, error) {
	hashed := func(l Load) bool { return l.Marketplace == "" && l.IDHash != "" }
	if !slices.ContainsFunc(loads, hashed) {
		return loads, nil
	}
	own, err := ownMarketplace(ctx, tx, c.OrgID)
	loads = slices.Clone(loads)
	for i, l := range loads {
		if hashed(l) && l.IDHash == idHash(l.Plugin, own) {
			loads[i].Marketplace = own
		}
	}
	return loads, err
}

// A candidate is a skill "plugin:skill" that has the name of a registry's entry
// after the colon.
type candidate struct {
	plugin, name       string
	entryName, entryID string // the entry's skill
	mergedInto         string // "" for none
	merged             bool   // by mergeOwn
	own, foreign       bool   // sessions loaded the plugin from the own marketplace, from another one
}

// isOwn reports whether the skill is the entry's: the plugin is known to come from
// the organisation's own marketplace, and from no other.
func (k candidate) isOwn() bool {
	return k.own && !k.foreign && (k.plugin == k.entryName || k.plugin == Bundle || k.plugin == Bundle+"-skills")
}

// mergeOwn merges the skills of the plugins of the organisation's own marketplace
// into the entries that they are: "pdf:pdf" and "everything:pdf" into "pdf". It
// takes that back when a session loads a plugin of that name from elsewhere. What
// people merged or unmerged stays as they left it.
func (s *Service) mergeOwn(ctx context.Context, orgID string) (err error) {
	defer fault.Wrap(&err, "merge own plugins")
	own, err := ownMarketplace(ctx, s.DB, orgID)
	if err != nil {
		return err
	}
	candidates, err := candidatesOf(ctx, s.DB, orgID, own)
	if err != nil {
		return err
	}
	for _, k := range candidates {
		into := k.entryID
		switch {
		case k.isOwn() && !k.merged && k.mergedInto == "":
		case !k.isOwn() && k.merged && k.mergedInto == k.entryID:
			into = ""
		default:
			continue
		}
		err := s.Curate.Update(ctx, orgID, k.name, curate.Change{MergedInto: &into})
		if kind := fault.Of(err); err != nil && (kind == fault.Conflict || kind == fault.Malformed) {
			continue // e.g. it has a source of its own
		}
		if err != nil {
			return err
		}
		if err := s.DB.InTx(ctx, func(tx *store.Tx) error { return markMerged(ctx, tx, orgID, k, into != "") }); err != nil {
			return err
		}
	}
	return nil
}
