package seccomp

import "golang.org/x/sys/unix"

const (
	auditArch = uint32(unix.AUDIT_ARCH_AARCH64)
	x32Calls  = 0
)

// archDenied are denied calls that only this architecture has.
var archDenied []uint32
