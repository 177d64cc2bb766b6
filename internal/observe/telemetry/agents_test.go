package telemetry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/whetstone-dev/whetstone/internal/deliver/installations"
	"github.com/whetstone-dev/whetstone/internal/observe/telemetry/telemetrytest"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

// A recording has what an agent sent, by the way in which it did: logs, traces,
// metrics, hook or import.
type recording map[string][][]byte

var (
	recordedNanos = regexp.MustCompile(`"1[789]\d{17}"`)
	rejects       = regexp.MustCompile(`rejected[A-Z]|"rejected":\[\{`)
	recordedTime  = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
)

// readRecording reads a recording, as if it ended an hour ago.
func readRecording(t *testing.T, folder string) recording {
	t.Helper()
	r := recording{}
	var last time.Time
	for _, way := range []string{"logs", "traces", "metrics", "hook", "import"} {
		raw, err := os.ReadFile(filepath.Join(folder, way+".jsonl"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			r[way] = append(r[way], line)
			for _, at := range recordedNanos.FindAll(line, -1) {
				nanos, _ := strconv.ParseInt(string(at[1:len(at)-1]), 10, 64) // it is digits
				if moment := time.Unix(0, nanos); moment.After(last) {
					last = moment
				}
			}
		}
	}
	// Whole seconds: the same moment has several precisions.
	later := anHourAgo().Sub(last).Truncate(time.Second)
	for _, bodies := range r {
		for i, body := range bodies {
			body = recordedNanos.ReplaceAllFunc(body, func(at []byte) []byte {
				nanos, _ := strconv.ParseInt(string(at[1:len(at)-1]), 10, 64) // it is digits
				return strconv.AppendQuote(nil, strconv.FormatInt(nanos+int64(later), 10))
			})
			bodies[i] = recordedTime.ReplaceAllFunc(body, func(at []byte) []byte {
				moment, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(at))
				if err != nil {
					t.Fatal(err)
				}
				return []byte(moment.Add(later).Format(`"2006-01-02T15:04:05.000000000Z"`))
			})
		}
	}
	return r
}

// send sends what was recorded of some ways, in this order or from the last to the
// first.
func (r recording) send(c *client, ways []string, backwards bool) {
	c.T.Helper()
	type report struct {
		path string
		body []byte
	}
	var all []report
	for _, way := range ways {
		path := "/v1/" + way
		if way == "hook" || way == "import" {
			path = "/api/v1/push"
		}
		for _, body := range r[way] {
			all = append(all, report{path, body})
		}
	}
	if backwards {
		slices.Reverse(all)
	}
	for _, one := range all {
		if out := c.Do("POST", one.path, one.body); out.Status >= 300 || rejects.Match(out.Body) {
			c.T.Errorf("%s: status %d: %s", one.path, out.Status, out.Body)
		}
	}
}

// subsets of the ways, but the empty one.
func subsets(ways []string) (all [][]string) {
	for set := 1; set < 1<<len(ways); set++ {
		var some []string
		for i, way := range ways {
			if set&(1<<i) != 0 {
				some = append(some, way)
			}
		}
		all = append(all, some)
	}
	return all
}

// TestRecordedAgents replays what real agents sent, in every combination of ways, in
// two orders and twice: every figure is what they did.
func TestRecordedAgents(t *testing.T) {
	folders, err := filepath.Glob("testdata/agents/*/expected.json")
	if err != nil || len(folders) < 6 {
		t.Fatalf("%d recordings: %v", len(folders), err)
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.Work()
		for _, file := range folders {
			folder := filepath.Dir(file)
			r, expected := readRecording(t, folder), telemetrytest.ReadExpected(t, file)
			for _, ways := range subsets(slices.Sorted(maps.Keys(r))) {
				want := expected.Of(t, ways...)
				for _, backwards := range []bool{false, true} {
					name := fmt.Sprint(filepath.Base(folder), " ", strings.Join(ways, "-"), " ", backwards)
					t.Run(name, func(t *testing.T) {
						c := w.org(name).in(t)
						w.installOld(t, c, "pdf-tables")
						for range 2 { // the second time changes nothing
							r.send(c, ways, backwards)
							w.Settle()
							if diff := cmp.Diff(want, telemetrytest.Read(c.Caller), cmpopts.EquateEmpty()); diff != "" {
								t.Fatalf("figures (-want +got):\n%s", diff)
							}
						}
					})
				}
			}
		}
	})
}

// installOld has the client use the first of two versions since yesterday.
func (w *world) installOld(t *testing.T, c *client, name string) {
	t.Helper()
	id := w.publish(c, name, "1.0.0", "1.0.1")
	_, err := w.installations.Install(t.Context(), access.Caller{OrgID: c.Org.ID, UserID: c.User.ID}, installations.New{
		EntryID: id, DeviceID: "laptop", ContentHash: contentHash(t, name+" 1.0.0"),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Exec(`UPDATE installation_changes SET since = $2 WHERE entry_id = $1`, id, store.Micros(time.Now().AddDate(0, 0, -1)))
}
