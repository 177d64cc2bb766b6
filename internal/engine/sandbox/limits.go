package sandbox

import (
	"fmt"
	"time"
)

// limitScript is a shell script that sets rlimits on itself (core size, open
// files, file size, data size, CPU time, processes) and executes the program in
// its arguments. A shell has two advantages: it sets the limits inside the user
// namespace, where the kernel counts the processes of this sandbox only, and it
// ends with status 126 or 127 if the program cannot be executed.
//
// The limit on processes is -p in dash and BusyBox, and -u in bash. A limit that
// cannot be set is lower already.
//
// The limit on data size, which is per process, is well above the memory limit
// of the whole program: many programs reserve more than they use, and one that
// uses too much must be killed with Exceeded set. A failing malloc would look
// like a failure of the program's own.
func limitScript(l Limits, openFiles int, countProcesses bool) string {
	const block = 512 // the unit of -f in a shell that is called sh
	script := fmt.Sprintf("{ ulimit -c 0; ulimit -n %d; ulimit -f %d; ulimit -d %d; ulimit -t %d; ",
		openFiles, max(1, l.FileSize/block), (2*l.Memory+256<<20)>>10, int(max(1, (l.CPU+time.Second-1)/time.Second)))
	if countProcesses {
		script += fmt.Sprintf("ulimit -u %[1]d || ulimit -p %[1]d; ", l.Processes)
	}
	return script + `} 2>/dev/null; exec "$0" "$@"`
}

const shell = "/bin/sh"

// launch returns the arguments that execute argv by a script.
func launch(script string, argv []string) []string {
	return append([]string{shell, "-c", script}, argv...)
}
