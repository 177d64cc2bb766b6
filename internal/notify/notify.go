// Package notify tells people about a skill's trouble where they want to hear
// of it: in a chat, by mail or at a webhook of their own. It words a notice for
// its channel, tries to deliver it once and says what the caller should do
// next; keeping deliveries and trying again is the caller's. It owns no tables.
package notify

import (
	"context"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/outbound"
)

// A Channel is a way to reach people.
type Channel string

// The channels.
const (
	ChatA   Channel = "chat_a"
	ChatB   Channel = "chat_b"
	Email   Channel = "email"
	Webhook Channel = "webhook"
)

// A Status says what a notice reports.
type Status string

// The statuses. To a webhook a reminder is one more firing notice with a
// higher sequence.
const (
	Firing   Status = "firing"
	Resolved Status = "resolved"
	Reminder Status = "reminder"
	Test     Status = "test"
)

// A Type says which condition a notice is about.
type Type string

// The types.
const (
	PassRateBelow Type = "pass_rate_below"
	NoData        Type = "no_data"
)

// A Notice is all that a message says. It must hold no prompts and no names of
// users: they would leave the house with it.
type Notice struct {
	// ID is the same each time this notice is sent, so that a receiver can tell
	// a repetition: 1 to 100 letters, digits, hyphens and underscores.
	ID string
	// EpisodeID is the ID of the first notice of the same trouble, or empty.
	// Mails of one episode form a thread.
	EpisodeID string

	Status  Status
	Type    Type
	AlertID string
	SkillID string
	Skill   string // name; empty means all skills

	Threshold  float64     // a share for PassRateBelow, days for NoData
	PassRate   *float64    // for PassRateBelow
	DaysSilent *float64    // for NoData
	SampleSize int         // graded sessions behind PassRate
	Interval   *[2]float64 // in which the true pass rate lies, by 95 %

	// What was looked at; left out of the message when WindowTo is zero.
	WindowFrom, WindowTo time.Time
	WindowSessions       int

	TriggeredAt   time.Time  // when the state changed
	Since         *time.Time // when the trouble began; nil means TriggeredAt while it lasts
	LastSessionAt *time.Time
	Sequence      int
	Version       *string // current in the registry at that time
	URL           string  // page of the skill
	Note          string  // what else happened, as "Rolled back to 1.2.0"
}

// A Target is where a notice goes. It prints without its secrets.
type Target struct {
	Channel Channel
	Address string // a URL, or a mail address for Email
	// Secrets sign what goes to a Webhook, each with a signature of its own:
	// the current one first, then one that is being replaced.
	Secrets []string
}

// An Outcome says what the caller should do after an attempt.
type Outcome string

// The outcomes.
const (
	Delivered Outcome = "delivered"
	Retry     Outcome = "retry"  // it may work later
	Failed    Outcome = "failed" // it will not work before somebody changes something
	Gone      Outcome = "gone"   // the receiver wants no more of the alert
)

// A Result is how an attempt went.
type Result struct {
	Outcome Outcome
	// Status is the answer's code, of HTTP or of SMTP; 0 without an answer.
	Status int
	// Detail says in a line what happened. It may be shown: it holds neither
	// the target's address nor a secret.
	Detail string
	// RetryAfter is how long the receiver wants to be left alone, or 0.
	RetryAfter time.Duration
	// Held says that nothing was sent, since the target is busy or has asked
	// for a pause. It comes with Retry and RetryAfter, and need not count as
	// an attempt.
	Held bool
	// Latency is how long the attempt took, without the wait for its turn.
	Latency time.Duration
}

// Options say by what ways a sender sends.
type Options struct {
	// HTTP reaches the chats and webhooks. The sender sets its limits itself.
	HTTP *outbound.Client
	// SMTPURL is smtp://user:password@host:port, or smtps:// for TLS from the
	// start, and MailFrom is the sender of mails. Without both, mails fail.
	SMTPURL  string
	MailFrom string
	// MailRoots are trusted for the mail server's certificate instead of the
	// system's, if not nil.
	MailRoots *x509.CertPool
	// MailDial connects to the mail server instead of a net.Dialer, if not
	// nil. The operator chose that server: it may be private, and outbound
	// has no say.
	MailDial func(ctx context.Context, network, address string) (net.Conn, error)
}

// The limits of an attempt.
const (
	connectTimeout = 5 * time.Second
	attemptTimeout = 15 * time.Second
	maxAnswer      = 4 << 10 // bytes of an answer that are read
)

// A Sender delivers notices. It is safe for use by several goroutines at once.
type Sender struct {
	http  *outbound.Client
	mail  *mailServer
	lanes *lanes
}

// New returns a sender. Its error is Malformed and names the setting of the
// mail server that cannot work, but not its value.
func New(o Options) (*Sender, error) {
	server, err := newMailServer(o)
	if err != nil {
		return nil, err
	}
	return &Sender{
		http: o.HTTP.With(outbound.Limits{
			Timeout: attemptTimeout, MaxBody: maxAnswer, MaxRedirects: -1,
		}),
		mail:  server,
		lanes: newLanes(),
	}, nil
}

// MailConfigured reports whether the settings for mail are there.
func (s *Sender) MailConfigured() bool { return s.mail.configured() }

// Send tries once to deliver a notice. It first waits for its turn, up to ten
// seconds: a target gets few messages at a time. Only a Test does not heed the
// pause that a receiver has asked for. The attempt itself takes up to 15
// seconds, or 30 with a chat that does not take the first form. When the
// context ends early the outcome is Retry, although the receiver may have got
// the notice.
func (s *Sender) Send(ctx context.Context, t Target, n Notice) Result {
	if problem := n.problem(); problem != "" {
		return failed(problem)
	}
	switch t.Channel {
	case ChatA, ChatB, Webhook:
		return s.post(ctx, t, n)
	case Email:
		return s.sendMail(ctx, t, n)
	default:
		return failed("the channel is not known")
	}
}

// problem says why a notice cannot be sent by any channel, or nothing.
func (n *Notice) problem() string {
	if !isID(n.ID) || n.EpisodeID != "" && !isID(n.EpisodeID) {
		return "the notice has no usable id"
	}
	switch n.Status {
	case Firing, Resolved, Reminder, Test:
	default:
		return "the status of the notice is not known"
	}
	switch n.Type {
	case PassRateBelow, NoData:
		return ""
	default:
		return "the type of the notice is not known"
	}
}

// isID accepts what needs no quoting in a header, in a Message-ID and in the
// text that a webhook's signature covers.
func isID(s string) bool {
	return s != "" && len(s) <= 100 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

func failed(detail string) Result { return Result{Outcome: Failed, Detail: detail} }
