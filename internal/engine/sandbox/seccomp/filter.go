//go:build linux && (amd64 || arm64)

// Package seccomp has the filter of system calls of sandboxed programs. Namespaces
// isolate a program; the filter reduces the attack surface of the kernel, in which
// ways out of namespaces have been found.
package seccomp

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// A filter is a classic BPF program that the kernel runs for every system call.
type filter []unix.SockFilter

// Offsets in struct seccomp_data. All architectures here are little-endian: the
// lower half of an argument comes first.
const (
	callNumber = 0
	callArch   = 4
	callArgs   = 16
)

const (
	allow = uint32(unix.SECCOMP_RET_ALLOW)
	kill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	errno = uint32(unix.SECCOMP_RET_ERRNO)
)

// namespaces are the flags by which clone and unshare create namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// families are the address families that a program may use; none of them leads
// out of its network namespace. Others do: AF_VSOCK reaches the hypervisor of a
// virtual machine.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// buffers are the socket options that enlarge buffers. They seem to succeed and
// have no effect: the kernel may also reduce the size silently, so programs must
// expect that.
var buffers = []uint32{unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE}

// denied are the system calls that fail, and their errno. ENOSYS makes libraries
// fall back to an older call: one that a filter can inspect (clone for clone3,
// whose flags are behind a pointer), or whose memory counts against the limit.
// That of memfds, message queues and semaphores does not where there is no
// cgroup, and vmsplice can fill a pipe with pages that the process unmaps.
func denied() map[uint32]unix.Errno {
	all := map[uint32]unix.Errno{
		unix.SYS_CLONE3:         unix.ENOSYS,
		unix.SYS_MEMFD_CREATE:   unix.ENOSYS,
		unix.SYS_MEMFD_SECRET:   unix.ENOSYS,
		unix.SYS_SHMGET:         unix.ENOSYS,
		unix.SYS_MSGGET:         unix.ENOSYS,
		unix.SYS_SEMGET:         unix.ENOSYS,
		unix.SYS_MQ_OPEN:        unix.ENOSYS,
		unix.SYS_VMSPLICE:       unix.ENOSYS,
		unix.SYS_IO_URING_SETUP: unix.ENOSYS,
	}
	for _, call := range []uint32{
		unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		// Access to other processes.
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
		unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_SETNS, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
		// File systems.
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_FANOTIFY_INIT,
		// The kernel itself.
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_SYSLOG, unix.SYS_ACCT,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL,
		unix.SYS_REBOOT, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
	} {
		all[call] = unix.EPERM
	}
	for _, call := range archDenied {
		all[call] = unix.EPERM
	}
	return all
}

// buildCalls are the calls that buildah needs to make the root of a RUN line, and
// those whose memory only a cgroup counts, which a build may have: e.g. initdb of
// PostgreSQL wants shared memory.
var buildCalls = []uint32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_SETNS,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_MEMFD_CREATE, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
}

// Filter returns the filter in the format of bwrap's --seccomp, or nothing if there
// is none for this architecture.
func Filter() []byte {
	f := begin(denied(), namespaces)
	f = append(f, denyValue(unix.SYS_FCNTL, 1, unix.F_SETPIPE_SZ)...)
	f = append(f, onSocketOption(unix.SO_ZEROCOPY, errno|uint32(unix.EPERM))...)
	for _, option := range buffers {
		f = append(f, onSocketOption(option, errno)...) // errno 0: seems to succeed
	}
	return append(f, ret(allow)).bytes()
}

// BuildFilter returns that of builds of images, whose RUN lines inherit it. They get
// no further user namespaces, in which they would have all capabilities.
func BuildFilter() []byte {
	all := denied()
	for _, call := range buildCalls {
		delete(all, call)
	}
	return append(begin(all, unix.CLONE_NEWUSER), ret(allow)).bytes()
}

// begin is the part that all filters have. It denies calls, and clone and unshare
// with one of these flags.
func begin(all map[uint32]unix.Errno, flags uint32) filter {
	f := filter{
		load(callArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		ret(kill), // e.g. a 32-bit program, whose calls have other numbers
		load(callNumber),
	}
	if x32Calls != 0 {
		f = append(f, jump(unix.BPF_JGE, x32Calls, 0, 1), ret(errno|uint32(unix.ENOSYS)))
	}
	for _, call := range slices.Sorted(maps.Keys(all)) {
		f = append(f, jump(unix.BPF_JEQ, call, 0, 1), ret(errno|uint32(all[call])))
	}
	f = append(f, denyFlags(unix.SYS_CLONE, 0, flags)...)
	f = append(f, denyFlags(unix.SYS_UNSHARE, 0, flags)...)
	f = append(f, denyFamilies(unix.SYS_SOCKET)...)
	f = append(f, denyFamilies(unix.SYS_SOCKETPAIR)...)
	f = append(f, filter{
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 6),
		load(callArgs),
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3),
		load(callArgs + 8*2),
		jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0),
		ret(errno | uint32(unix.EPROTONOSUPPORT)),
		load(callNumber),
	}...)
	f = append(f, denyValue(unix.SYS_IOCTL, 1, unix.TIOCSTI)...)
	return append(f, denyValue(unix.SYS_IOCTL, 1, unix.TIOCLINUX)...)
}

// denyFlags denies a call that has one of the flags in an argument.
func denyFlags(call uint32, arg int, flags uint32) filter {
	return filter{
		jump(unix.BPF_JEQ, call, 0, 4),
		load(callArgs + 8*uint32(arg)),
		jump(unix.BPF_JSET, flags, 0, 1),
		ret(errno | uint32(unix.EPERM)),
		load(callNumber),
	}
}

// denyValue denies a call whose argument is value.
func denyValue(call uint32, arg int, value uint32) filter {
	return filter{
		jump(unix.BPF_JEQ, call, 0, 4),
		load(callArgs + 8*uint32(arg)),
		jump(unix.BPF_JEQ, value, 0, 1),
		ret(errno | uint32(unix.EPERM)),
		load(callNumber),
	}
}

// denyFamilies denies a call that asks for an address family not in families.
func denyFamilies(call uint32) filter {
	n := uint8(len(families))
	f := filter{jump(unix.BPF_JEQ, call, 0, n+3), load(callArgs)}
	for i, family := range families {
		f = append(f, jump(unix.BPF_JEQ, family, n-uint8(i), 0))
	}
	return append(f, ret(errno|uint32(unix.EAFNOSUPPORT)), load(callNumber))
}

// onSocketOption returns a result for setsockopt of an option of level SOL_SOCKET.
func onSocketOption(option, with uint32) filter {
	return filter{
		jump(unix.BPF_JEQ, unix.SYS_SETSOCKOPT, 0, 6),
		load(callArgs + 8),
		jump(unix.BPF_JEQ, unix.SOL_SOCKET, 0, 3),
		load(callArgs + 8*2),
		jump(unix.BPF_JEQ, option, 0, 1),
		ret(with),
		load(callNumber),
	}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func ret(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

func (f filter) bytes() []byte {
	var b bytes.Buffer
	for _, op := range f {
		// Writing fixed-size values to memory cannot fail.
		_ = binary.Write(&b, binary.NativeEndian, op)
	}
	return b.Bytes()
}
