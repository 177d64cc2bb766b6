package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// modules are what the binaries of a release are made of.
type modules struct {
	main   string         // the path of the main module
	goVers string         // e.g. go1.26.8
	deps   []debug.Module // of all binaries, sorted, each once
}

// readModules reads what the linker wrote into binaries of one release. Platforms
// link different modules: the result has those of all.
func readModules(binaries []string) (modules, error) {
	var m modules
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return modules{}, fmt.Errorf("%s: %w", binary, err)
		}
		if m.main != "" && (m.main != info.Main.Path || m.goVers != info.GoVersion) {
			return modules{}, fmt.Errorf("%s is of %s and %s, the others of %s and %s", binary, info.Main.Path, info.GoVersion, m.main, m.goVers)
		}
		m.main, m.goVers = info.Main.Path, info.GoVersion
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				dep = dep.Replace
			}
			m.deps = append(m.deps, *dep)
		}
	}
	slices.SortFunc(m.deps, func(a, b debug.Module) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Version, b.Version))
	})
	m.deps = slices.Compact(m.deps)
	return m, nil
}

// The types are the part of CycloneDX 1.6 that is used here:
// https://cyclonedx.org/docs/1.6/json/
type bom struct {
	BOMFormat    string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	SerialNumber string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	BOMRef     string     `json:"bom-ref"`
	Type       string     `json:"type"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Scope      string     `json:"scope,omitempty"`
	PURL       string     `json:"purl"`
	Licenses   []license  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

func writeSBOM(w io.Writer, m modules, version string, at time.Time) error {
	product := newComponent("application", m.main, version)
	product.Name = m.main[strings.LastIndex(m.main, "/")+1:]
	product.Licenses = make([]license, 1)
	product.Licenses[0].License.ID = "Apache-2.0"
	doc := bom{
		BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata:   metadata{at.Format(time.RFC3339), product},
		Components: []component{newComponent("library", "std", strings.TrimPrefix(m.goVers, "go"))},
	}
	for _, dep := range m.deps {
		c := newComponent("library", dep.Path, dep.Version)
		// The hash of go.sum, which is not that of a file.
		c.Properties = []property{{"go:sum", dep.Sum}}
		doc.Components = append(doc.Components, c)
	}
	linked := dependency{Ref: product.BOMRef}
	for i := range doc.Components {
		doc.Components[i].Scope = "required"
		linked.DependsOn = append(linked.DependsOn, doc.Components[i].BOMRef)
	}
	doc.Dependencies = []dependency{linked}
	doc.SerialNumber = serialNumber(doc)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(doc)
}

func newComponent(kind, path, version string) component {
	// Package URLs want escaped segments: "+incompatible" is "%2Bincompatible".
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
	return component{BOMRef: purl, Type: kind, Name: path, Version: version, PURL: purl}
}

// serialNumber is a UUID of the content, so that equal documents have an equal one.
func serialNumber(doc bom) string {
	content, _ := json.Marshal(doc) // strings and numbers only
	sum := sha256.Sum256(content)
	id := sum[:16]
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8, which is for such
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
