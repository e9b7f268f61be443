// From templates and values to objects.
package main

import (
	"fmt"
	"path"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/semver"
	"sigs.k8s.io/yaml"
)

// Release is what templates see as .Release.
type Release struct {
	Name, Namespace, Service string
	IsInstall, IsUpgrade     bool
	Revision                 int
}

// KubeVersion is what templates see as .Capabilities.KubeVersion.
type KubeVersion struct{ Version, Major, Minor string }

// Capabilities is what templates see as .Capabilities.
type Capabilities struct{ KubeVersion KubeVersion }

// Object is one document that a template makes.
type Object struct {
	Source string                 `json:"source"`
	Object map[string]interface{} `json:"object"`
}

// render returns the text of every template that is not a partial, by its path.
func (c *Chart) render(values map[string]interface{}, release Release,
	kube string) (map[string]string, error) {
	capabilities, err := c.capabilitiesOf(kube)
	if err != nil {
		return nil, err
	}
	// Helm prints nothing for what is not there; here it is an error.
	templates := template.New("chart").Option("missingkey=error")
	templates.Funcs(functions(templates))
	for _, name := range sortedKeys(c.templates) {
		if _, err := templates.New(name).Parse(c.templates[name]); err != nil {
			return nil, err
		}
	}
	rendered := map[string]string{}
	for _, name := range sortedKeys(c.templates) {
		if strings.HasPrefix(path.Base(name), "_") {
			continue
		}
		var text strings.Builder
		err := templates.ExecuteTemplate(&text, name, map[string]interface{}{
			"Values": values, "Release": release, "Chart": c.Metadata,
			"Files": c.files, "Capabilities": capabilities,
			"Template": map[string]interface{}{
				"Name":     c.Metadata.Name + "/" + name,
				"BasePath": c.Metadata.Name + "/templates",
			},
		})
		if err != nil {
			return nil, err
		}
		if strings.Contains(text.String(), "<no value>") {
			return nil, fmt.Errorf("%s: <no value> in\n%s", name, text.String())
		}
		rendered[name] = text.String()
	}
	return rendered, nil
}

func (c *Chart) capabilitiesOf(kube string) (*Capabilities, error) {
	version, err := semver.NewVersion(kube)
	if err != nil {
		return nil, fmt.Errorf("the version of Kubernetes %q: %w", kube, err)
	}
	wanted, err := semver.NewConstraint(c.Metadata.KubeVersion)
	if err != nil {
		return nil, fmt.Errorf("kubeVersion %q: %w", c.Metadata.KubeVersion, err)
	}
	if !wanted.Check(version) {
		return nil, fmt.Errorf("the chart needs Kubernetes %s, not %s",
			c.Metadata.KubeVersion, kube)
	}
	return &Capabilities{KubeVersion{kube, fmt.Sprint(version.Major()),
		fmt.Sprint(version.Minor())}}, nil
}

// splitObjects returns the objects by the paths of their templates.
func splitObjects(rendered map[string]string) ([]Object, error) {
	var objects []Object
	seen := map[string]string{}
	for _, source := range sortedKeys(rendered) {
		if source == notesPath {
			continue
		}
		for _, text := range strings.Split("\n"+rendered[source], "\n---\n") {
			text = strings.Trim(text, "\n")
			object := map[string]interface{}{}
			if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
				return nil, fmt.Errorf("%s: %w in\n%s", source, err, text)
			}
			if len(object) == 0 {
				continue
			}
			id, err := idOf(object)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", source, err)
			}
			if other, known := seen[id]; known {
				return nil, fmt.Errorf("%s: %s is in %s as well", source, id, other)
			}
			seen[id] = source
			objects = append(objects, Object{source, object})
		}
	}
	return objects, nil
}

func sortedKeys(texts map[string]string) []string {
	keys := make([]string, 0, len(texts))
	for key := range texts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// idOf returns what no other object of the release may have.
func idOf(object map[string]interface{}) (string, error) {
	kind, _ := object["kind"].(string)
	version, _ := object["apiVersion"].(string)
	metadata, _ := object["metadata"].(map[string]interface{})
	name, _ := metadata["name"].(string)
	if kind == "" || version == "" || name == "" {
		return "", fmt.Errorf("no object: kind %q, apiVersion %q, name %q",
			kind, version, name)
	}
	return fmt.Sprintf("%s %s %s", version, kind, name), nil
}
