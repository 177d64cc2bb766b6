package gittree

// What the differential tests compare with go-git's package object.
var (
	ParseCommit = parseCommit
	ParseTree   = parseTree
	TagTarget   = tagTarget
)
