// Package sessions has the client's commands about the sessions of agents: they
// report them, show them and grade them.
package sessions

// Commands are the commands of this package.
type Commands struct {
	Import  importCommand   `cmd:"" group:"Client" help:"Report the sessions that agents keep on this machine."`
	Session sessionCommands `cmd:"" group:"Client" help:"List and show sessions of agents, and create test cases from them."`
	Grade   gradeCommand    `cmd:"" group:"Client" help:"Grade a session."`
	Hook    hookCommands    `cmd:"" group:"Client" help:"Let agents report their sessions automatically."`
}
