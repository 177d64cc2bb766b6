package hook

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"regexp"
)

// MaxPayload bounds what an agent passes to its hook; it has the last answer.
const MaxPayload = 16 << 20

// Transcript returns the transcript that the payload of a hook is about. Its errors only go to
// the log of the hook: the agent must not fail because of it.
func Transcript(agent string, payload []byte) (string, error) {
	if agent == Codex {
		return codexTranscript(payload)
	}
	var event struct {
		TranscriptPath string `json:"transcript_path"`
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		return "", err
	}
	if !filepath.IsAbs(event.TranscriptPath) {
		return "", errors.New("the payload of the hook names no transcript")
	}
	return event.TranscriptPath, nil
}

// threadID is an id of Codex. It becomes a part of a pattern of file names. Without it, a
// payload with "*" or "../" could choose another file.
var threadID = regexp.MustCompile(`^[0-9A-Za-z-]{1,100}$`)

// codexTranscript finds the file of a thread, which the payload only names:
// sessions/2026/11/16/rollout-<time>-<id>.jsonl.
func codexTranscript(payload []byte) (string, error) {
	var event struct {
		ThreadID string `json:"thread-id"`
	}
	if err := json.Unmarshal(payload, &event); err != nil {
		return "", err
	}
	if !threadID.MatchString(event.ThreadID) {
		return "", errors.New("the payload of the hook names no thread")
	}
	home, err := homeOf("CODEX_HOME", ".codex")
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(home, "sessions", "*", "*", "*", "rollout-*-"+event.ThreadID+".jsonl"))
	if err == nil && len(found) == 0 {
		err = errors.New("there is no transcript of thread " + event.ThreadID)
	}
	if err != nil {
		return "", err
	}
	// A session that was resumed may have several; names sort by time.
	return found[len(found)-1], nil
}
