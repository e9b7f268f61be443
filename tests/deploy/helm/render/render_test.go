package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const plainSchema = `{"type": "object", "additionalProperties": false, "properties":
  {"a": {"type": "object"}, "num": {"type": "integer"}}}`

// chartOf writes a chart with one template, and values for it.
func chartOf(t *testing.T, text string) *Chart {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{
		"Chart.yaml": "{apiVersion: v2, type: application, name: c, version: 1.2.3, " +
			"appVersion: \"4\", kubeVersion: '>=1.27.0-0'}",
		"values.yaml":        "{a: {b: 1, c: {d: 2}, l: [1, 2]}, num: 3}",
		"values.schema.json": plainSchema,
		"files/x.txt":        "{{ raw }}",
		"templates/_p.tpl":   `{{ define "p" }}<{{ .q }}>{{ end }}`,
		"templates/t.yaml":   text,
	}
	for name, data := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chart, err := loadChart(folder)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

func rendered(t *testing.T, text string) (string, error) {
	t.Helper()
	chart := chartOf(t, text)
	all, err := chart.render(chart.values, Release{Name: "r", Namespace: "s"}, "v1.28.4")
	return all["templates/t.yaml"], err
}

func TestTemplatesSeeWhatHelmShows(t *testing.T) {
	for text, want := range map[string]string{
		`{{ include "p" (dict "q" 1) | nindent 2 }}`:                "\n  <1>",
		`{{ tpl "{{ .q }}!" (dict "q" "x") }}`:                      "x!",
		`{{ toYaml .Values.a.c }}`:                                  "d: 2",
		`{{ (fromYaml "u: {v: w}").u.v }}`:                          "w",
		`{{ .Files.Get "files/x.txt" }}`:                            "{{ raw }}",
		`{{ .Files.Get "files/none" }}`:                             "",
		`{{ range $p, $_ := .Files.Glob "f*/*" }}{{ $p }}{{ end }}`: "files/x.txt",
		`{{ .Release.Name }}/{{ .Release.Namespace }}`:              "r/s",
		`{{ .Chart.Name }} {{ .Chart.AppVersion }}`:                 "c 4",
		`{{ .Capabilities.KubeVersion.Minor }}`:                     "28",
		`{{ lookup "v1" "Secret" "a" "b" | len }}`:                  "0",
	} {
		if got, err := rendered(t, text); err != nil || got != want {
			t.Errorf("%s: %q, %v; not %q", text, got, err, want)
		}
	}
}

func TestWhatIsNotKnownFails(t *testing.T) {
	for text, want := range map[string]string{
		`{{ .Values.none }}`:                    "none",
		`{{ .Values.a.none }}`:                  "none",
		`{{ get .Values.a "none" }}{{ .Nope }}`: "Nope",
		`{{ required "give it" "" }}`:           "give it",
		`{{ fail "stop" }}`:                     "stop",
		`{{ include "none" . }}`:                "none",
		`{{ fromYaml "a: 1\na: 2" }}`:           "already set",
	} {
		if _, err := rendered(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, without %q", text, err, want)
		}
	}
	for _, name := range append([]string{"toToml", "nope"}, unknownHere...) {
		_, err := rendered(t, "{{ "+name+" }}")
		if err == nil || !strings.Contains(err.Error(), `"`+name+`" not defined`) {
			t.Errorf("%s is known: %v", name, err)
		}
	}
}

func TestMapsAreMergedAndNullRemoves(t *testing.T) {
	chart := chartOf(t, "")
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("{a: {b: null, c: {e: 5}, l: []}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := chart.valuesWith([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]interface{}{
		"c": map[string]interface{}{"d": 2.0, "e": 5.0}, "l": []interface{}{},
	}
	if got := values["a"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
}

func TestSchemaNamesThePath(t *testing.T) {
	chart := chartOf(t, "")
	for value, want := range map[interface{}]string{"three": "num: Invalid type", 1.5: "num: Invalid type"} {
		err := chart.validate(map[string]interface{}{"num": value})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", value, err)
		}
	}
	if err := chart.validate(map[string]interface{}{"m": 1}); err == nil {
		t.Error("an unknown value is accepted")
	}
}

func TestObjectsAreNamedOnce(t *testing.T) {
	object := "apiVersion: v1\nkind: Pod\nmetadata: {name: a}"
	for text, want := range map[string]string{
		object + "\n---\n" + object: "as well",
		"kind: Pod":                 "no object",
		"a: 1\na: 2":                "already set",
	} {
		_, err := splitObjects(map[string]string{"t": text})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, without %q", text, err, want)
		}
	}
	objects, err := splitObjects(map[string]string{"t": "---\n" + object + "\n---\n# Nothing.\n"})
	if err != nil || len(objects) != 1 {
		t.Errorf("%v, %v", objects, err)
	}
}

func TestOldKubernetesIsRefused(t *testing.T) {
	chart := chartOf(t, "")
	if _, err := chart.render(chart.values, Release{}, "v1.26.9"); err == nil {
		t.Error("1.26 is accepted")
	}
	if _, err := chart.render(chart.values, Release{}, "v1.30.1-eks.4"); err != nil {
		t.Error(err)
	}
}
