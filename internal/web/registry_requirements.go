package web

import (
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// A needsView is what the page of an entry shows.
type needsView struct {
	requirements.View
	Graph *needsGraph // nil if there is nothing to draw
}

// newNeedsView prepares the view.
func newNeedsView(v requirements.View) needsView {
	out := needsView{View: v}
	if len(v.Direct()) > 0 || len(v.Dependents) > 0 {
		g := drawNeeds(v)
		out.Graph = &g
	}
	return out
}

// Label names a skill from the point of view of the page's.
func (v needsView) Label(s requirements.Skill) string {
	if s.OrgName == v.OrgName {
		return s.Name
	}
	return requires.Label(s.OrgName, s.Name)
}

// Names are those of the skills that require it, at most ten.
func (v needsView) Names() string {
	var names []string
	for _, d := range v.Dependents {
		if len(names) == maxDependents {
			names = append(names, "...")
			break
		}
		names = append(names, v.Label(d.Skill))
	}
	return strings.Join(names, ", ")
}

const maxDependents = 10

// A needsGraph is a drawing in columns: what requires the skill, the skill, and what is
// required, by its distance. The drawing is an addition to the tables, so it may
// leave out what is too much.
type needsGraph struct {
	Width, Height int
	Nodes         []graphNode
	Lines         []string // paths
	More          bool     // not all are drawn
	Label         string   // for those who do not see it
}

// A graphNode is a skill, or the name of one that is missing. Names are truncated to
// the width of a node, and Title has all of them.
type graphNode struct {
	X, Y    int
	Name    string
	Version string
	Title   string // all of the name
	State   requirements.State
	Self    bool
}

// TextX and TextY are where its name stands.
func (n graphNode) TextX() int { return n.X + nodePadding }

// TextY is that of the name.
func (n graphNode) TextY() int { return n.Y + 16 }

// VersionY is that of the version.
func (n graphNode) VersionY() int { return n.Y + 32 }

// NodeWidth is that of every node.
func (needsGraph) NodeWidth() int { return nodeWidth }

// NodeHeight is that of every node.
func (needsGraph) NodeHeight() int { return nodeHeight }

const (
	nodeWidth, nodeHeight = 150, 40
	nodeGapX, nodeGapY    = 50, 12
	nodePadding           = 8
	graphRows             = 10
	graphColumns          = 4 // of required skills
	graphText             = 19
)

// drawNeeds places the nodes. Its limits bound the drawing, not the tables beside
// it. Columns are centred, and lines end at the sides of the nodes.
func drawNeeds(v requirements.View) needsGraph {
	var g needsGraph
	var dependents []graphNode
	for _, d := range v.Dependents {
		dependents = append(dependents, newGraphNode(d.Name, d.Version, d.State))
	}
	first := 0
	if len(dependents) > 0 {
		first = 1
	}
	columns, edges := graphLayers(v)
	rows := min(len(dependents), graphRows)
	for _, c := range columns {
		rows = max(rows, min(len(c), graphRows))
	}
	at := map[string]graphNode{}
	// at maps ids to the placed nodes, by which edges find their ends.
	place := func(column int, nodes []graphNode, ids []string) {
		g.More = g.More || len(nodes) > graphRows
		nodes = nodes[:min(len(nodes), graphRows)]
		top := (rows - len(nodes)) * (nodeHeight + nodeGapY) / 2
		for i, n := range nodes {
			n.X, n.Y = 1+column*(nodeWidth+nodeGapX), 1+top+i*(nodeHeight+nodeGapY)
			g.Nodes = append(g.Nodes, n)
			if ids != nil {
				at[ids[i]] = n
			}
		}
	}
	// Dependents have no ids: a skill may be on both sides, and must not meet
	// itself.
	place(0, dependents, nil)
	drawn := len(g.Nodes)
	for i, c := range columns {
		var nodes []graphNode
		var ids []string
		for _, p := range c {
			nodes, ids = append(nodes, p.node), append(ids, p.id)
		}
		place(first+i, nodes, ids)
	}
	self := at[v.EntryID]
	for _, d := range g.Nodes[:drawn] {
		g.Lines = append(g.Lines, graphLine(d, self))
	}
	for _, e := range edges {
		from, ok := at[e[0]]
		to, also := at[e[1]]
		// An end that was not drawn has no line. A skill that requires itself is an
		// error that the table shows.
		if ok && also && e[0] != e[1] {
			g.Lines = append(g.Lines, graphLine(from, to))
		}
	}
	g.Width, g.Height = (first+len(columns))*(nodeWidth+nodeGapX)-nodeGapX+2, rows*(nodeHeight+nodeGapY)-nodeGapY+2
	g.More = g.More || v.Truncated || v.More
	g.Label = fmt.Sprintf("Graph of requirements: %s requires %s, and %s it. The tables below have the same.",
		v.Name, countOf(len(v.Needed), "skill", "skills"), countOf(len(v.Dependents), "skill requires", "skills require"))
	return g
}

// countOf formats a number with its noun, e.g. "1 skill" and "3 skills".
func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// A placedNode has the id of its entry, or its name if it is missing.
type placedNode struct {
	id   string
	node graphNode
}

// graphLayers returns the skill, and what it requires by distance, with the edges between
// them, by ids. It is a breadth-first search: a skill stands in the column of its
// shortest distance.
func graphLayers(v requirements.View) (columns [][]placedNode, edges [][2]string) {
	self := newGraphNode(v.Name, v.Version, requirements.Met)
	self.Self = true
	columns = [][]placedNode{{{v.EntryID, self}}}
	seen := map[string]bool{v.EntryID: true}
	versions := map[string]string{v.EntryID: v.VersionID}
	for len(columns) <= graphColumns {
		var next []placedNode
		for _, p := range columns[len(columns)-1] {
			for _, f := range v.Requires[versions[p.id]] {
				id := f.Skill.EntryID
				// A missing skill has no id; its label keeps two of them apart.
				if f.Skill.VersionID == "" {
					id = "missing " + f.Label()
				}
				edges = append(edges, [2]string{p.id, id})
				if seen[id] {
					continue
				}
				seen[id], versions[id] = true, f.Skill.VersionID
				n := newGraphNode(f.Label(), f.Skill.Version, f.State)
				if f.State != requirements.Met {
					n.Version = strings.TrimSpace(string(f.State) + " " + f.Skill.Version)
				}
				next = append(next, placedNode{id, n})
			}
		}
		if len(next) == 0 {
			return columns, edges
		}
		columns = append(columns, next)
	}
	return columns, edges
}

// newGraphNode truncates what would not fit; the title of the node has it all.
func newGraphNode(name, version string, state requirements.State) graphNode {
	return graphNode{Name: text.Ellipsis(name, graphText), Version: text.Ellipsis(version, graphText), Title: name + " " +
		version, State: state}
}

// graphLine is a curve from the right side of a node to the left side of another; one that
// leads back begins and ends below.
func graphLine(from, to graphNode) string {
	if to.X > from.X {
		x1, y1, x2, y2 := from.X+nodeWidth, from.Y+nodeHeight/2, to.X, to.Y+nodeHeight/2
		middle := (x1 + x2) / 2
		return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, middle, y1, middle, y2, x2, y2)
	}
	x1, x2, y1, y2 := from.X+nodeWidth/2, to.X+nodeWidth/2, from.Y+nodeHeight, to.Y+nodeHeight
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+nodeGapY, x2, y2+nodeGapY, x2, y2)
}
