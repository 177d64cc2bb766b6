package skills

import "context"

// resolveAliases finds the canonical id of every observation of the report, and
// stores its new aliases. It deduplicates across producers: two that report the
// same tool call under different ids share an alias, and so one observation,
// whichever arrives first. Ids that became aliases are returned in retired: an
// observation may be stored under them.
func (in *ingestion) resolveAliases(ctx context.Context) (retired []string, err error) {
	var names []string
	for _, o := range in.report.Observations {
		names = append(append(names, o.ID), o.Aliases...)
		if o.Claim != "" {
			names = append(names, o.Claim)
		}
	}
	known, err := aliasesOf(ctx, in.tx, names)
	if err != nil {
		return nil, err
	}
	in.canonical = map[string]string{}
	fresh := map[string]string{}
	learn := func(name, id string) bool {
		if _, ok := known[name]; ok {
			return false
		}
		known[name], fresh[name] = id, id
		return true
	}
	for _, o := range in.report.Observations {
		aliases := o.Aliases
		if o.Claim != "" && !learn(o.Claim, o.ID) && known[o.Claim] != o.ID {
			aliases = nil
		}
		id := o.ID
		for _, name := range append([]string{o.ID}, aliases...) {
			if found, ok := known[name]; ok {
				id = found
				break
			}
		}
		in.canonical[o.ID] = id
		for _, name := range aliases {
			learn(name, id)
		}
		if id != o.ID && learn(o.ID, id) {
			retired = append(retired, o.ID)
		}
	}
	return retired, insertAliases(ctx, in.tx, fresh)
}
