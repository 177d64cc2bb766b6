package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// EnvPrefix is the prefix of all environment variables.
const EnvPrefix = "WHETSTONE"

// File is a configuration file as a source of flags. Values are what TOML has: string, int64,
// float64, bool, a joined list or a table.
type File struct {
	path   string
	values map[string]any
}

// ReadFile reads a TOML file whose keys are names of flags. An underscore in a key
// counts as a hyphen. Nothing is checked against the flags yet; Validate does that once they
// are known.
func ReadFile(path string) (*File, error) {
	f := &File{path: path, values: map[string]any{}}
	raw := map[string]any{}
	if _, err := toml.DecodeFile(path, &raw); err != nil {
		// The number of the line and not its text, which may be a secret whose quotes
		// were forgotten.
		if e, ok := errors.AsType[toml.ParseError](err); ok {
			return nil, f.refused("line %d is not valid TOML (at or after the key %q)", e.Position.Line, e.LastKey)
		}
		return nil, f.refused("%s", err)
	}
	for key, value := range raw {
		name := strings.ReplaceAll(key, "_", "-")
		// E.g. "blob_url" and "blob-url".
		if _, twice := f.values[name]; twice {
			return nil, f.refused("%s is set twice", name)
		}
		if list, ok := value.([]any); ok {
			if value, ok = joinStrings(list); !ok {
				return nil, f.refused("%s must be a list of texts", name)
			}
		}
		f.values[name] = value
	}
	return f, nil
}

// refused names the file, since there may be several on a machine.
func (f *File) refused(format string, args ...any) *fault.Error {
	return fault.Invalid("config", "config: %s: %s", f.path, fmt.Sprintf(format, args...))
}

// FilePath returns the value of --config or WHETSTONE_CONFIG. It does not use kong,
// since the file must be read before the flags are parsed. The last word isn't its value if the
// flag is the last one; kong reports that.
func FilePath(args []string) string {
	for i, arg := range args {
		if path, ok := strings.CutPrefix(arg, "--config="); ok {
			return path
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return os.Getenv(EnvPrefix + "_CONFIG")
}

// Validate refuses keys that are not settings: a misspelt setting must not be
// ignored silently.
func (f *File) Validate(app *kong.Application) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok && isSetting(flag) {
			known[flag.Name] = true
		}
		return next(nil)
	})
	var issues []fault.Issue
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		if !known[key] {
			issues = append(issues, f.refused("no setting is called %s", key).Issues...)
		}
	}
	if len(issues) > 0 {
		return fault.Issues(issues...)
	}
	return nil
}

// isSetting distinguishes settings from flags of a single command: only settings have
// environment variables. A flag of one command must not come from a file that all commands
// read.
func isSetting(flag *kong.Flag) bool { return len(flag.Envs) > 0 && flag.Name != "config" }

// Resolve implements kong.Resolver: it returns the value of a flag in the file,
// unless the environment has one. kong does not call it for flags on the command
// line. kong's own order would let the file override the environment.
func (f *File) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (value any, err error) {
	if !isSetting(flag) {
		return value, nil // kong's way to say "not from me"
	}
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return value, nil // as above
		}
	}
	return f.values[flag.Name], nil
}

// joinStrings formats a list like the value of a flag.
func joinStrings(list []any) (string, bool) {
	words := make([]string, len(list))
	for i, v := range list {
		word, ok := v.(string)
		if !ok {
			return "", false
		}
		words[i] = word
	}
	return strings.Join(words, ","), true
}
