package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// commands are what a script can do beside testscript's own commands.
//
//	start [FLAG...]     starts the server on a free port; sets $URL, and $KEY
//	                    to the key it prints at its first start
//	terminate           sends SIGTERM; the server must end with exit code 0
//	crash               sends SIGKILL
//	restart [FLAG...]   terminate and start
//
//	[!] whetstone ARG...          runs the command line; it must (not) succeed
//	fails CODE ARG...             the same, and checks the exit code
//
//	http STATUS METHOD PATH [CURL-ARG...]   asks the server with the key $KEY,
//	                    without one if it is empty; the body is stdout, the
//	                    headers are in the file headers
//	await STATUS METHOD PATH [JSON-PATH VALUE]
//	                    repeats a request for up to five seconds, until the
//	                    status is that, and the body has that value there
//
//	receiver NAME [STATUS...]     starts a web server that answers with these
//	                    statuses in turn, the last one for ever; sets $NAME to its URL
//	[!] received NAME N           waits for its n-th request, whose body is
//	                    stdout then; with ! it must not have come
//
//	judge NAME QUOTATION CRITERION...       starts a model that judges: the first
//	                    criterion is fulfilled where the quotation is, the others
//	                    never are; sets $NAME to its URL
//
//	actions [CLAIM=VALUE...]      starts an issuer of ID tokens and the runner of a
//	                    job that has these claims, or changes them; sets $ISSUER and
//	                    the variables ACTIONS_ID_TOKEN_REQUEST_...
//
//	body JSON           stdout is that JSON, whatever its spacing
//	[!] json PATH [VALUE]         stdout has that value (not) at that path,
//	                    which is keys and indexes joined by dots
//	capture NAME [PATH] sets $NAME to the value there, or to all of stdout
//
// What the server prints is in server.out and server.log.
var commands = map[string]func(*testscript.TestScript, bool, []string){
	"start":     start,
	"terminate": terminate,
	"crash":     crash,
	"restart":   restart,
	"whetstone": whetstone,
	"fails":     fails,
	"http":      request,
	"await":     await,
	"receiver":  receiver,
	"received":  received,
	"judge":     scriptedJudge,
	"actions":   actions,
	"body":      body,
	"json":      jsonValue,
	"capture":   capture,
}

func serverOf(ts *testscript.TestScript) *server { return ts.Value(serverKey{}).(*server) }

// want ends the script unless the command has a good number of arguments, and
// no ! unless it may.
func want(ts *testscript.TestScript, good bool, usage string) {
	if !good {
		ts.Fatalf("usage: %s", usage)
	}
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg, "start [FLAG...]")
	ts.Check(ts.Exec("env")) // the script may have changed its environment
	env := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	url, key, err := serverOf(ts).start(env, args)
	ts.Check(err)
	ts.Setenv("URL", url)
	if key != "" {
		ts.Setenv("KEY", key)
	}
}

func terminate(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 0, "terminate")
	ts.Check(serverOf(ts).terminate())
}

func crash(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 0, "crash")
	ts.Check(serverOf(ts).crash())
}

func restart(ts *testscript.TestScript, neg bool, args []string) {
	terminate(ts, neg, nil)
	start(ts, neg, args)
}

func whetstone(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("whetstone", args...)
	if neg && err == nil {
		ts.Fatalf("whetstone succeeded")
	}
	if !neg {
		ts.Check(err)
	}
}

func fails(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) > 1, "fails CODE ARG...")
	err := ts.Exec("whetstone", args[1:]...)
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("whetstone: %v, want exit status %s", err, args[0])
	}
}

func request(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) >= 3, "http STATUS METHOD PATH [CURL-ARG...]")
	if got := curl(ts, args[1], args[2], args[3:]); got != args[0] {
		ts.Fatalf("status %s, want %s", got, args[0])
	}
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && (len(args) == 3 || len(args) == 5), "await STATUS METHOD PATH [JSON-PATH VALUE]")
	deadline := time.Now().Add(2 * time.Minute)
	for {
		got := curl(ts, args[1], args[2], nil)
		if got == args[0] && (len(args) == 3 || stdoutHas(ts, args[3], args[4])) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("status is still %s, want %s; body: %s", got, args[0], ts.ReadFile("stdout"))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func stdoutHas(ts *testscript.TestScript, path, value string) bool {
	got, found := find(stdoutJSON(ts), path)
	return found && show(got) == value
}

// curl returns the status of the answer.
func curl(ts *testscript.TestScript, method, path string, more []string) string {
	args := []string{
		"--silent", "--show-error", "--max-time", "30", "--path-as-is", "--dump-header", filepath.Join(serverOf(ts).dir, "headers"),
		"--write-out", "%{stderr}%{http_code}", "--request", method,
	}
	if method == "HEAD" {
		args = append(args, "--head")
	}
	if key := ts.Getenv("KEY"); key != "" {
		args = append(args, "--header", "Authorization: Bearer "+key)
	}
	ts.Check(ts.Exec("curl", slices.Concat(args, more, []string{ts.Getenv("URL") + path})...))
	return ts.ReadFile("stderr")
}

func body(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && len(args) == 1, "body JSON")
	wanted, err := parse(args[0])
	ts.Check(err)
	if diff := cmp.Diff(wanted, stdoutJSON(ts)); diff != "" {
		ts.Fatalf("body (-want +got):\n%s", diff)
	}
}

func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, len(args) == 1 || len(args) == 2, "[!] json PATH [VALUE]")
	got, found := find(stdoutJSON(ts), args[0])
	matches := found && (len(args) == 1 || show(got) == args[1])
	if matches == neg {
		ts.Fatalf("%s is %s (found: %t)", args[0], show(got), found)
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, !neg && (len(args) == 1 || len(args) == 2), "capture NAME [PATH]")
	if len(args) == 1 {
		ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
		return
	}
	value, found := find(stdoutJSON(ts), args[1])
	if !found {
		ts.Fatalf("nothing at %s", args[1])
	}
	ts.Setenv(args[0], show(value))
}

func stdoutJSON(ts *testscript.TestScript) any {
	value, err := parse(ts.ReadFile("stdout"))
	ts.Check(err)
	return value
}

func parse(text string) (value any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // 1 is 1, not 1e+00
	err = d.Decode(&value)
	return value, err
}

// find walks down a path like keys.0.name; "." is the whole value.
func find(value any, path string) (any, bool) {
	if path == "." {
		return value, true
	}
	for element := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			next, ok := v[element]
			if !ok {
				return nil, false
			}
			value = next
		case []any:
			i, err := strconv.Atoi(element)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			value = v[i]
		default:
			return nil, false
		}
	}
	return value, true
}

// show writes a text as it is and anything else as JSON.
func show(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
