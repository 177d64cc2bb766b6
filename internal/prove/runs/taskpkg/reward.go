package taskpkg

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

const (
	logs       = "logs"
	rewardText = "reward.txt"
	rewardJSON = "reward.json"
	reportJSON = "ctrf.json"

	maxReward = 64 << 10
	maxReport = 1 << 20
)

// A reward is what a verifier wrote: raw is not clamped, metrics are all its numbers.
type reward struct {
	raw     float64
	metrics map[string]float64
}

// errUnusable means that a reward file has no usable number.
var errUnusable = errors.New("no number in it")

// readReward returns the reward and true, or false if there is no reward file. The
// field "reward" of reward.json comes first, then reward.txt, then the mean of the
// numbers in reward.json. Reward files without a reward are an error.
func readReward(root *os.Root) (_ reward, found bool, err error) {
	number, textErr := readText(root)
	metrics, jsonErr := readMetrics(root)
	if errors.Is(textErr, fs.ErrNotExist) && errors.Is(jsonErr, fs.ErrNotExist) {
		return reward{}, false, nil
	}
	if value, ok := metrics["reward"]; ok {
		return reward{raw: value, metrics: metrics}, true, nil
	}
	if textErr == nil {
		if metrics == nil {
			metrics = map[string]float64{}
		}
		metrics["reward"] = number
		return reward{raw: number, metrics: metrics}, true, nil
	}
	if len(metrics) > 0 {
		mean := 0.0
		for _, value := range metrics {
			mean += value / float64(len(metrics)) // divided first: the sum of large numbers may overflow
		}
		return reward{raw: mean, metrics: metrics}, true, nil
	}
	if errors.Is(jsonErr, fs.ErrNotExist) {
		return reward{}, true, errorf(RewardUnreadable, "%s cannot be used: %s", rewardText, textErr)
	}
	return reward{}, true, errorf(RewardUnreadable, "%s cannot be used: %s", rewardJSON, jsonErr)
}

func readText(root *os.Root) (float64, error) {
	content, err := readOutput(root, rewardText, maxReward)
	if err != nil {
		return 0, err
	}
	return parseNumber(strings.TrimSpace(string(content)))
}

// parseNumber parses finite decimal numbers, without hexadecimal digits, underscores,
// NaN and infinities.
func parseNumber(text string) (float64, error) {
	if strings.ContainsAny(text, "xX_") {
		return 0, errUnusable
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		return 0, errUnusable
	}
	return number, nil
}

// readMetrics returns the numbers in a flat JSON object; other values are
// ignored.
func readMetrics(root *os.Root) (map[string]float64, error) {
	content, err := readOutput(root, rewardJSON, maxReward)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		return nil, errUnusable
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errUnusable
	}
	metrics := map[string]float64{}
	for name, value := range object {
		text, ok := value.(json.Number)
		if !ok {
			continue
		}
		if number, err := parseNumber(text.String()); err == nil {
			metrics[name] = number
		}
	}
	if len(metrics) == 0 {
		return nil, errUnusable
	}
	return metrics, nil
}

// readReport returns the test report, or nil if it isn't JSON. It is for display only,
// so whatever is wrong with it doesn't matter.
func readReport(root *os.Root) []byte {
	content, err := readOutput(root, reportJSON, maxReport)
	if err != nil || !json.Valid(content) {
		return nil
	}
	return content
}

// readOutput reads a file of the verifier's log folder. It must be a small
// regular file, and its folders no links: a link could lead to what the verifier
// did not write, and a pipe would never end.
func readOutput(root *os.Root, name string, limit int64) ([]byte, error) {
	p := path.Join(logs, "verifier", name)
	for _, dir := range []string{logs, path.Dir(p)} {
		info, err := root.Lstat(dir)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			return nil, errors.New("its folder was replaced")
		}
	}
	info, err := root.Lstat(p)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > limit:
		return nil, errors.New("it is too large")
	}
	return root.ReadFile(p)
}
