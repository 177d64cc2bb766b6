package config

import (
	"os"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/alecthomas/kong"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// EnvPrefix begins the name of every environment variable.
const EnvPrefix = "WHETSTONE"

// File is a configuration file as a source of flags.
type File struct {
	path   string
	values map[string]any
}

// ReadFile reads a TOML file whose keys are the names of flags.
func ReadFile(path string) (*File, error) {
	f := &File{path: path, values: map[string]any{}}
	raw := map[string]any{}
	if _, err := toml.DecodeFile(path, &raw); err != nil {
		return nil, fault.Invalid("config", "config: %s: %s", path, err)
	}
	for key, value := range raw {
		f.values[strings.ReplaceAll(key, "_", "-")] = value
	}
	return f, nil
}

// FilePath finds --config among the arguments, or WHETSTONE_CONFIG: the file
// must be read before the other flags are.
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

// Validate refuses keys that are no flags: a misspelt setting must not be
// silently without effect.
func (f *File) Validate(app *kong.Application) error {
	var known []string
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known = append(known, flag.Name)
		}
		return next(nil)
	})
	for key := range f.values {
		if !slices.Contains(known, key) {
			return fault.Invalid("config", "config: %s: no setting is called %s", f.path, key)
		}
	}
	return nil
}

// Resolve gives a flag its value from the file, unless the environment has
// one. The flags of the command line never get here.
func (f *File) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, ok := os.LookupEnv(name); ok {
			return nil, nil //nolint:nilnil // kong's way to say "not from me"
		}
	}
	if values, ok := f.values[flag.Name].([]any); ok {
		return joined(values), nil
	}
	return f.values[flag.Name], nil
}

func joined(values []any) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i], _ = v.(string)
	}
	return strings.Join(words, ",")
}
