package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// Limits of a session, against a hostile program.
const (
	maxConnections = 64
	maxConcurrent  = 8 // requests; the others wait
	headerTimeout  = 10 * time.Second
	bodyTimeout    = 30 * time.Second
	writeTimeout   = time.Minute // of one write
	maxHeader      = 64 << 10
	sessionMemory  = 2 * maxRequest
	maxSocketPath  = 107 // bytes, of sockaddr_un
)

// SocketName is the file of the socket in the folder of a session.
const SocketName = "model.sock"

// A Conversation is what a session is opened for.
type Conversation struct {
	Model string // by its name
	Meter *Meter
	// Record is how many bytes of the requests and answers are kept; 0 for none.
	Record int
	// Answered, if not nil, is called with every answer. Several may come at once.
	Answered func(Answer)
	// Prices, if not nil, replace those of the gateway.
	Prices *pricing.Table
}

// A Session is the way from one sandbox to one model, until it is closed. Prices are fixed when it
// is opened: new ones don't change the cost of a trial that is running.
type Session struct {
	upstream *upstream
	http     outboundClient
	secrets  text.Secrets
	price    pricing.Price
	priced   bool
	meter    *Meter
	slots    chan struct{}
	memory   *semaphore.Weighted // of this session
	shared   *semaphore.Weighted // of all
	server   http.Server
	served   chan struct{}
	close    func() error

	mu       sync.Mutex
	problem  *Problem
	failures int  // in a row
	refused  bool // for a budget
	gaveUp   chan struct{}
	record   record
	answers  []Answer

	answersLeft int // bytes
	answered    func(Answer)
	results     map[string]Result // by the ids of their calls
	resultsLeft int               // bytes
	failed      []Failure
}

// outboundClient sends requests upstream. *outbound.Client implements it.
type outboundClient interface {
	Do(req *http.Request) (*http.Response, error)
}

// A Problem is why the model did not answer. It is safe to show.
type Problem struct {
	// Status is the last status that is not a success, 0 if there was no answer.
	Status  int
	Message string
}

// A Failure is a request that the model did not answer. It is safe to show.
type Failure struct {
	At      time.Time
	Took    time.Duration
	Message string
}

// maxFailures is how many are kept.
const maxFailures = 100

// Open starts a session whose socket is in a folder of its own, which is mounted
// into the sandbox. The error is a NotFound for an unknown model, and an
// Unsupported for a budget of money with a model whose price is unknown.
func (g *Gateway) Open(dir string, c Conversation) (_ *Session, err error) {
	defer fault.Wrap(&err, "model gateway")
	u := g.find(c.Model)
	if u == nil {
		return nil, fault.New(fault.NotFound, "Model %q is not configured; set --model", c.Model)
	}
	s := &Session{
		upstream: u, http: g.http, secrets: g.secrets, meter: c.Meter, slots: make(chan struct{}, maxConcurrent),
		memory: semaphore.NewWeighted(sessionMemory), shared: g.memory,
		served: make(chan struct{}), gaveUp: make(chan struct{}), record: record{left: c.Record},
		answersLeft: maxAnswers, answered: c.Answered, results: map[string]Result{}, resultsLeft: maxResults,
	}
	s.close = sync.OnceValue(s.shutDown)
	prices := g.prices
	if c.Prices != nil {
		prices = *c.Prices
	}
	s.price, s.priced = prices.Lookup(u.id, time.Now())
	// Without a price the money used would always be 0 and the budget would never end.
	if !s.priced && c.Meter.hasMoney() {
		return nil, fault.New(fault.Unsupported,
			"the price of %s is unknown, so that a budget of money cannot be kept; set --price-file", u.id)
	}
	path := filepath.Join(dir, SocketName)
	if len(path) > maxSocketPath {
		return nil, fault.New(fault.Unavailable, "the path of the socket is too long; set --sandbox-scratch to a shorter one")
	}
	// Only the program's user can enter the folder, so the socket needs no permissions of its own.
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s.server = http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader, ErrorLog: discard(),
		DisableGeneralOptionsHandler: true, // which would answer "OPTIONS *"
	}
	go func() {
		defer close(s.served)
		err := s.server.Serve(netutil.LimitListener(listener, maxConnections))
		if !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("model gateway", "error", err)
		}
	}()
	return s, nil
}

// hasMoney reports whether a budget of the meter or its parents limits money.
func (m *Meter) hasMoney() bool {
	for at := m; at != nil; at = at.parent {
		if at.budget.Micros > 0 {
			return true
		}
	}
	return false
}

// Close ends all connections. When it returns, requests in flight are counted, so that the meter is
// final. Closing twice is not an error.
func (s *Session) Close() error { return s.close() }

func (s *Session) shutDown() error {
	err := s.server.Close()
	<-s.served
	// Handlers end soon, since their connections are closed.
	ctx, cancel := context.WithTimeout(context.Background(), headerTimeout)
	defer cancel()
	// Taking all slots waits for the handlers, each of which holds one.
	for range maxConcurrent {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return errors.Join(err, fmt.Errorf("model gateway: requests are left: %w", ctx.Err()))
		}
	}
	return err
}

// Problem returns why the last request failed, or nil if it succeeded, or there
// was none.
func (s *Session) Problem() *Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// Refused reports whether a request was refused because a budget was spent.
func (s *Session) Refused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// GaveUp is closed when the program cannot go on: a budget is spent, or too many
// requests in a row have failed. Agents may retry for a long time, all the same.
func (s *Session) GaveUp() <-chan struct{} { return s.gaveUp }

// giveUp closes gaveUp. The caller holds the mutex.
func (s *Session) giveUp() {
	select {
	case <-s.gaveUp:
	default:
		close(s.gaveUp)
	}
}

// Record returns the exchanges, oldest first.
func (s *Session) Record() []Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.exchanges
}

// Answers returns what the model said, oldest first, each call with its result if the program has
// sent one. The copies may be kept: later results don't change them.
func (s *Session) Answers() []Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.answers)
	for i, a := range all {
		all[i].Calls = slices.Clone(a.Calls)
		for k, c := range a.Calls {
			if r, ok := s.results[c.ID]; ok {
				all[i].Calls[k].Result = &r
			}
		}
	}
	return all
}

// Failures returns the first requests that the model did not answer.
func (s *Session) Failures() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}
