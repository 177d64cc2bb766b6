package gateway_test

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway/modeltest"
)

// TestOnlyTheModelIsReached tries other paths, hosts and protocols. None of it may
// reach the model's server, which would be asked with the key.
func TestOnlyTheModelIsReached(t *testing.T) {
	model := modeltest.Messages(t)
	p := open(t, options{api: gateway.Anthropic, url: model.URL})
	const post = "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}"
	for _, target := range []string{
		"/", "/v1", "/v1/", "/v1/messages/", "//v1/messages", "/v1//messages", "/v1/./messages", "/v1/x/../messages",
		"/v1/%6dessages", "/v1%2Fmessages", "/v1/messages%00", "/v1/messages;x", "/V1/messages", "/v1/messages?x=1",
		"/v1/messages?beta=true&x=1", "/v1/messages/batches", "/v1/files", "/v1/complete", "/v1/organizations/usage",
		"/v1/chat/completions", "/v1/responses", "/v1/models", "http://169.254.169.254/latest/meta-data",
		"http://evil.example/v1/messages", "https://evil.example/v1/messages", "evil.example:443", "*",
		"/v1/messages#fragment", "/../v1/messages", "/v1/messages\t", "http://user@127.0.0.1/v1/messages",
	} {
		if got := p.raw(fmt.Sprintf(post, target)); strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("POST %q: %s", target, got)
		}
	}
	const messages = " /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	for name, request := range map[string]string{
		"get":               "GET" + messages + "\r\n",
		"put":               "PUT" + messages + "Content-Length: 2\r\n\r\n{}",
		"connect":           "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"upgrade":           "POST" + messages + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/2":            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"no HTTP":           "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
		"two lengths":       "POST" + messages + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"negative length":   "POST" + messages + "Content-Length: -1\r\n\r\n{}",
		"unknown encoding":  "POST" + messages + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"compressed":        "POST" + messages + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
		"huge header":       "POST" + messages + "X-Large: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"huge length":       "POST" + messages + "Content-Length: 99999999999\r\n\r\n" + strings.Repeat("x", 33<<20),
		"no JSON":           "POST" + messages + "Content-Length: 2\r\n\r\n[]",
		"null":              "POST" + messages + "Content-Length: 4\r\n\r\nnull",
		"tools are no list": "POST" + messages + "Content-Length: 11\r\n\r\n{\"tools\":1}",
	} {
		if got := p.raw(request); strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%s: %s", name, got)
		}
	}
	if n := len(model.Requests()); n != 0 {
		t.Errorf("the model got %d requests", n)
	}
}

// TestSmuggling: a request hidden in the body of another one, by two lengths that
// contradict each other, is not one of its own for the model's server.
func TestSmuggling(t *testing.T) {
	model := modeltest.Messages(t, modeltest.Reply{Text: "Hello"})
	p := open(t, options{api: gateway.Anthropic, url: model.URL})
	body := `{"messages":[{"role":"user","content":"Hi"}]}`
	p.raw("POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n" +
		fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) + "GET /v1/files HTTP/1.1\r\nHost: evil.example\r\n\r\n")
	for _, r := range model.Requests() {
		wantClean(t, r, "/v1/messages", "X-Api-Key: "+key)
		if r.Host == "evil.example" {
			t.Errorf("the model was asked for %s", r.Host)
		}
	}
}

// TestErrorsAreOfTheWireFormat: agents read the errors of the gateway, too.
func TestErrorsAreOfTheWireFormat(t *testing.T) {
	for _, f := range formats {
		model := f.start(t)
		spent := gateway.NewMeter(gateway.Budget{Requests: 1}, gateway.Usage{Requests: 1}, nil)
		p := open(t, options{api: f.api, url: model.URL + f.base, meter: spent})
		resp := p.send(f.path, fmt.Sprintf(f.ask, true))
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		want := map[gateway.API]string{
			gateway.Anthropic: `"type":"rate_limit_error"`, gateway.OpenAI: `"type":"insufficient_quota"`,
			gateway.Responses: `"type":"insufficient_quota"`, gateway.Google: `"status":"RESOURCE_EXHAUSTED"`,
		}[f.api]
		if resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(body), want) ||
			resp.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: status %d, %s", f.api, resp.StatusCode, body)
		}
		if !spent.IsSpent() || len(model.Requests()) != 0 {
			t.Errorf("%s: spent %v, %d requests", f.api, spent.IsSpent(), len(model.Requests()))
		}
	}
}

