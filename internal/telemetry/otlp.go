package telemetry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/whetstone-dev/whetstone/internal/access"
	"github.com/whetstone-dev/whetstone/internal/fault"
	"github.com/whetstone-dev/whetstone/internal/httpapi"
	"github.com/whetstone-dev/whetstone/internal/quota"
	"github.com/whetstone-dev/whetstone/internal/store"
)

// receiver takes in OTLP over HTTP.
type receiver struct {
	*Service

	mu   sync.Mutex
	salt []byte // keys the hashes of users' ids; read when first needed
}

type otlpInput struct {
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte
}

// A signal is one of OTLP's three kinds of data.
type signal struct {
	name     string // the last word of its route
	rejected string // what JSON calls the count of what was not taken
	data     proto.Message
	read     func(*normalizer)
}

func (r *receiver) logs(ctx context.Context, in otlpInput) (httpapi.Stream, error) {
	data := &logs.LogsData{}
	return r.receive(ctx, in, signal{"logs", "rejectedLogRecords", data, func(n *normalizer) { n.logs(data) }})
}

func (r *receiver) traces(ctx context.Context, in otlpInput) (httpapi.Stream, error) {
	data := &trace.TracesData{}
	return r.receive(ctx, in, signal{"traces", "rejectedSpans", data, func(n *normalizer) { n.traces(data) }})
}

func (r *receiver) metrics(ctx context.Context, in otlpInput) (httpapi.Stream, error) {
	data := &metrics.MetricsData{}
	return r.receive(ctx, in, signal{"metrics", "rejectedDataPoints", data, func(n *normalizer) { n.metrics(data) }})
}

// receive takes in a body. What is personal is dropped before anything is
// kept; then the body is kept whatever the normalizer makes of it.
func (r *receiver) receive(ctx context.Context, in otlpInput, s signal) (_ httpapi.Stream, err error) {
	defer fault.Wrap(&err, "otlp %s", s.name)
	e, err := encodingOf(in.ContentType)
	if err != nil {
		return nil, err
	}
	if err := e.decode(ctx, in.RawBody, s.data); err != nil {
		if fault.Of(err) != fault.Internal || ctx.Err() != nil {
			return nil, err // too large, or there is no room for it now
		}
		return e.malformed(fmt.Sprintf("the body is no valid %s: %s", s.data.ProtoReflect().Descriptor().Name(), err)), nil
	}
	c := access.From(ctx)
	salt, err := r.userSalt(ctx)
	if err != nil {
		return nil, err
	}
	scrubber{orgID: c.OrgID, salt: salt}.message(s.data.ProtoReflect())
	raw, err := proto.Marshal(s.data)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return e.taken(s, nil), nil
	}
	pushID := store.NewID()
	p, err := r.keepRaw(ctx, c, pushID, pushID+"."+s.name+".pb", raw)
	if err != nil {
		return nil, err
	}
	n := newNormalizer(c, time.Now())
	s.read(n)
	rejected, err := r.takeIn(ctx, c, n.harvest, p)
	return e.taken(s, rejected), err
}

// userSalt is the installation's secret for the hashes of users' ids.
func (r *receiver) userSalt(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.salt == nil {
		salt, err := r.Auth.Secret(ctx, "telemetry-users")
		if err != nil {
			return nil, err
		}
		r.salt = salt
	}
	return r.salt, nil
}

// A harvest is what one body says. Some of it can only be understood beside
// what was said before.
type harvest struct {
	batch
	sightings []sighting
	counts    []count
}

// takeIn stores a harvest and counts it, all in one transaction. It returns
// all that could not be taken.
func (r *receiver) takeIn(ctx context.Context, c access.Caller, h harvest, p *pushRow) (rejected []rejection, err error) {
	err = r.DB.InGroup(ctx, func(tx *store.Tx) error {
		if err := upsertRecords(ctx, tx, c, h.records); err != nil {
			return err
		}
		paired, err := pair(ctx, tx, c, h.sightings)
		if err != nil {
			return err
		}
		counted, refused, err := countUp(ctx, tx, c, h.counts)
		if err != nil {
			return err
		}
		b := h.batch
		b.observations = slices.Concat(b.observations, paired, counted)
		b.rejected = slices.Concat(b.rejected, refused)
		b.accepted -= len(refused)
		rejected = b.rejected
		if _, err := insertPush(ctx, tx, c, b, p); err != nil {
			return err
		}
		if err := r.observe(ctx, tx, c, b); err != nil {
			return err
		}
		return r.Quota.Add(ctx, tx, c.OrgID, quota.Telemetry, p.bytes)
	})
	return rejected, err
}

// summary tells a sender what was not taken: the first few, and how many.
func summary(rejected []rejection) string {
	const most = 5
	var lines []string
	for _, r := range rejected[:min(most, len(rejected))] {
		lines = append(lines, fmt.Sprintf("%s %d: %s", r.Kind, r.Index, r.Message))
	}
	if more := len(rejected) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "; ")
}
