package sandbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/engine/sandbox/spawn"
)

// probe is a script that prints the restrictions it runs under. A user can see at a glance in the
// doctor whether the host keeps what the driver promises.
const probe = `grep -E '^(NoNewPrivs|Seccomp|CapBnd):' /proc/self/status
echo "interfaces: $(tail -n +3 /proc/self/net/dev | cut -d: -f1 | tr -d ' ' | tr '\n' ' ')"
echo "processes: $(grep '^Max processes' /proc/self/limits)"
if echo 0 2>/dev/null >/proc/self/oom_score_adj || ! grep -qx 1000 /proc/self/oom_score_adj; then echo preferred; fi
if touch /usr/probe 2>/dev/null || touch /etc/probe 2>/dev/null; then echo writable; fi`

// Check runs the probe in the sandbox.
func (b *bubblewrap) Check(ctx context.Context) (_ Report, err error) {
	program, err := b.find()
	if err != nil {
		return Report{}, err
	}
	report := Report{Driver: Bubblewrap}
	version, err := spawn.Command(ctx, nil, program, "--version").Output()
	if err != nil {
		return report, fault.New(fault.Unavailable, "%s does not run", program).Because(err)
	}
	report.Version = strings.TrimSpace(strings.TrimPrefix(string(version), "bubblewrap "))
	// A value that no default has, to be recognised in /proc/self/limits.
	const processes = 77
	result, err := b.Run(ctx, Spec{Argv: []string{"sh", "-c", probe}, Limits: Limits{Processes: processes}})
	if err != nil {
		return report, err
	}
	report.addProbe(string(result.Stdout.Tail), processes)
	report.addCgroups(b.cgroups)
	return report, nil
}

// addCgroups reports what enforces the limits of a whole program.
func (r *Report) addCgroups(g *cgroups) {
	r.InForce = append(r.InForce,
		"limits on time, file size and the memory of each process, enforced by the kernel")
	r.Missing = append(r.Missing,
		"the kernel does not enforce the limits on processor time and disk: the service checks them every 50 and 250 ms")
	if g.version == 0 {
		r.Missing = append(r.Missing,
			"no cgroup, as this process was started: the limit on memory is enforced by rlimits and a monitor. "+
				"To let the kernel enforce it: "+g.missing)
		return
	}
	r.InForce = append(r.InForce, fmt.Sprintf(
		"limit on the memory of a whole program, including what the kernel holds for it, enforced by cgroup v%d", g.version))
	if g.controls("pids") {
		r.InForce = append(r.InForce, fmt.Sprintf("limit on processes, enforced by cgroup v%d", g.version))
	}
	if g.controls("cpu") {
		r.InForce = append(r.InForce, fmt.Sprintf("limit on processors, enforced by cgroup v%d", g.version))
		return
	}
	r.Missing = append(r.Missing,
		"no cgroup for processors: a program can use all of them, up to its limit on processor time. "+
			"To let the kernel share them: Delegate=cpu memory pids in the systemd unit")
}

// addProbe reports what the probe's output shows. Protections are observed from inside and never
// inferred from versions: kernels in containers lack some.
func (r *Report) addProbe(found string, processes int) {
	say := func(ok bool, inForce, missing string) {
		if ok {
			r.InForce = append(r.InForce, inForce)
			return
		}
		r.Missing = append(r.Missing, missing)
	}
	has := func(line string) bool { return strings.Contains(found, line) }
	say(has("interfaces: lo \n"), "network namespace without interfaces", "programs can reach the network")
	say(!has("writable"), "read-only system", "programs can write to the system")
	say(has("CapBnd:\t0000000000000000"),
		"user, PID, IPC, UTS and cgroup namespaces, no capabilities", "programs keep capabilities")
	say(has("NoNewPrivs:\t1"), "no new privileges", "programs can gain privileges")
	say(has("Seccomp:\t2"), "seccomp filter of system calls", "no seccomp filter of system calls on this architecture")
	say(!has("preferred"), "killed first when memory runs out (oom_score_adj)",
		"programs can lower their oom_score_adj, so that others are killed first when memory runs out")
	limited := strings.Contains(text.OneLine(found), fmt.Sprintf("Max processes %d", processes))
	say(limited, "limit on processes, enforced by an rlimit",
		"the kernel is older than 5.14: the limit on processes of one sandbox is not enforced by an rlimit")
}
