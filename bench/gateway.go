package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/relay"
)

const (
	answerTokens = 200
	// tokenPause is that of a quick model: 200 tokens a second.
	tokenPause       = 5 * time.Millisecond
	answersAtOnce    = 8 // the most of one agent
	firstTokens      = 300
	firstTokenLimit  = 2 // milliseconds
	throughputWanted = 0.9
)

// brief asks for an answer of one token.
const brief = "Be brief."

// streamAnswer answers as a model server does, with a pause before each token.
func streamAnswer(pause time.Duration) http.HandlerFunc {
	event := func(w io.Writer, kind, fields string) {
		_, _ = fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", kind, kind, fields) // the client may have gone
	}
	return func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body) // as above
		tokens := answerTokens
		if bytes.Contains(question, []byte(brief)) {
			tokens = 1
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w).Flush
		event(w, "message_start", `"message":{"usage":{"input_tokens":1000,"output_tokens":1}}`)
		event(w, "content_block_start", `"index":0,"content_block":{"type":"text","text":""}`)
		for range tokens {
			time.Sleep(pause)
			event(w, "content_block_delta", `"index":0,"delta":{"type":"text_delta","text":" token"}`)
			_ = flush()
		}
		event(w, "content_block_stop", `"index":0`)
		event(w, "message_delta", fmt.Sprintf(`"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}`, tokens))
		event(w, "message_stop", `"stop":true`)
	}
}

// benchGateway measures what the way through the relay and the gateway adds to an
// answer, beside the model server alone.
func benchGateway(ctx context.Context, l *lab) ([]row, error) {
	model, err := startPeer(ctx, "model", tokenPause.String())
	if err != nil {
		return nil, err
	}
	defer model.stop()
	stop, err := l.openDoor(ctx, model.url)
	if err != nil {
		return nil, err
	}
	defer stop()
	sides := []string{model.url, "http://" + relay.Address}
	first := make([][]time.Duration, len(sides))
	for range firstTokens {
		for i, url := range sides { // in turns: both meet the same machine
			took, err := firstToken(ctx, url, brief)
			if err != nil {
				return nil, err
			}
			first[i] = append(first[i], took)
		}
	}
	rates := make([]float64, len(sides))
	for range l.rounds() {
		for i, url := range sides {
			rate, err := tokenRate(ctx, url)
			if err != nil {
				return nil, err
			}
			rates[i] = max(rates[i], rate)
		}
	}
	p50 := func(i int) float64 {
		slices.Sort(first[i])
		return millis(first[i][len(first[i])/2])
	}
	return []row{
		{
			Name: "gateway: added to the first token, p50", Figure: p50(1) - p50(0), Unit: "ms",
			Beside: limit, Other: firstTokenLimit, AtMost: 1,
		},
		{
			Name: "gateway: 8 answers at once, 5 ms a token", Figure: rates[1], Unit: "tokens/s",
			Beside: "the model alone", Other: rates[0], AtLeast: throughputWanted,
		},
	}, nil
}

// openDoor starts a gateway to a model server, and the relay that programs in a
// sandbox use.
func (l *lab) openDoor(ctx context.Context, url string) (stop func(), err error) {
	g, err := gateway.New(gateway.Options{
		Models: []gateway.Model{{Name: "model", ID: "claude-sonnet-4-5", API: gateway.Anthropic, URL: url, Key: "none"}},
		Prices: pricing.Embedded(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	dir, err := l.folder("door")
	if err != nil {
		return nil, err
	}
	meter := gateway.NewMeter(gateway.Budget{}, gateway.Usage{}, nil)
	session, err := g.Open(dir, gateway.Conversation{Model: "model", Meter: meter, Record: 1 << 20})
	if err != nil {
		return nil, err
	}
	program := relay.Argv(l.binary, filepath.Join(dir, gateway.SocketName), []string{"sleep", "600"})
	cmd := exec.CommandContext(ctx, program[0], program[1:]...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = session.Close()
	}
	for range 100 {
		if _, err = firstToken(ctx, "http://"+relay.Address, brief); err == nil {
			return stop, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	return nil, err
}

func askModel(ctx context.Context, url, question string) (*http.Response, error) {
	question += strings.Repeat(" Hello.", 1000)
	body := `{"model":"claude-sonnet-4-5","stream":true,"messages":[{"role":"user","content":"` + question + `"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d", answer.StatusCode)
		_ = answer.Body.Close()
	}
	return answer, err
}

// firstToken measures the time until the first token of an answer, and reads the rest.
func firstToken(ctx context.Context, url, question string) (time.Duration, error) {
	start := time.Now()
	answer, err := askModel(ctx, url, question)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	for line := ""; !strings.Contains(line, "text_delta"); {
		if line, err = lines.ReadString('\n'); err != nil {
			return 0, err
		}
	}
	took := time.Since(start)
	_, err = io.Copy(io.Discard, lines)
	return took, err
}

// tokenRate is how many tokens a second several answers at once have together.
func tokenRate(ctx context.Context, url string) (float64, error) {
	var group errgroup.Group
	start := time.Now()
	for range answersAtOnce {
		group.Go(func() error { _, err := firstToken(ctx, url, "Say much."); return err })
	}
	err := group.Wait()
	return answersAtOnce * answerTokens / time.Since(start).Seconds(), err
}
