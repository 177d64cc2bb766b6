// Deploycheck reads the files of deploy/ with the programs' own libraries and
// prints what they come to, for the tests of this repository:
//
//	deploycheck chart DIR VALUES.yaml    the manifests that Helm makes, as YAML; helm lint must
//	                                     have nothing to say, and Kubernetes know every field
//	deploycheck compose FILE ENV         the project that Compose runs, as JSON
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "deploycheck:", err)
		os.Exit(1)
	}
}

func run(args []string, w io.Writer) error {
	switch {
	case len(args) == 3 && args[0] == "chart":
		return chart(w, args[1], args[2])
	case len(args) == 3 && args[0] == "compose":
		return compose(w, args[1], args[2])
	}
	return errors.New("usage: deploycheck chart DIR VALUES | compose FILE ENV")
}

// kubeVersion is the Kubernetes that manifests are made for.
var kubeVersion = chartutil.KubeVersion{Version: "v1.31.0", Major: "1", Minor: "31"}

// chart renders a chart as `helm install` does; the values must fit its schema.
func chart(w io.Writer, dir, valuesFile string) error {
	c, err := loader.LoadDir(dir)
	if err != nil {
		return err
	}
	given, err := chartutil.ReadValuesFile(valuesFile)
	if err != nil {
		return err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubeVersion
	options := chartutil.ReleaseOptions{Name: "test", Namespace: "test", Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(c, given, options, capabilities)
	if err != nil {
		return err
	}
	files, err := engine.Engine{Strict: true}.Render(c, values)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			if err := checkManifests(files[name]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if _, err := fmt.Fprintf(w, "---\n# Source: %s\n%s\n", name, files[name]); err != nil {
				return err
			}
		}
	}
	return lintChart(dir, given)
}

// checkManifests decodes manifests into Kubernetes' own types, which must have every
// field, and each once.
func checkManifests(manifests string) error {
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifests)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		if _, _, err := codecs.UniversalDeserializer().Decode(document, nil, nil); err != nil {
			return err
		}
	}
}

// lintChart is `helm lint --strict`.
func lintChart(dir string, values chartutil.Values) error {
	var problems []error
	for _, m := range lint.AllWithKubeVersion(dir, values, "test", &kubeVersion).Messages {
		if m.Severity > support.InfoSev {
			problems = append(problems, m)
		}
	}
	return errors.Join(problems...)
}

// compose loads a project as `docker compose` does, with the variables of a
// file and no others.
func compose(w io.Writer, file, env string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithEnvFiles(env), cli.WithDotEnv)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(project)
}
