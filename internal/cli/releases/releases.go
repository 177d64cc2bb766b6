// Package releases has the client's commands that decide which version of a skill
// is current.
package releases

// Commands are the commands of this package.
type Commands struct {
	Rollback   rollbackCommand   `cmd:"" group:"Client" help:"Make an earlier version of a skill current again, or undo that."`
	Promote    promoteCommand    `cmd:"" group:"Client" help:"Make a candidate current without the verdict of its gate."`
	Withdraw   withdrawCommand   `cmd:"" group:"Client" help:"Keep a version from being current, or undo that."`
	Visibility visibilityCommand `cmd:"" group:"Client" help:"Change who may see a skill: everyone, the organisation, or those who know its name."`
	Gates      gatesCommands     `cmd:"" group:"Client" help:"Show, repeat and override the gates of pushed versions; set their policy."`
}
