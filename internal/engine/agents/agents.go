// Package agents runs coding agents on a task: headless, in the sandbox, with
// skills installed as the agent installs them, and with nothing reachable but one
// model. An adapter per agent knows how to start it and how to read what it did.
// The package owns no tables.
package agents

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/gateway"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

// The names of the agents.
const (
	ClaudeCode = "claude-code"
	Codex      = "codex"
	Copilot    = "copilot"
	Gemini     = "gemini"
	OpenCode   = "opencode"
)

// An adapter knows one agent.
type adapter interface {
	// program is the name of its executable.
	program() string
	// apis are the wire formats that it speaks, the preferred one first.
	apis() []gateway.API
	// skillsDir is where its skills go: below the home folder if it begins with
	// "~/", else below the working folder; "" if it has none.
	skillsDir() string
	// start returns how a task is started, without the program itself.
	start(t task) invocation
	// call tells what a call of a tool, which the model asked for, means.
	call(tool, input string) Call
	// tellsSkills reports whether call tells which skills are activated.
	tellsSkills() bool
	// read reads what the agent wrote to stdout, line by line. It returns nil if
	// that tells nothing about how the agent ended.
	read(output []byte) *transcript
}

// A task is what an adapter needs to know to start an agent.
type task struct {
	instruction string
	model       string // its name in requests
	api         gateway.API
	url         string // of the model, without a path
	maxTurns    int    // 0 for no limit
	home, dir   string // folders inside the sandbox
}

// placeholderKey is the key that agents send: they want one, and the gateway
// replaces it. It is long, since some agents redact it wherever it occurs.
const placeholderKey = "no-key-inside-the-sandbox"

// An invocation starts an agent.
type invocation struct {
	args  []string
	stdin string
	env   map[string]string
	files map[string]string // content by path below the home folder
	// limitsTurns reports that the agent keeps the limit of turns itself. For the
	// others, the requests to the model are limited.
	limitsTurns bool
}

// A transcript is how an agent ended, as it tells itself. What it did is read from
// the model's answers: programs that it starts can write to its stdout.
type transcript struct {
	sessionID string
	final     string
	failure   *Failure
}

// A Call is one of a tool.
type Call struct {
	Tool string
	// Skill is the skill that the call loads, or whose SKILL.md it reads, or "".
	Skill string
	// Loads reports that the call activates the skill if it is installed.
	Loads bool
	// Detail is the beginning of the call's input, or the command or path in it.
	Detail string
	// Input and Output are what the model asked for and what it got.
	Input, Output string
	// Took is the time until the tool result was returned to the model; the calls of one
	// answer end together. Took and OK are nil if there is no output.
	Took *time.Duration
	OK   *bool
}

// An Answer is one of the model.
type Answer struct {
	At     time.Time // of the request
	Took   time.Duration
	Tokens int64  // of all kinds
	Micros *int64 // what it cost, in millionths of a dollar; nil if its price is unknown
	Model  string // that answered, as its server names it; "" if it does not
	Text   string
	Calls  []Call
}

// A FailureKind is how an agent failed.
type FailureKind string

// The kinds of failures.
const (
	Refused     FailureKind = "refused"       // the model refused the task
	OutOfTurns  FailureKind = "out_of_turns"  // the limit of turns was reached
	OutOfBudget FailureKind = "out_of_budget" // requests, tokens or money of the trial or run
	ModelError  FailureKind = "model_error"   // the model did not answer
	TimedOut    FailureKind = "timed_out"
	Crashed     FailureKind = "crashed" // any other end without a result
)

// A Failure is why an agent did not finish its task. It is safe to show.
type Failure struct {
	Kind    FailureKind
	Message string
}

func errOutOfTurns() *Failure { return &Failure{OutOfTurns, "the limit of turns was reached"} }

func (f *Failure) Error() string { return string(f.Kind) + ": " + f.Message }

// An Outcome is what an agent did.
type Outcome struct {
	SessionID string
	// Turns is the number of the model's answers, subagents' included.
	Turns int
	// Answers are those of the model, and Failures the requests without an answer.
	Answers  []Answer
	Failures []gateway.Failure
	// Calls are those of tools that the model asked for.
	Calls []Call
	// Final is the last message.
	Final string
	// Failure is nil if the agent ended by itself.
	Failure *Failure
	// Usage is what its requests used, as the gateway has counted it.
	Usage     gateway.Usage
	Exchanges []gateway.Exchange
	ExitCode  int
	// Stdout and Stderr are the ends of what the agent wrote.
	Stdout, Stderr string
	Duration       time.Duration

	installed   []string // the names of the skills
	tellsSkills bool
}

// Activated reports whether a skill was activated, nil if that is not known. One
// that is not installed cannot be.
func (o Outcome) Activated(skill string) *bool {
	loaded := slices.Contains(o.installed, skill) &&
		slices.ContainsFunc(o.Calls, func(c Call) bool { return c.Loads && c.Skill == skill })
	if !loaded && !o.tellsSkills {
		return nil
	}
	return &loaded
}

// Mentions reports whether a call names a skill: loads it, reads it, or has its
// name in its input. In a trial without the skill that means contamination.
func (o Outcome) Mentions(skill string) bool {
	return slices.ContainsFunc(o.Calls, func(c Call) bool {
		return c.Skill == skill || strings.Contains(c.Detail, "/"+skill+"/")
	})
}

// Tools lists the names of the tools that were called, each once, in the order of
// their first call.
func (o Outcome) Tools() []string {
	names := []string{}
	for _, c := range o.Calls {
		if !slices.Contains(names, c.Tool) {
			names = append(names, c.Tool)
		}
	}
	return names
}

// Mount adds the route of agents.
func (s *Service) Mount(a *httpapi.API) {
	httpapi.Add(a, s.handleList, httpapi.Route{
		Permission: access.Read, Method: "GET", Path: "/api/v1/agents",
		Summary: "List coding agents, whether they are installed on this machine, and their models",
	})
}

type listOutput struct {
	Agents []Agent `json:"agents"`
}

func (s *Service) handleList(ctx context.Context, _ struct{}) (listOutput, error) {
	return listOutput{s.List(ctx)}, nil
}
