// Package capture has the commands that report the sessions of agents on this
// machine, show them and grade them.
package capture

// Commands are the commands of this package, in the order of the help.
type Commands struct {
	Import  importCommand   `cmd:"" help:"Report the sessions that agents keep on this machine."`
	Hook    hookCommands    `cmd:"" help:"Let agents report their sessions automatically."`
	Session sessionCommands `cmd:"" help:"List and show sessions of agents, and create test cases from them."`
	Grade   gradeCommand    `cmd:"" help:"Grade a session."`
}
