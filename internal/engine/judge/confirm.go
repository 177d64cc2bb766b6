package judge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// maxQuotation is how many bytes of a quotation the second question shows. It is
// the only untrusted text there, and must be too short for another prompt
// injection.
const maxQuotation = 600

// confirm asks a second question about the criteria that were passed, which
// shows the quotations but not the material. A criterion whose quotation does
// not fit is not passed.
func (j *Judge) confirm(
	ctx context.Context, r GradeRequest, controls *controls, first Grading,
) (Grading, error) {
	var fits map[int]bool
	draw := func() Prompt {
		c := newConfirmation(r, controls, first.Results)
		return Prompt{
			Version: GradePromptVersion, System: confirmPrompt, User: c.text(), Schema: confirmSchema,
			Check: func(answer string) (err error) {
				fits, err = c.read(answer)
				return err
			},
		}
	}
	p := draw()
	p.Redraw = draw
	rec := j.newRecord(GradePromptVersion, confirmSchema.Version)
	rec.Seed, rec.Trial = r.Seed, r.Trial
	done, err := j.model.complete(ctx, p, rec)
	// The first question was paid for, too.
	if e, ok := errors.AsType[*Error](err); ok {
		e.Record.add(first.Record.Usage)
	}
	if err != nil {
		return Grading{}, err
	}
	out := first
	out.Record.add(done.Record.Usage)
	// The verdict is the second question's, the record is that of both.
	out.Record.Repaired = first.Record.Repaired || done.Record.Repaired
	for i := range out.Results {
		if result := &out.Results[i]; result.Passed && !fits[result.ID] {
			result.Passed, result.Refuted = false, true
		}
	}
	out.Score = score(out.Results)
	return out, nil
}

// confirmation is the second question of a grading.
type confirmation struct {
	task      string
	delimiter string // random, around each quotation
	items     []quotedCriterion
}

// quotedCriterion is a criterion and a quotation for it.
type quotedCriterion struct {
	id        int // random
	result    int // Result.ID, or 0 for a control
	criterion string
	quotation string
}

// newConfirmation pairs every quotation with the criterion that it was given
// for, and with a control that it cannot fit.
func newConfirmation(r GradeRequest, controls *controls, results []Result) *confirmation {
	c := &confirmation{task: r.task(), delimiter: rand.Text()}
	var quotations []string
	for i, result := range results {
		if !result.Passed {
			continue
		}
		quotation, _ := truncateMiddle(normalise(result.Evidence), maxQuotation)
		quotation = text.OneLine(text.Clean(quotation))
		criterion := strings.TrimSpace(r.Criteria[i])
		c.items = append(c.items, quotedCriterion{result: result.ID, criterion: criterion, quotation: quotation})
		if !slices.Contains(quotations, quotation) {
			quotations = append(quotations, quotation)
		}
	}
	// At least four items in all: one or two quotations need more controls to hide among.
	wanted := max(len(quotations), minControls, 4-len(c.items))
	for i, control := range controls.draw(wanted) {
		c.items = append(c.items, quotedCriterion{criterion: control, quotation: quotations[i%len(quotations)]})
	}
	for i, id := range randomIDs(len(c.items)) {
		c.items[i].id = id
	}
	mathrand.Shuffle(len(c.items), func(i, k int) { c.items[i], c.items[k] = c.items[k], c.items[i] })
	return c
}

func (c *confirmation) text() string {
	var b strings.Builder
	for _, i := range c.items {
		fmt.Fprintf(&b, confirmItem, i.id, i.criterion, c.delimiter, i.quotation)
	}
	return fmt.Sprintf(confirmUser, c.task, b.String(), c.delimiter)
}

// read parses an answer and returns which results fit. It fails unless every
// item has an answer and no control fits.
func (c *confirmation) read(answer string) (map[int]bool, error) {
	got, _, err := readItems(answer)
	if err != nil {
		return nil, err
	}
	fits, seen := map[int]bool{}, map[int]bool{}
	for _, r := range got {
		if r.Fits == nil {
			return nil, formProblem("a result lacks its verdict")
		}
		id := int(*r.ID)
		at := slices.IndexFunc(c.items, func(i quotedCriterion) bool { return i.id == id })
		if at < 0 || seen[id] {
			return nil, problem("a result has an id that no item has, or that another result has")
		}
		seen[id] = true
		// The quotation of a control comes from the material, where its criterion's words don't
		// occur.
		if bool(*r.Fits) && c.items[at].result == 0 {
			return nil, errControl
		}
		fits[c.items[at].result] = bool(*r.Fits)
	}
	if len(seen) != len(c.items) {
		return nil, problem("an item has no result")
	}
	return fits, nil
}
