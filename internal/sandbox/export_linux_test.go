package sandbox

// WithoutCgroups returns the default sandbox as on a machine that lets the
// service make none.
func WithoutCgroups() Sandbox {
	b := newBubblewrap(Options{})
	b.groups = &groups{missing: "the test has none"}
	return b
}
