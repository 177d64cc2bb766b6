// Package cli is the command line: it parses flags, calls one operation, and prints the
// result as text for people or as JSON for scripts.
//
// The commands in this package run on the server's machine and open its database. Those
// in the packages versions, quality, capture and account talk to a server by its API.
// Package server has the connection and the stored login, package term the output and
// the exit codes.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/app/config"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/cli/account"
	"github.com/whetstone-dev/whetstone/internal/cli/capture"
	"github.com/whetstone-dev/whetstone/internal/cli/quality"
	"github.com/whetstone-dev/whetstone/internal/cli/server"
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/cli/versions"
)

// commands is the grammar that kong parses: a field with the tag cmd is a command, and
// the structs with the tag embed contribute the commands of their package. The order
// here does not matter for the help; see helpGroups.
type commands struct {
	ConfigFile string `name:"config" placeholder:"FILE" help:"TOML file with settings, one per line, named like the flags."`
	JSON       bool   `env:"-" help:"Print JSON, for scripts."`
	IDs        bool   `name:"ids" env:"-" help:"Show ids in tables."`

	Serve   serveCommand   `cmd:"" help:"Start the service."`
	Migrate migrateCommand `cmd:"" help:"Migrate the database to the schema of this version."`
	Doctor  doctorCommand  `cmd:"" help:"Check the installation and report what to fix."`
	Ready   readyCommand   `cmd:"" help:"Check whether the process at --addr is ready, for health checks."`
	Backup  backupCommand  `cmd:"" help:"Save everything into one file while the service runs."`
	Restore restoreCommand `cmd:"" help:"Restore a backup into an empty installation."`
	Config  configCommand  `cmd:"" help:"Print the settings in force, secrets masked."`
	Rekey   rekeyCommand   `cmd:"" help:"Re-encrypt the secrets in the database with the first --secret-key."`
	Version versionCommand `cmd:"" help:"Print the version."`

	HelpOf     helpCommand       `cmd:"" name:"help" help:"Show the help of a command."`
	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`

	Org    orgCommands    `cmd:"" help:"Create and list organisations."`
	User   userCommands   `cmd:"" help:"Create, list, invite and remove the users of an organisation."`
	Key    keyCommands    `cmd:"" help:"Create, list and revoke API keys."`
	Device deviceCommands `cmd:"" help:"Approve or deny the login of a program."`

	SigningKey signingKeyCommands `cmd:"" help:"List, rotate and revoke the keys that sign versions."`

	Repohost repohostCommands `cmd:"" help:"Assign accounts of the code host to organisations, and create bare repositories."`

	Versions versions.Commands `embed:""`
	Quality  quality.Commands  `embed:""`
	Capture  capture.Commands  `embed:""`
	Account  account.Commands  `embed:""`
}

// Run parses args (without the program's name), runs the command and returns the exit
// code for the process: one of the term.Exit constants. ctx ends with Ctrl-C.
func Run(ctx context.Context, p *term.Program, args []string) int {
	root, helped := &commands{}, false
	options := []kong.Option{
		kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(int) { helped = true }), // by default --help ends the process
	}
	// A completion script calls on every Tab, so the words are not parsed as a command
	// line: they are incomplete by nature.
	if len(args) > 0 && args[0] == completionCallback {
		parser, err := newParser(root, options...)
		if err != nil {
			return p.Fail(err)
		}
		writeCandidates(p.Stdout, parser.Model, args[1:], func(kind string) []string { return server.Names(ctx, p, kind) })
		return term.ExitOK
	}
	// Not a flag of the root, since push has its own --version.
	if len(args) > 0 && args[0] == "--version" {
		args = append([]string{"version"}, args[1:]...)
	}
	// The file must be read before kong parses: its values are defaults of flags. It
	// may hold settings of any command, so the parser needs all of them and `only` does
	// not apply.
	if path := config.FilePath(args); path != "" {
		file, err := config.ReadFile(path)
		if err != nil {
			return p.Fail(err)
		}
		options = append(options, kong.Resolvers(file))
	} else {
		options = append(options, only(args)...)
	}
	parser, err := newParser(root, options...)
	if err != nil {
		return p.Fail(err)
	}
	// A first trace finds a group without a command, e.g. `whetstone eval`: it prints
	// its help instead of the error "expected one of".
	if trace, err := kong.Trace(parser, args); err == nil && trace.Error == nil {
		node := cmp.Or(trace.Selected(), trace.Model.Node)
		if len(node.Children) > 0 && node.DefaultCmd == nil {
			args = append(args, "--help")
		}
	}
	kctx, err := parser.Parse(args)
	// kong has printed the help and returns no command to run.
	if helped {
		return term.ExitOK
	}
	// A setting from the file is invalid; the message names it, so a usage hint would
	// mislead.
	if fault.Is(err, fault.Malformed) {
		return p.Fail(err)
	}
	if err != nil {
		// Kong lists the empty choice of an optional flag, too, which tells the user
		// nothing.
		message := strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1)
		fmt.Fprintf(p.Stderr, "whetstone: %s\n%s\n", message, usageHint(err))
		return term.ExitUsage
	}
	// --json is known only after parsing; errors until here are printed as text.
	p.JSON, p.IDs = root.JSON, root.IDs
	p.UseProcess()
	kctx.BindTo(ctx, (*context.Context)(nil))
	return p.End(ctx, kctx.Run(p))
}

// only returns options that make kong ignore all commands but the one that args[0]
// names, or nil if it names none. Building the full parser takes a third of the time of
// a short command, since many commands accept all settings of the server.
func only(args []string) []kong.Option {
	if len(args) == 0 || args[0] == "help" || strings.HasPrefix(args[0], "-") {
		return nil
	}
	named, others := false, []string{}
	for _, field := range commandFields(reflect.TypeFor[commands]()) {
		name := cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name))
		// Dashes are ignored because kong derives "service-account" from
		// ServiceAccount.
		if strings.ReplaceAll(name, "-", "") == strings.ReplaceAll(args[0], "-", "") {
			named = true
		} else {
			others = append(others, field.Name)
		}
	}
	if !named {
		return nil
	}
	return []kong.Option{kong.IgnoreFields(`^commands\.(` + strings.Join(others, "|") + `)$`)}
}

// commandFields returns the fields that are commands, including those of embedded
// structs.
func commandFields(t reflect.Type) (fields []reflect.StructField) {
	for field := range t.Fields() {
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			fields = append(fields, commandFields(field.Type)...)
		} else if _, command := field.Tag.Lookup("cmd"); command {
			fields = append(fields, field)
		}
	}
	return fields
}

// newParser returns the parser of the command line, with its help sorted into sections.
// Flags with settings of the server also read the environment, e.g. WHETSTONE_DATA.
func newParser(root *commands, options ...kong.Option) (*kong.Kong, error) {
	parser, err := kong.New(root, append([]kong.Option{
		kong.Name("whetstone"),
		kong.Description("Shows a team which of its agent skills work, proves it, and helps fix those that do not."),
		kong.DefaultEnvars(config.EnvPrefix),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true}),
		kong.Help(printHelp),
		kong.ValueFormatter(helpOfValue),
	}, options...)...)
	if err != nil {
		return nil, err
	}
	arrangeHelp(parser.Model)
	return parser, nil
}
