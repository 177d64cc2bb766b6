package skillpkg

import (
	"strconv"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
)

// A Code is a machine-readable reason to refuse an archive, or for a note on a
// SKILL.md.
type Code string

// The limits.
const (
	CodeCompressedTooLarge Code = "arc.compressed_too_large"
	CodeUnpackedTooLarge   Code = "arc.unpacked_too_large"
	CodeFileTooLarge       Code = "arc.file_too_large"
	CodeTooManyFiles       Code = "arc.too_many_files"
	CodeRatioTooHigh       Code = "arc.ratio_too_high"
	CodePathTooDeep        Code = "arc.path_too_deep"
	CodePathTooLong        Code = "arc.path_too_long"
)

// The place of SKILL.md.
const (
	CodeSkillMissing   Code = "arc.skill_md.missing"
	CodeSkillAmbiguous Code = "arc.skill_md.ambiguous"
)

// The format of the archive.
const (
	CodeFormatUnknown Code = "arc.format_unknown"    // neither gzip nor zip
	CodeMalformed     Code = "arc.malformed"         // breaks its own format, or a checksum is wrong
	CodeTruncated     Code = "arc.truncated"         // ends too early
	CodeNoEndMarker   Code = "arc.no_end_marker"     // tar without its two zero blocks
	CodeTrailingData  Code = "arc.trailing_data"     // something follows the end
	CodeHeaderTooLong Code = "arc.header_too_long"   // extended tar header over 1 MiB
	CodeExtension     Code = "arc.extension"         // tar or zip extension that readers disagree about
	CodeSparse        Code = "arc.sparse"            // sparse file
	CodeEncrypted     Code = "arc.encrypted"         // zip entry with a password
	CodeMethod        Code = "arc.method"            // zip compression other than store and deflate
	CodeOverlap       Code = "arc.overlap"           // zip entries that share bytes
	CodeNotPortable   Code = "arc.path_not_portable" // name that a ustar header cannot hold
)

// The names and kinds of members.
const (
	CodePathTraversal Code = "sec.path.traversal"  // "..", absolute, drive letter, backslash, NUL
	CodePathControl   Code = "sec.path.control"    // control character
	CodePathEncoding  Code = "arc.path_not_utf8"   // name that is not UTF-8
	CodePathEmpty     Code = "arc.path_empty"      // no name, empty or "." segment
	CodePathReserved  Code = "arc.path_reserved"   // name that Windows reserves or changes
	CodePathDuplicate Code = "arc.path_duplicate"  // the same name twice
	CodePathCollision Code = "arc.path_collision"  // names that are equal on some file systems
	CodePathConflict  Code = "arc.path_conflict"   // a file that is also a folder
	CodeSymlink       Code = "sec.file.symlink"    // symbolic link that leaves the root or leads nowhere
	CodeHardLink      Code = "sec.file.hardlink"   // hard link to anything but an earlier file
	CodeDevice        Code = "sec.file.device"     // device, FIFO, socket
	CodeSpecialMode   Code = "sec.file.setuid"     // setuid, setgid or sticky bit
	CodeMemberType    Code = "arc.member_type"     // any other kind of member
	CodeChanged       Code = "arc.file_changed"    // file that changed while it was packed
	CodeIgnoreFile    Code = "arc.ignore_file_bad" // invalid .skillignore
)

// Faults of, and notes on, a SKILL.md.
const (
	CodeNotUTF8            Code = "spec.skill_md.not_utf8"
	CodeBOM                Code = "spec.skill_md.bom"
	CodeNoFrontmatter      Code = "spec.frontmatter.missing"
	CodeUnclosed           Code = "spec.frontmatter.unclosed"
	CodeFrontmatterTooLong Code = "spec.frontmatter.too_long"
	CodeYAMLInvalid        Code = "spec.frontmatter.yaml_invalid"
	CodeNotMapping         Code = "spec.frontmatter.not_mapping"
	CodeAmbiguousFence     Code = "spec.frontmatter.ambiguous_fence"
	CodeYAMLFeature        Code = "spec.frontmatter.yaml_feature"
	CodeRepaired           Code = "spec.frontmatter.repaired"
	CodeMetadataNotStrings Code = "spec.metadata.not_string_map"
	CodeToolsNotString     Code = "spec.allowed_tools.not_string"
	CodeCompatNotString    Code = "spec.compatibility.not_string"
)

// An Error is the reason why an archive or a SKILL.md is refused. It unwraps to
// a *fault.Error: TooLarge if a size limit was exceeded, Malformed on the field
// "archive" otherwise.
type Error struct {
	Code Code
	// Path is the quoted and truncated name of the member at fault, or "".
	Path string
	// Line is the line of SKILL.md at fault, or 0.
	Line int

	fault *fault.Error
}

func (e *Error) Error() string { return e.fault.Error() }

// Unwrap returns the *fault.Error.
func (e *Error) Unwrap() error { return e.fault }

// refuse returns an Error about a member, or about the archive if path is "".
func refuse(code Code, path, format string, args ...any) *Error {
	e := &Error{Code: code, fault: fault.Invalid("archive", format, args...)}
	return e.at(path)
}

// tooLarge is refuse for a size limit.
func tooLarge(code Code, path, format string, args ...any) *Error {
	e := &Error{Code: code, fault: fault.New(fault.TooLarge, format, args...)}
	return e.at(path)
}

func (e *Error) at(path string) *Error {
	if path == "" {
		return e
	}
	e.Path = quote(path)
	e.fault.Message = e.Path + ": " + e.fault.Message
	for i := range e.fault.Issues {
		e.fault.Issues[i].Message = e.fault.Message
	}
	return e
}

func (e *Error) because(cause error) *Error {
	e.fault = e.fault.Because(cause)
	return e
}

// quote escapes and truncates an untrusted name for a message.
func quote(path string) string {
	const most = 120
	if len(path) > most {
		path = text.Truncate(path, most) + "..."
	}
	return strconv.Quote(path)
}
