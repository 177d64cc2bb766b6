package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A fact is one piece of evidence.
type fact struct {
	Name, Value string
	URL         string // of what it is about; "" if it has no page
}

// factPages are the paths of what the ids in evidence name.
var factPages = map[string]string{
	"improve_run_id": "/improve-runs/", "suite_id": "/suites/", "run_id": "/runs/", "skill_id": "/skills/",
	"entry_id": "/registry/",
}

// factNames are the words for keys of evidence whose own name says little.
var factNames = map[string]string{
	"improve_run_id": "Improve run", "suite_id": "Suite", "run_id": "Run", "skill_id": "Skill", "entry_id": "Entry",
	"skill_signals": "Signals about the skill", "iteration": "Candidate", "cost_usd": "Cost in dollars",
	"train": "Cases that it was written from", "holdout": "Cases that chose it", "selection": "Cases that chose it",
	"proof": "Cases that prove it",
}

// factsOf says what a proposal rests on. Evidence is JSON of any shape: what is known is
// put in words, and the rest is listed by its name. The shape depends on what made
// the proposal, and on its version.
func factsOf(raw json.RawMessage) []fact {
	var evidence map[string]any
	if json.Unmarshal(raw, &evidence) != nil {
		return []fact{{Name: "Evidence", Value: string(raw)}}
	}
	var facts []fact
	for _, key := range slices.Sorted(maps.Keys(evidence)) {
		facts = append(facts, factsAt(key, evidence[key])...)
	}
	return facts
}

// factsAt lists a value by its type. Nested names are joined, e.g. "Signals: count".
func factsAt(key string, value any) []fact {
	name := factName(key)
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		if text := factSentence(key, value); text != "" {
			return []fact{{Name: name, Value: text}}
		}
		var facts []fact
		for _, inner := range slices.Sorted(maps.Keys(value)) {
			for _, f := range factsAt(inner, value[inner]) {
				f.Name = name + ": " + strings.ToLower(f.Name)
				facts = append(facts, f)
			}
		}
		return facts
	case []any:
		return listedFacts(name, value)
	case string:
		if path, ok := factPages[key]; ok && value != "" {
			return []fact{{name, "View the " + strings.ToLower(name), path + value}}
		}
		return []fact{{Name: name, Value: value}}
	case float64:
		return []fact{{Name: name, Value: strconv.FormatFloat(value, 'f', -1, 64)}}
	}
	return []fact{{Name: name, Value: fmt.Sprint(value)}}
}

// factSentence puts objects of a known shape in words; "" for any other. They are
// what our own proposals have most often.
func factSentence(key string, value map[string]any) string {
	number := func(name string) (string, bool) {
		n, ok := value[name].(float64)
		return strconv.FormatFloat(n, 'f', -1, 64), ok
	}
	text := func(name string) string { s, _ := value[name].(string); return s }
	before, isComparison := number("passed_before")
	after, _ := number("passed_after")
	cases, _ := number("cases")
	switch {
	case isComparison:
		return fmt.Sprintf("%s of %s right, %s with the current text", after, cases, before)
	case key == "judge":
		return strings.TrimSpace(text("api") + " " + text("model"))
	case key == "period":
		return strings.Trim(text("from")+" to "+text("to"), " ")
	}
	return ""
}

// listedFacts puts a list into facts: buckets with their counts in one, anything else one
// by one. An entry without a name is called by its number.
func listedFacts(name string, values []any) (facts []fact) {
	var buckets []string
	for i, value := range values {
		entry, _ := value.(map[string]any)
		bucket, isBucket := entry["bucket"].(string)
		count, counted := entry["count"].(float64)
		if isBucket && counted {
			buckets = append(buckets, fmt.Sprintf("%s %.0f", bucket, count))
			continue
		}
		for _, f := range factsAt(strconv.Itoa(i+1), value) {
			f.Name = name + " " + f.Name
			facts = append(facts, f)
		}
	}
	if len(buckets) > 0 {
		facts = append(facts, fact{Name: "Noticed with", Value: strings.Join(buckets, ", ")})
	}
	return facts
}

// factName is the name of a key for people, e.g. "Missed queries" for missed_queries.
func factName(key string) string {
	if name, ok := factNames[key]; ok {
		return name
	}
	words := strings.ReplaceAll(key, "_", " ")
	if words == "" {
		return words
	}
	return strings.ToUpper(words[:1]) + words[1:]
}
