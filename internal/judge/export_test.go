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
