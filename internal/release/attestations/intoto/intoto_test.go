package intoto_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/release/attestations/intoto"
)

var of = intoto.Version{Organisation: "acme", Name: "pdf", Version: "1.0.0"}

func statement(t *testing.T) string {
	t.Helper()
	var p intoto.ProvenancePredicate
	p.BuildDefinition.ExternalParameters.Version = of
	s, err := intoto.New(of, intoto.Archives{SHA256: "aa", DirHash: "bb", Discovery: "cc", Plugin: "dd"}, intoto.Provenance, p)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestParse(t *testing.T) {
	t.Parallel()
	good := statement(t)
	if !strings.HasPrefix(good, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"acme/pdf@1.0.0","digest":{"dirHash":"bb","sha256":"aa"}},`+
		`{"name":"acme/pdf@1.0.0?archive=discovery","digest":{"sha256":"cc"}},{"name":"acme/pdf@1.0.0?archive=plugin","digest":{"sha256":"dd"}}],`+
		`"predicateType":"https://slsa.dev/provenance/v1","predicate":{"buildDefinition":`) {
		t.Errorf("statement %s", good)
	}
	r, err := intoto.Parse([]byte(good))
	if err != nil || r.Of != of || r.DirHash() != "bb" || r.Provenance == nil || r.Eval != nil {
		t.Errorf("parsed %+v, %v", r, err)
	}
	for _, bad := range []string{
		``, `{}`, `null`, `[]`, good + good,
		strings.Replace(good, "Statement/v1", "Statement/v2", 1),
		strings.Replace(good, "provenance/v1", "provenance/v9", 1),
		strings.Replace(good, `"predicate":{`, `"predicate":null,"x":{`, 1),
		strings.Replace(good, `"subject":[`, `"subject":[],"x":[`, 1),
		strings.Replace(good, `{"_type"`, `{"subject":[{"name":"evil","digest":{}}],"_type"`, 1),
		strings.Replace(good, `"sha256":"aa"`, `"sha256":"aa","sha256":"ff"`, 1),
		strings.Replace(good, `"organisation":"acme"`, `"organisation":"acme","ORGANISATION":"evil"`, 1),
	} {
		if r, err := intoto.Parse([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, r)
		}
	}
}

// TestCheck replays a statement for other versions.
func TestCheck(t *testing.T) {
	t.Parallel()
	r, err := intoto.Parse([]byte(statement(t)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of     intoto.Version
		sha256 string
		ok     bool
	}{
		{of, "aa", true},
		{of, "cc", false},
		{of, "", false},
		{intoto.Version{Organisation: "other", Name: "pdf", Version: "1.0.0"}, "aa", false},
		{intoto.Version{Organisation: "acme", Name: "doc", Version: "1.0.0"}, "aa", false},
		{intoto.Version{Organisation: "acme", Name: "pdf", Version: "1.0.1"}, "aa", false},
		// The same text, split in another way.
		{intoto.Version{Organisation: "acme/pdf@1.0.0", Name: "", Version: ""}, "aa", false},
	} {
		if err := r.Check(c.of, c.sha256); (err == nil) != c.ok {
			t.Errorf("%v %s: %v", c.of, c.sha256, err)
		}
	}
	tricky := intoto.Version{Organisation: "a", Name: "b@1", Version: "2"}
	other := intoto.Version{Organisation: "a", Name: "b", Version: "1@2"}
	if tricky.Subject() != other.Subject() {
		t.Fatal("these two names are no longer alike")
	}
	s, err := intoto.New(tricky, intoto.Archives{SHA256: "aa"}, intoto.EvalResult, intoto.EvalPredicate{Version: tricky})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = intoto.Parse(raw); err != nil || r.Check(tricky, "aa") != nil || r.Check(other, "aa") == nil {
		t.Errorf("%v: it passes for a version with the same text", err)
	}
}
