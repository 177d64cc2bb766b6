package stored

import (
	"net/http"
	"slices"
	"time"
)

const (
	// sendTimeout is how long a client may take to receive a file.
	sendTimeout = 2 * time.Minute
	chunkSize   = 256 << 10
)

// Send writes a file to a client, and closes the connection of a slow one: the
// file's bytes stay in memory meanwhile.
func Send(w http.ResponseWriter, content []byte) {
	deadline := time.Now().Add(sendTimeout)
	for chunk := range slices.Chunk(content, chunkSize) {
		if _, err := w.Write(chunk); err != nil || time.Now().After(deadline) {
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
	}
}
