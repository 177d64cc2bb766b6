// Package quality has the commands that say how good skills are and what they cost,
// their tests, and what decides on and watches their versions.
package quality

// Commands are the commands of this package, in the order of the help.
type Commands struct {
	Skills    skillsCommands   `cmd:"" help:"Show the health and cost of skills; hide and merge them."`
	Costs     costsCommand     `cmd:"" help:"Show what model requests cost, by skill."`
	Prices    pricesCommands   `cmd:"" help:"Show and set the organisation's own prices of models."`
	Eval      evalCommands     `cmd:"" help:"Manage eval suites and run them."`
	Gate      gateCommand      `cmd:"" help:"Compare the skill in a folder with the current version before it is pushed."`
	Gates     gatesCommands    `cmd:"" help:"Show, repeat and override the gates of pushed versions; set their policy."`
	Approve   approveCommand   `cmd:"" help:"Approve or reject a candidate."`
	Approvals approvalsCommand `cmd:"" help:"Show the approvals of a version, or those that wait for you."`
	Source    sourceCommands   `cmd:"" help:"Upload and validate skills, and review suggested test cases."`
	Proposal  proposalCommands `cmd:"" help:"Show, approve, reject and apply proposed changes to skills."`
	Alert     alertCommands    `cmd:"" help:"Manage the alerts that watch skills."`
	Incident  incidentCommands `cmd:"" help:"Show automatic rollbacks and their progress."`
	Report    reportCommand    `cmd:"" help:"Report which skills agents are offered, what that costs, and what to turn off."`
}
