package signals

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/skill/skills"
)

// The limits of a body; lengths are in characters. The tags of Body repeat some
// of them for the OpenAPI document.
const (
	maxSignals   = 1000 // in one batch
	maxType      = 64
	maxSourceKey = 256
	maxCohort    = 128
	maxClient    = 100
	maxCreator   = 100
	maxIssues    = 100 // in the answer to a batch with many mistakes
)

// billion scales confidences to integers, so that their sum does not depend on
// the order.
const billion = 1_000_000_000

// The classes of a session. Other words are refused instead of being counted as "other", so that a
// sender notices a typing error.
var (
	invocations  = []string{"explicit", "implicit", "contextual", "missed"}
	grades       = []string{"A", "B", "C", "F"}
	queryBuckets = []string{
		"comparison", "troubleshooting", "migration", "configuration", "analysis", "search", "generation", "testing",
		"refactoring", "documentation", "other",
	}
)

// envelope is the fields of both bodies.
type envelope struct {
	Signals    json.RawMessage `json:"signals"`
	UserCohort json.RawMessage `json:"user_cohort"`
}

// wireSignal is a signal of a batch.
type wireSignal struct {
	SkillName  *string  `json:"skill_name"`
	SignalType *string  `json:"signal_type"`
	SourceKey  *string  `json:"source_key"`
	UserCohort *string  `json:"user_cohort"`
	Confidence *float64 `json:"confidence"`
}

// A reader parses bodies and collects validation issues. It goes on after an issue, so that a
// sender learns of all mistakes at once.
type reader struct {
	service *Service
	caller  access.Caller
	now     time.Time
	user    string // the contributor of the key's user
	issues  []fault.Issue
	// notRelay reports that a cohort was named with a key that is not a relay's.
	notRelay bool
}

// contributor returns the contributor of a cohort. A sender that can invent
// cohorts can defeat k-anonymity, by surrounding one person's signals with
// invented contributors. So only keys of relays may name them, which the
// organisation has made for that purpose; with any other key the contributor is
// the key's user.
func (r *reader) contributor(cohort string) string {
	if !r.caller.Relay {
		r.notRelay = true
		return r.user
	}
	return r.service.contributor(r.caller.OrgID, "cohort", cohort)
}

func (r *reader) issue(path, format string, args ...any) {
	if len(r.issues) < maxIssues {
		r.issues = append(r.issues, fault.At(path, format, args...))
	}
}

func (r *reader) err() error {
	if len(r.issues) == 0 {
		return nil
	}
	return fault.Issues(r.issues...)
}

// batch reads the array of signals. Only if that fails is it decoded element by
// element, to report the path of each mistake. This is the hot path of ingest.
func (r *reader) batch(e envelope) []Signal {
	by := r.user
	if cohort := r.text(fields{"user_cohort": e.UserCohort}, "user_cohort", maxCohort); cohort != "" {
		by = r.contributor(cohort)
	}
	var wires []wireSignal
	if httpapi.DecodeJSON(e.Signals, &wires) != nil || bytes.Contains(e.Signals, []byte("null")) {
		r.elements(e.Signals, by)
	}
	if len(r.issues) > 0 {
		return nil
	}
	if len(wires) == 0 || len(wires) > maxSignals {
		r.issue("signals", "signals must hold 1 to %d signals", maxSignals)
		return nil
	}
	signals := make([]Signal, len(wires))
	for i, w := range wires {
		signals[i] = r.signal("signals."+strconv.Itoa(i)+".", w, by)
	}
	return signals
}

// elements validates an array that could not be decoded, or that may contain
// nulls. A null counts as a missing field, which DecodeJSON can't tell from a zero.
func (r *reader) elements(raw json.RawMessage, by string) {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		r.issue("signals", "signals must be an array of signals or the object of one session")
		return
	}
	for i, element := range elements[:min(len(elements), maxSignals)] {
		path := "signals." + strconv.Itoa(i)
		var f fields
		if json.Unmarshal(element, &f) != nil || f == nil {
			r.issue(path, "%s must be an object", path)
			continue
		}
		path += "."
		r.signal(path, wireSignal{
			SkillName:  read[string](r, f, path, "skill_name", "text"),
			SignalType: read[string](r, f, path, "signal_type", "text"),
			SourceKey:  read[string](r, f, path, "source_key", "text"),
			UserCohort: read[string](r, f, path, "user_cohort", "text"),
			Confidence: read[float64](r, f, path, "confidence", "a number"),
		}, by)
	}
}

// signal validates one signal of a batch. The day is that of ingest: batches carry no time, by
// design.
func (r *reader) signal(path string, w wireSignal, by string) Signal {
	s := Signal{Contributor: by, Day: dayOf(r.now)}
	s.SkillName = r.skillName(path, w.SkillName)
	s.Type = r.bounded(path, "signal_type", w.SignalType, maxType)
	s.SourceKey = r.bounded(path, "source_key", w.SourceKey, maxSourceKey)
	if w.UserCohort != nil {
		s.Contributor = r.contributor(r.bounded(path, "user_cohort", w.UserCohort, maxCohort))
	}
	switch {
	case w.Confidence == nil:
		r.required(path, "confidence")
	case !(*w.Confidence >= 0 && *w.Confidence <= 1):
		r.issue(path+"confidence", "confidence must be between 0 and 1")
	default:
		n := int64(math.Round(*w.Confidence * billion))
		s.Confidence = &n
	}
	return s
}

