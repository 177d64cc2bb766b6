package suites

// An Agent is the coding agent that works on a case, and its limits. A case may name an
// agent, which takes precedence over that of the run, or have limits only, which apply
// to whichever agent the run has.
type Agent struct {
	Name  string `json:"name,omitempty"`
	Model string `json:"model,omitempty"` // of the settings; "" for the first that the agent can ask
	// MaxTurns is the most answers of the model, and TimeoutS the most seconds; 0
	// for the defaults.
	MaxTurns int `json:"max_turns,omitempty"`
	TimeoutS int `json:"timeout_s,omitempty"`
}

// Limits of an agent; the API's schema states them, too.
const (
	DefaultTurns    = 50
	MaxTurns        = 1_000
	DefaultTimeoutS = 15 * 60
	MaxTimeoutS     = 2 * 60 * 60
)

// WithDefaults returns the agent with limits.
func (a Agent) WithDefaults() Agent {
	if a.MaxTurns == 0 {
		a.MaxTurns = DefaultTurns
	}
	if a.TimeoutS == 0 {
		a.TimeoutS = DefaultTimeoutS
	}
	return a
}

// agent parses the field agent of a case.
func (p *caseParser) agent() *Agent {
	var a Agent
	if !p.decode(&a, "agent", `an object like {"name": "claude-code", "model": "...", "max_turns": 30, "timeout_s": 600}`) {
		return nil
	}
	switch {
	case a.Name == "" && a.Model != "":
		p.problem("agent", "agent.model needs an agent.name")
	case a.MaxTurns < 0 || a.MaxTurns > MaxTurns:
		p.problem("agent", "agent.max_turns must be 1 to %d", MaxTurns)
	case a.TimeoutS < 0 || a.TimeoutS > MaxTimeoutS:
		p.problem("agent", "agent.timeout_s must be 1 to %d", MaxTimeoutS)
	}
	return &a
}
