// Package releases has the client's commands that decide which version of a skill
// is current.
package releases

// Commands are the commands of this package.
type Commands struct {
	Rollback rollbackCommand `cmd:"" group:"Client" help:"Make an earlier version of a skill current again, or undo that."`
}
