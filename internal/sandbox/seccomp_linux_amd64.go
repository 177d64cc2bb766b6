package sandbox

import "golang.org/x/sys/unix"

const (
	auditArch = uint32(unix.AUDIT_ARCH_X86_64)
	// foreignCalls is where the numbers of the x32 interface begin.
	foreignCalls = 0x40000000
)

// archDenied are the calls that only this architecture has.
var archDenied = []uint32{
	unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL,
	unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE,
}
