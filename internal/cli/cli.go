// Package cli is the command line: it reads flags, calls one operation, and
// prints the result for a person, or as JSON for a script. The commands in this
// package run on the server's machine and open its database; those of the packages
// versions, quality, capture and account talk to a server.
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
	"github.com/whetstone-dev/whetstone/internal/cli/term"
	"github.com/whetstone-dev/whetstone/internal/cli/versions"
)

type commands struct {
	ConfigFile string `name:"config" placeholder:"FILE" help:"TOML file with settings, one per line, named like the flags."`
	JSON       bool   `env:"-" help:"Print JSON, for scripts."`

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

// Run runs the command line and returns the exit code.
func Run(ctx context.Context, p *term.Program, args []string) int {
	root, helped := &commands{}, false
	options := []kong.Option{
		kong.Writers(p.Stdout, p.Stderr),
		kong.Exit(func(int) { helped = true }), // by default --help ends the process
	}
	if len(args) > 0 && args[0] == completionCallback {
		parser, err := newParser(root, options...)
		if err != nil {
			return p.Fail(err)
		}
		writeCandidates(p.Stdout, parser.Model, args[1:])
		return term.ExitOK
	}
	if len(args) > 0 && args[0] == "--version" { // not a flag of the root, since push has one of that name
		args = append([]string{"version"}, args[1:]...)
	}
	// The file must be read before kong parses, since its values are defaults of flags.
	if path := config.FilePath(args); path != "" {
		file, err := config.ReadFile(path)
		if err != nil {
			return p.Fail(err)
		}
		options = append(options, kong.Resolvers(file)) // which has settings of any command
	} else {
		options = append(options, only(args)...)
	}
	parser, err := newParser(root, options...)
	if err != nil {
		return p.Fail(err)
	}
	if trace, err := kong.Trace(parser, args); err == nil && trace.Error == nil {
		node := cmp.Or(trace.Selected(), trace.Model.Node)
		if len(node.Children) > 0 && node.DefaultCmd == nil { // a group of commands and none of them, e.g. "eval"
			args = append(args, "--help")
		}
	}
	kctx, err := parser.Parse(args)
	if helped {
		return term.ExitOK
	}
	if fault.Is(err, fault.Malformed) { // a setting of the file, which the message names
		return p.Fail(err)
	}
	if err != nil {
		// Kong lists the empty choice of a flag that may be left out, too, which says nothing.
		message := strings.Replace(err.Error(), `must be one of "",`, "must be one of ", 1)
		fmt.Fprintf(p.Stderr, "whetstone: %s\n%s\n", message, usageHint(err))
		return term.ExitUsage
	}
	p.JSON = root.JSON
	p.UseProcess()
	kctx.BindTo(ctx, (*context.Context)(nil))
	return p.End(ctx, kctx.Run(p))
}

// only leaves out all commands but the one that is run, if the first argument names
// it. The parser of all of them takes a third of the time of a short command to make,
// since many accept all settings of the server.
func only(args []string) []kong.Option {
	if len(args) == 0 || args[0] == "help" || strings.HasPrefix(args[0], "-") {
		return nil
	}
	named, others := false, []string{}
	for _, field := range commandFields(reflect.TypeFor[commands]()) {
		name := cmp.Or(field.Tag.Get("name"), strings.ToLower(field.Name))
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

// commandFields returns the fields that are commands, also of embedded structs.
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

// newParser returns the parser of the command line, whose help is arranged.
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
