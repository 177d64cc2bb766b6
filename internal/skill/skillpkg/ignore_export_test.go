package skillpkg

import "io/fs"

// Ignored reports whether a folder's rules leave out a file.
func Ignored(fsys fs.FS, name string) (bool, error) {
	rules, err := readIgnores(fsys)
	if err != nil {
		return false, err
	}
	return ignored(rules, name, false), nil
}
