// Values: those of the chart, with those of files above them.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/xeipuuv/gojsonschema"
	"sigs.k8s.io/yaml"
)

// valuesWith returns the chart's values with the files' above, or an error that
// names the path of what the schema refuses.
func (c *Chart) valuesWith(files []string) (map[string]interface{}, error) {
	given := map[string]interface{}{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		values := map[string]interface{}{}
		if err := yaml.UnmarshalStrict(data, &values); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		given = overlay(values, given, false)
	}
	values := overlay(given, c.values, true)
	return values, c.validate(values)
}

// overlay returns `over` above `base`: maps are merged, all else is replaced.
// At last, what is null in `over` is taken out if `base` has it.
func overlay(over, base map[string]interface{}, last bool) map[string]interface{} {
	merged := map[string]interface{}{}
	for key, value := range base {
		merged[key] = value
	}
	for key, value := range over {
		below, known := base[key]
		belowMap, belowIsMap := below.(map[string]interface{})
		valueMap, valueIsMap := value.(map[string]interface{})
		switch {
		case value == nil && known && last:
			delete(merged, key)
		case belowIsMap && valueIsMap:
			merged[key] = overlay(valueMap, belowMap, last)
		default:
			merged[key] = value
		}
	}
	return merged
}

func (c *Chart) validate(values map[string]interface{}) error {
	if c.schema == nil {
		return errors.New("the chart has no values.schema.json")
	}
	result, err := gojsonschema.Validate(
		gojsonschema.NewBytesLoader(c.schema), gojsonschema.NewGoLoader(values))
	if err != nil {
		return fmt.Errorf("values.schema.json: %w", err)
	}
	if result.Valid() {
		return nil
	}
	var wrong []string
	for _, problem := range result.Errors() {
		wrong = append(wrong, problem.String())
	}
	return fmt.Errorf("values: %s", strings.Join(wrong, "; "))
}
