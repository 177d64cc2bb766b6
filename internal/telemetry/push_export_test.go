package telemetry

import (
	"time"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/skills"
)

// A Reading is what a push comes to before it meets the database.
type Reading struct {
	skills.Report
	Accepted int
	Rejected []rejection
}

// ReadPush reads the body of a push.
func ReadPush(raw []byte, now time.Time) (Reading, error) {
	var e envelope
	if err := decodeEnvelope(raw, &e); err != nil {
		return Reading{}, err
	}
	b := newReader(access.Caller{OrgID: "org", UserID: "user"}, now).read(e)
	return Reading{skills.Report{Observations: b.observations, Gradings: b.gradings}, b.accepted, b.rejected}, nil
}

// CanonicalPushID reads the id of a push.
var CanonicalPushID = canonicalPushID
