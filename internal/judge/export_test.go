package judge

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// SetClock replaces the time that waits are made of.
func (j *Judge) SetClock(now func() time.Time, sleep func(ctx context.Context, d time.Duration) error) {
	j.model.lane.clock = clock{now: now, sleep: sleep}
}

// Lane is the part that spares a server, without the server.
type Lane struct{ *lane }

func NewLane(slots int) Lane { return Lane{newLane(slots)} }

func (l Lane) Enter(ctx context.Context) error { return l.enter(ctx) }

func (l Lane) Leave() { l.leave() }

func (l Lane) Pause(d time.Duration) { l.pause(d) }

// The functions that have rules of their own.
var (
	Cut         = cut
	Defanged    = defanged
	FirstObject = firstObject
	Words       = words
)

// Quotes reports whether a quotation stands in a material.
func Quotes(material, quotation string) bool { return quotes(normalised(material), quotation) }

// A Reply is what was understood of a server's answer.
type Reply struct{ Text, Problem string }

// ReadReplies reads a body as each of the APIs does.
func ReadReplies(body []byte) map[string]Reply {
	all := map[string]Reply{}
	for name, read := range map[string]func([]byte) reply{"chat": chat{}.read, "messages": messages{}.read} {
		r := read(body)
		all[name] = Reply{r.text, string(r.problem)}
	}
	return all
}

// ReadGrading reads a judge's answer on criteria with the ids 1, 2, ...; those
// of the controls come after them.
func ReadGrading(criteria []string, material, answer string) (Grading, error) {
	r := GradeRequest{Criteria: criteria, Material: material}
	s := newSheet(r, newControls(r))
	for i := range s.ids {
		s.ids[i] = i + 1
	}
	return s.read(answer)
}

// Controls makes controls for a request.
func Controls(r GradeRequest, n int) []string { return newControls(r).some(n) }

// WordsOf returns the words that controls replace in a criterion.
func WordsOf(criterion string) []string {
	return slices.DeleteFunc(wordInText.FindAllString(criterion, -1), func(word string) bool { return !isContent(word) })
}

// ControlLists are the words and texts that controls are made with.
func ControlLists() string {
	var b strings.Builder
	for _, set := range []map[string]bool{limitingWords, gradingWords} {
		b.WriteString(strings.Join(slices.Sorted(maps.Keys(set)), " ") + "\n")
	}
	return b.String() + strings.Join(append(slices.Clone(plainCriteria), strings.Join(foreignWords, " ")), "\n") + "\n"
}

// ForeignWords are those that controls may be made with.
func ForeignWords() []string { return slices.Clone(foreignWords) }
