package stored

import (
	"net/http"
	"slices"
	"time"
)

const (
	// sendTime is for how long a client may take a file.
	sendTime  = 2 * time.Minute
	sendPiece = 256 << 10
)

// Send writes a file to a client, and closes the connection of one that takes it
// too slowly: its bytes stay in memory meanwhile.
func Send(w http.ResponseWriter, content []byte) {
	late := time.Now().Add(sendTime)
	for piece := range slices.Chunk(content, sendPiece) {
		if _, err := w.Write(piece); err != nil || time.Now().After(late) {
			panic(http.ErrAbortHandler) // or the client could take what it has for all
		}
	}
}