// TestBudgets: a request is refused once requests, tokens or money are used up, of
// the trial or of its run.
func TestBudgets(t *testing.T) {
	reply := modeltest.Reply{Text: "Hello", Usage: modeltest.Tokens{Input: 1000, Output: 100}} // 4,500 millionths of a dollar
	for _, test := range []struct {
		name       string
		trial, run gateway.Budget
		want       int64 // requests that are answered
	}{
		{"requests", gateway.Budget{Requests: 3}, gateway.Budget{}, 3},
		{"tokens", gateway.Budget{Tokens: 2200}, gateway.Budget{}, 2},
		{"tokens, one more", gateway.Budget{Tokens: 2201}, gateway.Budget{}, 3},
		{"money", gateway.Budget{Micros: 9000}, gateway.Budget{}, 2},
		{"money of the run", gateway.Budget{Requests: 9}, gateway.Budget{Micros: 4501}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			model := modeltest.Messages(t, reply)
			run := gateway.NewMeter(test.run, gateway.Usage{}, nil)
			trial := gateway.NewMeter(test.trial, gateway.Usage{}, run)
			p := open(t, options{api: gateway.Anthropic, url: model.URL, meter: trial})
			for n := range int64(5) {
				status, answer := p.post("/v1/messages", `{"stream":true,"messages":[{"role":"user","content":"Hi"}]}`)
				if want := http.StatusOK; n < test.want && status != want {
					t.Fatalf("request %d: status %d: %s", n, status, answer)
				}
				if want := http.StatusTooManyRequests; n >= test.want && status != want {
					t.Fatalf("request %d: status %d: %s", n, status, answer)
				}
			}
			if got := trial.Used().Requests; got != test.want || int64(len(model.Requests())) != test.want {
				t.Errorf("counted %d requests, the model got %d, want %d", got, len(model.Requests()), test.want)
			}
			if !trial.IsSpent() && !run.IsSpent() {
				t.Error("no budget is spent")
			}
		})
	}
}

