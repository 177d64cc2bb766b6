package account

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
)

// teamCommands are the commands `whetstone team`. Changes need the permission admin.
type teamCommands struct {
	List   teamList   `cmd:"" help:"List teams, or the members of one."`
	Create teamCreate `cmd:"" help:"Create a team."`
	Delete teamDelete `cmd:"" help:"Delete a team; what it owned is no longer owned by it."`
	Add    teamAdd    `cmd:"" help:"Add members to a team."`
	Remove teamRemove `cmd:"" help:"Take members out of a team."`
}

// teams is the list of teams, and how it is printed.
var teams = server.Resource[api.Team]{
	Path: "/api/v1/teams", Field: "teams", List: term.List[api.Team]{
		None: "No teams; `whetstone team create NAME` makes one.",
		Head: "TEAM\tNAME\tMEMBERS\tDESCRIPTION",
		Row: func(t api.Team) []any {
			return []any{"@" + term.Cell(t.Slug), term.Cell(t.Name), t.MemberCount, term.Cell(t.Description)}
		},
	},
}

// findTeam returns the team with that name, slug or id, in any case. "@docs" is
// "docs". Slugs and names are unique in an organisation, so there is at most one.
func findTeam(ctx context.Context, s *server.Session, name string) (api.Team, error) {
	name = strings.TrimPrefix(name, "@")
	return teams.Find(ctx, s, "No team is called "+name+"; `whetstone team list` shows them", func(t api.Team) bool {
		return t.ID == name || strings.EqualFold(t.Slug, name) || strings.EqualFold(t.Name, name)
	})
}

// teamList lists teams, or the members of one.
type teamList struct {
	server.Flags `embed:""`
	Team         string `arg:"" optional:"" help:"Name or id of a team whose members are listed."`
}

// Run lists teams, or with an argument the members of that team.
func (c *teamList) Run(ctx context.Context, p *term.Program) error {
	if c.Team == "" {
		return teams.Show(ctx, p, &c.Flags, nil)
	}
	return c.WithSession(p, func(s *server.Session) error {
		t, err := findTeam(ctx, s, c.Team)
		if err != nil {
			return err
		}
		var out api.TeamDetail
		if err := s.Call(ctx, http.MethodGet, teams.At(t.ID), nil, &out); err != nil {
			return err
		}
		people := term.List[api.Owner]{
			None: fmt.Sprintf("@%s has no members; `whetstone team add %s ADDRESS` adds one.", term.Plain(t.Slug),
				term.Plain(t.Slug)),
			Head: "NAME\tEMAIL",
			Row:  func(m api.Owner) []any { return []any{term.Cell(m.Name), term.Cell(m.Email)} },
		}
		return p.Print(out, func(w io.Writer) { people.Write(w, out.Members) })
	})
}

// teamCreate has the fields of a new team.
type teamCreate struct {
	server.Flags `embed:""`
	Name         string   `arg:"" help:"Name of the team."`
	Members      []string `arg:"" optional:"" help:"Addresses or ids of its members."`
	Description  string   `env:"-" help:"What the team does."`
}

// Run creates a team with its members. All members are looked up first, so that a typo
// in an address leaves no half-filled team behind.
func (c *teamCreate) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		users := []string{}
		for _, who := range c.Members {
			m, err := findMember(ctx, s, who)
			if err != nil {
				return err
			}
			users = append(users, m.UserID)
		}
		var out api.TeamDetail
		body := map[string]any{"name": c.Name, "description": c.Description}
		if err := s.Call(ctx, http.MethodPost, teams.Path, body, &out); err != nil {
			return err
		}
		// The team is new, so replacing its list undoes nobody's change.
		body = map[string]any{"users": users}
		if err := s.Call(ctx, http.MethodPut, teams.At(out.Team.ID)+"/members", body, &out); err != nil {
			return err
		}
		return p.Print(out, func(w io.Writer) {
			fmt.Fprintf(w, "Created @%s with %s.\n", term.Plain(out.Team.Slug), term.Count(out.Team.MemberCount, "member"))
		})
	})
}

// teamDelete deletes a team.
type teamDelete struct {
	server.Flags `embed:""`
	Team         string `arg:"" help:"Name or id of the team."`
	Yes          bool   `env:"-" short:"y" help:"Do not ask."`
}

// Run deletes a team after a confirmation. Skills that it owned lose it as an owner.
// Its members stay members of the organisation.
func (c *teamDelete) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		t, err := findTeam(ctx, s, c.Team)
		if err != nil {
			return err
		}
		if !c.Yes && !p.Confirm(ctx, fmt.Sprintf("Delete @%s? What it owns is no longer owned by it.", term.Plain(t.Slug))) {
			return fault.New(fault.Conflict, "Nothing was changed; answer yes, or use --yes")
		}
		if err := s.Call(ctx, http.MethodDelete, teams.At(t.ID), nil, nil); err != nil {
			return err
		}
		out := map[string]string{"id": t.ID, "slug": t.Slug, "status": "deleted"}
		return p.Print(out, func(w io.Writer) { fmt.Fprintf(w, "Deleted @%s.\n", term.Plain(t.Slug)) })
	})
}

// teamAdd adds members.
type teamAdd struct {
	server.Flags `embed:""`
	Team         string   `arg:"" help:"Name or id of the team."`
	Members      []string `arg:"" help:"Addresses or ids of members."`
}

// Run adds members to a team.
func (c *teamAdd) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		return changeCrew(ctx, p, s, c.Team, c.Members, http.MethodPut)
	})
}

