package taskfile

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Resources are what the programs of a task may use. A zero field means that
// nothing is said about it.
type Resources struct {
	CPUs      float64 // processors
	Memory    int64   // bytes
	Storage   int64   // bytes
	Processes int
	Timeout   time.Duration // of the verifier, or of a command
}

const mebibyte = 1 << 20

// Resources returns what task.toml asks for.
func (s Settings) Resources() Resources {
	e := s.Environment
	r := Resources{CPUs: number(e.CPUs), Memory: size(e.MemoryMB), Storage: size(e.StorageMB)}
	if r.Memory == 0 {
		r.Memory = size(e.Memory)
	}
	if r.Storage == 0 {
		r.Storage = size(e.Storage)
	}
	return r
}

// AgentTimeout returns how long an agent, or the oracle in its place, may work; 0 if
// task.toml sets no limit.
func (s Settings) AgentTimeout() time.Duration { return seconds(number(s.Agent.TimeoutSec)) }

// BuildTimeout returns how long the image's build may take; 0 if task.toml sets no
// limit.
func (s Settings) BuildTimeout() time.Duration { return seconds(number(s.Environment.BuildSec)) }

// Timeouts returns the limits of an agent and of the verifier in a step; 0 if it sets
// none.
func (s Step) Timeouts() (agent, verifier time.Duration) {
	return seconds(number(s.Agent.TimeoutSec)), seconds(number(s.Verifier.TimeoutSec))
}

// ParseResources parses the limits of a suite or a case: cpus, memory_mb, storage_mb,
// processes and timeout_ms. They are hints: a value that isn't a positive number is
// ignored.
func ParseResources(fields map[string]json.RawMessage) Resources {
	field := func(name string) (value any) {
		_ = json.Unmarshal(fields[name], &value) // stays nil
		return value
	}
	return Resources{
		CPUs: number(field("cpus")), Memory: size(field("memory_mb")), Storage: size(field("storage_mb")),
		Processes: int(min(number(field("processes")), math.MaxInt32)),
		Timeout:   seconds(number(field("timeout_ms")) / 1000),
	}
}

// Within returns the resources, capped at a limit. Where they are unset the limit
// applies.
func (r Resources) Within(limit Resources) Resources {
	return Resources{
		CPUs: least(r.CPUs, limit.CPUs), Memory: least(r.Memory, limit.Memory), Storage: least(r.Storage, limit.Storage),
		Processes: least(r.Processes, limit.Processes), Timeout: least(r.Timeout, limit.Timeout),
	}
}

// AtMost returns the resources, capped at a limit. Those that are unset stay unset.
func (r Resources) AtMost(limit Resources) Resources {
	return Resources{
		CPUs: bounded(r.CPUs, limit.CPUs), Memory: bounded(r.Memory, limit.Memory), Storage: bounded(r.Storage, limit.Storage),
		Processes: bounded(r.Processes, limit.Processes), Timeout: bounded(r.Timeout, limit.Timeout),
	}
}

// Or returns the resources, with those that are unset taken from others.
func (r Resources) Or(others Resources) Resources {
	return Resources{
		CPUs: cmp.Or(r.CPUs, others.CPUs), Memory: cmp.Or(r.Memory, others.Memory), Storage: cmp.Or(r.Storage, others.Storage),
		Processes: cmp.Or(r.Processes, others.Processes), Timeout: cmp.Or(r.Timeout, others.Timeout),
	}
}

// least returns the smaller of two values, where zero means unset.
func least[N int | int64 | float64 | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// bounded caps a value at a limit; zero, i.e. unset, stays zero.
func bounded[N int | int64 | float64 | time.Duration](n, limit N) N {
	if n == 0 {
		return 0
	}
	return least(n, limit)
}

// number returns a positive number, or 0.
func number(value any) float64 {
	var n float64
	switch v := value.(type) {
	case int64:
		n = float64(v)
	case float64:
		n = v
	}
	if !(n > 0 && n <= math.MaxInt32) { // also false for NaN
		return 0
	}
	return n
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// size returns the bytes of a number of mebibytes, or of a size like "4G", or 0.
func size(value any) int64 {
	text, ok := value.(string)
	if !ok {
		return int64(number(value) * mebibyte)
	}
	text = strings.ToUpper(strings.TrimSpace(text))
	text = strings.TrimSuffix(strings.TrimSuffix(text, "B"), "I")
	for unit, bytes := range map[string]float64{"K": 1 << 10, "M": mebibyte, "G": 1 << 30} {
		if digits, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
			if err == nil && n > 0 && n*bytes <= 1<<50 {
				return int64(n * bytes)
			}
		}
	}
	return 0
}
