package sources

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// uploadInput is the multipart form of an upload: fields, and either one part "file" or
// parts named by the paths of files, e.g. "scripts/run.sh".
type uploadInput struct {
	httpapi.Form
}

// uploadFields are the fields of the form that aren't files.
type uploadFields struct {
	label    string
	skillID  *string
	sourceID string // "" for a new source
}

// fields reads and validates the fields. A label is required for a new source.
func (in uploadInput) fields() (f uploadFields, err error) {
	var issues []fault.Issue
	field := func(name string) string {
		values := in.Values[name]
		if len(values) > 1 {
			issues = append(issues, fault.At(name, "%s must be given once", name))
		}
		return strings.Join(values, "")
	}
	f.label = field("label")
	if id := field("source_id"); id != "" {
		if f.sourceID, err = ParseID(id); err != nil {
			issues = append(issues, fault.At("source_id", "source_id must be the id of a cloud source"))
		}
	}
	if id := field("skill_id"); id != "" {
		id, ok := parseUUID(id)
		if !ok {
			issues = append(issues, fault.At("skill_id", "skill_id must be a UUID"))
		}
		f.skillID = &id
	}
	if f.sourceID == "" || f.label != "" {
		issues = append(validateLabel(f.label), issues...)
	}
	if len(issues) > 0 {
		return f, fault.Issues(issues...)
	}
	return f, nil
}

// OpenUpload opens the files in an upload form as a package; the caller closes it. The
// dashboard uses it.
func (s *Service) OpenUpload(ctx context.Context, form httpapi.Form) (*skillpkg.Package, error) {
	return uploadInput{form}.open(ctx, s.Limits)
}

// open opens an archive or separate files, but not both. Errors name the field "file".
func (in uploadInput) open(ctx context.Context, limits skillpkg.Limits) (*skillpkg.Package, error) {
	archives, parts := in.Files["file"], in.parts()
	switch {
	case len(archives) > 0 && len(parts) > 0:
		return nil, fault.Invalid("file", "send either file or parts named by paths, not both: %q came beside file",
			parts[0].Path)
	case len(archives) > 1:
		return nil, fault.Invalid("file", "file must be one part; name parts by their paths to send several files")
	case len(archives) == 1:
		pkg, err := openFile(ctx, archives[0], limits)
		return pkg, atFile(err)
	case len(parts) > 0:
		pkg, err := skillpkg.FromParts(ctx, parts, limits)
		return pkg, atFile(err)
	}
	return nil, fault.Invalid("file", "file is required: a zip, a tar.gz or a SKILL.md, or parts named by the paths of the files")
}

// openFile opens an archive, or wraps a single *.md file as the SKILL.md.
func openFile(ctx context.Context, file httpapi.FormFile, limits skillpkg.Limits) (*skillpkg.Package, error) {
	pkg, err := skillpkg.Open(ctx, file.Content, file.Content.Size(), limits)
	refused, ok := errors.AsType[*skillpkg.Error](err)
	if ok && refused.Code == skillpkg.CodeFormatUnknown && strings.EqualFold(path.Ext(file.Filename), ".md") {
		return skillpkg.FromParts(ctx, []skillpkg.Part{filePart("SKILL.md", file)}, limits)
	}
	return pkg, err
}

// parts returns the files that were sent one by one, sorted by path. Some clients send
// them without a file name, as fields: then a dot or slash in the name tells a path from
// an unknown field.
func (in uploadInput) parts() []skillpkg.Part {
	var all []skillpkg.Part
	for name, files := range in.Files {
		if name == "file" {
			continue
		}
		for _, file := range files {
			all = append(all, filePart(name, file))
		}
	}
	for name, values := range in.Values {
		if !strings.ContainsAny(name, "./") {
			continue
		}
		for _, text := range values {
			all = append(all, skillpkg.TextPart(name, text))
		}
	}
	// A Form is a map; without sorting, the first error would vary.
	slices.SortFunc(all, func(a, b skillpkg.Part) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// filePart reads the part anew on each call of Open.
func filePart(name string, file httpapi.FormFile) skillpkg.Part {
	return skillpkg.Part{Path: name, Size: file.Content.Size(), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(file.Content, 0, file.Content.Size())), nil
	}}
}

// atFile attributes errors about the files to the field "file".
func atFile(err error) error {
	refused, ok := errors.AsType[*fault.Error](err)
	if ok && refused.Kind == fault.Malformed {
		return fault.Invalid("file", "%s", refused.Message).Because(err)
	}
	return err
}
