package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/whetstone-dev/whetstone/internal/identity/auth"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
)

const (
	signalBatch  = 100 // signals in one body, and rows in one of the driver's transactions
	signalBodies = 250 // of one organisation: it may send 300 an hour
	signalSkills = 10
	signalRatio  = 0.6 // of what the driver takes in
)

// signalTables are those that signals are written to.
func signalTables() []string { return []string{"signals", "signal_contributors", "signal_cells"} }

// benchSignals measures how many signals a second are acknowledged, each of
// them durable and counted then, beside the driver's batch inserts of the very
// rows that they leave behind.
func benchSignals(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.signalsOn)
}

// signalOrgs is how many organisations send in one round.
func (l *lab) signalOrgs() int {
	if l.quick {
		return 2
	}
	return 4
}

// signalsOn lets the service and the driver take turns, each on an empty
// database, and shows the best round of each.
func (l *lab) signalsOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	var ours, apart, together float64
	count := float64(l.signalOrgs() * signalBodies * signalBatch)
	for range l.rounds() {
		url, err := fresh()
		if err != nil {
			return nil, err
		}
		took, err := l.sendSignals(ctx, url)
		if err != nil {
			return nil, err
		}
		raw, err := timeRaw(ctx, url, signalTables(), signalBatch, l.signalOrgs()*signalBodies)
		if err != nil {
			return nil, fmt.Errorf("insert the rows with the driver: %w", err)
		}
		ours = max(ours, count/took.Seconds())
		apart, together = max(apart, count/raw.apart.Seconds()), max(together, count/raw.together.Seconds())
	}
	name := "signals: " + database
	return []row{
		{Name: name, Figure: ours, Unit: "signals/s", Beside: "driver, table by table", Other: apart, AtLeast: signalRatio},
		{Name: name, Figure: ours, Unit: "signals/s", Beside: "driver, body by body", Other: together, AtLeast: bodiesRatio},
	}, nil
}

// sendSignals sends the bodies of one round to a new server and returns how
// long that took.
func (l *lab) sendSignals(ctx context.Context, url string) (time.Duration, error) {
	data, err := l.folder("signals")
	if err != nil {
		return 0, err
	}
	s, err := l.serve(ctx, data, "--database-url", url)
	if err != nil {
		return 0, err
	}
	defer s.stop()
	var requests [][]byte
	for n := range l.signalOrgs() {
		key, err := newOrgKey(ctx, url, fmt.Sprint("signals ", n))
		if err != nil {
			return 0, err
		}
		for body := range signalBodies {
			request, err := s.signals(ctx, key, body)
			if err != nil {
				return 0, err
			}
			requests = append(requests, request)
		}
	}
	r, err := queue(s, requests, http.StatusOK).run(ctx)
	return r.took, err
}

// newOrgKey makes an organisation beside a running server, and a key of it.
func newOrgKey(ctx context.Context, url, name string) (string, error) {
	db, err := openStore(ctx, url)
	if err != nil {
		return "", err
	}
	defer db.Close()
	service := &auth.Service{DB: db}
	o, err := service.CreateOrg(ctx, name, access.Team)
	if err != nil {
		return "", err
	}
	u, err := service.CreateUser(ctx, auth.NewUser{OrgID: o.ID, Email: "bench@example.org", Role: access.Member})
	if err != nil {
		return "", err
	}
	_, raw, err := service.CreateKey(ctx, auth.NewKey{OrgID: o.ID, UserID: u.ID, Name: "bench", Relay: true})
	return raw, err
}

// signals makes the request of one batch, of one of 50 contributors.
func (s *server) signals(ctx context.Context, key string, n int) ([]byte, error) {
	type signal struct {
		SkillName  string  `json:"skill_name"`
		SignalType string  `json:"signal_type"`
		Confidence float64 `json:"confidence"`
		SourceKey  string  `json:"source_key"`
	}
	batch := make([]signal, signalBatch)
	for i := range batch {
		batch[i] = signal{fmt.Sprintf("signalled-%02d", i%signalSkills), "missed_trigger", float64(i) / signalBatch, contentHash(n*signalBatch+i, key)}
	}
	text, err := json.Marshal(map[string]any{"signals": batch, "user_cohort": fmt.Sprintf("uc_sha256_%012x", n%50)})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/v1/signals", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	return wire(req)
}
