package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	homeSkills  = 500
	homeDays    = 90
	homeWeight  = 100 // KB, with all that the page loads
	homeLatency = 50  // ms
)

// benchHome measures the page that people see first, as a browser asks for it:
// what it weighs with its styles, scripts and pictures, and how soon it is
// there on an organisation with many skills. The time is that of the whole
// page; its first byte is sooner.
func benchHome(ctx context.Context, l *lab) ([]row, error) {
	return l.onBoth(ctx, l.homeOn)
}

func (l *lab) homeOn(ctx context.Context, database string, fresh func() (string, error)) ([]row, error) {
	sizes := l.readSizes()
	size := sizes[len(sizes)-1]
	s, err := l.serveObserved(ctx, fresh, observer{count: size.count, skills: homeSkills, days: homeDays})
	if err != nil {
		return nil, err
	}
	defer s.stop()
	v, err := signIn(ctx, s)
	if err != nil {
		return nil, err
	}
	weight, err := v.weight(ctx)
	if err != nil {
		return nil, err
	}
	req, err := v.request(ctx, "/")
	if err != nil {
		return nil, err
	}
	page, err := wire(req)
	if err != nil {
		return nil, err
	}
	// One reader, for the time that they wait is the figure.
	read := l.steady(s, page, 1)
	sums, err := l.compare(ctx, read)
	if err != nil {
		return nil, err
	}
	work, err := workOf(ctx, s, read)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("home: %s, %d skills, %s observations, ", database, homeSkills, size.name)
	return []row{
		{Name: name + "weight", Figure: weight, Unit: "KB", Beside: limit, Other: homeWeight, AtMost: 1},
		{Name: name + "p50", Figure: sums[0].p50, Unit: "ms", Beside: limit, Other: homeLatency, AtMost: 1},
		{Name: name + "p99", Figure: sums[0].p99, Unit: "ms", Beside: limit, Other: homeLatency, AtMost: 1},
		{Name: name + "work of the server", Figure: work, Unit: "ms", Beside: limit, Other: homeLatency, AtMost: 1},
	}, nil
}

// workOf is how long a processor works for an answer of the server, in ms. On a
// machine that others use, too, it says more than the time that passes. The
// work of PostgreSQL is not in it.
func workOf(ctx context.Context, s *server, read side) (float64, error) {
	load, err := read(0)
	if err != nil {
		return 0, err
	}
	before, err := processorTime(s.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	r, err := load.run(ctx)
	if err != nil {
		return 0, err
	}
	after, err := processorTime(s.cmd.Process.Pid)
	return millis(after-before) / float64(len(r.latencies)), err
}

// tick is the unit in which Linux counts the time of processes.
const tick = 10 * time.Millisecond

// processorTime is how long a process has worked so far.
func processorTime(pid int) (time.Duration, error) {
	fields, err := statFields(pid)
	if err != nil {
		return 0, err
	}
	return ticks(fields[statUser : statSystem+1])
}

// Fields of /proc/PID/stat behind the name: the parent, and the time of the
// process itself and of its children that have ended, in ticks.
const (
	statParent      = 1
	statUser        = 11
	statSystem      = 12
	statEndedSystem = 14
)

func statFields(pid int) ([]string, error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("/proc/%d, which tells the work of a process, is %w", pid, errMissing)
	}
	if err != nil {
		return nil, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before may hold anything
	fields := strings.Fields(rest)
	if len(fields) <= statEndedSystem {
		return nil, fmt.Errorf("/proc says %q", stat)
	}
	return fields, nil
}

func ticks(fields []string) (sum time.Duration, err error) {
	for _, field := range fields {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// A visitor is a browser that is signed in.
type visitor struct {
	server  *server
	cookies []*http.Cookie
	client  *http.Client
}

func signIn(ctx context.Context, s *server) (*visitor, error) {
	// What is transferred counts: nothing is unpacked, no redirect followed.
	v := &visitor{server: s, client: &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	req, err := s.request(ctx, http.MethodPost, "/login", strings.NewReader(url.Values{"api_key": {key}}.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := v.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if v.cookies = answer.Cookies(); len(v.cookies) == 0 {
		return nil, fmt.Errorf("signing in gives %s and no cookie", answer.Status)
	}
	return v, nil
}

// request asks for a page the way browsers do.
func (v *visitor) request(ctx context.Context, path string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.server.url+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept-Encoding", "gzip, deflate, br")
	for _, c := range v.cookies {
		req.AddCookie(c)
	}
	return req, nil
}

// loaded finds what a page makes a browser load.
var loaded = regexp.MustCompile(`(?:src|href)="(/static/[^"]+)"`)

// weight is how much a first visit of Home transfers, in KB.
func (v *visitor) weight(ctx context.Context) (float64, error) {
	page, total, err := v.load(ctx, "/")
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for _, match := range loaded.FindAllStringSubmatch(string(page), -1) {
		if seen[match[1]] {
			continue
		}
		seen[match[1]] = true
		_, size, err := v.load(ctx, match[1])
		if err != nil {
			return 0, err
		}
		total += size
	}
	if len(seen) == 0 {
		return 0, fmt.Errorf("the page loads nothing:\n%s", page)
	}
	return float64(total) / 1000, nil
}

// load returns the body of an answer, and how many bytes came with it.
func (v *visitor) load(ctx context.Context, path string) (body []byte, size int, err error) {
	req, err := v.request(ctx, path)
	if err != nil {
		return nil, 0, err
	}
	answer, err := v.client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer answer.Body.Close()
	if body, err = io.ReadAll(answer.Body); err != nil {
		return nil, 0, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	var head strings.Builder
	err = answer.Header.Write(&head)
	return body, len(body) + head.Len(), err
}
