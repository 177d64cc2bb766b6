package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// A load sends requests over connections that are kept alive, each connection
// its next one when the answer to the last is read. Requests are prepared as
// bytes, so that the client costs little of what it measures.
type load struct {
	addr  string
	conns int
	// next returns the n-th request of a connection, or nil if there are no more.
	next func(conn, n int) []byte
	// span ends the load, also when there are more requests.
	span time.Duration
	// status is what every answer must have: an error is quick, and would
	// flatter whoever gives it.
	status int
	// pid is the process of the server, if its processor time is of interest.
	pid int
}

// A result is what a load met.
type result struct {
	took      time.Duration
	worked    time.Duration   // processor time of load.pid
	latencies []time.Duration // sorted
}

func (r result) rate() float64 { return float64(len(r.latencies)) / r.took.Seconds() }

func (r result) quantile(q float64) time.Duration {
	return r.latencies[int(q*float64(len(r.latencies)-1))]
}

// again is the next function of a load that sends the same request for ever.
func again(request []byte) func(conn, n int) []byte {
	return func(int, int) []byte { return request }
}

// answerTimeout ends a load whose server does not answer.
const answerTimeout = 30 * time.Second

func (l load) run(ctx context.Context) (result, error) {
	clients := make([]*client, l.conns)
	for i := range clients {
		c, err := dial(ctx, l.addr)
		if err != nil {
			return result{}, err
		}
		defer c.close()
		clients[i] = c
	}
	before, err := l.worked()
	if err != nil {
		return result{}, err
	}
	var g errgroup.Group
	start := time.Now()
	for i, c := range clients {
		g.Go(func() error { return l.drive(ctx, c, i, start.Add(l.span)) })
	}
	err = g.Wait()
	r := result{took: time.Since(start)}
	after, failed := l.worked()
	r.worked = after - before
	err = errors.Join(err, failed)
	for _, c := range clients {
		r.latencies = append(r.latencies, c.latencies...)
	}
	slices.Sort(r.latencies)
	if err == nil && len(r.latencies) == 0 {
		err = fmt.Errorf("%s answered nothing", l.addr)
	}
	return r, err
}

func (l load) worked() (time.Duration, error) {
	if l.pid == 0 {
		return 0, nil
	}
	return processorTime(l.pid)
}

// drive sends the requests of one connection.
func (l load) drive(ctx context.Context, c *client, conn int, end time.Time) error {
	for n := 0; time.Now().Before(end) && ctx.Err() == nil; n++ {
		request := l.next(conn, n)
		if request == nil {
			return nil
		}
		if err := c.send(request, l.status); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// A client is one connection of a load.
type client struct {
	conn      net.Conn
	answers   *bufio.Reader
	latencies []time.Duration
}

func dial(ctx context.Context, addr string) (*client, error) {
	conn, err := (&net.Dialer{Timeout: answerTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, answers: bufio.NewReaderSize(conn, 256<<10)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// send sends one request and reads the whole answer.
func (c *client) send(request []byte, status int) error {
	start := time.Now()
	if err := c.conn.SetDeadline(start.Add(answerTimeout)); err != nil {
		return err
	}
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != status {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1000)) // the status says enough if this fails
		return fmt.Errorf("got %s, want %d: %s", answer.Status, status, body)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	c.latencies = append(c.latencies, time.Since(start))
	return nil
}

// wire returns a request as it goes over the line.
func wire(req *http.Request) ([]byte, error) {
	var b bytes.Buffer
	err := req.Write(&b)
	return b.Bytes(), err
}
