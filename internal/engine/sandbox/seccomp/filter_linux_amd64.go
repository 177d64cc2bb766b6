package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = uint32(unix.AUDIT_ARCH_X86_64)
	// x32Calls is the first number of the x32 ABI's system calls.
	x32Calls = 0x40000000
)

// archDenied are denied calls that only this architecture has.
var archDenied = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}
