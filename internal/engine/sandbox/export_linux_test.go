package sandbox

// WithoutCgroups returns the default sandbox as on a machine where the service
// may not create cgroups.
func WithoutCgroups() Sandbox {
	b := newBubblewrap(Options{})
	b.cgroups = &cgroups{missing: "the test has none"}
	return b
}

// Meminfo is the memory of a machine.
type Meminfo = meminfo

// MeminfoOf is that of a machine with so many bytes.
func MeminfoOf(total, available int64) Meminfo { return meminfo{total: total, available: available} }

// ExplainsLoss and IsShort are methods of Meminfo.
var (
	ExplainsLoss = Meminfo.explainsLoss
	IsShort      = Meminfo.isShort
)
