package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/deliver/catalog"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/publish/registry"
)

const (
	outcomeTool = "report_skill_outcome"

	defaultFound = 10
	maxFound     = 50
	// maxText bounds the file that a tool returns: it goes into a model's context.
	maxText = 256 << 10
)

// addTools adds what every client can call today. The descriptions are prompts:
// models decide by them when to call a tool.
func (s *Service) addTools(server *mcp.Server) {
	no := false
	reads := func(title string) *mcp.ToolAnnotations {
		return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, OpenWorldHint: &no}
	}
	mcp.AddTool(server, &mcp.Tool{
		Name: "search_skills", OutputSchema: schemaOf[searchOutput](), Annotations: reads("Search skills"),
		Description: "Find skills: instructions that your organisation wrote for recurring tasks. Search by a few words of the task, " +
			"e.g. \"pdf tables\"; all words must be in a skill's name or description. An empty query lists the most installed skills. " +
			"Load the one that fits with get_skill.",
	}, tool(s, s.searchSkills))
	mcp.AddTool(server, &mcp.Tool{
		Name: "get_skill", OutputSchema: schemaOf[getOutput](), Annotations: reads("Load a skill"),
		Description: "Load a skill: the text of its SKILL.md, to follow for the task at hand, and the list of its other files. " +
			"Call it again with path to read one of those, e.g. references/format.md.",
	}, tool(s, s.getSkill))
	mcp.AddTool(server, &mcp.Tool{
		Name: outcomeTool, Annotations: &mcp.ToolAnnotations{
			Title: "Report the outcome of a skill", DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no,
		},
		Description: "Report whether a skill did its job in this session, once you know, e.g. after the user's reaction or when tests " +
			"have run. It counts in the skill's pass rate. A second report for the same session and skill replaces the first. " +
			"Do not guess: without a sign of success or failure report nothing.",
	}, tool(s, s.reportOutcome))
}

// schemaOf is the schema of a result whose lists are never null. The library would
// allow that, by several types for a field, which not all clients can read. It runs
// once for each type, when the server starts.
func schemaOf[Out any]() *jsonschema.Schema {
	schema, err := jsonschema.For[Out](nil)
	if err != nil {
		panic(err) // the types are ours
	}
	for _, field := range schema.Properties {
		if slices.Equal(field.Types, []string{"null", "array"}) {
			field.Type, field.Types = "array", nil
		}
	}
	return schema
}

// tool hides what is internal in the errors of a tool, which models read.
func tool[In, Out any](s *Service, run func(v *visit, in In) (shown string, out Out, err error)) mcp.ToolHandlerFor[In, Out] {
	return func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		v := visitOf(ctx)
		v.named = sessionOf(req.Params)
		shown, out, err := run(v, in)
		if err != nil {
			// A failed tool is a result with isError, not an error of the protocol,
			// so that the model can read it and try something else.
			safe := s.rpcError(ctx, req.Params.Name, err)
			return nil, out, errors.New(strings.TrimPrefix(safe.Error(), "jsonrpc: "))
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: shown}}}, out, nil
	}
}

// searchInput has the arguments of search_skills. The session is optional: most
// hosts do not tell the model its id.
type searchInput struct {
	Query   string `json:"query" jsonschema:"words of the task, e.g. pdf tables"`
	Limit   int    `json:"limit,omitempty" jsonschema:"how many results, 1 to 50; 10 by default"`
	Session string `json:"session,omitempty" jsonschema:"id of the agent's session, if you know it: the results count as offered in it"`
}

type searchOutput struct {
	Skills []foundSkill `json:"skills"`
}

// A foundSkill is a result of search_skills. URI leads to the same SKILL.md as a
// resource, for hosts that prefer those.
type foundSkill struct {
	Name        string `json:"name" jsonschema:"for get_skill"`
	Publisher   string `json:"publisher"`
	Description string `json:"description" jsonschema:"what the skill does and when to use it, as its author wrote it"`
	Version     string `json:"version"`
	URI         string `json:"uri"`
}

func (s *Service) searchSkills(v *visit, in searchInput) (shown string, out searchOutput, err error) {
	out.Skills = []foundSkill{}
	if in.Limit < 0 || in.Limit > maxFound {
		return "", out, fault.Invalid("limit", "limit must be 1 to %d", maxFound)
	}
	if in.Limit == 0 {
		in.Limit = defaultFound
	}
	// From memory: a search costs no query.
	list, err := s.listing(v)
	if err != nil {
		return "", out, err
	}
	found := catalog.Search(list, in.Query, "", in.Limit)
	var b strings.Builder
	for _, l := range found {
		at := address{org: l.OrgName, name: l.Name, path: skillFile}
		out.Skills = append(out.Skills, foundSkill{l.Name, l.OrgName, l.Summary(), l.Current.Version, at.String()})
		fmt.Fprintf(&b, "- %s (by %s, version %s): %s\n", l.Name, l.OrgName, l.Current.Version, l.Summary())
	}
	if len(found) == 0 {
		b.WriteString("No skill has all of these words. Try fewer.")
	}
	s.offered(v, v.session(in.Session), found)
	return b.String(), out, nil
}

// getInput has the arguments of get_skill. The arguments are few and flat, which
// models fill in most reliably.
type getInput struct {
	Name    string `json:"name" jsonschema:"name of the skill, e.g. pdf-tables, or publisher/name"`
	Version string `json:"version,omitempty" jsonschema:"a version; the current one by default"`
	Path    string `json:"path,omitempty" jsonschema:"a file of the skill; SKILL.md by default"`
	Session string `json:"session,omitempty" jsonschema:"id of the agent's session, if you know it: the skill counts as used in it"`
}

