package store

// Migrations make the schema of a database. A schema says which binaries work with it.

import (
	"embed"
	"io/fs"
	"regexp"
	"strconv"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/sqlite migrations/postgres
var migrationFiles embed.FS

// sqliteSchema is the schema that all migrations of SQLite together make, with their numbers. An
// empty database gets it at once, in a seventh of the time: SQLite parses the whole schema
// anew after each ALTER TABLE. TestSchemaOfEmptyDatabase of the store writes it.
//
//go:embed migrations/sqlite.sql
var sqliteSchema string

// Migrations returns the files of "sqlite" or "postgres".
func Migrations(dialect string) fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations/"+dialect)
	if err != nil {
		panic(err) // the folder is embedded
	}
	return sub
}

// Newest is the version of the schema that this binary works with: the number of the newest
// migration.
func Newest() int64 {
	names, err := fs.Glob(Migrations("sqlite"), "*.sql")
	if err != nil || len(names) == 0 {
		panic("migrations: no files are embedded")
	}
	version, err := goose.NumericComponent(names[len(names)-1])
	if err != nil {
		panic(err) // the name is embedded, and goose has read it
	}
	return version
}

var oldestLine = regexp.MustCompile(`(?m)^-- Oldest binary: ([0-9]+)$`)

// OldestBinary is the version of the oldest binary that works with a version of the
// schema, i.e. with all migrations up to it. A binary's version is that of its newest
// migration.
//
// A migration is taken to break all older binaries unless its file has a line
//
//	-- Oldest binary: 31
//
// which is right for a new table or a column with a default, and for removing
// what binaries from 31 on do not use.
func OldestBinary(files fs.FS, version int64) (oldest int64, err error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		number, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		if number > version {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return 0, err
		}
		if line := oldestLine.FindSubmatch(text); line != nil {
			if number, err = strconv.ParseInt(string(line[1]), 10, 64); err != nil {
				return 0, err
			}
		}
		oldest = max(oldest, number)
	}
	return oldest, nil
}
