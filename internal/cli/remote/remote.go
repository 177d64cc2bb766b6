// Package remote has the client's commands. They talk to a server through
// package client and work on folders of skills; none opens a database.
package remote

import (
	"github.com/whetstone-dev/whetstone/internal/cli/costs"
	"github.com/whetstone-dev/whetstone/internal/cli/folder"
	"github.com/whetstone-dev/whetstone/internal/cli/people"
	"github.com/whetstone-dev/whetstone/internal/cli/sourcing"
)

// Commands are the commands of the client.
type Commands struct {
	Login    loginCommand         `cmd:"" group:"Client" help:"Log in to a server."`
	Logout   logoutCommand        `cmd:"" group:"Client" help:"Delete the stored login of a server."`
	Check    folder.CheckCommand  `cmd:"" group:"Client" help:"Check the skill in a folder for errors and risks."`
	Gate     gateCommand          `cmd:"" group:"Client" help:"Compare the skill in a folder with the current version before it is pushed."`
	Push     pushCommand          `cmd:"" group:"Client" help:"Publish the skill in a folder."`
	List     listCommand          `cmd:"" group:"Client" help:"List the skills of the registry."`
	Install  installCommand       `cmd:"" group:"Client" help:"Install a skill."`
	Sync     syncCommand          `cmd:"" group:"Client" help:"Update the installed skills."`
	Status   statusCommand        `cmd:"" group:"Client" help:"Show which installed skills are up to date, behind or edited."`
	History  historyCommand       `cmd:"" group:"Client" help:"List the versions and rollbacks of a skill."`
	Skills   skillsCommands       `cmd:"" group:"Client" help:"Show the health and cost of skills; hide and merge them."`
	Costs    costs.Command        `cmd:"" group:"Client" help:"Show what model requests cost, by skill."`
	Prices   costs.PricesCommands `cmd:"" group:"Client" help:"Show and set the organisation's own prices of models."`
	Settings settingsCommands     `cmd:"" group:"Client" help:"Show and change settings of the organisation."`
	Source   sourcing.Commands    `cmd:"" group:"Client" help:"Upload and validate skills, and review suggested test cases."`
	Eval     evalCommands         `cmd:"" group:"Client" help:"Manage eval suites and run them."`
	Audit    people.AuditCommand  `cmd:"" group:"Client" help:"Show the audit log: who changed what in the organisation."`
}
