package notify_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/whetstone-dev/whetstone/internal/platform/notify"
)

// FuzzSecret: a secret that is taken signs so that the receivers' own library
// agrees, and says nothing of itself when it is refused.
func FuzzSecret(f *testing.F) {
	for _, seed := range []string{notify.NewSecret(), "whsec_", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS\n", "whsec_!!!!"} {
		f.Add(seed, []byte(`{"type":"pass_rate_below"}`))
	}
	f.Fuzz(func(t *testing.T, secret string, body []byte) {
		if err := notify.CheckSecret(secret); err != nil {
			if len(secret) > 12 && strings.Contains(err.Error(), secret) {
				t.Errorf("%v shows the secret", err)
			}
			return
		}
		now := time.Now()
		signature, err := notify.Sign(secret, "msg_1", now, body)
		if err != nil {
			t.Fatalf("%q was taken and cannot sign: %v", secret, err)
		}
		receiver, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		header.Set(standardwebhooks.HeaderWebhookID, "msg_1")
		header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
		header.Set(standardwebhooks.HeaderWebhookSignature, signature)
		if err := receiver.Verify(body, header); err != nil {
			t.Errorf("the receiver refuses it: %v", err)
		}
		if receiver.Verify(append([]byte("x"), body...), header) == nil {
			t.Error("the receiver takes another body")
		}
	})
}
