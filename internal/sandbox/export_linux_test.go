package sandbox

// WithoutCgroups returns the default sandbox as on a machine where the service
// may not create cgroups.
func WithoutCgroups() Sandbox {
	b := newBubblewrap(Options{})
	b.cgroups = &cgroups{missing: "the test has none"}
	return b
}
