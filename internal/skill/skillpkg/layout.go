package skillpkg

import "strings"

// A location is the place of the skill in an archive.
type location struct {
	// root is the folder of the skill.
	root *node
	// path is the name of its SKILL.md, or "" with the reason in missing.
	path    string
	missing *Error
}

// locate finds the skill: at the root of the archive, or in a wrapper folder
// that contains everything.
func locate(root *node) location {
	if name := skillFile(root); name != "" {
		return location{root: root, path: name}
	}
	var tops, candidates []*node
	for _, n := range root.sorted() {
		if isJunk(n.name) {
			continue
		}
		tops = append(tops, n)
		if n.isFolder() && skillFile(n) != "" {
			candidates = append(candidates, n)
		}
	}
	switch {
	case len(candidates) > 1:
		return location{root: root, missing: refuse(CodeSkillAmbiguous, "",
			"both %s and %s hold a SKILL.md; pack one skill at a time", quote(candidates[0].name), quote(candidates[1].name))}
	case len(candidates) == 1 && len(tops) == 1:
		return location{root: tops[0], path: skillFile(tops[0])}
	case len(candidates) == 1:
		return location{root: root, missing: refuse(CodeSkillMissing, "",
			"no SKILL.md at the root of the archive, only in %s beside other files; pack that folder alone",
			quote(candidates[0].name))}
	}
	if n := root.child("SKILL.md"); n != nil && n.file.Kind == Link {
		return location{root: root, missing: refuse(CodeSkillMissing, n.name,
			"SKILL.md is a link, which not every installer follows; put the file itself in its place")}
	}
	return location{root: root, missing: refuse(CodeSkillMissing, "",
		"no SKILL.md at the root of the archive; pack the folder that holds it")}
}

// skillFile returns the name that SKILL.md has in the folder, or "".
func skillFile(folder *node) string {
	for _, name := range []string{"SKILL.md", "skill.md"} {
		if n := folder.child(name); n != nil && n.file.Kind == Regular {
			return name
		}
	}
	return ""
}

// isJunk reports whether files of this name are left by tools and operating
// systems: they are ignored in the search for the skill's folder.
func isJunk(name string) bool {
	switch name {
	case "__MACOSX", ".DS_Store", ".git", "node_modules", "__pycache__":
		return true
	}
	return strings.HasPrefix(name, appleDouble)
}
