// Package spawn makes the commands by which the service starts programs, all of them:
// a test of the architecture refuses others. None gets the environment of the service,
// where its secret key and the passwords of its database may be. It owns no tables.
package spawn

import (
	"context"
	"os"
	"os/exec"
)

// Path is the PATH of all programs.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Command returns a command whose environment is PATH, LANG and the variables given as
// NAME=VALUE. What a sandboxed program can see of it is no secret then, e.g. as
// /proc/1/environ.
func Command(ctx context.Context, variables []string, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append([]string{"PATH=" + Path, "LANG=C.UTF-8"}, variables...) // the last of a name counts
	return cmd
}

// Inherited returns the variables of the service with these names, for a program that
// cannot do without and shows them to no sandboxed one.
func Inherited(names ...string) (variables []string) {
	for _, name := range names {
		if value, set := os.LookupEnv(name); set {
			variables = append(variables, name+"="+value)
		}
	}
	return variables
}
