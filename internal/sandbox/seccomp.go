//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// A filter is a program of classic BPF that the kernel asks about every system
// call. Bubblewrap's namespaces are the walls; the filter keeps programs away
// from the parts of the kernel in which holes in such walls have been found.
type filter []unix.SockFilter

// What the kernel tells the filter about a call, by offset. All architectures
// here are little-endian: the lower half of an argument comes first.
const (
	callNumber = 0
	callArch   = 4
	callArgs   = 16
)

const (
	allow   = uint32(unix.SECCOMP_RET_ALLOW)
	kill    = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	failing = uint32(unix.SECCOMP_RET_ERRNO)
)

// namespaces are the flags by which clone and unshare make namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME

// families are the kinds of sockets that a program may make; none of them
// leads out of its network namespace. Others do: AF_VSOCK reaches the machine
// below a virtual one.
var families = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// buffers are the options by which a socket gets larger buffers. They are a
// wish that the kernel cuts down without a word, and here to nothing.
var buffers = []uint32{unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE}

// denied are the calls that fail, and how. ENOSYS makes libraries fall back to
// a call that can be judged, or that is counted against the limit of memory:
// memory files, message queues and sets of semaphores are not, and a pipe can
// hold pages that the process has given up.
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
		// Other processes.
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

// program assembles the filter.
func program() filter {
	f := filter{
		load(callArch),
		jump(unix.BPF_JEQ, auditArch, 1, 0),
		answer(kill), // a 32-bit program, say, whose calls have other numbers
		load(callNumber),
	}
	if foreignCalls != 0 {
		f = append(f, jump(unix.BPF_JGE, foreignCalls, 0, 1), answer(failing|uint32(unix.ENOSYS)))
	}
	all := denied()
	for _, call := range slices.Sorted(maps.Keys(all)) {
		f = append(f, jump(unix.BPF_JEQ, call, 0, 1), answer(failing|uint32(all[call])))
	}
	f = append(f, onFlags(unix.SYS_CLONE, 0, namespaces)...)
	f = append(f, onFlags(unix.SYS_UNSHARE, 0, namespaces)...)
	f = append(f, onFamily(unix.SYS_SOCKET)...)
	f = append(f, onFamily(unix.SYS_SOCKETPAIR)...)
	f = append(f, onNetlink()...)
	f = append(f, onValue(unix.SYS_IOCTL, 1, unix.TIOCSTI)...)
	f = append(f, onValue(unix.SYS_IOCTL, 1, unix.TIOCLINUX)...)
	f = append(f, onValue(unix.SYS_FCNTL, 1, unix.F_SETPIPE_SZ)...)
	f = append(f, onOption(unix.SO_ZEROCOPY, failing|uint32(unix.EPERM))...)
	for _, option := range buffers {
		f = append(f, onOption(option, failing)...) // with no error: it seems to succeed
	}
	return append(f, answer(allow))
}

// onFlags makes a call fail that has one of the flags in an argument.
func onFlags(call uint32, arg int, flags uint32) filter {
	return filter{
		jump(unix.BPF_JEQ, call, 0, 4),
		load(callArgs + 8*uint32(arg)),
		jump(unix.BPF_JSET, flags, 0, 1),
		answer(failing | uint32(unix.EPERM)),
		load(callNumber),
	}
}

// onValue makes a call fail whose argument is value.
func onValue(call uint32, arg int, value uint32) filter {
	return filter{
		jump(unix.BPF_JEQ, call, 0, 4),
		load(callArgs + 8*uint32(arg)),
		jump(unix.BPF_JEQ, value, 0, 1),
		answer(failing | uint32(unix.EPERM)),
		load(callNumber),
	}
}

// onFamily makes a call fail that asks for a kind of socket not in families.
func onFamily(call uint32) filter {
	n := uint8(len(families))
	f := filter{jump(unix.BPF_JEQ, call, 0, n+3), load(callArgs)}
	for i, family := range families {
		f = append(f, jump(unix.BPF_JEQ, family, n-uint8(i), 0))
	}
	return append(f, answer(failing|uint32(unix.EAFNOSUPPORT)), load(callNumber))
}

// onNetlink makes the netlink sockets fail that are not for asking about
// interfaces: over others, programs can send, and nothing counts it.
func onNetlink() filter {
	return filter{
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 6),
		load(callArgs),
		jump(unix.BPF_JEQ, unix.AF_NETLINK, 0, 3),
		load(callArgs + 8*2),
		jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0),
		answer(failing | uint32(unix.EPROTONOSUPPORT)),
		load(callNumber),
	}
}

// onOption answers when an option of all kinds of sockets is set.
func onOption(option, with uint32) filter {
	return filter{
		jump(unix.BPF_JEQ, unix.SYS_SETSOCKOPT, 0, 6),
		load(callArgs + 8),
		jump(unix.BPF_JEQ, unix.SOL_SOCKET, 0, 3),
		load(callArgs + 8*2),
		jump(unix.BPF_JEQ, option, 0, 1),
		answer(with),
		load(callNumber),
	}
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func answer(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

// bytes returns the program as bwrap reads it.
func (f filter) bytes() []byte {
	var b bytes.Buffer
	for _, op := range f {
		// Writing fixed-size values to memory cannot fail.
		_ = binary.Write(&b, binary.NativeEndian, op)
	}
	return b.Bytes()
}