// teamRemove takes members out.
type teamRemove struct {
	server.Flags `embed:""`
	Team         string   `arg:"" help:"Name or id of the team."`
	Members      []string `arg:"" help:"Addresses or ids of members."`
}

// Run takes members out of a team.
func (c *teamRemove) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		return changeCrew(ctx, p, s, c.Team, c.Members, http.MethodDelete)
	})
}

// changeCrew adds or removes members one by one: replacing the whole list would undo
// what another person changes at the same time. method is PUT or DELETE. All names
// are resolved before the first change, so that a typo changes nothing.
func changeCrew(ctx context.Context, p *term.Program, s *server.Session, name string, who []string, method string) error {
	t, err := findTeam(ctx, s, name)
	if err != nil {
		return err
	}
	var found []api.Member
	for _, one := range who {
		m, err := findMember(ctx, s, one)
		if err != nil {
			return err
		}
		found = append(found, m)
	}
	for _, m := range found {
		if err := s.Call(ctx, method, teams.At(t.ID)+"/members/"+url.PathEscape(m.UserID), nil, nil); err != nil {
			return err
		}
	}
	var out api.TeamDetail
	if err := s.Call(ctx, http.MethodGet, teams.At(t.ID), nil, &out); err != nil {
		return err
	}
	return p.Print(out, func(w io.Writer) {
		fmt.Fprintf(w, "@%s has %s now.\n", term.Plain(t.Slug), term.Count(out.Team.MemberCount, "member"))
	})
}

// ownersCommand shows or sets the owners of a skill. Without a flag it only shows
// them.
type ownersCommand struct {
	server.Flags `embed:""`
	Name         string   `arg:"" help:"Name of the skill."`
	Set          []string `env:"-" placeholder:"WHO" help:"Set the owners: addresses of members, and teams with an @, e.g. ada@example.org,@docs."`
	Clear        bool     `env:"-" help:"Remove the owners that were set: the CODEOWNERS file of the repository applies again."`
}

// Run shows the owners of an entry, or sets them. Owners that were set here take
// precedence over the CODEOWNERS file of the repository.
func (c *ownersCommand) Run(ctx context.Context, p *term.Program) error {
	return c.WithSession(p, func(s *server.Session) error {
		entry, err := s.OwnEntry(ctx, c.Name)
		if err != nil {
			return err
		}
		path, method := "/api/v1/registry/"+url.PathEscape(entry.ID)+"/owners", http.MethodGet
		var body any
		// With --clear and no --set the body is an empty selection.
		if c.Clear || len(c.Set) > 0 {
			if method = http.MethodPut; c.Clear && len(c.Set) > 0 {
				return fault.Invalid("clear", "Give --set or --clear, not both")
			}
			if body, err = c.selection(ctx, s); err != nil {
				return err
			}
		}
		var out struct {
			// Source is where the owners are from: "none", "codeowners", or set here.
			// Unknown lists owners of the file that are neither members nor teams.
			Owners struct {
				Source  string      `json:"source"`
				Users   []api.Owner `json:"users"`
				Teams   []api.Team  `json:"teams"`
				Unknown []string    `json:"unknown"`
				File    *struct {
					Repository string   `json:"repository"`
					Commit     string   `json:"commit"`
					Path       string   `json:"path"`
					Line       int      `json:"line"`
					Pattern    string   `json:"pattern"`
					Owners     []string `json:"owners"`
				} `json:"codeowners"`
			} `json:"owners"`
		}
		if err := s.Call(ctx, method, path, body, &out); err != nil {
			return err
		}
		return p.Print(out.Owners, func(w io.Writer) {
			o := out.Owners
			if o.Source == "none" {
				fmt.Fprintf(w, "%s has no owner; `whetstone owners %s --set ADDRESS` sets an owner.\n",
					term.Plain(entry.Name), term.Plain(entry.Name))
				return
			}
			fmt.Fprintln(w, "OWNER\tNAME")
			for _, u := range o.Users {
				fmt.Fprintf(w, "%s\t%s\n", term.Cell(u.Email), term.Cell(u.Name))
			}
			for _, t := range o.Teams {
				fmt.Fprintf(w, "@%s\t%s, %d members\n", term.Cell(t.Slug), term.Cell(t.Name), t.MemberCount)
			}
			for _, unknown := range o.Unknown {
				fmt.Fprintf(w, "%s\tunknown: neither a member nor a team\n", term.Cell(unknown))
			}
			if o.Source == "codeowners" && o.File != nil {
				fmt.Fprintf(w, "\nBy line %d of %s in %s.\n", o.File.Line, term.Plain(o.File.Path), term.Plain(o.File.Repository))
			}
		})
	})
}

// selection resolves the names of --set to ids: "@docs" is a team, anything else a
// member. Both lists are always sent: they replace the owners as a whole.
func (c *ownersCommand) selection(ctx context.Context, s *server.Session) (map[string][]string, error) {
	out := map[string][]string{"users": {}, "teams": {}}
	for _, name := range c.Set {
		if strings.HasPrefix(name, "@") {
			t, err := findTeam(ctx, s, name)
			if err != nil {
				return nil, err
			}
			out["teams"] = append(out["teams"], t.ID)
			continue
		}
		m, err := findMember(ctx, s, name)
		if err != nil {
			return nil, err
		}
		out["users"] = append(out["users"], m.UserID)
	}
	return out, nil
}
