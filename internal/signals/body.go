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

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skills"
	"github.com/whetstone-dev/whetstone/internal/store"
)

const (
	maxSignals   = 1000 // in one batch
	maxType      = 64
	maxSourceKey = 256
	maxCohort    = 128
	// maxIssues bounds the answer to a batch that is wrong all over.
	maxIssues = 100
)

// billion is the unit in which confidences are summed, so that the sum does
// not depend on the order.
const billion = 1_000_000_000

// The words of a session.
var (
	invocations  = []string{"explicit", "implicit", "contextual", "missed"}
	grades       = []string{"A", "B", "C", "F"}
	queryBuckets = []string{
		"comparison", "troubleshooting", "migration", "configuration", "analysis", "search", "generation", "testing",
		"refactoring", "documentation", "other",
	}
)

// envelope is what both bodies may hold.
type envelope struct {
	Signals    json.RawMessage `json:"signals"`
	UserCohort json.RawMessage `json:"user_cohort"`
}

// wireSignal is a signal of a batch as it is sent.
type wireSignal struct {
	SkillName  *string  `json:"skill_name"`
	SignalType *string  `json:"signal_type"`
	SourceKey  *string  `json:"source_key"`
	UserCohort *string  `json:"user_cohort"`
	Confidence *float64 `json:"confidence"`
}

// A reader turns bodies into signals and notes what is wrong with them.
type reader struct {
	service *Service
	caller  access.Caller
	now     time.Time
	user    string // the contributor behind the key
	issues  []fault.Issue
	// notRelay says that a cohort was named with a key that is no relay's.
	notRelay bool
}

// contributor is who a cohort is counted as. Whoever could name any number of
// cohorts could make a crowd around one person's figures, so only a relay is
// believed, for which the organisation vouches; all others are one contributor,
// the user behind the key.
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

// batch reads the array of signals. Only if that fails is it looked at piece
// by piece, for the place of what is wrong.
func (r *reader) batch(e envelope) []Signal {
	by := r.user
	if cohort := r.text(fields{"user_cohort": e.UserCohort}, "user_cohort", maxCohort); cohort != "" {
		by = r.contributor(cohort)
	}
	var wires []wireSignal
	if httpapi.DecodeJSON(e.Signals, &wires) != nil || bytes.Contains(e.Signals, []byte("null")) {
		r.pieces(e.Signals, by)
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

// pieces notes what is wrong with an array that could not be decoded, or may
// have nulls in it.
func (r *reader) pieces(raw json.RawMessage, by string) {
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
			SkillName: read[string](r, f, path, "skill_name", "text"), SignalType: read[string](r, f, path, "signal_type", "text"),
			SourceKey: read[string](r, f, path, "source_key", "text"), UserCohort: read[string](r, f, path, "user_cohort", "text"),
			Confidence: read[float64](r, f, path, "confidence", "a number"),
		}, by)
	}
}

// signal checks one signal of a batch.
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

// required notes a field that is missing, unless it is there with the wrong type.
func (r *reader) required(path, name string) {
	if !slices.ContainsFunc(r.issues, func(i fault.Issue) bool { return isAt(i, path+name) }) {
		r.issue(path+name, "%s is required", name)
	}
}

func isAt(i fault.Issue, path string) bool { return strings.Join(i.Path, ".") == path }

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

// fields is a JSON object whose fields are read one by one.
type fields map[string]json.RawMessage

// read decodes a field; nil if it is missing, null or of another type, which
// is noted.
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

// text reads a field of the body that may be missing; then it is "".
func (r *reader) text(f fields, name string, limit int) string {
	value := read[string](r, f, "", name, "text")
	if value == nil {
		return ""
	}
	return r.bounded("", name, value, limit)
}

// word reads a field that may be missing and is one of a few words.
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

// session reads the object of one session.
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
	if creator := r.text(f, "relay_destination", 100); creator != "" {
		id, err := uuid.Parse(creator)
		if err != nil {
			r.issue("relay_destination", "relay_destination must be a UUID")
		}
		s.Session.CreatorID = id.String()
	}
	s.Session.Client = r.text(f, "client_version", 100)
	return s
}

// sessionPrefix begins the source keys that we make.
const sessionPrefix = "session:"

// outcome reads what a session says of the skill.
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

// weekOf reads the week of a session and returns a day of it: today, if today
// is in it, else its Monday. Nobody said which day it was.
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
