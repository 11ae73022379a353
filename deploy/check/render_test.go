package check

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// chartDir is the chart, and root the repository, seen from here.
const (
	chartDir = "../chart/toolbridge"
	root     = "../.."
)

// object is one document of a rendering.
type object struct {
	template string
	body     string
	gvk      schema.GroupVersionKind
	name     string
	typed    runtime.Object // nil for kinds that Kubernetes itself does not have
}

// documents parts a YAML stream; the separators of Helm stand on lines of their own.
var documents = regexp.MustCompile(`(?m)^---\s*$`)

// render renders the chart with the values of a file; "" is the chart's defaults.
func render(t *testing.T, values string) []object {
	t.Helper()
	objects, err := renderChart(values)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func renderChart(values string) ([]object, error) {
	given := map[string]any{}
	if values != "" {
		var err error
		if given, err = chartutil.ReadValuesFile(values); err != nil {
			return nil, fmt.Errorf("reading the values: %w", err)
		}
	}
	return renderValues(given)
}

func renderValues(given map[string]any) ([]object, error) {
	c, err := loader.Load(chartDir)
	if err != nil {
		return nil, fmt.Errorf("loading the chart: %w", err)
	}
	files, err := rendered(c, given)
	if err != nil {
		return nil, err
	}
	var objects []object
	for _, name := range sorted(files) {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		for _, body := range documents.Split(files[name], -1) {
			if strings.TrimSpace(body) == "" {
				continue
			}
			o, err := parse(body)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			o.template = path.Base(name)
			objects = append(objects, o)
		}
	}
	return objects, nil
}

func rendered(c *chart.Chart, given map[string]any) (map[string]string, error) {
	caps := chartutil.DefaultCapabilities.Copy()
	values, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{
		Name: "toolbridge", Namespace: "toolbridge", Revision: 1, IsInstall: true,
	}, caps)
	if err != nil {
		return nil, fmt.Errorf("joining the values: %w", err)
	}
	files, err := engine.Engine{Strict: true}.Render(c, values)
	if err != nil {
		return nil, fmt.Errorf("rendering: %w", err)
	}
	return files, nil
}

func sorted(m map[string]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// strict refuses unknown and repeated members.
var strict = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// foreign are kinds of others that the chart makes where it is asked to.
var foreign = []string{"keda.sh", "monitoring.coreos.com"}

func parse(body string) (object, error) {
	var head struct {
		APIVersion string                `json:"apiVersion"`
		Kind       string                `json:"kind"`
		Metadata   struct{ Name string } `json:"metadata"`
	}
	if err := yaml.Unmarshal([]byte(body), &head); err != nil {
		return object{}, fmt.Errorf("not YAML: %w\n%s", err, body)
	}
	gv, err := schema.ParseGroupVersion(head.APIVersion)
	if err != nil {
		return object{}, fmt.Errorf("apiVersion: %w", err)
	}
	o := object{body: strings.TrimSpace(body), gvk: gv.WithKind(head.Kind), name: head.Metadata.Name}
	if slices.Contains(foreign, gv.Group) {
		var members map[string]any
		return o, yaml.UnmarshalStrict([]byte(body), &members)
	}
	typed, _, err := strict.Decode([]byte(body), nil, nil)
	if err != nil {
		return object{}, fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, err)
	}
	o.typed = typed
	return o, nil
}

// find is the one object of a type and name.
func find[T runtime.Object](t *testing.T, objects []object, name string) T {
	t.Helper()
	for _, o := range objects {
		if v, ok := o.typed.(T); ok && o.name == name {
			return v
		}
	}
	var none T
	t.Fatalf("no %T named %s was rendered", none, name)
	return none
}

// valueSets are the chart's defaults ("") and every set beside it.
func valueSets(t *testing.T) []string {
	t.Helper()
	sets, err := filepath.Glob(chartDir + "/ci/*.yaml")
	if err != nil || len(sets) == 0 {
		t.Fatalf("no sets of values: %v", err)
	}
	return append([]string{""}, sets...)
}

func setName(values string) string {
	if values == "" {
		return "defaults"
	}
	return strings.TrimSuffix(filepath.Base(values), ".yaml")
}

// manifest is a rendering as one file.
func manifest(objects []object) []byte {
	var b bytes.Buffer
	b.WriteString("# Rendered from deploy/chart/toolbridge by deploy/render; do not edit.\n")
	for _, o := range objects {
		fmt.Fprintf(&b, "---\n%s\n", o.body)
	}
	return b.Bytes()
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
