package term

import "strings"

// Painted aligns a text and colours it.
func Painted(text string) string {
	var out strings.Builder
	_ = newGrid(text).write(&out, 0, true) // a builder takes everything
	return out.String()
}
