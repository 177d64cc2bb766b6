// Command pocketbase is the peer of the ingest benchmark: PocketBase with one
// collection that anybody may write to, and batches as large as the benchmark
// sends them. It prints where it listens, as Whetstone does.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
	_ "github.com/pocketbase/pocketbase/migrations" // the tables of PocketBase itself
)

const (
	maxRequests = 500
	timeout     = 60 // seconds
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: pocketbase FOLDER")
	}
	app := core.NewBaseApp(core.BaseAppConfig{DataDir: args[0]})
	if err := app.Bootstrap(); err != nil {
		return err
	}
	if err := app.RunAllMigrations(); err != nil {
		return err
	}
	if err := prepare(app); err != nil {
		return err
	}
	app.OnServe().BindFunc(func(e *core.ServeEvent) error {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		e.Listener, e.InstallerFunc = listener, nil
		fmt.Fprintf(os.Stderr, "listening on http://%s\n", listener.Addr())
		return e.Next()
	})
	return apis.Serve(app, apis.ServeConfig{HttpAddr: "127.0.0.1:0"})
}

// prepare makes the collection, without an index and open to everybody, so
// that a record costs as little as it can.
func prepare(app core.App) error {
	app.Settings().Batch = core.BatchConfig{Enabled: true, MaxRequests: maxRequests, Timeout: timeout}
	if err := app.Save(app.Settings()); err != nil {
		return err
	}
	records := core.NewBaseCollection("records")
	for _, name := range []string{
		"natural_id", "session_id", "occurred_at", "normalized_at", "skill_name", "invocation_mode",
		"matched_prompt_id", "prompt_kind", "prompt_text",
	} {
		records.Fields.Add(&core.TextField{Name: name})
	}
	records.Fields.Add(&core.BoolField{Name: "triggered"}, &core.NumberField{Name: "confidence"}, &core.NumberField{Name: "pass_rate"})
	anybody := ""
	records.CreateRule = &anybody
	return app.Save(records)
}
