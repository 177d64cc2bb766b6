package judge

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// SetClock replaces the source of time.
func (j *Judge) SetClock(now func() time.Time, sleep func(ctx context.Context, d time.Duration) error) {
	j.model.limiter.clock = clock{now: now, sleep: sleep}
}

// Limiter exports limiter.
type Limiter struct{ *limiter }

func NewLimiter(slots int) Limiter { return Limiter{newLimiter(slots)} }

func (l Limiter) Acquire(ctx context.Context) error { return l.acquire(ctx) }

func (l Limiter) Release() { l.release() }

func (l Limiter) Pause(d time.Duration) { l.pause(d) }

// Functions with tests of their own.
var (
	TruncateMiddle = truncateMiddle
	StripThinking  = stripThinking
	JSONAnswers    = jsonAnswers
)

// Quotes reports whether a material contains a quotation.
func Quotes(material, quotation string) bool {
	return newQuotable(material).contains(quotation)
}

// A Reply is a parsed response.
type Reply struct {
	Text, Problem string
	Usage         Usage
}

// ReadReplies parses a body in each of the wire formats.
func ReadReplies(body []byte) map[string]Reply {
	all := map[string]Reply{}
	for name, read := range map[string]func([]byte) reply{"chat": chat{}.read, "messages": messages{}.read} {
		r := read(body)
		all[name] = Reply{r.text, string(r.problem), r.usage}
	}
	return all
}

// ReadGrading parses a judge's answer on criteria with the ids 1, 2, ..., which
// the ids of the controls follow.
func ReadGrading(criteria []string, material, answer string) (Grading, error) {
	r := GradeRequest{Criteria: criteria, Material: material}
	s := newGradeSheet(r, newControls(r))
	for i := range s.ids {
		s.ids[i] = i + 1
	}
	return s.read(answer)
}

// Controls makes controls for a request.
func Controls(r GradeRequest, n int) []string { return newControls(r).draw(n) }

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
