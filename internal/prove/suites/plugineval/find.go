package plugineval

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/whetstone-dev/whetstone/internal/base/fault"
	"github.com/whetstone-dev/whetstone/internal/base/text"
	"github.com/whetstone-dev/whetstone/internal/skill/skillpkg"
)

// Found is the folder of a case in an archive.
type Found struct {
	Dir   string // below the folder of the cases
	Files Folder
	// Reasons say why the case can't be imported, and Warnings what is left out.
	Reasons, Warnings []string
}

// maxText bounds the files of all cases of an archive together, in bytes.
const maxText = 8 << 20

// skipped are the folders in which Claude Code looks for no cases.
var skipped = []string{"mocks", "results", "node_modules", ".git"}

// HasCases reports whether an archive has a case of `claude plugin eval`.
func HasCases(p *skillpkg.Package) bool { return len(caseDirs(p)) > 0 }

// Find reads the cases of an archive, in the order of their folders. If it has folders
// called evals, only cases in them count. plugin is the name of the archive's plugin,
// or "".
func Find(p *skillpkg.Package) (found []Found, plugin string, err error) {
	dirs := caseDirs(p)
	root := commonRoot(dirs)
	left := int64(maxText)
	for _, dir := range dirs {
		f := Found{Dir: strings.TrimPrefix(strings.TrimPrefix(dir, root), "/"), Files: Folder{}}
		if f.Dir == "" {
			f.Dir = path.Base("/" + dir)
		}
		for _, file := range p.Installed() {
			rest, ok := strings.CutPrefix(file.Path, prefix(dir))
			if !ok {
				continue
			}
			if !IsDefinition(rest) {
				f.Warnings = append(f.Warnings, fmt.Sprintf("the file %s is not imported", text.PlainLine(rest)))
				continue
			}
			if left -= file.Size; left < 0 || file.Size > maxFile {
				return nil, "", fault.New(fault.TooLarge,
					"The files of the cases are over the limit of 1 MiB each and 8 MiB together")
			}
			raw, err := p.ReadFile(file.Path)
			if err != nil {
				return nil, "", err
			}
			if !text.ValidBytes(raw) {
				f.Reasons = append(f.Reasons, fmt.Sprintf("%s is not a text in UTF-8", rest))
				continue
			}
			f.Files[rest] = string(raw)
		}
		if mocks := mocksOf(p, dir); mocks != "" {
			f.Reasons = append(f.Reasons, mocks+": MCP servers have no stand-ins here")
		}
		found = append(found, f)
	}
	return found, pluginName(p), nil
}

// prefix returns what the paths in a folder begin with; "" is the root.
func prefix(dir string) string {
	if dir == "" {
		return ""
	}
	return dir + "/"
}

// caseDirs returns the folders of cases, sorted. A folder within that of a case isn't
// one.
func caseDirs(p *skillpkg.Package) []string {
	var all, inEvals []string
	for _, f := range p.Installed() {
		dir, name := path.Split(f.Path)
		dir = strings.TrimSuffix(dir, "/")
		parts := strings.Split(dir, "/")
		if name != caseFile && name != promptFile || slices.ContainsFunc(parts, isSkipped) {
			continue
		}
		all = append(all, dir)
		if slices.Contains(parts, "evals") {
			inEvals = append(inEvals, dir)
		}
	}
	if len(inEvals) > 0 {
		all = inEvals
	}
	slices.Sort(all)
	var dirs []string
	for _, dir := range all {
		if !slices.ContainsFunc(dirs, func(d string) bool { return dir == d || strings.HasPrefix(dir, prefix(d)) }) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func isSkipped(name string) bool { return slices.Contains(skipped, name) }

// commonRoot returns the folder of the cases: the first folder called evals, or else
// the one that has them all.
func commonRoot(dirs []string) string {
	if len(dirs) == 0 {
		return ""
	}
	root := path.Dir(dirs[0])
	for _, dir := range dirs {
		parts := strings.Split(dir, "/")
		if i := slices.Index(parts, "evals"); i >= 0 && i < len(parts)-1 {
			dir = strings.Join(parts[:i+1], "/") + "/"
		}
		for root != "." && !strings.HasPrefix(dir, root+"/") {
			root = path.Dir(root)
		}
	}
	if root == "." {
		return ""
	}
	return root
}

// mocksOf returns the folder of stand-ins for MCP servers (mocks) that applies to a
// case, its own or one of a parent folder; "" if there is none.
func mocksOf(p *skillpkg.Package, dir string) string {
	for {
		mocks := prefix(dir) + "mocks/"
		if slices.ContainsFunc(p.Installed(), func(f skillpkg.File) bool { return strings.HasPrefix(f.Path, mocks) }) {
			return mocks
		}
		if dir == "" {
			return ""
		}
		if dir = path.Dir(dir); dir == "." {
			dir = ""
		}
	}
}

// pluginName reads the name of the plugin from its manifest; "" if there is none.
func pluginName(p *skillpkg.Package) string {
	for _, f := range p.Installed() {
		if !strings.HasSuffix("/"+f.Path, "/.claude-plugin/plugin.json") {
			continue
		}
		r, err := p.Open(f.Path)
		if err != nil {
			return ""
		}
		var manifest struct {
			Name string `json:"name"`
		}
		_ = json.NewDecoder(io.LimitReader(r, maxFile)).Decode(&manifest) // a name is not needed
		return manifest.Name
	}
	return ""
}
