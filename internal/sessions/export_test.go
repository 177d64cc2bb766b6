package sessions

// MaxEvents is how many events of a session are stored.
const MaxEvents = maxEvents

// Queries of the package, for the plan test.
var (
	SessionsByID     = sessionsByID
	SessionOf        = sessionOf
	EventsAfter      = eventsAfter
	SkillsOfSessions = skillsOfSessions
	ListSessions     = listSessions
	ExpiredSessions  = expiredSessions
)

// Position is where a page begins.
type Position = position

// After returns the filter with a cursor.
func (f Filter) After(micros int64, id string) Filter {
	f.after = &position{micros, id}
	return f
}

// EventsByKey looks up events.
var EventsByKey = eventsByKey

// Keys returns the keys of events of a session.
func Keys(session string, ids ...string) (keys []eventKey) {
	for _, id := range ids {
		keys = append(keys, eventKey{session, id})
	}
	return keys
}
