// Package sessions has the client's commands about the sessions of agents: they
// report them, show them and grade them.
package sessions

// Commands are the commands of this package.
type Commands struct {
	Import  importCommand   `cmd:"" group:"Client" help:"Report the sessions that agents keep on this machine."`
	Session sessionCommands `cmd:"" group:"Client" help:"List the sessions of agents, show one, and make a test case of it."`
	Grade   gradeCommand    `cmd:"" group:"Client" help:"Grade a session."`
	Hook    hookCommands    `cmd:"" group:"Client" help:"Make agents report their sessions by themselves."`
}
