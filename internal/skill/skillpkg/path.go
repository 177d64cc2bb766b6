package skillpkg

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// cleanPath validates the name of a member (path traversal, control characters,
// length, depth) and returns it relative to the root of the archive, without
// "./". The root itself is "".
func cleanPath(name string, folder bool, limits Limits) (string, error) {
	if len(name) > limits.PathLength {
		return "", refuse(CodePathTooLong, name, "the path is longer than %d bytes; use shorter names", limits.PathLength)
	}
	if err := checkCharacters(name); err != nil {
		return "", err
	}
	// Names of archives that are stored already are only checked for what could
	// harm: they must stay installable.
	if r, found := invisibleRune(name); found && !limits.AnyNames {
		return "", refuse(CodePathControl, name, "the name holds %U, an invisible character; rename the file", r)
	}
	path := name
	if folder {
		path = strings.TrimSuffix(path, "/")
	}
	// Tools write "./" before every name; more than one is harmless.
	for strings.HasPrefix(path, "./") {
		path = path[2:]
	}
	if folder && path == "." {
		path = ""
	}
	if path == "" {
		// "./" is the root of the archive, "/" the root of the file system.
		if folder && name != "" && name != "/" {
			return "", nil
		}
		return "", refuse(CodePathEmpty, name, "a member has no name; pack the folder again")
	}
	return path, checkSegments(path, limits)
}

// checkCharacters refuses names that are different files on different systems.
func checkCharacters(name string) error {
	switch {
	case strings.ContainsRune(name, 0):
		return refuse(CodePathTraversal, name, "the name holds a NUL; rename the file")
	case strings.Contains(name, `\`):
		return refuse(CodePathTraversal, name, "the name holds a backslash; separate folders with slashes")
	case !utf8.ValidString(name):
		return refuse(CodePathEncoding, name, "the name is not UTF-8; rename the file")
	case strings.ContainsFunc(name, unicode.IsControl):
		return refuse(CodePathControl, name, "the name holds a control character; rename the file")
	}
	return nil
}

// invisibleRune finds a character that makes a name look like another one:
// format characters such as bidirectional overrides, spaces and separators beyond
// ASCII, and letters that are not rendered.
func invisibleRune(name string) (r rune, found bool) {
	at := strings.IndexFunc(name, func(r rune) bool {
		return r != ' ' && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Zs,
			unicode.Other_Default_Ignorable_Code_Point)
	})
	if at < 0 {
		return 0, false
	}
	r, _ = utf8.DecodeRuneInString(name[at:])
	return r, true
}

// checkSegments validates each segment. It is also applied to paths that only arise
// when links are followed.
func checkSegments(path string, limits Limits) error {
	if strings.HasPrefix(path, "/") {
		return refuse(CodePathTraversal, path, "the path is absolute; pack the folder with relative names")
	}
	segments := strings.Split(path, "/")
	for _, segment := range segments {
		if err := checkSegment(path, segment, limits.AnyNames); err != nil {
			return err
		}
	}
	if len(segments) > limits.Depth {
		return refuse(CodePathTooDeep, path, "the path is more than %d levels deep; use fewer folders", limits.Depth)
	}
	return nil
}

// checkSegment refuses what any system that a skill is installed on treats
// specially, whatever system this one is. stored is Limits.AnyNames.
func checkSegment(path, segment string, stored bool) error {
	switch {
	case segment == "..":
		return refuse(CodePathTraversal, path, `the path contains ".."; pack the folder with names below it`)
	case segment == "" || segment == ".":
		return refuse(CodePathEmpty, path, "the path has an empty segment; pack the folder again")
	case len(segment) >= 2 && segment[1] == ':' && isLetter(segment[0]):
		return refuse(CodePathTraversal, path, "the path names a drive; pack the folder with relative names")
	case strings.Contains(segment, ":") && !stored: // "SKILL.md::$DATA" is SKILL.md on NTFS
		return refuse(CodePathReserved, path, "a name holds a colon, which on Windows names a stream of another file; rename it")
	case strings.HasSuffix(segment, ".") || strings.HasSuffix(segment, " "):
		return refuse(CodePathReserved, path, "a name ends in a dot or a space, which Windows drops; rename it")
	case IsWindowsDevice(segment):
		return refuse(CodePathReserved, path, "the name is reserved on Windows; rename it")
	}
	return nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// IsWindowsDevice reports whether a name is that of a device on Windows, whatever
// its extension: no file or folder may have it there.
func IsWindowsDevice(segment string) bool {
	// "nul.tar.gz" is the device, too: Windows ignores everything from the first dot
	// on.
	base, _, _ := strings.Cut(segment, ".")
	base = strings.ToUpper(strings.TrimRight(base, " "))
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	digit, found := strings.CutPrefix(base, "COM")
	if !found {
		digit, found = strings.CutPrefix(base, "LPT")
	}
	r, size := utf8.DecodeRuneInString(digit)
	// The superscript digits count as digits in those names, but no other ones do.
	return found && size == len(digit) && strings.ContainsRune("0123456789¹²³", r)
}

// fold returns the same key for all names that may be equal on a file system:
// those that differ only in case or in Unicode normalisation. It is stricter than
// any single file system, since a skill must install on all of them.
func fold(name string) string {
	// Normalised again: folding can leave a sequence that is not in normal form.
	return norm.NFC.String(strings.Map(foldRune, norm.NFC.String(name)))
}

// foldRune returns the smallest of the runes that differ in case only.
// strings.ToLower would not do: it keeps apart e.g. "ſ" and "s", which APFS does
// not.
func foldRune(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}
