package community

// Read validates a bundle and extracts its summary.
func (n New) Read(secret []byte) (Submission, error) { return n.read(secret) }
