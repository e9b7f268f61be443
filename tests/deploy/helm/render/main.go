// render prints what a Helm chart makes of values, for tests alone. It has the
// functions and objects of Helm 3 that are named here, and fails on all others.
//
//	render [-release NAME] [-namespace NAME] [-kube VERSION] [-json]
//	       [-notes] [-values] [-f VALUES]... CHART
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

// paths are the files of a flag that may be given several times.
type paths []string

func (p *paths) String() string { return strings.Join(*p, ",") }

func (p *paths) Set(path string) error {
	*p = append(*p, path)
	return nil
}

func run() error {
	var files paths
	release := flag.String("release", "test", "the name of the release")
	namespace := flag.String("namespace", "llm", "its namespace")
	kube := flag.String("kube", "v1.29.0", "the version of Kubernetes")
	asJSON := flag.Bool("json", false, "print a list of {source, object}")
	notes := flag.Bool("notes", false, "print NOTES.txt alone")
	onlyValues := flag.Bool("values", false, "print the values alone, as JSON")
	flag.Var(&files, "f", "a file of values; the last one is above the others")
	flag.Parse()
	if flag.NArg() != 1 {
		return fmt.Errorf("expected one chart, not %q", flag.Args())
	}
	chart, err := loadChart(flag.Arg(0))
	if err != nil {
		return err
	}
	values, err := chart.valuesWith(files)
	if err != nil {
		return err
	}
	if *onlyValues {
		return json.NewEncoder(os.Stdout).Encode(values)
	}
	rendered, err := chart.render(values, Release{
		Name: *release, Namespace: *namespace, Service: "Helm",
		IsInstall: true, Revision: 1,
	}, *kube)
	if err != nil {
		return err
	}
	if *notes {
		fmt.Print(rendered[notesPath])
		return nil
	}
	objects, err := splitObjects(rendered)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(os.Stdout).Encode(objects)
	}
	for _, object := range objects {
		text, err := toYAML(object.Object)
		if err != nil {
			return err
		}
		fmt.Printf("---\n# %s\n%s\n", object.Source, text)
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "render: %v\n", err)
		os.Exit(1)
	}
}
