package taskpkg

import "os"

// ReadReward reads what a verifier wrote.
func ReadReward(root *os.Root) (raw float64, metrics map[string]float64, found bool, err error) {
	r, found, err := readReward(root)
	return r.raw, r.metrics, found, err
}

// The files that a verifier writes.
const (
	RewardText = rewardText
	RewardJSON = rewardJSON
)

// Override returns the limits that a test lowers.
func (r *Runner) Override() *overrides { return &r.overrides }

// NewArchiveLimits returns the limits of an environment of so many packed bytes.
var NewArchiveLimits = newArchiveLimits
