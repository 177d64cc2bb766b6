package notify

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// webhookBody is flat. Its first five keys are fixed by the public interface.
type webhookBody struct {
	Type            Type      `json:"type"`
	Skill           string    `json:"skill"`
	Threshold       float64   `json:"threshold"`
	CurrentPassRate *float64  `json:"current_pass_rate"`
	TriggeredAt     string    `json:"triggered_at"`
	AlertID         string    `json:"alert_id"`
	SkillID         string    `json:"skill_id"`
	Status          Status    `json:"status"`
	Value           *float64  `json:"value"`
	SampleSize      int       `json:"sample_size"`
	Interval        *interval `json:"interval"`
	Window          *window   `json:"window"`
	Sequence        int       `json:"sequence"`
	URL             string    `json:"url"`
	Version         *string   `json:"version"`
	Note            string    `json:"note,omitempty"`

	Reference        *float64 `json:"reference,omitempty"`
	ReferenceVersion string   `json:"reference_version,omitempty"`
}

type interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

type window struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Sessions int    `json:"sessions"`
}

func newWebhookBody(n Notice) webhookBody {
	b := webhookBody{
		Type: n.Type, Skill: n.Skill, Threshold: n.Threshold,
		TriggeredAt: wireTime(n.TriggeredAt), AlertID: n.AlertID, SkillID: n.SkillID, Status: n.Status,
		SampleSize: n.SampleSize, Sequence: n.Sequence, URL: n.URL, Version: n.Version, Note: n.Note,
	}
	if n.Status == Reminder {
		b.Status = Firing
	}
	switch n.Type {
	case NoData:
		b.Value = n.DaysSilent
	case PassRateBelow:
		b.CurrentPassRate, b.Value = n.PassRate, n.PassRate
	case WorseThanPrevious, CostAbove, SilentFall:
		b.CurrentPassRate, b.Value, b.Reference, b.ReferenceVersion = n.PassRate, n.Measured, n.Reference, n.ReferenceVersion
	}
	if n.Interval != nil {
		b.Interval = &interval{n.Interval[0], n.Interval[1]}
	}
	if !n.WindowTo.IsZero() {
		b.Window = &window{wireTime(n.WindowFrom), wireTime(n.WindowTo), n.WindowSessions}
	}
	return b
}

// sign adds the headers of the Standard Webhooks specification, with a signature
// for each secret, so that receivers can verify during a rotation.
func sign(header http.Header, secrets []string, id string, body []byte) error {
	now := time.Now()
	var signatures []string
	for _, secret := range secrets {
		signature, err := signature(secret, id, now, body)
		if err != nil {
			return err
		}
		signatures = append(signatures, signature)
	}
	if len(signatures) == 0 {
		return fault.New(fault.Malformed, "must be set: rotate the secret")
	}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}

func signature(secret, id string, at time.Time, body []byte) (string, error) {
	if err := CheckSecret(secret); err != nil {
		return "", err
	}
	signer, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return "", err
	}
	return signer.Sign(id, at, body)
}

// The format of a Standard Webhooks secret.
const (
	secretPrefix = "whsec_"
	newKeyBytes  = 32
	minKeyBytes  = 24
	maxKeyBytes  = 64
)

// NewSecret generates a secret for signing webhook bodies.
func NewSecret() string {
	key := make([]byte, newKeyBytes)
	_, _ = rand.Read(key) // never fails
	return secretPrefix + base64.StdEncoding.EncodeToString(key)
}

// CheckSecret validates a secret. Its error is Malformed and does not contain
// the secret.
func CheckSecret(secret string) error {
	encoded, ok := strings.CutPrefix(secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	ok = ok && err == nil && len(key) >= minKeyBytes && len(key) <= maxKeyBytes
	if !ok || strings.ContainsAny(encoded, "\r\n") { // which the decoder skips
		return fault.New(fault.Malformed,
			"must be %s and the base64 of %d to %d bytes", secretPrefix, minKeyBytes, maxKeyBytes)
	}
	return nil
}
