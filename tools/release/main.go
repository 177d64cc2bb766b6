// Release makes the parts of a release that scripts/release cannot make with a
// shell alone. Equal input gives equal bytes: times come from -epoch.
//
//	release archive -epoch N OUT.tar.gz|OUT.zip DIR    packs a folder under its own name
//	release sbom -epoch N -version V BINARY...         prints a CycloneDX document of what is linked
//	release licenses -goroot DIR -modcache DIR BINARY...    prints the licences of what is linked
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	if len(args) == 0 {
		return errors.New("usage: release archive|sbom|licenses")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	epoch := flags.Int64("epoch", 0, "the time of the release, in seconds since 1970")
	version := flags.String("version", "", "the version of the release, e.g. v1.2.3")
	goroot := flags.String("goroot", "", "the folder of Go, as `go env GOROOT` prints it")
	modcache := flags.String("modcache", "", "the folder of modules, as `go env GOMODCACHE` prints it")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	at, rest := time.Unix(*epoch, 0).UTC(), flags.Args()
	switch {
	case args[0] == "archive" && len(rest) == 2:
		return writeArchive(rest[0], rest[1], at)
	case args[0] == "sbom" && len(rest) > 0 && *version != "":
		modules, err := readModules(rest)
		if err != nil {
			return err
		}
		return writeSBOM(w, modules, *version, at)
	case args[0] == "licenses" && len(rest) > 0:
		modules, err := readModules(rest)
		if err != nil {
			return err
		}
		return writeLicenses(w, modules, *goroot, *modcache)
	}
	return fmt.Errorf("%s: wrong arguments", args[0])
}