// TestBudgetRace makes 40 requests at the same time, from five trials of one run: the
// run's budget is exceeded by one of them at most. The model answers when all of them
// were sent, the first ones cheaply: the most that the others may cost counts.
func TestBudgetRace(t *testing.T) {
	const trials, each, cheap, dear = 5, 8, 180, 15_000 // millionths of a dollar
	for _, test := range []struct {
		name, limit string // of a request
		budget      gateway.Budget
		one         int64 // is at most what one request uses
	}{
		{"money", `"max_tokens":1000,`, gateway.Budget{Micros: 3 * dear}, dear + 30},
		{"money, no limit of the answer", ``, gateway.Budget{Micros: 3 * dear}, dear + 30},
		{"tokens", `"max_tokens":1000,`, gateway.Budget{Tokens: 3000}, 1010},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sent, asked := make(chan struct{}), atomic.Int64{}
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				<-sent
				output := 1000
				if asked.Add(1) <= 2 {
					output = 10
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"type":"message","content":[],"usage":{"input_tokens":10,"output_tokens":%d}}`, output)
			}))
			defer model.Close()
			run := gateway.NewMeter(test.budget, gateway.Usage{}, nil)
			var all, written sync.WaitGroup
			written.Add(trials * each)
			for range trials {
				p := open(t, options{
					api: gateway.Anthropic, url: model.URL, meter: gateway.NewMeter(gateway.Budget{Requests: 20}, gateway.Usage{}, run),
				})
				for range each {
					all.Go(func() {
						ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
							WroteRequest: func(httptrace.WroteRequestInfo) { written.Done() },
						})
						req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/v1/messages",
							strings.NewReader(`{`+test.limit+`"messages":[{"role":"user","content":"Hi"}]}`))
						if err != nil {
							t.Error(err)
							return
						}
						resp, err := p.http.Do(req)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, resp.Body)
						_ = resp.Body.Close()
					})
				}
			}
			written.Wait()
			close(sent)
			all.Wait()
			got := run.Used()
			used, budget := got.Micros, test.budget.Micros
			if budget == 0 {
				used, budget = got.Tokens.Input+got.Tokens.Output, test.budget.Tokens
			}
			if used < budget || used > budget+test.one {
				t.Errorf("used %d of %d, and one request is %d: %+v", used, budget, test.one, got)
			}
		})
	}
}

// TestBudgetWaiters: a request that waits for what is left neither counts nor blocks
// others when its trial ends, and one that costs nothing does not wait.
func TestBudgetWaiters(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/count_tokens") {
			_, _ = io.WriteString(w, `{"input_tokens":10}`)
			return
		}
		select {
		case begun <- struct{}{}:
			<-answer
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, `{"type":"message","content":[],"usage":{"input_tokens":10,"output_tokens":10}}`)
	}))
	defer model.Close()
	run := gateway.NewMeter(gateway.Budget{Micros: 1_000_000}, gateway.Usage{}, nil)
	trial := func() *program {
		return open(t, options{api: gateway.Anthropic, url: model.URL, meter: gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, run)})
	}
	first, canceled, last := trial(), trial(), trial()
	var all sync.WaitGroup
	ask := func(p *program) {
		all.Go(func() {
			resp, err := p.http.Post("http://127.0.0.1/v1/messages", "application/json", strings.NewReader(`{"max_tokens":10}`))
			if err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	ask(first)
	<-begun
	for range 8 {
		ask(canceled)
	}
	ask(last)
	if status, _ := first.post("/v1/messages/count_tokens", `{}`); status != http.StatusOK {
		t.Errorf("counting tokens: status %d", status)
	}
	if err := canceled.Close(); err != nil { // waits for its requests
		t.Fatal(err)
	}
	close(answer)
	<-begun
	all.Wait()
	// One may have been sent when the socket was closed, so it is not counted here.
	if got := run.Used(); got.Requests != 3 || got.Micros != 2*180 {
		t.Errorf("used %+v", got)
	}
}

// TestProgramIsGone: a request counts that the program does not wait for. The server
// has read it, and may bill it.
func TestProgramIsGone(t *testing.T) {
	begun, gone := make(chan struct{}), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(begun)
		<-r.Context().Done()
		close(gone)
	}))
	defer model.Close()
	meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
	p := open(t, options{api: gateway.Anthropic, url: model.URL, meter: meter})
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/v1/messages",
		strings.NewReader(`{"max_tokens":10,"system":"`+strings.Repeat("x", 40_000)+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-begun
		cancel()
	}()
	if resp, err := p.http.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("there is an answer")
	}
	<-gone
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := meter.Used(); got.Estimated != 1 || got.Tokens.Input < 10_000 || got.Micros < 30_000 {
		t.Errorf("used %+v", got)
	}
}

// TestUnknownPrice: a budget of money cannot be kept without a price, and the cost
// is unknown, not 0.
func TestUnknownPrice(t *testing.T) {
	model := modeltest.Chat(t, modeltest.Reply{Text: "Hello", Usage: modeltest.Tokens{Input: 10, Output: 1}})
	g := newGateway(t, gateway.Model{Name: "local", API: gateway.OpenAI, URL: model.URL})
	run := gateway.NewMeter(gateway.Budget{Micros: 1}, gateway.Usage{}, nil)
	trial := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, run)
	_, err := g.Open(socketDir(t), gateway.Conversation{Model: "local", Meter: trial})
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("error %v, want Unsupported", err)
	}
	meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
	p := open(t, options{api: gateway.OpenAI, url: model.URL + "/v1", id: "local", meter: meter})
	p.post("/v1/chat/completions", `{"messages":[]}`)
	if err := p.Close(); err != nil { // then the request is counted
		t.Fatal(err)
	}
	if got := meter.Used(); got.USD() != nil || got.Unpriced != 1 || got.Tokens.Input != 10 {
		t.Errorf("usage %+v", got)
	}
}

