// Package format writes figures, times and paths as the pages show them.
package format

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/base/pricing"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// None is shown for unknown values. A dash and not 0, which would be a figure.
const None = "–"

// Time formats a time.Time or *time.Time relative to now, with the time in UTC as
// the tooltip. The script keeps it up to date and adds the reader's time zone. It
// takes any, since templates cannot convert types.
func Time(value any) template.HTML {
	t, ok := timeOf(value)
	if !ok {
		return template.HTML(`<span class="muted">never</span>`)
	}
	return element(t, Ago(t, time.Now()), "ago")
}

// Moment formats a time in UTC, where the exact one counts. The script converts it
// to the reader's time zone.
func Moment(value any) template.HTML {
	t, ok := timeOf(value)
	if !ok {
		return template.HTML(`<span class="muted">never</span>`)
	}
	return element(t, t.UTC().Format("2006-01-02 15:04 UTC"), "moment")
}

// Day formats the date of a time, in UTC.
func Day(value any) template.HTML {
	t, ok := timeOf(value)
	if !ok {
		return template.HTML(`<span class="muted">never</span>`)
	}
	return element(t, t.UTC().Format(time.DateOnly), "day")
}

// element shows a time as a text that is made of digits and our words. text must be
// safe as HTML: callers pass no words of users.
func element(t time.Time, text, kind string) template.HTML {
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time datetime="%s" data-format="%s" title="%s">%s</time>`,
		t.Format(time.RFC3339), kind, t.Format("2006-01-02 15:04:05 UTC"), text))
}

// Ago says how long before now a time was, or after now it is, e.g. "3 days ago" and
// "in 2 h"; what is a month away has its date. What is to come is rounded, so that 7 days
// are not "in 6 days" a second later. The script has the same rules.
func Ago(t, now time.Time) string {
	age := now.Sub(t)
	text := func(d time.Duration) string {
		switch {
		case d < time.Hour:
			return strconv.Itoa(int(d/time.Minute)) + " min"
		case d < day:
			return strconv.Itoa(int(d/time.Hour)) + " h"
		}
		return Days(float64(d / day))
	}
	switch {
	case age.Abs() < time.Minute:
		return "just now"
	case age.Abs() >= 30*day:
		return t.UTC().Format(time.DateOnly)
	case age <= -day:
		return "in " + text((-age).Round(day))
	case age <= -time.Hour:
		return "in " + text((-age).Round(time.Hour))
	case age < 0:
		return "in " + text((-age).Round(time.Minute))
	}
	return text(age) + " ago"
}

// timeOf is false for a zero time and a nil pointer, which both mean "never".
func timeOf(value any) (time.Time, bool) {
	switch t := value.(type) {
	case time.Time:
		return t, !t.IsZero()
	case *time.Time:
		if t != nil {
			return *t, true
		}
	}
	return time.Time{}, false
}

// Number formats an integer with thousands separated, e.g. "12 345". One that is not
// known is a nil pointer. The separator is a narrow space that does not break
// (U+202F).
func Number(value any) (string, error) {
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return None, nil
		}
		v = v.Elem()
	}
	if !v.IsValid() || !v.CanInt() {
		return "", fmt.Errorf("number: %T is no whole number", value)
	}
	digits := strconv.FormatInt(v.Int(), 10)
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u202f" + digits[i:]
	}
	return sign + digits, nil
}

// Percent formats a share, a float64 or *float64, as "87 %".
func Percent(value any) string {
	f, ok := floatOf(value)
	if !ok {
		return None
	}
	digits := 0
	if f > 0.99 && f < 1 || f > 0 && f < 0.01 {
		digits = 1 // so that 99.6 % is not rounded to 100 %
	}
	return strconv.FormatFloat(100*f, 'f', digits, 64) + "\u202f%"
}

// Decimal formats a float64 or *float64 with two digits.
func Decimal(value any) string {
	f, ok := floatOf(value)
	if !ok {
		return None
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// Money formats an amount in dollars, a float64 or *float64. The number of digits
// depends on the amount, see pricing.Format.
func Money(value any) string {
	f, ok := floatOf(value)
	if !ok {
		return None
	}
	return pricing.Format(f)
}

// Price formats a price with all of its digits, a float64 or *float64. Rounding
// would change a price of e.g. 0.0375 dollars.
func Price(value any) string {
	f, ok := floatOf(value)
	if !ok {
		return None
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// floatOf is false for nil, which means unknown.
func floatOf(value any) (float64, bool) {
	switch f := value.(type) {
	case float64:
		return f, true
	case *float64:
		if f != nil {
			return *f, true
		}
	}
	return 0, false
}

// Interval formats an interval of shares, e.g. "38–96 %".
func Interval(i *[2]float64) string {
	if i == nil {
		return None
	}
	return fmt.Sprintf("%.0f–%.0f\u202f%%", 100*i[0], 100*i[1])
}

// Points formats the difference of two shares in percentage points, e.g. "▲ +5". The
// triangle says the direction to those who do not see colours.
func Points(change *float64) string {
	if change == nil {
		return None
	}
	rounded := math.Round(100 * *change)
	switch {
	case rounded > 0:
		return fmt.Sprintf("▲ %+.0f", rounded)
	case rounded < 0:
		return fmt.Sprintf("▼ %+.0f", rounded)
	}
	return "±0"
}

// Days formats a number of days.
func Days(n float64) string {
	if n == 1 {
		return "1 day"
	}
	return strconv.FormatFloat(n, 'g', 4, 64) + " days"
}

// Span formats a duration in its largest whole unit, e.g. "90 days". A duration of
// mixed units is written as Go does.
func Span(d time.Duration) string {
	for _, unit := range []struct {
		length    time.Duration
		one, many string
	}{
		{day, "day", "days"},
		{time.Hour, "hour", "hours"},
		{time.Minute, "minute", "minutes"},
		{time.Second, "second", "seconds"},
	} {
		if d >= unit.length && d%unit.length == 0 {
			text, _ := Plural(int64(d/unit.length), unit.one, unit.many) // it is a number
			return text
		}
	}
	return d.String()
}

const day = 24 * time.Hour

// Plural formats a count: plural 3 "review" "reviews" is "3 reviews". It returns an
// error for anything but a number, which fails the page in tests.
func Plural(n any, one, many string) (string, error) {
	text, err := Number(n)
	if text == "1" {
		return "1 " + one, err
	}
	return text + " " + many, err
}

// Path joins parts to a path and escapes them: url "skills" .Name. Each part is
// escaped, so that a name with a slash stays one part.
func Path(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		if text, ok := p.(*string); ok {
			p = *text
		}
		b.WriteString("/" + url.PathEscape(fmt.Sprint(p)))
	}
	return b.String()
}

// byAlert is the reason of a rollback by an alert, which names the id of its rule.
var byAlert = regexp.MustCompile(`^alert ([0-9a-f-]{36})$`)

// Reason shows the reason of a rollback, of which it takes at most n characters. The
// text is escaped here, since the result is HTML.
func Reason(n int, why any) template.HTML {
	words := fmt.Sprint(why)
	if p, ok := why.(*string); ok {
		words = *p
	}
	if m := byAlert.FindStringSubmatch(words); m != nil {
		return template.HTML(`by <a href="/alerts/` + m[1] + `">an alert</a>`)
	}
	return template.HTML(template.HTMLEscapeString(text.Ellipsis(words, n)))
}
