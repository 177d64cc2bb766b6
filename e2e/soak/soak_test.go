// Package soak_test holds the real binary under load and counts what it stores: all
// that was acknowledged must be there, once, and memory and goroutines must not grow.
//
// In the tests it sends a fixed number of requests. Flags run the long form, which
// measures how much the service takes once it has filled the database for a while, and
// then holds four fifths of it:
//
//	make soak ARGS="-for 5m -database postgres"
package soak_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/whetstone-dev/whetstone/e2e/servertest"
	"github.com/whetstone-dev/whetstone/internal/app/apptest"
	"github.com/whetstone-dev/whetstone/internal/platform/store"
	"github.com/whetstone-dev/whetstone/internal/platform/store/postgrestest"
	"github.com/whetstone-dev/whetstone/internal/platform/store/storetest"
)

var (
	soakTime = flag.Duration("for", 0, "how long the load is held on each database; 0 means a fixed number of requests")
	database = flag.String("database", "", "only on this database: sqlite or postgres")
	senders  = flag.Int("senders", 8, "how many send at once, half of them by gRPC")
)

const (
	shortRequests = 25 // of each sender in the tests
	// heldShare is how much of the measured maximum is held.
	heldShare = 0.8
	// fillShare is for how much of the load's time as much is sent before as is taken: an
	// empty database takes more than one whose indexes have grown. The maximum is what is
	// taken for as long after that, at most measureTime.
	fillShare   = 0.1
	measureTime = time.Minute
)

func TestSoak(t *testing.T) {
	dir := t.TempDir()
	binary, err := servertest.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sqlite", "postgres"} {
		if *database != "" && *database != kind {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			if *soakTime == 0 {
				t.Parallel() // it measures nothing
			}
			url := databaseURL(t, kind)
			server := serve(t, binary, url)
			l := &load{url: server.URL, keys: keys(t, binary, url), client: newClients(t)}
			if *soakTime == 0 {
				l.sendFixed(t)
			} else {
				l.soak(t)
			}
			l.recount(t, url)
		})
	}
}

// databaseURL is that of an empty database. The long form needs a PostgreSQL server as an
// operator has it, on a disk, synced and vacuumed, which those of tests are not.
func databaseURL(t *testing.T, kind string) string {
	t.Helper()
	if kind != "postgres" || *soakTime == 0 {
		return storetest.URL(t, kind)
	}
	server, err := postgrestest.NewOnDisk("shared_buffers=2GB", "max_wal_size=4GB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return server.URL
}

// serve starts the service on a database of its own.
func serve(t *testing.T, binary, url string) *servertest.Server {
	t.Helper()
	dir := t.TempDir()
	server, err := servertest.Start(servertest.Command{
		Path: binary, Args: []string{"serve"}, Dir: dir,
		Env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "WHETSTONE_ADDR=127.0.0.1:0", "WHETSTONE_DATABASE_URL=" + url,
			"WHETSTONE_DATA=" + filepath.Join(dir, "data"), "WHETSTONE_LOG_LEVEL=warn",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Terminate(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// keys makes a key for each sender, who is a person.
func keys(t *testing.T, binary, url string) []string {
	t.Helper()
	all := make([]string, *senders)
	for i := range all {
		cmd := exec.CommandContext(t.Context(), binary, "key", "create", "--database-url", url,
			"--user", fmt.Sprintf("person-%d@soak.example", i), "--role", "member", "--json")
		cmd.Env = []string{"HOME=" + t.TempDir()} // no settings of who runs the tests
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var made struct {
			APIKey string `json:"api_key"`
		}
		if err := json.Unmarshal(out, &made); err != nil {
			t.Fatal(err)
		}
		all[i] = made.APIKey
	}
	return all
}

// sendFixed sends the load of the tests. When all is answered, what the requests needed
// is gone.
func (l *load) sendFixed(t *testing.T) {
	t.Helper()
	l.run(t.Context(), t, func(sent int) bool { return sent < 4 }, 0) // opens what stays open
	before := l.sample(t)
	l.run(t.Context(), t, func(sent int) bool { return sent < shortRequests }, 0)
	l.client.close()
	apptest.Eventually(t, "the goroutines of the requests end", func() bool {
		return l.sample(t).goroutines <= before.goroutines+30 // jobs and connections to the database come and go
	})
}

// soak measures the maximum, holds a share of it, and checks that nothing grows.
func (l *load) soak(t *testing.T) {
	t.Helper()
	filled := time.Duration(fillShare * float64(*soakTime))
	l.runFor(t, filled, 0)
	measured := min(measureTime, filled)
	most := l.runFor(t, measured, 0)
	target := heldShare * most
	ctx, stop := context.WithCancel(t.Context())
	samples := l.watch(ctx, t)
	held := l.runFor(t, *soakTime, target)
	stop()
	all := <-samples
	t.Logf("filled for %s; measured for %s: %.0f records/s; held for %s: %.0f records/s of %.0f; shed and retried: %d",
		filled, measured, most, *soakTime, held, target, l.shed.Load())
	if held < 0.95*target {
		t.Errorf("%.0f records/s were taken, want %.0f", held, target)
	}
	wantFlat(t, "resident memory in MB", all, func(s sample) float64 { return s.resident / 1e6 }, 64)
	wantFlat(t, "heap in MB", all, func(s sample) float64 { return s.heap / 1e6 }, 32)
	wantFlat(t, "goroutines", all, func(s sample) float64 { return s.goroutines }, 30)
}

// wantFlat compares the median of the last third with that of the first, and allows a
// quarter more, and what comes and goes.
func wantFlat(t *testing.T, what string, all []sample, value func(sample) float64, slack float64) {
	t.Helper()
	third := len(all) / 3
	if third == 0 {
		t.Fatalf("%s: only %d samples", what, len(all))
	}
	first, last := median(all[:third], value), median(all[len(all)-third:], value)
	t.Logf("%s: %.0f in the first third, %.0f in the last (medians of %d samples)", what, first, last, third)
	if last > first*1.25+slack {
		t.Errorf("%s grows from %.0f to %.0f", what, first, last)
	}
}

func median(all []sample, value func(sample) float64) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = value(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// recount compares what is stored with what was acknowledged.
func (l *load) recount(t *testing.T, url string) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(t.Context(), `SELECT COUNT(*) FROM skill_observations`)
	stored, err := store.One(rows, err, "count", store.Value[int64])
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := l.acknowledged.Load()
	t.Logf("%d records in %d requests were acknowledged, %d are stored", acknowledged, l.requests.Load(), stored)
	if stored != acknowledged || acknowledged == 0 {
		t.Errorf("%d records were acknowledged, %d are stored: %s", acknowledged, stored, verdict(stored-acknowledged))
	}
}

func verdict(difference int64) string {
	if difference < 0 {
		return fmt.Sprintf("%d are lost", -difference)
	}
	return fmt.Sprintf("%d are there twice", difference)
}
