package taskfile

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// BaseImages returns the images in the FROM lines of a Dockerfile.
func BaseImages(dockerfile string) (images []string) {
	for _, line := range DockerInstructions(dockerfile) {
		words := strings.Fields(line)
		if !strings.EqualFold(words[0], "FROM") {
			continue
		}
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "--") })
		if len(words) > 0 {
			images = append(images, words[0])
		}
	}
	return images
}

// Images returns the images that the build of a Dockerfile needs: those that its stages
// begin with or copy from, except its own stages. Variables are replaced by the values
// of earlier ARG lines.
func Images(dockerfile string) (images []string) {
	stages, arguments := []string{"scratch"}, map[string]string{}
	add := func(image string) {
		image = reference.ReplaceAllStringFunc(image, func(ref string) string {
			found := reference.FindStringSubmatch(ref)
			if value, ok := arguments[found[1]]; ok {
				return value
			}
			if found[2] != "" {
				return found[2]
			}
			return ref
		})
		if _, own := strings.CutPrefix(image, "$"); own || image == "" || slices.Contains(stages, strings.ToLower(image)) ||
			slices.Contains(images, image) || strings.Trim(image, "0123456789") == "" {
			return
		}
		images = append(images, image)
	}
	for _, line := range DockerInstructions(dockerfile) {
		words := strings.Fields(line)
		switch strings.ToUpper(words[0]) {
		case "ARG":
			for _, word := range words[1:] {
				if name, value, ok := strings.Cut(word, "="); ok {
					arguments[name] = strings.Trim(value, `"'`)
				}
			}
		case "FROM":
			words = dropFlags(words[1:])
			if len(words) > 0 {
				add(words[0])
			}
			if len(words) > 2 && strings.EqualFold(words[1], "AS") {
				stages = append(stages, strings.ToLower(words[2]))
			}
		case "COPY":
			for _, word := range words[1:] {
				if from, ok := strings.CutPrefix(word, "--from="); ok {
					add(from)
				}
			}
		}
	}
	return images
}

func dropFlags(words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.HasPrefix(w, "--") })
}

var reference = regexp.MustCompile(`\$\{?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}?`)

// Copied returns the paths, relative to the build context, that a Dockerfile copies
// by name: no patterns, URLs, variables, or files of other stages.
func Copied(dockerfile string) (all []string) {
	for _, line := range DockerInstructions(dockerfile) {
		words := strings.Fields(line)
		instruction := strings.ToUpper(words[0])
		if instruction != "COPY" && instruction != "ADD" || strings.Contains(line, "--from=") {
			continue
		}
		words = dropFlags(words[1:])
		for _, word := range words[:max(0, len(words)-1)] {
			if !strings.ContainsAny(word, "$*?[]<>\"',") && !strings.Contains(word, "://") {
				all = append(all, strings.TrimPrefix(path.Clean("/"+word), "/"))
			}
		}
	}
	return all
}

// DockerInstructions returns the instructions of a Dockerfile, each on one
// line: comments are left out, and continued lines are joined.
func DockerInstructions(text string) []string {
	var all []string
	continued := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if rest, ok := strings.CutSuffix(line, `\`); ok {
			continued += rest + " "
			continue
		}
		all, continued = append(all, continued+line), ""
	}
	return all
}
