package sandbox

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/fault"
)

// probe prints what a program finds itself restricted by.
const probe = `grep -E '^(NoNewPrivs|Seccomp|CapBnd):' /proc/self/status
echo "interfaces: $(tail -n +3 /proc/self/net/dev | cut -d: -f1 | tr -d ' ' | tr '\n' ' ')"
echo "processes: $(grep '^Max processes' /proc/self/limits)"
if echo 0 2>/dev/null >/proc/self/oom_score_adj || ! grep -qx 1000 /proc/self/oom_score_adj; then echo preferred; fi
if touch /usr/probe 2>/dev/null || touch /etc/probe 2>/dev/null; then echo writable; fi`

// Check runs a program that looks around.
func (b *bubblewrap) Check(ctx context.Context) (_ Report, err error) {
	program, err := b.find()
	if err != nil {
		return Report{}, err
	}
	report := Report{Driver: Bubblewrap}
	version, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return report, fault.New(fault.Unavailable, "%s does not run", program).Because(err)
	}
	report.Version = strings.TrimSpace(strings.TrimPrefix(string(version), "bubblewrap "))
	const processes = 77
	result, err := b.Run(ctx, Spec{Argv: []string{"sh", "-c", probe}, Limits: Limits{Processes: processes}})
	if err != nil {
		return report, err
	}
	report.judge(string(result.Stdout.Tail), processes)
	report.judgeGroups(b.groups)
	return report, nil
}

// judgeGroups says who keeps the limits of a whole program.
func (r *Report) judgeGroups(g *groups) {
	r.InForce = append(r.InForce, "limits on time, file size and the memory of each process, kept by the kernel")
	r.Missing = append(r.Missing, "the kernel does not keep the limits on processor time and disk: the service looks every 50 and 250 ms")
	if g.version == 0 {
		r.Missing = append(r.Missing, "no cgroup, as this process was started: the limit on memory is kept by rlimits and a watch. "+
			"To let the kernel keep it: "+g.missing)
		return
	}
	r.InForce = append(r.InForce, fmt.Sprintf("limit on the memory of a whole program, what the kernel holds for it included, "+
		"kept by cgroup v%d", g.version))
	if g.version == 2 || len(g.folders) > 1 {
		r.InForce = append(r.InForce, fmt.Sprintf("limit on processes, kept by cgroup v%d", g.version))
	}
}

// judge turns the probe's output into sentences.
func (r *Report) judge(found string, processes int) {
	say := func(ok bool, inForce, missing string) {
		if ok {
			r.InForce = append(r.InForce, inForce)
			return
		}
		r.Missing = append(r.Missing, missing)
	}
	has := func(text string) bool { return strings.Contains(found, text) }
	say(has("interfaces: lo \n"), "own network with nothing in it", "the network is not closed")
	say(!has("writable"), "read-only system", "programs can write to the system")
	say(has("CapBnd:\t0000000000000000"), "own user, process, ipc, host name and cgroup namespaces, no capabilities", "programs keep capabilities")
	say(has("NoNewPrivs:\t1"), "no new privileges", "programs can gain privileges")
	say(has("Seccomp:\t2"), "filter of system calls", "no filter of system calls on this architecture")
	say(!has("preferred"), "ended first when memory runs out", "programs can have others ended first when memory runs out")
	say(strings.Contains(strings.Join(strings.Fields(found), " "), fmt.Sprintf("Max processes %d", processes)), "limit on processes, kept by an rlimit",
		"the kernel is older than 5.14: the limit on processes of one sandbox is not kept by an rlimit")
}
