package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// abandoned is the age from which no other process can still be using its folder.
// Those of this process are known: a machine that was suspended for a day goes on
// with programs whose folders look that old.
const abandoned = 24 * time.Hour

// Sweep removes the folders in base whose names begin with prefix and whose
// process died, and returns their number. The keys of running are the paths of
// folders that this process uses.
func Sweep(base, prefix string, running *sync.Map) (removed int, err error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, infoErr := e.Info()
		// The modification time is that of the last entry added to the folder itself. It says
		// little about a running program, hence the long wait.
		if infoErr != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) || time.Since(info.ModTime()) < abandoned {
			continue
		}
		dir := filepath.Join(base, e.Name())
		if _, used := running.Load(dir); used {
			continue
		}
		if removeErr := Remove(dir); removeErr != nil {
			err = errors.Join(err, removeErr)
			continue
		}
		removed++
	}
	return removed, err
}
