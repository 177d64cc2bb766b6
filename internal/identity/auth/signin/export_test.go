package signin

import "encoding/json"

// Verified reports whether claims say that the address is verified.
func Verified(p Provider, raw string) bool {
	var c claims
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		panic(err)
	}
	return p.verified(c)
}
