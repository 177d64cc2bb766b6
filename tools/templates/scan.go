package main

import (
	"fmt"
	"strings"
)

// A tokenKind says what a token is.
type tokenKind int

const (
	space  tokenKind = iota // white space between the others
	word                    // text without white space
	action                  // {{...}}, in its form without trim markers
	open                    // <a href="...">
	shut                    // </a>
	raw                     // <pre>...</pre>, whose white space shows
)

// A token is a piece of a template; line counts from 1.
type token struct {
	kind tokenKind
	text string
	line int
}

// scan splits a template. White space that a trim marker removes is left out.
func scan(source string) ([]token, error) {
	var tokens []token
	var trimmed bool // by the action before
	add := func(kind tokenKind, text string, at int) {
		if kind == space && trimmed {
			return
		}
		tokens, trimmed = append(tokens, token{kind, text, 1 + strings.Count(source[:at], "\n")}), false
	}
	for i := 0; i < len(source); {
		rest := source[i:]
		var end int
		kind := word
		switch {
		case strings.HasPrefix(rest, "{{"):
			end = actionEnd(rest)
			if end < 0 {
				break
			}
			if strings.HasPrefix(rest, "{{- ") && len(tokens) > 0 && tokens[len(tokens)-1].kind == space {
				tokens = tokens[:len(tokens)-1]
			}
			add(action, plainAction(rest[:end]), i)
			trimmed = strings.HasSuffix(rest[:end], " -}}")
			i += end
			continue
		case isSpace(rest[0]):
			kind, end = space, len(rest)-len(strings.TrimLeft(rest, whiteSpace))
		case rest[0] == '<':
			if end = tagEnd(rest); end < 0 {
				break
			}
			kind = open
			name := tagName(rest)
			if strings.HasPrefix(rest, "</") {
				kind = shut
			} else if name == "pre" || name == "textarea" {
				kind = raw
				if end = strings.Index(rest, "</"+name+">"); end >= 0 {
					end += len("</" + name + ">")
				}
			}
		default:
			end = len(rest)
			if next := strings.IndexAny(rest, whiteSpace+"<"); next >= 0 {
				end = next
			}
			if next := strings.Index(rest[:end], "{{"); next >= 0 {
				end = next
			}
		}
		if end < 0 {
			return nil, fmt.Errorf("%d: %.20q does not end", 1+strings.Count(source[:i], "\n"), rest)
		}
		add(kind, rest[:end], i)
		i += end
	}
	return tokens, nil
}

const whiteSpace = " \t\r\n"

func isSpace(c byte) bool { return strings.IndexByte(whiteSpace, c) >= 0 }

// actionEnd returns the length of the action at the beginning of s; -1 if it is open.
func actionEnd(s string) int {
	if strings.HasPrefix(strings.TrimPrefix(s[2:], "- "), "/*") {
		if end := strings.Index(s, "*/"); end >= 0 {
			if shut := strings.Index(s[end:], "}}"); shut >= 0 {
				return end + shut + 2
			}
		}
		return -1
	}
	for i := 2; i < len(s); i++ {
		switch {
		case s[i] == '"' || s[i] == '\'' || s[i] == '`':
			quote := s[i]
			for i++; i < len(s) && s[i] != quote; i++ {
				if s[i] == '\\' && quote != '`' {
					i++
				}
			}
		case strings.HasPrefix(s[i:], "}}"):
			return i + 2
		}
	}
	return -1
}

// plainAction removes trim markers, and white space that separates nothing.
func plainAction(s string) string {
	s = strings.TrimSuffix(strings.TrimPrefix(s, "{{"), "}}")
	s = strings.TrimSpace(strings.TrimSuffix(strings.TrimPrefix(s, "- "), " -"))
	if strings.HasPrefix(s, "/*") {
		return "{{" + s + "}}"
	}
	return "{{" + strings.Join(actionWords(s), " ") + "}}"
}

// actionWords splits an action at its white space outside of strings.
func actionWords(s string) []string {
	var words []string
	var quote byte
	start := -1
	for i := 0; i < len(s); i++ {
		switch {
		case quote != 0:
			if s[i] == '\\' && quote != '`' {
				i++
			} else if s[i] == quote {
				quote = 0
			}
			continue
		case isSpace(s[i]):
			if start >= 0 {
				words, start = append(words, s[start:i]), -1
			}
			continue
		case s[i] == '"' || s[i] == '\'' || s[i] == '`':
			quote = s[i]
		}
		if start < 0 {
			start = i
		}
	}
	if start >= 0 {
		words = append(words, s[start:])
	}
	return words
}

// tagEnd returns the length of the tag at the beginning of s; -1 if it is open.
func tagEnd(s string) int {
	var quote byte
	for i := 1; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "{{"):
			end := actionEnd(s[i:])
			if end < 0 {
				return -1
			}
			i += end - 1
		case quote != 0:
			if s[i] == quote {
				quote = 0
			}
		case s[i] == '"' || s[i] == '\'':
			quote = s[i]
		case s[i] == '>':
			return i + 1
		}
	}
	return -1
}

func tagName(tag string) string {
	tag = strings.TrimLeft(tag, "</")
	if end := strings.IndexAny(tag, whiteSpace+"/>{"); end >= 0 {
		tag = tag[:end]
	}
	return strings.ToLower(tag)
}
