// Package versions has the commands about versions of skills: they check,
// publish, install, verify and roll them back.
package versions

// Commands are the commands of this package, in the order of the help.
type Commands struct {
	Init       initCommand       `cmd:"" help:"Make the folder of a new skill, with an example to edit."`
	Check      checkCommand      `cmd:"" help:"Check the skill in a folder for errors and risks."`
	Push       pushCommand       `cmd:"" help:"Publish the skill in a folder."`
	List       listCommand       `cmd:"" help:"List the skills of the registry."`
	Diff       diffCommand       `cmd:"" help:"Show what changed between two versions of a skill, or in a folder."`
	History    historyCommand    `cmd:"" help:"List the versions and rollbacks of a skill."`
	Install    installCommand    `cmd:"" help:"Install a skill."`
	Uninstall  uninstallCommand  `cmd:"" help:"Remove an installed skill from this machine."`
	Sync       syncCommand       `cmd:"" help:"Update the installed skills."`
	Set        setCommands       `cmd:"" help:"Show and change sets, the skills that teams and projects should have, and install them."`
	Status     statusCommand     `cmd:"" help:"Show which installed skills are up to date, behind or edited."`
	Verify     verifyCommand     `cmd:"" help:"Check an installed skill, or a version of the registry, against what is signed about it."`
	Requires   requiresCommand   `cmd:"" help:"Show which skills a skill requires, and which require it."`
	Rollback   rollbackCommand   `cmd:"" help:"Make an earlier version of a skill current again, or undo that."`
	Promote    promoteCommand    `cmd:"" help:"Make a candidate current without the verdict of its gate."`
	Withdraw   withdrawCommand   `cmd:"" help:"Keep a version from being current, or undo that."`
	Open       openCommand       `cmd:"" help:"Open the dashboard, or the page of a skill, in a browser, and print its address."`
	Visibility visibilityCommand `cmd:"" help:"Change who may see a skill: everyone, the organisation, or those who know its name."`
}
