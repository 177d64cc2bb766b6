package skillpkg

import "fmt"

const (
	kib = 1 << 10
	// ratioFloor is how much may unpack before the ratio matters: a small
	// file of one repeated letter is no bomb.
	ratioFloor = 1 << 20
)

// Limits bound what reading an archive may cost. Every number must be set.
type Limits struct {
	Packed     int64 // bytes of the archive
	Unpacked   int64 // bytes of all files together
	File       int64 // bytes of one file
	Files      int   // regular files and links
	Depth      int   // segments of a path
	PathLength int   // bytes of a path
	Ratio      int64 // unpacked to packed
	// AnyNames lets in names with invisible characters. It is for archives that
	// were stored before those were refused.
	AnyNames bool
}

// DefaultLimits returns the limits that the service promises.
func DefaultLimits() Limits {
	return Limits{
		Packed:     10 << 20,
		Unpacked:   50 << 20,
		File:       10 << 20,
		Files:      1000,
		Depth:      8,
		PathLength: 512,
		Ratio:      100,
	}
}

// StoredLimits are those for an archive that was taken under DefaultLimits, by
// this version of the service or an earlier one.
func StoredLimits() Limits {
	l := DefaultLimits()
	l.AnyNames = true
	return l
}

// members bounds the entries of an archive, folders and headers included.
func (l Limits) members() int { return 2 * l.Files }

// stream bounds the bytes of a tar, headers and padding included.
func (l Limits) stream() int64 { return l.Unpacked + 8*kib*int64(l.members()) }

// checkPacked refuses an archive that is too large as it is.
func (l Limits) checkPacked(size int64) error {
	if size > l.Packed {
		return tooLarge(CodeCompressedTooLarge, "", "the archive is larger than %s; leave out what the skill does not need", mib(l.Packed))
	}
	return nil
}

// checkFiles refuses more files than the limit allows.
func (l Limits) checkFiles(n int) error {
	if n > l.Files {
		return tooLarge(CodeTooManyFiles, "", "the archive holds more than %d files; leave out what the skill does not need", l.Files)
	}
	return nil
}

// checkFile refuses a file that is too large on its own.
func (l Limits) checkFile(path string, size int64) error {
	if size > l.File {
		return tooLarge(CodeFileTooLarge, path, "the file is larger than %s; leave it out or fetch it when it is needed", mib(l.File))
	}
	return nil
}

// checkUnpacked refuses more bytes than all files together may have.
func (l Limits) checkUnpacked(size int64) error {
	if size > l.Unpacked {
		return tooLarge(CodeUnpackedTooLarge, "", "the archive unpacks to more than %s; leave out what the skill does not need", mib(l.Unpacked))
	}
	return nil
}

// checkRatio refuses what unpacks to suspiciously much.
func (l Limits) checkRatio(unpacked, packed int64) error {
	if unpacked > ratioFloor && unpacked > l.Ratio*packed {
		return tooLarge(CodeRatioTooHigh, "", "the archive unpacks to more than %d times its size; leave out the files that are mostly padding", l.Ratio)
	}
	return nil
}

func mib(n int64) string { return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20)) }
