package web

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/web/format"
)

const day = 24 * time.Hour

// short truncates s to n characters, the last of which is then "…". Unlike
// text.Ellipsis it takes the limit first, for pipelines in templates, and trims the
// space before the ellipsis.
func short(n int, s string) string {
	if text.TruncateRunes(s, n) == s {
		return s
	}
	return strings.TrimSpace(text.TruncateRunes(s, n-1)) + "…"
}

// pathTo joins parts to a path and escapes them, e.g. {{url "skills" .Name}} in a
// template.
func pathTo(parts ...any) string { return format.Path(parts...) }

// badgeKinds maps each status of the service to its colour and shape. Others are plain.
var badgeKinds = map[string]string{
	"healthy": "good", "pass": "good", "passed": "good", "succeeded": "good", "delivered": "good", "published": "good",
	"approved": "good", "accepted": "good", "applied": "good", "resolved": "good", "up_to_date": "good", "active": "good",
	"ok": "good", "current": "good", "enabled": "good", "processed": "good", "done": "good",
	"valid": "good", "refused": "bad", "gating": "busy",
	"warning": "warn", "warn": "warn", "retrying": "warn", "outdated": "warn", "behind": "warn",
	"modified": "warn", "edited": "warn",
	"suspended": "warn", "rolled_back": "warn", "skipped": "warn", "update_available": "warn",
	"reminder": "warn", "error": "warn",
	"budget_spent": "warn", "not_runnable": "warn", "unclear": "warn", "unreliable": "warn", "fixed": "good", "broken": "bad",
	"candidate": "warn", "withdrawn": "warn", "inconclusive": "warn", "superseded": "warn",
	"met": "good", "unmet": "warn", "missing": "bad", "critical": "bad", "fail": "bad", "block": "bad", "failed": "bad",
	"failed_transient": "bad", "failed_terminal": "bad",
	"firing": "bad", "rejected": "bad", "denied": "bad", "revoked": "bad", "blocked": "bad",
	"running": "busy", "queued": "busy", "pending": "busy", "received": "busy", "processing": "busy",
}

// badgeShapes distinguish the kinds for people who cannot see their colours.
var badgeShapes = map[string]string{"good": "●", "warn": "▲", "bad": "■", "busy": "◐", "plain": "○"}

// newBadge formats a status, a string of any type, as a shape and a word, e.g. "● up to
// date".
func newBadge(status any) template.HTML {
	word := fmt.Sprint(status)
	kind, ok := badgeKinds[word]
	if !ok {
		kind = "plain"
	}
	// Safe: kind is one of ours, and the word is escaped.
	return template.HTML(`<span class="badge ` + kind + `"><span aria-hidden="true">` + badgeShapes[kind] + `</span> ` +
		html.EscapeString(strings.ReplaceAll(word, "_", " ")) + `</span>`)
}

// icons are drawn with lines on a grid of 16 by 16.
var icons = map[string]string{
	"home":      "M2.5 7 8 2.5 13.5 7v6.5h-4v-4h-3v4h-4z",
	"skills":    "M2.5 12.5 6 8l2.5 2.5 5-6.5M10.5 4h3v3",
	"sessions":  "M2.5 4h7M4.5 8h7M6.5 12h7",
	"review":    "M3 3.5h10v9H3zM5.5 8l2 2 3.5-4",
	"sources":   "M2.5 4.5h4l1.5 1.5h5.5v7h-11z",
	"suites":    "M6 2.5h4M7 2.5v4l-4 7h10l-4-7v-4",
	"registry":  "M8 2 13.5 5v6L8 14l-5.5-3V5zM2.5 5 8 8l5.5-3M8 8v6",
	"repohost":  "M5 5v6M5 5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM5 14a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM11 6.5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM11 6.5c0 2.5-6 2-6 4.5",
	"costs":     "M8 2v12M11 4.5C10.5 3.8 9.5 3.5 8 3.5c-2 0-3 .9-3 2.1 0 3 6.2 1.6 6.2 4.7 0 1.3-1.2 2.2-3.2 2.2-1.7 0-2.8-.5-3.2-1.4",
	"alerts":    "M4 11.5V7a4 4 0 0 1 8 0v4.5M2.5 11.5h11M6.5 14h3",
	"proposals": "M8 2a4 4 0 0 0-2.5 7.2V11h5V9.2A4 4 0 0 0 8 2zM6 13.5h4",
	"settings":  "M2.5 4.5h6M11.5 4.5h2M2.5 11.5h2M7.5 11.5h6M10 6a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM6 13a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3z",
	"gates":     "M3 13.5v-11h10v11M3 6h10M6.5 6v7.5M9.5 6v7.5",
	"compare":   "M5 2.5v11M11 2.5v11M2.5 5 5 2.5 7.5 5M8.5 11l2.5 2.5L13.5 11",
	"incidents": "M8 2.5 14 13H2zM8 6.5v3M8 11v.2",
	"search":    "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5l3 3",
	"account":   "M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM2.5 14c0-3 2.5-4.5 5.5-4.5s5.5 1.5 5.5 4.5",
	"theme":     "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
	"menu":      "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
	"copy":      "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
	"close":     "m4 4 8 8m0-8-8 8",
	"agree":     "M2 7h2.5v6.5H2zM4.5 7 7.5 1.8c1.3 0 1.9.9 1.6 2.1L8.6 6h4.2c.9 0 1.5.8 1.3 1.7l-1 4.5c-.2.8-.8 1.3-1.6 1.3h-7",
	"disagree":  "M2 2.5h2.5V9H2zM4.5 9l3 5.2c1.3 0 1.9-.9 1.6-2.1L8.6 10h4.2c.9 0 1.5-.8 1.3-1.7l-1-4.5c-.2-.8-.8-1.3-1.6-1.3h-7",
}

// icon returns an icon by its name, hidden from screen readers: a label is always
// beside it.
func icon(name string) template.HTML {
	// Safe: the paths are constants.
	return template.HTML(`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="` + icons[name] + `"/></svg>`)
}
