package community

// Read checks a submission and takes its summary out of the bundle.
func (n New) Read(secret []byte) (Submission, error) { return n.read(secret) }