// TestAnswerIsNotRead: a program does not get tokens for nothing by closing the
// connection before the usage arrives.
func TestAnswerIsNotRead(t *testing.T) {
	gone := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"type":"message_start","message":{"usage":{"input_tokens":700,"output_tokens":1}}}`+"\n\n")
		_, _ = io.WriteString(w, "data: "+strings.Repeat("x", 32_000)+"\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	}))
	defer model.Close()
	meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
	p := open(t, options{api: gateway.Anthropic, url: model.URL, meter: meter})
	resp := p.send("/v1/messages", `{"stream":true}`)
	if _, err := io.ReadFull(resp.Body, make([]byte, 32_000)); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	<-gone // the model's server is not kept busy, either
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	got := meter.Used()
	if got.Estimated != 1 || got.Tokens.Input != 700 || got.Tokens.Output < 1000 {
		t.Errorf("usage %+v", got)
	}
}

// TestHugeAnswer ends an answer that is larger than any model's: the program must
// not take a part of it for all of it, and the record stays small.
func TestHugeAnswer(t *testing.T) {
	chunk := []byte(strings.Repeat("x", 1<<20))
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 1 << 10 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer model.Close()
	meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
	p := open(t, options{api: gateway.Anthropic, url: model.URL, meter: meter})
	resp := p.send("/v1/messages", `{"stream":true}`)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil || n > 65<<20 {
		t.Errorf("read %d bytes, error %v", n, err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.Record(); len(got) != 1 || len(got[0].Answer) > 64<<10 {
		t.Errorf("%d exchanges", len(got))
	}
	if got := p.Problem(); got == nil || !strings.Contains(got.Message, "larger than") {
		t.Errorf("problem %+v", got)
	}
}

// TestServerRepeatsTheKey: whatever a server repeats, in whichever form, no key comes
// into the sandbox or the record: not its own one, nor that of another model.
func TestServerRepeatsTheKey(t *testing.T) {
	const other = "sk-of-another-model-987654"
	said := "your key is " + key + " or " + other + " or " + base64.StdEncoding.EncodeToString([]byte("user:"+key)) +
		" or " + hex.EncodeToString([]byte(key)) + "."
	whole := fmt.Sprintf(`{"type":"message","content":[{"type":"text","text":%q}],"usage":{"input_tokens":10,"output_tokens":10}}`, said)
	stream := fmt.Sprintf("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":%q}}\n\n", said)
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"whole": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, whole) },
		"one byte at a time": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range len(stream) {
				_, _ = io.WriteString(w, stream[i:i+1])
				w.(http.Flusher).Flush()
			}
		},
		"gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, whole)
			_ = z.Close()
		},
		"another encoding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, whole)
		},
		"an error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, said, http.StatusBadRequest) },
		"an error in gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusBadRequest)
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, said)
			_ = z.Close()
		},
		"an error that ends in the middle of it": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, strings.Repeat("x", 64<<10-len(key)+1)+said)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:9/?key="+key, http.StatusTemporaryRedirect)
		},
		"it ends in the middle of it": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, whole[:strings.Index(whole, key)+len(key)])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json; charset="+key)
				w.Header().Set("Request-Id", "for "+r.Header.Get("X-Api-Key"))
				w.Header().Set("Set-Cookie", "key="+key)
				answer(w, r)
			}))
			defer model.Close()
			p := open(t, options{api: gateway.Anthropic, url: model.URL, others: []gateway.Model{
				{Name: "other", API: gateway.Anthropic, URL: model.URL, Key: other},
			}})
			resp := p.send("/v1/messages", `{"stream":true}`)
			defer resp.Body.Close()
			var all strings.Builder
			_ = resp.Header.Write(&all)     // into memory
			_, _ = io.Copy(&all, resp.Body) // as much as there is
			_ = resp.Trailer.Write(&all)    // into memory
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(&all, "%+v %+v %+v %+v", p.Record(), p.Answers(), p.Failures(), p.Problem())
			for _, k := range []string{key, other, key[8:], other[12:], hex.EncodeToString([]byte(key[8:])), base64.StdEncoding.EncodeToString([]byte(key[4:]))[4:20]} {
				if strings.Contains(all.String(), k) {
					t.Errorf("%q is in\n%s", k, &all)
				}
			}
		})
	}
}

// TestServerErrors are passed on without the key.
func TestServerErrors(t *testing.T) {
	for _, test := range []struct {
		status, want int
		message      string
	}{
		{http.StatusUnauthorized, http.StatusUnauthorized, "HTTP 401; check the model's key"},
		{http.StatusTooManyRequests, http.StatusTooManyRequests, "HTTP 429"},
		{http.StatusInternalServerError, http.StatusInternalServerError, "HTTP 500"},
		{http.StatusTemporaryRedirect, http.StatusBadGateway, "HTTP 307"},
	} {
		model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/")
			w.Header().Set("Set-Cookie", "secret=1")
			w.WriteHeader(test.status)
			_, _ = fmt.Fprintf(w, `{"error":"bad key %s"}`, r.Header.Get("X-Api-Key"))
		}))
		meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
		p := open(t, options{api: gateway.Anthropic, url: model.URL, meter: meter})
		for attempt := range 3 {
			resp := p.send("/v1/messages", `{"stream":true}`)
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != test.want || strings.Contains(string(body), key) || len(resp.Cookies()) > 0 ||
				resp.Header.Get("Location") != "" {
				t.Errorf("%d: status %d, %v, %s", test.status, resp.StatusCode, resp.Header, body)
			}
			if last := resp.Header.Get("X-Should-Retry") == "false"; last != (attempt == 2) {
				t.Errorf("%d: attempt %d must not be retried: %v", test.status, attempt, last)
			}
		}
		if got := p.Problem(); got == nil || !strings.Contains(got.Message, test.message) || strings.Contains(got.Message, key) {
			t.Errorf("%d: problem %+v", test.status, got)
		}
		if got := meter.Used(); got.Requests != 3 || got.Micros != 0 || got.USD() == nil {
			t.Errorf("%d: usage %+v", test.status, got)
		}
		model.Close()
	}
}

func TestUnreachable(t *testing.T) {
	model := httptest.NewServer(http.NotFoundHandler())
	model.Close()
	p := open(t, options{api: gateway.OpenAI, url: model.URL + "/v1"})
	status, answer := p.post("/v1/chat/completions", `{}`)
	if status != http.StatusBadGateway || !strings.Contains(answer, `{"error":{`) {
		t.Errorf("status %d: %s", status, answer)
	}
	if got := p.Problem(); got == nil || got.Status != 0 || !strings.Contains(got.Message, "cannot be reached") {
		t.Errorf("problem %+v", got)
	}
}

// TestManyConnections: a program that opens connections and says nothing does not
// use up the service's file descriptors, and other sessions do not notice.
func TestManyConnections(t *testing.T) {
	model := modeltest.Messages(t, modeltest.Reply{Text: "Hello"})
	hostile := open(t, options{api: gateway.Anthropic, url: model.URL})
	for range 200 {
		conn, err := net.Dial("unix", hostile.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 30000000\r\n\r\n{")
	}
	p := open(t, options{api: gateway.Anthropic, url: model.URL})
	if status, answer := p.post("/v1/messages", `{"messages":[{"role":"user","content":"Hi"}]}`); status != http.StatusOK {
		t.Errorf("status %d: %s", status, answer)
	}
	if err := hostile.Close(); err != nil {
		t.Error(err)
	}
}
