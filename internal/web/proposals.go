package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/improve"
	"github.com/whetstone-dev/whetstone/internal/proposals"
)

// proposalsView is a page of the list of proposals.
type proposalsView struct {
	Proposals      []proposals.Proposal
	Statuses       []proposals.Status
	Total, PerPage int
	Filtered       bool
}

const proposalsShown = 25

var proposalStatuses = []proposals.Status{proposals.Pending, proposals.Approved, proposals.Applied, proposals.Rejected}

func (s *Service) handleProposals(v *visit) (answer, error) {
	q := v.URL.Query()
	f := proposals.Filter{
		SkillName: q.Get("skill"), Hidden: q.Get("hidden") == "true", Limit: proposalsShown, Offset: v.offset(proposalsShown),
	}
	if status := proposals.Status(q.Get("status")); slices.Contains(proposalStatuses, status) {
		f.Status = status
	}
	found, total, err := s.Proposals.List(v.Context(), v.Caller.OrgID, f)
	view := proposalsView{
		Proposals: found, Statuses: proposalStatuses, Total: total, PerPage: proposalsShown,
		Filtered: f.Status != "" || f.SkillName != "" || f.Hidden,
	}
	return show("proposals", "Proposals", view), err
}

// proposalView is one proposal with its evidence.
type proposalView struct {
	proposals.Proposal
	Evidence   []evidenceRow
	Reviewer   string
	ImproveRun string // id of the run that proposed it; "" if none did or it was deleted
}

// An evidenceRow is one value of the evidence.
type evidenceRow struct{ Name, Value string }

func (s *Service) handleProposal(v *visit) (answer, error) {
	p, err := s.Proposals.Get(v.Context(), v.Caller.OrgID, v.PathValue("id"))
	if err != nil {
		return answer{}, err
	}
	view := proposalView{Proposal: p}
	var evidence any // of any shape
	if json.Unmarshal(p.Evidence, &evidence) == nil {
		view.Evidence = facts("", evidence, nil)
	} else {
		view.Evidence = []evidenceRow{{"evidence", string(p.Evidence)}}
	}
	if p.ReviewedBy != nil {
		names, err := s.userNames(v)
		if err != nil {
			return answer{}, err
		}
		view.Reviewer = names[*p.ReviewedBy]
	}
	view.ImproveRun, err = s.improveRunOf(v, p)
	return show("proposal", "Proposal for "+p.SkillName, view), err
}

// improveRunOf returns the id of the improve run that made a proposal; "" if there is
// none, or if it was deleted with its suite.
func (s *Service) improveRunOf(v *visit, p proposals.Proposal) (string, error) {
	var evidence improve.Evidence
	_ = json.Unmarshal(p.Evidence, &evidence) // evidence of another shape names no run
	if evidence.ImproveRunID == "" {
		return "", nil
	}
	r, err := s.Improve.Get(v.Context(), v.Caller.OrgID, evidence.ImproveRunID)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return r.ID, err
}

// moves maps the buttons of a proposal to the status they set.
var moves = map[string]proposals.Status{
	"approve": proposals.Approved, "reject": proposals.Rejected,
	"applied": proposals.Applied,
}

func (s *Service) handleMoveProposal(v *visit) (answer, error) {
	to, ok := moves[v.FormValue("decision")]
	if !ok {
		return answer{}, fault.Invalid("decision", "The decision must be approve, reject or applied")
	}
	p, err := s.Proposals.Move(v.Context(), v.Caller, v.PathValue("id"), to)
	if err != nil {
		return answer{}, err
	}
	return redirect(pathTo("proposals", p.ID), fmt.Sprintf("The proposal is %s.", p.Status)), nil
}

// facts lists the values of decoded JSON, sorted by name.
func facts(name string, value any, rows []evidenceRow) []evidenceRow {
	switch value := value.(type) {
	case nil:
		return rows
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			rows = facts(strings.TrimSpace(name+" "+strings.ReplaceAll(key, "_", " ")), value[key], rows)
		}
		return rows
	case []any:
		return append(rows, listFacts(name, value)...)
	case float64:
		return append(rows, evidenceRow{name, strconv.FormatFloat(value, 'f', -1, 64)})
	}
	return append(rows, evidenceRow{name, fmt.Sprint(value)})
}

// listFacts formats a list of buckets with counts as one row each, and any other
// list by position.
func listFacts(name string, values []any) []evidenceRow {
	var rows []evidenceRow
	for i, value := range values {
		entry, ok := value.(map[string]any)
		label, named := entry["bucket"].(string)
		count, counted := entry["count"].(float64)
		if ok && named && counted {
			rows = append(rows, evidenceRow{label, strconv.FormatFloat(count, 'f', -1, 64)})
			continue
		}
		rows = facts(name+" "+strconv.Itoa(i+1), value, rows)
	}
	return rows
}
