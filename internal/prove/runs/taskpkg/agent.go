package taskpkg

import (
	"context"
	"time"

	"github.com/whetstone-dev/whetstone/internal/engine/sandbox"
)

// A Workplace is where an agent works on a task.
type Workplace struct {
	Instruction string
	// Timeout is that of the task's own settings, or 0.
	Timeout time.Duration
	// Dir is the working folder on the machine; in the sandbox it is Spec.Dir. With an
	// image it holds only what was changed there. Root is the task's root on the
	// machine.
	Dir, Root string
	// Spec is the sandbox, without a program.
	Spec sandbox.Spec
}

// Stop is the error of an agent that ends a trial without a verdict.
func Stop(code, message string) error { return &failure{Error, Code(code), message} }

// runAgent lets an agent work on the task. Before the verifier's turn, its files
// and the solution are out of the agent's reach.
func (t *trial) runAgent(ctx context.Context) error {
	if err := t.stashVerifier(hidden); err != nil {
		return err
	}
	dir, err := t.hostWorkDir()
	if err != nil {
		return err
	}
	err = t.task.Agent(ctx, Workplace{
		Instruction: t.task.Instruction, Timeout: t.settings.AgentTimeout(), Dir: dir, Root: t.host, Spec: t.spec(nil),
	})
	if err != nil {
		return err
	}
	return t.returnToVerifier(ctx, "agent")
}
