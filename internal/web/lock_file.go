package web

import (
	"github.com/whetstone-dev/whetstone/internal/base/fault"
)

// handleLockFile shows the form for a lock file of any client.
func (s *Service) handleLockFile(*visit) (answer, error) {
	return show("lock_file", "Check a lock file", lockReport{}), nil
}

// handleCheckLockFile shows the result on the page itself: nothing is stored that a
// redirect could lead to.
func (s *Service) handleCheckLockFile(v *visit) (answer, error) {
	report, err := s.checkLockFile(v)
	page := show("lock_file", "Check a lock file", report)
	if err != nil {
		return page.refused(err)
	}
	return page, nil
}

// checkLockFile reads the uploaded file and compares it with the registry.
func (s *Service) checkLockFile(v *visit) (lockReport, error) {
	form, err := readUpload(v)
	if err != nil {
		return lockReport{}, err
	}
	defer form.Close()
	files := form.Files["file"]
	if len(files) != 1 {
		return lockReport{}, fault.Invalid("file", "Choose a file")
	}
	return s.Locks.check(v.Context(), v.Caller.OrgID, files[0].Filename, files[0].Content)
}