// getOutput is one file of a skill, with the list of all. Files is the whole
// manifest, so that the model can ask for what SKILL.md refers to.
type getOutput struct {
	Name      string       `json:"name"`
	Publisher string       `json:"publisher"`
	Version   string       `json:"version"`
	URI       string       `json:"uri"`
	Path      string       `json:"path"`
	Text      string       `json:"text"`
	Files     []fileOutput `json:"files"`
}

type fileOutput struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"`
}

func (s *Service) getSkill(v *visit, in getInput) (shown string, out getOutput, err error) {
	out.Files = []fileOutput{}
	l, c, err := s.named(v, in.Name, in.Version)
	if err != nil {
		return "", out, err
	}
	if in.Path == "" {
		in.Path = skillFile
	}
	f, ok := c.file(in.Path)
	if !ok {
		return "", out, fault.New(fault.NotFound, "The skill has no file %s", in.Path)
	}
	// Resources are read by hosts, which decide themselves what reaches the model.
	if f.Size > maxText {
		return "", out, fault.New(fault.TooLarge, "The file is over %d KiB: read it as a resource", maxText>>10)
	}
	raw, err := s.read(v, l.Current, f)
	if err != nil {
		return "", out, err
	}
	if mediaType(f.Path, raw) == binary {
		return "", out, fault.New(fault.Malformed, "The file is not text: read it as a resource")
	}
	// With the version that was asked for: without one the address follows the
	// current one.
	at := address{org: l.OrgName, name: l.Name, version: in.Version, path: f.Path}
	out = getOutput{l.Name, l.OrgName, l.Current.Version, at.String(), f.Path, string(raw), files(c)}
	if in.Path == skillFile {
		s.used(v, v.session(in.Session), l)
	}
	return out.asText(), out, nil
}

// files has digests in the form of the extension, e.g. "sha256:9f86...".
func files(c *skillContent) []fileOutput {
	all := make([]fileOutput, len(c.files))
	for i, f := range c.files {
		all[i] = fileOutput{f.Path, f.Size, "sha256:" + f.Hash}
	}
	return all
}

// asText is what a client shows that does not read structured results.
func (o getOutput) asText() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Skill %s, version %s, published by %s. File %s:\n\n%s", o.Name, o.Version, o.Publisher, o.Path, o.Text)
	if o.Path == skillFile && len(o.Files) > 1 {
		b.WriteString("\n\nOther files of the skill, for get_skill with path:\n")
		for _, f := range o.Files {
			if f.Path != skillFile {
				fmt.Fprintf(&b, "- %s (%d bytes)\n", f.Path, f.Size)
			}
		}
	}
	return b.String()
}

// named finds a skill by its name, or by that of its publisher and its own, and a
// version of it.
func (s *Service) named(v *visit, name, version string) (registry.Listed, *skillContent, error) {
	// A name without a publisher is looked up as searches list it: the own one
	// first.
	org, short, qualified := strings.Cut(name, "/")
	orgs := []string{org}
	if !qualified && catalog.ValidName(name) {
		short, orgs = name, nil
		for _, sh := range v.shelves() {
			l, err := s.Catalog.Skill(v.ctx, sh, short)
			if err == nil {
				orgs = append(orgs, l.OrgName)
				break
			}
			if !fault.Is(err, fault.NotFound) {
				return registry.Listed{}, nil, err
			}
		}
	}
	if len(orgs) == 0 || !catalog.ValidName(short) || !text.Valid(org+version) {
		return registry.Listed{}, nil, fault.New(fault.NotFound, "No such skill: use a name that search_skills returns")
	}
	l, c, err := s.find(v, address{org: orgs[0], name: short, version: version})
	if fault.Is(err, fault.NotFound) && version != "" {
		err = fault.New(fault.NotFound, "There is no such version of %s", short)
	}
	return l, c, err
}

// outcomeInput has the arguments of report_skill_outcome. The outcome is binary, as
// the verdict of a person is.
type outcomeInput struct {
	Skill   string `json:"skill" jsonschema:"name of the skill"`
	Session string `json:"session" jsonschema:"id of the agent's session; if you do not know it, any id that you use for this conversation only"`
	Passed  bool   `json:"passed" jsonschema:"true if the skill did its job"`
	Note    string `json:"note,omitempty" jsonschema:"what went well or wrong, in a sentence or two, without personal data"`
}

type outcomeOutput struct {
	Skill    string  `json:"skill"`
	Session  string  `json:"session"`
	PassRate float64 `json:"pass_rate"`
	Basis    string  `json:"basis"`
}

// reportOutcome stores what a model says about a skill as a grade. It is the only
// tool that writes, so its checks are those of a route.
func (s *Service) reportOutcome(v *visit, in outcomeInput) (shown string, out outcomeOutput, err error) {
	switch {
	case v.caller.KeyID == "":
		return "", out, fault.New(fault.Denied, "Reporting needs an API key in the header Authorization; catalog tokens only read")
	case !v.caller.May(access.Write):
		return "", out, fault.New(fault.Denied, "Reporting needs the permission write")
	}
	if err := s.api.CheckRoom(httpapi.Route{Method: "POST", Permission: access.Write}); err != nil {
		return "", out, err
	}
	g, skill, err := s.grade(v, in)
	if err != nil {
		return "", out, err
	}
	word, rate := "failed", 0.0
	if in.Passed {
		word, rate = "passed", 1
	}
	return fmt.Sprintf("Recorded: %s %s in session %s.", skill, word, in.Session),
		outcomeOutput{skill, in.Session, rate, string(g.Basis)}, nil
}
