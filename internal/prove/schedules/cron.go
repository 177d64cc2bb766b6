package schedules

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Cron is a time table of the five fields minute, hour, day of month, month and day of week,
// in UTC. As in crontab(5), a day matches either day field if both are restricted.
type Cron struct {
	minutes, hours, days, months, weekdays uint64 // a bit for each value
	eitherDay                              bool
}

// A cronField is what a field of a Cron may have.
type cronField struct {
	name     string
	min, max int
	names    []string // of the values from min on
}

var cronFields = [5]cronField{
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}, // 0 and 7 are Sunday
}

// maxCron is the longest text of a Cron; the API's schema states it, too.
const maxCron = 200

// ParseCron reads e.g. "0 3 * * mon-fri". The error names the field that is wrong.
func ParseCron(s string) (c Cron, err error) {
	if len(s) > maxCron {
		return c, fmt.Errorf("it is longer than %d characters", maxCron)
	}
	parts := strings.Fields(s)
	if len(parts) != len(cronFields) {
		return c, fmt.Errorf("it needs 5 fields (minute, hour, day of month, month, day of week) and has %d", len(parts))
	}
	for i, into := range []*uint64{&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays} {
		if *into, err = cronFields[i].parse(parts[i]); err != nil {
			return c, fmt.Errorf("%s %q: %w", cronFields[i].name, parts[i], err)
		}
	}
	const sunday, alsoSunday = 1 << 0, 1 << 7
	if c.weekdays&alsoSunday != 0 {
		c.weekdays |= sunday
	}
	c.eitherDay = !strings.HasPrefix(parts[2], "*") && !strings.HasPrefix(parts[4], "*")
	if c.Next(time.Unix(0, 0)).IsZero() {
		return c, fmt.Errorf("no month has the day %s", parts[2])
	}
	return c, nil
}

// parse reads a list of values, ranges and steps, e.g. "1,10-20/5".
func (f cronField) parse(s string) (set uint64, err error) {
	for part := range strings.SplitSeq(s, ",") {
		from, to, step := f.min, f.max, 1
		values, every, stepped := strings.Cut(part, "/")
		first, last, ranged := strings.Cut(values, "-")
		if stepped {
			if step, err = strconv.Atoi(every); err != nil || step < 1 || step > f.max {
				return 0, fmt.Errorf("the step after / must be 1 to %d", f.max)
			}
		}
		switch {
		case values == "*":
		case stepped && !ranged:
			return 0, fmt.Errorf("a step needs * or a range before it, e.g. */%s", every)
		default:
			if from, err = f.value(first); err != nil {
				return 0, err
			}
			if to = from; ranged {
				if to, err = f.value(last); err != nil {
					return 0, err
				}
			}
		}
		if from > to {
			return 0, fmt.Errorf("the range %s ends before it begins", values)
		}
		for v := from; v <= to; v += step {
			set |= 1 << v
		}
	}
	return set, nil
}

func (f cronField) value(s string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(s, name) {
			return f.min + i, nil
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < f.min || n > f.max || s[0] == '+' {
		return 0, fmt.Errorf("%q must be %d to %d", s, f.min, f.max)
	}
	return n, nil
}

// maxAhead is for how long a Cron is looked ahead: a 29th of February on a day of the week comes
// in at most 40 years, where a century in between has no leap day.
const maxAhead = 41 * 366

// Next returns the first time after another one, or the zero time if there is none.
func (c Cron) Next(after time.Time) time.Time {
	after = after.UTC().Truncate(time.Minute).Add(time.Minute)
	day := after.Truncate(24 * time.Hour)
	from := after.Hour()*60 + after.Minute() // of the first day
	for range maxAhead {
		if c.on(day) {
			for at := from; at < 24*60; at++ {
				switch {
				case c.hours>>(at/60)&1 == 0:
					at += 59 - at%60
				case c.minutes>>(at%60)&1 == 1:
					return day.Add(time.Duration(at) * time.Minute)
				}
			}
		}
		day, from = day.Add(24*time.Hour), 0
	}
	return time.Time{}
}

// on reports whether a day matches.
func (c Cron) on(day time.Time) bool {
	inMonth, inWeek := c.days>>day.Day()&1 == 1, c.weekdays>>day.Weekday()&1 == 1
	if c.months>>day.Month()&1 == 0 {
		return false
	}
	if c.eitherDay {
		return inMonth || inWeek
	}
	return inMonth && inWeek
}
