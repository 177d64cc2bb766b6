package skillpkg

import "fmt"

const (
	kib = 1 << 10
	// ratioFloor is the unpacked size below which the ratio is not checked: a
	// small file of one repeated letter is not a decompression bomb.
	ratioFloor = 1 << 20
)

// Limits limit the cost of reading an archive. Every number must be set.
type Limits struct {
	Packed     int64 // bytes of the archive
	Unpacked   int64 // bytes of all files together
	File       int64 // bytes of one file
	Files      int   // regular files and links
	Depth      int   // segments of a path
	PathLength int   // bytes of a path
	Ratio      int64 // unpacked to packed
	// AnyNames allows names with invisible characters and colons, for archives that
	// were stored before those were refused.
	AnyNames bool
}

// DefaultLimits returns the limits of uploads. Text compresses to about a tenth
// of its size, and deflate at most to a thousandth: a ratio of 100 is far from
// what people pack, and bounds a decompression bomb.
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

// StoredLimits are the limits of an archive that was accepted under
// DefaultLimits, by this version of the service or an earlier one.
func StoredLimits() Limits {
	l := DefaultLimits()
	l.AnyNames = true
	return l
}

// members limits the entries of an archive, including folders and headers.
func (l Limits) members() int { return 2 * l.Files }

// stream limits the bytes of a tar, including headers and padding.
func (l Limits) stream() int64 { return l.Unpacked + 8*kib*int64(l.members()) }

// checkPacked refuses an archive that is too large.
func (l Limits) checkPacked(size int64) error {
	if size > l.Packed {
		return tooLarge(CodeCompressedTooLarge, "",
			"the archive is larger than %s; leave out what the skill does not need", mib(l.Packed))
	}
	return nil
}

// checkFiles refuses more files than the limit allows.
func (l Limits) checkFiles(n int) error {
	if n > l.Files {
		return tooLarge(CodeTooManyFiles, "",
			"the archive holds more than %d files; leave out what the skill does not need", l.Files)
	}
	return nil
}

// checkFile refuses a file that is too large on its own.
func (l Limits) checkFile(path string, size int64) error {
	if size > l.File {
		return tooLarge(CodeFileTooLarge, path,
			"the file is larger than %s; leave it out or fetch it when it is needed", mib(l.File))
	}
	return nil
}

// checkUnpacked refuses more bytes than all files together may have.
func (l Limits) checkUnpacked(size int64) error {
	if size > l.Unpacked {
		return tooLarge(CodeUnpackedTooLarge, "",
			"the archive unpacks to more than %s; leave out what the skill does not need", mib(l.Unpacked))
	}
	return nil
}

// checkRatio refuses a zip bomb (decompression bomb).
func (l Limits) checkRatio(unpacked, packed int64) error {
	if unpacked > ratioFloor && unpacked > l.Ratio*packed {
		return tooLarge(CodeRatioTooHigh, "",
			"the archive unpacks to more than %d times its size; leave out the files that are mostly padding", l.Ratio)
	}
	return nil
}

func mib(n int64) string { return fmt.Sprintf("%.4g MiB", float64(n)/(1<<20)) }
