package taskpkg

import "encoding/json"

// Evidence is what the verifier of a task package reported, as it is stored.
type Evidence struct {
	// Raw is the reward before it is clamped to 0..1, and Metrics are all numbers
	// that the verifier reported.
	Raw        float64            `json:"raw"`
	Metrics    map[string]float64 `json:"metrics,omitempty"`
	Report     json.RawMessage    `json:"report,omitempty"` // its ctrf.json
	PeakMemory int64              `json:"peak_memory_bytes,omitempty"`
	// Digest is the SHA-256 of the environment.
	Digest string `json:"environment_sha256,omitempty"`
	// Image identifies the image in which the programs ran; "" for the service's own
	// machine.
	Image     string `json:"image_sha256,omitempty"`
	TimeoutMS int64  `json:"timeout_ms"`
	// Runner is the version of the rules by which the package was run.
	Runner string `json:"runner"`
}

// maxStoredReport bounds the verifier's report that is stored with a trial. A larger
// one is dropped: half a JSON document is of no use.
const maxStoredReport = 64 << 10

// Evidence returns what is stored of an outcome.
func (o Outcome) Evidence() *Evidence {
	e := &Evidence{
		Raw: o.Raw, Metrics: o.Metrics, PeakMemory: o.PeakMemory, Digest: o.Digest, Image: o.Image,
		TimeoutMS: o.Limits.Wall.Milliseconds(), Runner: o.Version,
	}
	if len(o.Report) <= maxStoredReport && json.Valid(o.Report) {
		e.Report = o.Report
	}
	return e
}
