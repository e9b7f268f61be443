// The functions that templates may call: those of sprig that Helm offers, and
// Helm's own. Where Helm's swallow an error, these report it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

// Calls within calls; Helm's bound.
const maxDepth = 1000

// What differs from one rendering to the next has no place in a golden file.
var unknownHere = []string{
	"env", "expandenv", "getHostByName", "now", "date", "dateInZone", "dateModify",
	"ago", "htmlDate", "htmlDateInZone", "randAlpha", "randAlphaNum", "randAscii",
	"randNumeric", "randBytes", "randInt", "uuidv4", "genPrivateKey", "genCA",
	"genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert",
	"genSignedCertWithKey", "htpasswd", "bcrypt", "derivePassword", "encryptAES",
	// It does not set what is false or zero.
	"merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite",
}

func functions(templates *template.Template) template.FuncMap {
	depth := 0
	all := sprig.TxtFuncMap()
	for _, name := range unknownHere {
		delete(all, name)
	}
	own := template.FuncMap{
		"toYaml":        toYAML,
		"fromYaml":      fromYAML,
		"fromYamlArray": fromYAMLArray,
		"toJson":        toJSON,
		"fromJson":      fromYAML,
		"required":      required,
		"lookup": func(string, string, string, string) map[string]interface{} {
			return map[string]interface{}{} // As without a cluster.
		},
		"include": func(name string, data interface{}) (string, error) {
			if depth++; depth > maxDepth {
				return "", fmt.Errorf("%s includes itself without end", name)
			}
			defer func() { depth-- }()
			var text strings.Builder
			err := templates.ExecuteTemplate(&text, name, data)
			return text.String(), err
		},
		"tpl": func(text string, data interface{}) (string, error) {
			parsed, err := template.Must(templates.Clone()).New("tpl").Parse(text)
			if err != nil {
				return "", err
			}
			var result strings.Builder
			err = parsed.Execute(&result, data)
			return result.String(), err
		},
	}
	for name, function := range own {
		all[name] = function
	}
	return all
}

func toYAML(value interface{}) (string, error) {
	data, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(data), "\n"), err
}

func fromYAML(text string) (map[string]interface{}, error) {
	value := map[string]interface{}{}
	err := yaml.UnmarshalStrict([]byte(text), &value)
	return value, err
}

func fromYAMLArray(text string) ([]interface{}, error) {
	value := []interface{}{}
	err := yaml.UnmarshalStrict([]byte(text), &value)
	return value, err
}

func toJSON(value interface{}) (string, error) {
	data, err := json.Marshal(value)
	return string(data), err
}

func required(message string, value interface{}) (interface{}, error) {
	if value == nil || value == "" {
		return nil, errors.New(message)
	}
	return value, nil
}
