package improving

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A Fact is one piece of evidence.
type Fact struct {
	Name, Value string
	URL         string // of what it is about; "" if it has no page
}

// pages are the paths of what the ids in evidence name.
var pages = map[string]string{
	"improve_run_id": "/improve-runs/", "suite_id": "/suites/", "run_id": "/runs/", "skill_id": "/skills/", "entry_id": "/registry/",
}

// names are the words for keys of evidence whose own name says little.
var names = map[string]string{
	"improve_run_id": "Improve run", "suite_id": "Suite", "run_id": "Run", "skill_id": "Skill", "entry_id": "Entry",
	"skill_signals": "Signals about the skill", "iteration": "Candidate", "cost_usd": "Cost in dollars",
	"train": "Cases that it was written from", "holdout": "Cases that chose it", "selection": "Cases that chose it", "proof": "Cases that prove it",
}

// Facts says what a proposal rests on. Evidence is JSON of any shape: what is known is
// put in words, and the rest is listed by its name.
func Facts(raw json.RawMessage) []Fact {
	var evidence map[string]any
	if json.Unmarshal(raw, &evidence) != nil {
		return []Fact{{Name: "Evidence", Value: string(raw)}}
	}
	var facts []Fact
	for _, key := range slices.Sorted(maps.Keys(evidence)) {
		facts = append(facts, factsOf(key, evidence[key])...)
	}
	return facts
}

func factsOf(key string, value any) []Fact {
	name := nameOf(key)
	switch value := value.(type) {
	case nil:
		return nil
	case map[string]any:
		if text := sentence(key, value); text != "" {
			return []Fact{{Name: name, Value: text}}
		}
		var facts []Fact
		for _, inner := range slices.Sorted(maps.Keys(value)) {
			for _, f := range factsOf(inner, value[inner]) {
				f.Name = name + ": " + strings.ToLower(f.Name)
				facts = append(facts, f)
			}
		}
		return facts
	case []any:
		return listed(name, value)
	case string:
		if path, ok := pages[key]; ok && value != "" {
			return []Fact{{name, "View the " + strings.ToLower(name), path + value}}
		}
		return []Fact{{Name: name, Value: value}}
	case float64:
		return []Fact{{Name: name, Value: strconv.FormatFloat(value, 'f', -1, 64)}}
	}
	return []Fact{{Name: name, Value: fmt.Sprint(value)}}
}

// sentence puts objects of a known shape in words; "" for any other.
func sentence(key string, value map[string]any) string {
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

// listed puts a list into facts: buckets with their counts in one, anything else one
// by one.
func listed(name string, values []any) (facts []Fact) {
	var buckets []string
	for i, value := range values {
		entry, _ := value.(map[string]any)
		bucket, isBucket := entry["bucket"].(string)
		count, counted := entry["count"].(float64)
		if isBucket && counted {
			buckets = append(buckets, fmt.Sprintf("%s %.0f", bucket, count))
			continue
		}
		for _, f := range factsOf(strconv.Itoa(i+1), value) {
			f.Name = name + " " + f.Name
			facts = append(facts, f)
		}
	}
	if len(buckets) > 0 {
		facts = append(facts, Fact{Name: "Noticed with", Value: strings.Join(buckets, ", ")})
	}
	return facts
}

// nameOf is the name of a key for people, e.g. "Missed queries" for missed_queries.
func nameOf(key string) string {
	if name, ok := names[key]; ok {
		return name
	}
	words := strings.ReplaceAll(key, "_", " ")
	if words == "" {
		return words
	}
	return strings.ToUpper(words[:1]) + words[1:]
}
