package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// inKeyrings looks for a text in all keys that can be read: those of /proc/keys, and those
// that a search of the keyrings or a request finds.
func inKeyrings(text []byte) bool {
	var ids []int
	list, _ := os.ReadFile("/proc/keys") // none without it
	for line := range bytes.Lines(list) {
		if fields := bytes.Fields(line); len(fields) > 0 {
			if id, err := strconv.ParseInt(string(fields[0]), 16, 64); err == nil {
				ids = append(ids, int(int32(id))) // a serial number
			}
		}
	}
	const description = "whetstone-planted"
	for ring := unix.KEY_SPEC_USER_SESSION_KEYRING; ring < 0; ring++ {
		if id, err := unix.KeyctlSearch(ring, "user", description, 0); err == nil {
			ids = append(ids, id)
		}
	}
	if id, err := unix.RequestKey("user", description, "", 0); err == nil {
		ids = append(ids, id)
	}
	for _, id := range ids {
		content := make([]byte, 1<<10)
		n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, content, 0)
		if err == nil && bytes.Contains(content[:min(n, len(content))], text) {
			fmt.Println("found in key", id)
			return true
		}
	}
	return false
}
