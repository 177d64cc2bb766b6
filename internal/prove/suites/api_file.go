package suites

import (
	"context"
	"net/http"
	"strconv"

	"github.com/whetstone-dev/whetstone/client/api"
	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/platform/access"
	"github.com/whetstone-dev/whetstone/internal/platform/httpapi"
)

type importInput struct {
	httpapi.Form
}

func (s *Service) handleImport(ctx context.Context, in importInput) (api.EvalImported, error) {
	f, err := in.fields()
	if err != nil {
		return api.EvalImported{}, err
	}
	files := in.Files["file"]
	if len(files) != 1 {
		return api.EvalImported{}, fault.Invalid("file", "file must be one file part")
	}
	f.Filename, f.Content, f.Size = files[0].Filename, files[0].Content, files[0].Content.Size()
	done, err := s.Import(ctx, access.From(ctx), f)
	if err != nil {
		return api.EvalImported{}, err
	}
	suite, err := newSuiteOutput(done.Suite)
	return api.EvalImported{
		Suite: suite, Refused: append([]Refusal{}, done.Refused...), Warnings: append([]string{}, done.Warnings...),
	}, err
}

// fields parses the form fields beside the file.
func (in importInput) fields() (f Import, err error) {
	f.Name = in.field("name")
	if text := in.field("source_id"); text != "" {
		id, err := ParseSourceID(text)
		if err != nil {
			return f, err
		}
		f.SourceID = &id
	}
	for name, into := range map[string]*bool{"oracle": &f.Oracle, "partial": &f.Partial} {
		if text := in.field(name); text != "" {
			if *into, err = strconv.ParseBool(text); err != nil {
				return f, fault.Invalid(name, "%s must be true or false", name)
			}
		}
	}
	return f, nil
}

func (in importInput) field(name string) string {
	if values := in.Values[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

type exportInput struct {
	SuitePath
	Format Format `query:"format" enum:"suite,evals.json,trigger,plugin-eval" default:"suite"`
}

func (s *Service) handleExport(ctx context.Context, in exportInput) (httpapi.Stream, error) {
	suite, file, err := s.Export(ctx, access.From(ctx).OrgID, in.ID, in.Format)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", in.Format.ContentType())
		w.Header().Set("Content-Disposition", `attachment; filename="`+in.Format.Filename(suite)+`"`)
		_, _ = w.Write(file) // the client is gone if this fails
	}, nil
}
