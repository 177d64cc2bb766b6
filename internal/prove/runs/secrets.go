package runs

import (
	"bytes"
	"encoding/json"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/prove/runs/taskpkg"
)

// hide removes the service's own secrets, e.g. API keys of models, from a text: some
// model servers repeat the key in their error messages.
func (x *execution) hide(s string) string {
	s = x.s.Judge.Redact(s)
	if x.s.Agents != nil {
		s = x.s.Agents.Gateway.Redact(s)
	}
	return s
}

// redact also removes what looks like a secret, for the texts of agents, which may have
// come across some.
func (x *execution) redact(s string) string { return x.hide(taskpkg.Redact(s)) }

// tail returns the end of an output as it is stored. Secrets are removed before
// truncating: half a secret isn't recognised.
func (x *execution) tail(output string) string { return tail(x.hide(output), x.tailLimit) }

// tail returns the last limit bytes of an output as they can be stored.
func tail(output string, limit int) string { return text.Clean(text.Tail(output, limit)) }

// hideEvidence removes the secrets from all texts of a trial's evidence, however
// nested, by way of its JSON. Evidence without any, the usual case, stays untouched.
func (x *execution) hideEvidence(e *Evidence) error {
	raw, err := json.Marshal(e)
	if err != nil || x.hide(string(raw)) == string(raw) {
		return err
	}
	var all any
	d := json.NewDecoder(bytes.NewReader(raw))
	// Numbers stay exact: a float64 would round large ones.
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return err
	}
	if raw, err = json.Marshal(hideIn(all, x.hide)); err != nil {
		return err
	}
	*e = Evidence{}
	return json.Unmarshal(raw, e)
}

// hideIn applies hide to the texts of a decoded JSON value.
func hideIn(of any, hide func(string) string) any {
	switch v := of.(type) {
	case string:
		return hide(v)
	case []any:
		for i := range v {
			v[i] = hideIn(v[i], hide)
		}
	case map[string]any:
		hidden := make(map[string]any, len(v))
		for name, field := range v {
			hidden[hide(name)] = hideIn(field, hide)
		}
		return hidden
	}
	return of
}
