package sandbox

import (
	"fmt"
	"time"
)

// launcher is a shell script that sets limits on itself and becomes the
// program in its arguments. A shell has two merits: it can set limits inside
// the namespaces, where the number of processes is counted for this sandbox
// alone, and it ends with status 126 or 127 where the program cannot be run.
//
// dash and the shell of BusyBox call the number of processes -p, bash -u. A
// limit that cannot be set is lower already.
//
// What a process may ask for is well above what all may use: many reserve
// more than they need, and one that uses too much is to be seen and ended, not
// to be told and to fail as if by itself.
func launcher(l Limits, openFiles int, countProcesses bool) string {
	const block = 512 // the unit of -f in a shell that is called sh
	script := fmt.Sprintf("{ ulimit -c 0; ulimit -n %d; ulimit -f %d; ulimit -d %d; ulimit -t %d; ",
		openFiles, max(1, l.FileSize/block), (2*l.Memory+256<<20)>>10, int(max(1, (l.CPU+time.Second-1)/time.Second)))
	if countProcesses {
		script += fmt.Sprintf("ulimit -u %[1]d || ulimit -p %[1]d; ", l.Processes)
	}
	return script + `} 2>/dev/null; exec "$0" "$@"`
}

const shell = "/bin/sh"

// launch returns the arguments that run argv by a script.
func launch(script string, argv []string) []string {
	return append([]string{shell, "-c", script}, argv...)
}
