// A chart's files.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/Masterminds/semver"
	"sigs.k8s.io/yaml"
)

const (
	templatesFolder = "templates/"
	notesPath       = templatesFolder + "NOTES.txt"
)

// Metadata is Chart.yaml; a field that is not here is an error.
type Metadata struct {
	APIVersion  string   `json:"apiVersion"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Version     string   `json:"version"`
	AppVersion  string   `json:"appVersion"`
	KubeVersion string   `json:"kubeVersion"`
	Keywords    []string `json:"keywords"`
}

// Chart is what a folder holds.
type Chart struct {
	Metadata  Metadata
	values    map[string]interface{}
	schema    []byte
	templates map[string]string // By path from the chart's folder.
	files     Files
}

// Files is what templates see as .Files.
type Files map[string][]byte

// Get returns the text of a file, or "" if it is not there.
func (f Files) Get(name string) string { return string(f[name]) }

// Glob returns the files that match a pattern.
func (f Files) Glob(pattern string) (Files, error) {
	found := Files{}
	for name, data := range f {
		matches, err := path.Match(pattern, name)
		if err != nil {
			return nil, err
		}
		if matches {
			found[name] = data
		}
	}
	return found, nil
}

func loadChart(folder string) (*Chart, error) {
	chart := &Chart{templates: map[string]string{}, files: Files{}}
	var metadata, values []byte
	err := filepath.WalkDir(folder, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(folder, at)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(relative)
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		switch {
		case name == "Chart.yaml":
			metadata = data
		case name == "values.yaml":
			values = data
		case name == "values.schema.json":
			chart.schema = data
		case name == ".helmignore":
		case strings.HasPrefix(name, templatesFolder):
			chart.templates[name] = string(data)
		case strings.HasPrefix(name, "charts/"), strings.HasPrefix(name, "crds/"):
			return fmt.Errorf("%s: charts within charts and CRDs are not known here", name)
		default:
			chart.files[name] = data
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalStrict(metadata, &chart.Metadata, yaml.DisallowUnknownFields); err != nil {
		return nil, fmt.Errorf("Chart.yaml: %w", err)
	}
	if err := checkMetadata(chart.Metadata); err != nil {
		return nil, fmt.Errorf("Chart.yaml: %w", err)
	}
	if err := yaml.UnmarshalStrict(values, &chart.values); err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	return chart, nil
}

func checkMetadata(m Metadata) error {
	if m.APIVersion != "v2" || m.Type != "application" || m.Name == "" {
		return fmt.Errorf("apiVersion is %q, type %q, name %q", m.APIVersion, m.Type, m.Name)
	}
	if _, err := semver.StrictNewVersion(m.Version); err != nil {
		return fmt.Errorf("version %q: %w", m.Version, err)
	}
	return nil
}
