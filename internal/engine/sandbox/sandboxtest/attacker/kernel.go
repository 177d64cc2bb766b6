//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A call is a system call whose arguments show whether a seccomp filter denied
// it, and would have no effect without one.
type call struct {
	name   string
	number uintptr
	args   [4]uintptr
}

// calls must be denied by the filter, before the kernel's own checks. Those whose
// names are given may be allowed.
func calls(allowed []string) error {
	self := uintptr(os.Getpid())
	all := []call{
		{"ptrace", unix.SYS_PTRACE, [4]uintptr{unix.PTRACE_TRACEME}},
		{"process_vm_readv", unix.SYS_PROCESS_VM_READV, [4]uintptr{self}},
		{"keyctl", unix.SYS_KEYCTL, [4]uintptr{0, ^uintptr(2)}},
		{"add_key", unix.SYS_ADD_KEY, [4]uintptr{}},
		{"request_key", unix.SYS_REQUEST_KEY, [4]uintptr{}},
		{"bpf", unix.SYS_BPF, [4]uintptr{}},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [4]uintptr{}},
		{"userfaultfd", unix.SYS_USERFAULTFD, [4]uintptr{unix.O_CLOEXEC | 1}},
		{"kexec_load", unix.SYS_KEXEC_LOAD, [4]uintptr{}},
		{"init_module", unix.SYS_INIT_MODULE, [4]uintptr{}},
		{"finit_module", unix.SYS_FINIT_MODULE, [4]uintptr{}},
		{"delete_module", unix.SYS_DELETE_MODULE, [4]uintptr{}},
		{"setns", unix.SYS_SETNS, [4]uintptr{}},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [4]uintptr{1}},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [4]uintptr{}},
		{"fsopen", unix.SYS_FSOPEN, [4]uintptr{}},
		{"open_tree", unix.SYS_OPEN_TREE, [4]uintptr{}},
		{"syslog", unix.SYS_SYSLOG, [4]uintptr{10}},
		{"reboot", unix.SYS_REBOOT, [4]uintptr{}},
		{"sethostname", unix.SYS_SETHOSTNAME, [4]uintptr{}},
		{"quotactl", unix.SYS_QUOTACTL, [4]uintptr{}},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, [4]uintptr{}},
	}
	for _, c := range all {
		if slices.Contains(allowed, c.name) {
			continue
		}
		_, _, errno := unix.RawSyscall6(c.number, c.args[0], c.args[1], c.args[2], c.args[3], 0, 0)
		if errno != unix.EPERM && errno != unix.ENOSYS {
			fmt.Println(c.name, "answers", errno)
			return nil
		}
	}
	return fmt.Errorf("all %d calls", len(all))
}

// inBuild makes what a RUN line has no use for: the calls that buildah does not need
// either, sockets that lead out of the namespace, and user namespaces.
func inBuild([]string) error {
	return each([]string{"calls", "vsock", "netfilter", "user namespace"}, func(way string) error {
		switch way {
		case "calls":
			return calls([]string{"setns", "fsopen", "open_tree", "sethostname"})
		case "vsock":
			return vsock(nil)
		case "netfilter":
			_, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)
			return err
		}
		return unix.Unshare(unix.CLONE_NEWUSER)
	})
}

// namespace creates namespaces, in which it would have all capabilities.
func namespace([]string) error {
	flags := []uintptr{
		unix.CLONE_NEWUSER, unix.CLONE_NEWUSER | unix.CLONE_NEWNET, unix.CLONE_NEWNS, unix.CLONE_NEWPID, unix.CLONE_NEWNET,
	}
	return each(flags, func(flag uintptr) error {
		if unix.Unshare(int(flag)) == nil {
			return nil
		}
		pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Cloneflags: flag}})
		if err == nil {
			_, err = syscall.Wait4(pid, nil, 0, nil)
			return err
		}
		args := [8]uint64{uint64(flag)}
		pidOf, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		switch {
		case errno != 0:
			return errno
		case pidOf == 0:
			os.Exit(succeeded)
		}
		return nil
	})
}

// becomeRoot gains privileges: with setuid(2), and with a setuid file.
func becomeRoot([]string) error {
	ways := []string{"setuid", "setgid", "setresuid", "capset", "setuid file", "su", "new privileges"}
	return each(ways, func(way string) error {
		switch way {
		case "setuid":
			return unix.Setuid(0)
		case "setgid":
			return unix.Setgid(0)
		case "setresuid":
			return unix.Setresuid(0, 0, 0)
		case "capset":
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&header, &data[0])
		case "new privileges":
			return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)
		case "su":
			return runAndWait("/bin/su", "-c", "true")
		}
		return lend()
	})
}

// lend makes a setuid copy of a shell.
func lend() error {
	content, err := os.ReadFile("/bin/sh")
	if err != nil {
		return err
	}
	const copied = "/tmp/lent"
	if err := os.WriteFile(copied, content, 0o755); err != nil {
		return err
	}
	if err := os.Chown(copied, 0, 0); err != nil {
		return err
	}
	if err := os.Chmod(copied, 0o755|os.ModeSetuid); err != nil {
		return err
	}
	return runAndWait(copied, "-c", `test "$(id -u)" = 0`)
}

func runAndWait(program string, args ...string) error {
	pid, err := syscall.ForkExec(program, append([]string{program}, args...), &syscall.ProcAttr{})
	if err != nil {
		return err
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
		return err
	}
	if status.ExitStatus() != 0 {
		return errors.New("status " + fmt.Sprint(status.ExitStatus()))
	}
	return nil
}
