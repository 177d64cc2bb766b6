// Package glob matches names against patterns that users write. Its time is
// bounded whatever the pattern: O(pattern x name) for each alternative, of
// which there are at most MaxAlternatives.
package glob

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// The bounds. A longer pattern is refused, a longer name matches nothing.
const (
	MaxPattern      = 1024
	MaxName         = 4096
	MaxAlternatives = 100
)

var errSyntax = errors.New("the pattern is not valid")

// A Pattern is one without alternatives. In a segment * stands for any
// characters, ? for one, [a-z] for one of a class and [^a-z] or [!a-z] for one
// that is not in it; a backslash takes the meaning from the next character. The
// segment ** stands for any number of segments, at the end for at least one.
type Pattern struct {
	segments []string
}

// Parse reads a pattern, in which braces have no meaning.
func Parse(pattern string) (p Pattern, err error) {
	if len(pattern) > MaxPattern {
		return p, fmt.Errorf("the pattern is longer than %d bytes", MaxPattern)
	}
	// path.Match writes the negation of a class in another way.
	pattern = strings.ReplaceAll(pattern, "[!", "[^")
	for segment := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(segment, ""); err != nil || segment == "" {
			return p, errSyntax
		}
		p.segments = append(p.segments, segment)
	}
	return p, nil
}

// Match reports whether the pattern covers the whole name. Only the last **
// is ever tried again further on: what the ones before it took is enough.
func (p Pattern) Match(name string) bool {
	if len(name) > MaxName {
		return false
	}
	at, last, retry := 0, -1, ""
	rest, more := name, true
	for more {
		segment, after, next := strings.Cut(rest, "/")
		switch {
		case at < len(p.segments) && p.segments[at] == "**":
			last, retry = at, rest
			at++
		case at < len(p.segments) && matches(p.segments[at], segment):
			at++
			rest, more = after, next
		case last >= 0:
			_, retry, more = strings.Cut(retry, "/")
			rest, at = retry, last+1
		default:
			return false
		}
	}
	return at == len(p.segments)
}

func matches(pattern, segment string) bool {
	ok, _ := path.Match(pattern, segment) // Parse has checked the pattern
	return ok
}

// A Set is a pattern with alternatives: {a,b}/v* is a/v* or b/v*.
type Set []Pattern

// ParseSet reads a pattern with alternatives in braces. One that stands for
// more than MaxAlternatives patterns is refused.
func ParseSet(pattern string) (Set, error) {
	if len(pattern) > MaxPattern {
		return nil, fmt.Errorf("the pattern is longer than %d bytes", MaxPattern)
	}
	e := expansion{rest: pattern}
	all, err := e.sequence(0)
	if err != nil {
		return nil, err
	}
	set := make(Set, len(all))
	for i, one := range all {
		if set[i], err = Parse(one); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// Match reports whether one of the alternatives covers the whole name.
func (s Set) Match(name string) bool {
	for _, p := range s {
		if p.Match(name) {
			return true
		}
	}
	return false
}

// An expansion writes out the alternatives of a pattern.
type expansion struct {
	rest string
}

// sequence expands up to the end of the pattern or, in a group, of the
// alternative.
func (e *expansion) sequence(depth int) ([]string, error) {
	all := []string{""}
	for e.rest != "" && (depth == 0 || e.rest[0] != ',' && e.rest[0] != '}') {
		if e.rest[0] == '}' {
			return nil, errSyntax
		}
		next := []string{e.literal()}
		if next[0] == "{" {
			var err error
			if next, err = e.group(depth + 1); err != nil {
				return nil, err
			}
		}
		if len(all)*len(next) > MaxAlternatives {
			return nil, tooMany()
		}
		all = product(all, next)
	}
	return all, nil
}

// group expands what follows an opening brace.
func (e *expansion) group(depth int) (all []string, err error) {
	for {
		one, err := e.sequence(depth)
		if err != nil {
			return nil, err
		}
		if all = append(all, one...); len(all) > MaxAlternatives {
			return nil, tooMany()
		}
		if e.rest == "" {
			return nil, errSyntax // no closing brace
		}
		end := e.rest[0] == '}'
		e.rest = e.rest[1:]
		if end {
			return all, nil
		}
	}
}

// literal takes one character, with what belongs to it: a class, or what a
// backslash escapes.
func (e *expansion) literal() string {
	n := 1
	switch e.rest[0] {
	case '\\':
		n = 2
	case '[':
		n = 1 + max(strings.IndexByte(e.rest[1:], ']')+1, 1)
	}
	n = min(n, len(e.rest))
	taken := e.rest[:n]
	e.rest = e.rest[n:]
	return taken
}

func product(first, second []string) []string {
	all := make([]string, 0, len(first)*len(second))
	for _, a := range first {
		for _, b := range second {
			all = append(all, a+b)
		}
	}
	return all
}

func tooMany() error {
	return fmt.Errorf("the alternatives in braces stand for more than %d patterns", MaxAlternatives)
}
