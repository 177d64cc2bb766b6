// Package cli is the command line: it reads flags, calls one operation, and
// prints what came of it for a person, or as JSON for a script.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/config"
	"github.com/whetstone-dev/whetstone/internal/fault"
)

// The exit codes.
const (
	ExitOK       = 0
	ExitFailed   = 1
	ExitUsage    = 2 // a flag, a setting or what was to be pushed is not valid
	ExitEdited   = 3 // local edits are in the way
	ExitOutdated = 4 // status: not everything is up to date
	ExitDenied   = 5 // no key or a bad one, or the plan or a permission forbids it
)

type commands struct {
	ConfigFile string `name:"config" placeholder:"FILE" help:"TOML file with settings, one a line, named like the flags."`
	JSON       bool   `env:"-" help:"Print JSON, for scripts."`

	Serve   serveCommand   `cmd:"" help:"Start the service."`
	Migrate migrateCommand `cmd:"" help:"Bring the database's schema to this version."`
	Doctor  doctorCommand  `cmd:"" help:"Check the installation and say what to mend."`
	Ready   readyCommand   `cmd:"" help:"Ask the process at --addr whether it can work, for health checks."`
	Backup  backupCommand  `cmd:"" help:"Save everything into one file while the service runs."`
	Restore restoreCommand `cmd:"" help:"Fill an empty place from a backup."`
	Config  configCommand  `cmd:"" help:"Print the settings in force, secrets masked."`
	Rekey   rekeyCommand   `cmd:"" help:"Seal the secrets in the database with the first of --secret-key."`
	Version versionCommand `cmd:"" help:"Print the version."`

	Org    orgCommands    `cmd:"" help:"Make and list organisations."`
	User   userCommands   `cmd:"" help:"Make and list the people of an organisation."`
	Key    keyCommands    `cmd:"" help:"Make, list and revoke API keys."`
	Device deviceCommands `cmd:"" help:"Approve or deny the login of a program."`

	Repohost repohostCommands `cmd:"" help:"Assign accounts of the code host to organisations, and make bare repositories."`

	Login    loginCommand    `cmd:"" group:"Client" help:"Log in at a server."`
	Logout   logoutCommand   `cmd:"" group:"Client" help:"Forget the login at a server."`
	Check    checkCommand    `cmd:"" group:"Client" help:"Say what is wrong with the skill in a folder."`
	Push     pushCommand     `cmd:"" group:"Client" help:"Publish the skill in a folder."`
	List     listCommand     `cmd:"" group:"Client" help:"List the skills of the registry."`
	Install  installCommand  `cmd:"" group:"Client" help:"Install a skill."`
	Sync     syncCommand     `cmd:"" group:"Client" help:"Bring the installed skills up to date."`
	Status   statusCommand   `cmd:"" group:"Client" help:"Tell which installed skills are up to date, behind or edited."`
	History  historyCommand  `cmd:"" group:"Client" help:"List the versions and rollbacks of a skill."`
	Rollback rollbackCommand `cmd:"" group:"Client" help:"Make an earlier version of a skill current again."`
	Skills   skillsCommand   `cmd:"" group:"Client" help:"Tell how skills do."`
	Import   importCommand   `cmd:"" group:"Client" help:"Report the sessions that Claude Code keeps on this machine."`
	Source   sourceCommands  `cmd:"" group:"Client" help:"Keep skills at the server, see what is wrong with them, review suggested cases."`
	Eval     evalCommands    `cmd:"" group:"Client" help:"Keep eval suites and run them."`
	Audit    auditCommand    `cmd:"" group:"Client" help:"Tell who changed what in the organisation."`
}

// Program is where a run of the command line reads and writes.
type Program struct {
	Version        string
	Stdout, Stderr io.Writer
	// Stdin is where answers to questions come from; nil is that of the process.
	Stdin io.Reader
	// Interactive says that somebody is there to be asked and shown progress.
	// It is found out when Stdin is nil.
	Interactive bool

	json   bool
	helped bool // --help was given and answered
}

// Run runs the command line and returns the exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	parser, root, err := p.parser(args)
	if err != nil {
		return p.failed(err)
	}
	kctx, err := parser.Parse(args)
	if p.helped {
		return ExitOK
	}
	if fault.Is(err, fault.Malformed) {
		return p.failed(err)
	}
	if err != nil {
		fmt.Fprintf(p.Stderr, "whetstone: %s\nRun `whetstone --help` for the commands.\n", err)
		return ExitUsage
	}
	p.json = root.JSON
	if p.Stdin == nil {
		p.Stdin, p.Interactive = os.Stdin, isTerminal(os.Stdin) && isTerminal(p.Stderr)
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	if err := kctx.Run(p); err != nil {
		return p.failed(err)
	}
	return ExitOK
}

func (p *Program) parser(args []string) (*kong.Kong, *commands, error) {
	root := &commands{}
	options := []kong.Option{
		kong.Name("whetstone"),
		kong.Description("Tells a team which of its agent skills work, proves it, and helps to fix them."),
		kong.DefaultEnvars(config.EnvPrefix),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(int) { p.helped = true }), // else --help would end the process
	}
	if path := config.FilePath(args); path != "" {
		file, err := config.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		options = append(options, kong.Resolvers(file))
	}
	parser, err := kong.New(root, options...)
	return parser, root, err
}

// failed prints an error the way a person can act on it.
func (p *Program) failed(err error) int {
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	if e, ok := errors.AsType[*fault.Error](err); ok && len(e.Issues) > 0 {
		for _, issue := range e.Issues {
			fmt.Fprintf(p.Stderr, "whetstone: %s\n", issue.Message)
		}
		return ExitUsage
	}
	fmt.Fprintf(p.Stderr, "whetstone: %s\n", message(err))
	if fault.Is(err, fault.Unauthorized) || fault.Is(err, fault.Denied) {
		return ExitDenied
	}
	return ExitFailed
}

// message is what a person can act on: of an error with a kind its own words,
// without the cause.
func message(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok && e.Kind != fault.Internal {
		return e.Message
	}
	return err.Error()
}

// An exitCode ends a command that has printed what is wrong.
type exitCode int

func (exitCode) Error() string { return "the command has said why" }

// errSaid is the exitCode of an ordinary failure.
const errSaid = exitCode(ExitFailed)

// print writes value as JSON for scripts, or lets table write it for people.
func (p *Program) print(value any, table func(w io.Writer)) error {
	if p.json {
		enc := json.NewEncoder(p.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
	table(w)
	return w.Flush()
}

func newLog(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // the flag allows only levels
	options := &slog.HandlerOptions{Level: least}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
