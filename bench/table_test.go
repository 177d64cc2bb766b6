package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		row  row
		want verdict
	}{
		{"nothing wanted", row{Figure: 1, Other: 2}, shown},
		{"at least, met exactly", row{Figure: 5, Other: 1, AtLeast: 5}, ok},
		{"at least, missed", row{Figure: 4.9, Other: 1, AtLeast: 5}, missed},
		{"at most, met exactly", row{Figure: 10, Other: 10, AtMost: 1}, ok},
		{"at most, missed", row{Figure: 10.1, Other: 10, AtMost: 1}, missed},
		{"no figure at all", row{AtMost: 1}, missed},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.row.verdict(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	missing := fmt.Errorf("npm is %w", errMissing)
	for _, c := range []struct {
		name       string
		rows       []row
		err        error
		requireAll bool
		good       bool
		shows      string
	}{
		{name: "met", rows: []row{{Name: "x", Figure: 6, Other: 1, AtLeast: 5}}, good: true, shows: "ok"},
		{name: "missed", rows: []row{{Name: "x", Figure: 1, Other: 1, AtLeast: 5}}, shows: "MISSED"},
		{name: "failed", err: errors.New("boom"), shows: "FAILED x: boom"},
		{name: "a peer is missing", err: missing, good: true, shows: "SKIPPED x: npm is not installed"},
		{name: "a peer is missing that must not be", err: missing, requireAll: true, shows: "FAILED x: npm is not installed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := &table{requireAll: c.requireAll}
			table.add("x", c.rows, c.err)
			if got := table.good(); got != c.good {
				t.Errorf("good = %t, want %t", got, c.good)
			}
			var b strings.Builder
			if err := table.print(&b, false); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), c.shows) {
				t.Errorf("got\n%s\nwhich does not show %q", &b, c.shows)
			}
		})
	}
}

func TestSignificant(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.04428: "0.0443", 9.996: "10.00", 31.26: "31.3", 31752.4: "31752"} {
		if got := significant(f); got != want {
			t.Errorf("significant(%g) = %s, want %s", f, got, want)
		}
	}
}
