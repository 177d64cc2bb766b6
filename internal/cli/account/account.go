// Package account has the commands that the help lists under Account and organisation: the
// login, the people and machines of an organisation, their tokens, and its settings.
package account

// Commands are the commands of this package, in the order of the help.
type Commands struct {
	Login            loginCommand         `cmd:"" help:"Log in to a server."`
	Logout           logoutCommand        `cmd:"" help:"Delete the stored login of a server."`
	Whoami           whoamiCommand        `cmd:"" help:"Show the server, and whom the key belongs to."`
	Member           memberCommands       `cmd:"" help:"Invite people, list members, change roles, remove members."`
	Team             teamCommands         `cmd:"" help:"Create teams, and change their members."`
	Owners           ownersCommand        `cmd:"" help:"Show or set who owns a skill."`
	ServiceAccount   accountCommands      `cmd:"" help:"Create, list and delete service accounts, and their keys."`
	KeyPolicy        policyCommands       `cmd:"" help:"Show or set the policy for new API keys."`
	CatalogToken     catalogTokenCommands `cmd:"" help:"Create, list, rotate and delete the tokens that installers have in addresses."`
	TrustedPublisher publisherCommands    `cmd:"" help:"Let workflows of a code host publish an entry without a stored key."`
	Webhook          webhookCommands      `cmd:"" help:"Send events to other systems."`
	Settings         settingsCommands     `cmd:"" help:"Show and change settings of the organisation."`
	Audit            auditCommand         `cmd:"" help:"Show the audit log: who changed what in the organisation."`
	Organization     organizationCommands `cmd:"" help:"Export or delete your organisation."`
}
