package runs

import (
	"errors"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/engine/judge"
)

// InternalError is shown for a run that failed for a reason inside the service. The
// cause is in the log only.
const InternalError = "internal: the run could not go on; the log of the service says why"

// PermanentError returns the message of a run that failed with an error that every
// retry would meet again, and false if a retry may help.
func PermanentError(err error) (message string, ok bool) {
	if judge.MustStop(err) {
		return err.Error(), true
	}
	switch f, isFault := errors.AsType[*fault.Error](err); {
	case isFault && f.Kind == fault.NotFound:
		return "subject_gone: " + f.Message, true
	case isFault && f.Kind == fault.Malformed:
		return "subject_unusable: " + f.Message, true
	}
	return "", false
}
