package notify

import (
	"context"
	"errors"
	"time"
)

// Sign makes the signature of a webhook's body.
var Sign = signature

// Excerpt is what is shown of an answer from a target.
func Excerpt(t Target, text string) string { return excerpt([]byte(text), secretsOf(t)) }

// Lanes opens the lanes to their test.
type Lanes struct{ *lanes }

// Test values of the lanes.
const (
	PerHost   = perHost
	ChatEvery = chatEvery
	ChatBurst = chatBurst
	MaxTurn   = maxTurn
	MaxLanes  = maxLanes
)

// NewLanes returns lanes without any.
func NewLanes() Lanes { return Lanes{newLanes()} }

// Enter waits for the turn of a message to a chat.
func (l Lanes) Enter(ctx context.Context, host, address string) (leave func(), err error) {
	return l.enter(ctx, way{host: host, address: address, every: chatEvery})
}

// Pause keeps messages from a chat.
func (l Lanes) Pause(address string, d time.Duration) {
	l.pause(way{address: address, every: chatEvery}, d)
}

// Len is how many lanes there are.
func (l Lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lanes.lanes)
}

// HeldFor is the wait in an error of Enter, and whether it has one.
func HeldFor(err error) (time.Duration, bool) {
	h, ok := errors.AsType[*heldError](err)
	if !ok {
		return 0, false
	}
	return h.wait, true
}
