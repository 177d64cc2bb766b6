// Package watch has the client's commands about what watches published skills:
// alerts, and the incidents that follow from them.
package watch

// Commands are the commands of this package.
type Commands struct {
	Alert    alertCommands    `cmd:"" group:"Client" help:"Manage the alerts that watch skills."`
	Incident incidentCommands `cmd:"" group:"Client" help:"Show automatic rollbacks and their progress."`
}
