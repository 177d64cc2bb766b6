// Package needs draws what a skill requires, and what requires it, as a graph.
package needs

import (
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/publish/registry/requirements"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg/requires"
)

// A View is what the page of an entry shows.
type View struct {
	requirements.View
	Graph *Graph // nil if there is nothing to draw
}

// New prepares the view.
func New(v requirements.View) View {
	out := View{View: v}
	if len(v.Direct()) > 0 || len(v.Dependents) > 0 {
		g := draw(v)
		out.Graph = &g
	}
	return out
}

// Label names a skill from the point of view of the page's.
func (v View) Label(s requirements.Skill) string {
	if s.OrgName == v.OrgName {
		return s.Name
	}
	return requires.Label(s.OrgName, s.Name)
}

// Names are those of the skills that require it, at most ten.
func (v View) Names() string {
	var names []string
	for _, d := range v.Dependents {
		if len(names) == maxNames {
			names = append(names, "...")
			break
		}
		names = append(names, v.Label(d.Skill))
	}
	return strings.Join(names, ", ")
}

const maxNames = 10

// A Graph is a drawing in columns: what requires the skill, the skill, and what is
// required, by its distance.
type Graph struct {
	Width, Height int
	Nodes         []Node
	Lines         []string // paths
	More          bool     // not all are drawn
	Label         string   // for those who do not see it
}

// A Node is a skill, or the name of one that is missing.
type Node struct {
	X, Y    int
	Name    string
	Version string
	Title   string // all of the name
	State   requirements.State
	Self    bool
}

// TextX and TextY are where its name stands.
func (n Node) TextX() int { return n.X + padding }

// TextY is that of the name.
func (n Node) TextY() int { return n.Y + 16 }

// VersionY is that of the version.
func (n Node) VersionY() int { return n.Y + 32 }

// NodeWidth is that of every node.
func (Graph) NodeWidth() int { return nodeWidth }

// NodeHeight is that of every node.
func (Graph) NodeHeight() int { return nodeHeight }

const (
	nodeWidth, nodeHeight = 150, 40
	gapX, gapY            = 50, 12
	padding               = 8
	maxRows               = 10
	maxColumns            = 4 // of required skills
	maxText               = 19
)

// draw places the nodes. Its limits bound the drawing, not the tables beside it.
func draw(v requirements.View) Graph {
	var g Graph
	var dependents []Node
	for _, d := range v.Dependents {
		dependents = append(dependents, node(d.Name, d.Version, d.State))
	}
	first := 0
	if len(dependents) > 0 {
		first = 1
	}
	columns, edges := layers(v)
	rows := min(len(dependents), maxRows)
	for _, c := range columns {
		rows = max(rows, min(len(c), maxRows))
	}
	at := map[string]Node{}
	place := func(column int, nodes []Node, ids []string) {
		g.More = g.More || len(nodes) > maxRows
		nodes = nodes[:min(len(nodes), maxRows)]
		top := (rows - len(nodes)) * (nodeHeight + gapY) / 2
		for i, n := range nodes {
			n.X, n.Y = 1+column*(nodeWidth+gapX), 1+top+i*(nodeHeight+gapY)
			g.Nodes = append(g.Nodes, n)
			if ids != nil {
				at[ids[i]] = n
			}
		}
	}
	place(0, dependents, nil)
	drawn := len(g.Nodes)
	for i, c := range columns {
		var nodes []Node
		var ids []string
		for _, p := range c {
			nodes, ids = append(nodes, p.node), append(ids, p.id)
		}
		place(first+i, nodes, ids)
	}
	self := at[v.EntryID]
	for _, d := range g.Nodes[:drawn] {
		g.Lines = append(g.Lines, line(d, self))
	}
	for _, e := range edges {
		from, ok := at[e[0]]
		to, also := at[e[1]]
		if ok && also && e[0] != e[1] {
			g.Lines = append(g.Lines, line(from, to))
		}
	}
	g.Width, g.Height = (first+len(columns))*(nodeWidth+gapX)-gapX+2, rows*(nodeHeight+gapY)-gapY+2
	g.More = g.More || v.Truncated || v.More
	g.Label = fmt.Sprintf("Graph of requirements: %s requires %s, and %s it. The tables below have the same.",
		v.Name, count(len(v.Needed), "skill", "skills"), count(len(v.Dependents), "skill requires", "skills require"))
	return g
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// A placed node has the id of its entry, or its name if it is missing.
type placed struct {
	id   string
	node Node
}

// layers returns the skill, and what it requires by distance, with the edges between
// them, by ids.
func layers(v requirements.View) (columns [][]placed, edges [][2]string) {
	self := node(v.Name, v.Version, requirements.Met)
	self.Self = true
	columns = [][]placed{{{v.EntryID, self}}}
	seen := map[string]bool{v.EntryID: true}
	versions := map[string]string{v.EntryID: v.VersionID}
	for len(columns) <= maxColumns {
		var next []placed
		for _, p := range columns[len(columns)-1] {
			for _, f := range v.Requires[versions[p.id]] {
				id := f.Skill.EntryID
				if f.Skill.VersionID == "" {
					id = "missing " + f.Label()
				}
				edges = append(edges, [2]string{p.id, id})
				if seen[id] {
					continue
				}
				seen[id], versions[id] = true, f.Skill.VersionID
				n := node(f.Label(), f.Skill.Version, f.State)
				if f.State != requirements.Met {
					n.Version = strings.TrimSpace(string(f.State) + " " + f.Skill.Version)
				}
				next = append(next, placed{id, n})
			}
		}
		if len(next) == 0 {
			return columns, edges
		}
		columns = append(columns, next)
	}
	return columns, edges
}

func node(name, version string, state requirements.State) Node {
	return Node{Name: text.Ellipsis(name, maxText), Version: text.Ellipsis(version, maxText), Title: name + " " + version, State: state}
}

// line is a curve from the right side of a node to the left side of another; one that
// leads back begins and ends below.
func line(from, to Node) string {
	if to.X > from.X {
		x1, y1, x2, y2 := from.X+nodeWidth, from.Y+nodeHeight/2, to.X, to.Y+nodeHeight/2
		middle := (x1 + x2) / 2
		return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, middle, y1, middle, y2, x2, y2)
	}
	x1, x2, y1, y2 := from.X+nodeWidth/2, to.X+nodeWidth/2, from.Y+nodeHeight, to.Y+nodeHeight
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1, y1+gapY, x2, y2+gapY, x2, y2)
}