// required reports a missing field, unless it has an issue already: then it has
// the wrong type.
func (r *reader) required(path, name string) {
	reported := func(i fault.Issue) bool { return strings.Join(i.Path, ".") == path+name }
	if !slices.ContainsFunc(r.issues, reported) {
		r.issue(path+name, "%s is required", name)
	}
}

func (r *reader) skillName(path string, name *string) string {
	if name == nil {
		r.required(path, "skill_name")
		return ""
	}
	clean, err := skills.CleanName(*name)
	if err != nil {
		r.issue(path+"skill_name", "%s", err.Error())
	}
	return clean
}

// bounded validates the length of a required text.
func (r *reader) bounded(path, name string, value *string, limit int) string {
	if value == nil {
		r.required(path, name)
		return ""
	}
	if n := utf8.RuneCountInString(*value); n < 1 || n > limit {
		r.issue(path+name, "%s must be 1 to %d characters long", name, limit)
	}
	return *value
}

// fields is a JSON object whose fields are decoded one by one. It tells missing fields from null
// and zero ones.
type fields map[string]json.RawMessage

// read decodes a field. It returns nil if the field is missing, null or of
// another type; the last is an issue.
func read[T any](r *reader, f fields, path, name, wanted string) *T {
	raw := f[name]
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var value T
	if json.Unmarshal(raw, &value) != nil {
		r.issue(path+name, "%s must be %s", name, wanted)
		return nil
	}
	return &value
}

// text reads an optional text of the body, "" if it is missing.
func (r *reader) text(f fields, name string, limit int) string {
	value := read[string](r, f, "", name, "text")
	if value == nil {
		return ""
	}
	return r.bounded("", name, value, limit)
}

// word reads an optional field that is one of a few words. It returns "" for a missing one.
func (r *reader) word(f fields, path, name string, words []string) string {
	value := read[string](r, f, path, name, "text")
	if value == nil {
		return ""
	}
	if !slices.Contains(words, *value) {
		r.issue(path+name, "%s must be one of %s", name, strings.Join(words, ", "))
	}
	return *value
}

// session reads the body of one session. Every session is new: nothing in it identifies it, and the
// key is random.
func (r *reader) session(f, inner fields) Signal {
	s := Signal{
		SourceKey: sessionPrefix + store.NewID(), Session: r.outcome(inner),
		SkillName: r.skillName("", read[string](r, f, "", "skill_name", "text")),
		Type:      r.bounded("", "signal_type", read[string](r, f, "", "signal_type", "text"), maxType),
		Day:       r.weekOf(f),
	}
	s.Contributor = r.user
	if cohort := r.text(f, "user_cohort", maxCohort); cohort != "" {
		s.Contributor = r.contributor(cohort)
	}
	if version := read[float64](r, f, "", "version", "1"); version != nil && *version != 1 {
		r.issue("version", "version must be 1")
	}
	if creator := r.text(f, "relay_destination", maxCreator); creator != "" {
		id, err := uuid.Parse(creator)
		if err != nil {
			r.issue("relay_destination", "relay_destination must be a UUID")
		}
		s.Session.CreatorID = id.String()
	}
	s.Session.Client = r.text(f, "client_version", maxClient)
	return s
}

// sessionPrefix starts the source keys of sessions, which the service generates.
const sessionPrefix = "session:"

// outcome reads the outcome of a session. A report may contradict itself, so the order of the cases
// is the rule: a miss wins.
func (r *reader) outcome(f fields) *Session {
	const path = "signals."
	triggered := read[bool](r, f, path, "triggered", "true or false")
	missed := read[bool](r, f, path, "miss_detected", "true or false")
	s := &Session{
		Invocation: r.word(f, path, "invocation_type", invocations), Grade: r.word(f, path, "execution_grade", grades),
		QueryBucket: r.word(f, path, "query_bucket", queryBuckets),
	}
	switch {
	case missed != nil && *missed || s.Invocation == "missed":
		s.State = Missed
	case triggered != nil && !*triggered:
		s.State = Untriggered
	case triggered != nil || s.Invocation != "" || s.Grade != "":
		s.State = Triggered
	default:
		s.State = Unknown
	}
	return s
}

// weekOf reads the week of a session and returns a day of it, since sessions
// report no day: today, if today is in the week, else its Monday. The current week is open; a
// future one would be published ahead of its time. A day of tolerance is for clocks and time zones.
func (r *reader) weekOf(f fields) int64 {
	today := dayOf(r.now)
	name := read[string](r, f, "", "timestamp_bucket", "text")
	if name == nil {
		return today
	}
	monday, ok := parseWeek(*name)
	switch {
	case !ok:
		r.issue("timestamp_bucket", "timestamp_bucket must be an ISO week like 2026-W07")
	case monday > today+1:
		r.issue("timestamp_bucket", "timestamp_bucket must not be in the future")
	case mondayOf(today) != monday:
		return monday
	}
	return today
}
