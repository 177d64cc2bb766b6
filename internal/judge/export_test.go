package judge

import (
	"context"
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

// ReadGrading reads a judge's answer on criteria with the ids 1, 2, ...; the
// control's is the one after them.
func ReadGrading(criteria []string, material, answer string) (Grading, error) {
	s, err := newSheet(GradeRequest{Criteria: criteria, Material: material})
	if err != nil {
		return Grading{}, err
	}
	for i := range s.ids {
		s.ids[i] = i + 1
	}
	return s.read(answer)
}
