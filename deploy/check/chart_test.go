package check

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

var update = flag.Bool("update", false, "write the plain manifests anew")

func TestEveryObjectOfTheChartDecodesStrictly(t *testing.T) {
	for _, values := range valueSets(t) {
		t.Run(setName(values), func(t *testing.T) {
			objects := render(t, values)
			seen := map[string]bool{}
			for _, o := range objects {
				id := o.gvk.Kind + "/" + o.name
				if seen[id] {
					t.Errorf("%s is rendered twice", id)
				}
				seen[id] = true
			}
			if len(objects) < 5 {
				t.Errorf("only %d objects were rendered", len(objects))
			}
		})
	}
}

func TestAMisspeltMemberIsRefused(t *testing.T) {
	good := render(t, "")
	for _, o := range good {
		if o.gvk.Kind != "Deployment" {
			continue
		}
		if _, err := parse(strings.Replace(o.body, "livenessProbe:", "livenesProbe:", 1)); err == nil {
			t.Error("a Deployment with livenesProbe was taken")
		}
		return
	}
	t.Fatal("no Deployment was rendered")
}

func TestHelmsOwnLintFindsNothing(t *testing.T) {
	for _, values := range valueSets(t) {
		t.Run(setName(values), func(t *testing.T) {
			given := map[string]any{}
			if values != "" {
				v, err := chartutil.ReadValuesFile(values)
				if err != nil {
					t.Fatal(err)
				}
				given = v
			}
			for _, m := range lint.All(chartDir, given, "toolbridge", true).Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("%s", m.Error())
				}
			}
		})
	}
}

func TestPlainManifestsAreTheChartsRendering(t *testing.T) {
	for file, values := range map[string]string{
		"../manifests/toolbridge.yaml": "",
		"../manifests/trial.yaml":      chartDir + "/ci/trial.yaml",
	} {
		objects := render(t, values)
		want := manifest(objects)
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(read(t, file), want) {
			t.Errorf("%s is not what the chart renders; write it anew with deploy/render", file)
		}
	}
}

// pod is a pod template with who owns it.
type pod struct {
	owner    string
	replicas *int32
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
}

func pods(objects []object) []pod {
	var all []pod
	for _, o := range objects {
		switch v := o.typed.(type) {
		case *appsv1.Deployment:
			all = append(all, pod{"Deployment/" + v.Name, v.Spec.Replicas, v.Spec.Selector, v.Spec.Template})
		case *appsv1.StatefulSet:
			all = append(all, pod{"StatefulSet/" + v.Name, v.Spec.Replicas, v.Spec.Selector, v.Spec.Template})
		}
	}
	return all
}

func TestPodsRunWithoutRootAndWithProbesAndLimits(t *testing.T) {
	for _, values := range valueSets(t) {
		t.Run(setName(values), func(t *testing.T) {
			for _, p := range pods(render(t, values)) {
				spec := p.template.Spec
				s := spec.SecurityContext
				if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil {
					t.Errorf("%s: the pod may run as root, or without a seccomp profile", p.owner)
				}
				if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
					t.Errorf("%s: the pod gets a token of the cluster that it does not need", p.owner)
				}
				for _, c := range spec.Containers {
					who := p.owner + "/" + c.Name
					s := c.SecurityContext
					if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
						s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
						s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
						t.Errorf("%s: its security context is open", who)
					}
					for name, probe := range map[string]*corev1.Probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
						if probe == nil || probe.HTTPGet == nil {
							t.Errorf("%s: no %s probe", who, name)
							continue
						}
						if !slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == probe.HTTPGet.Port.StrVal }) {
							t.Errorf("%s: the %s probe asks port %s, which the container does not have", who, name, probe.HTTPGet.Port.String())
						}
					}
					if c.Resources.Requests.Cpu().IsZero() && c.Resources.Limits.Memory().IsZero() {
						t.Errorf("%s: neither requests nor limits", who)
					}
					for _, m := range c.VolumeMounts {
						if !slices.ContainsFunc(volumes(p, spec), func(v string) bool { return v == m.Name }) {
							t.Errorf("%s: mounts %s, which is no volume of the pod", who, m.Name)
						}
					}
				}
			}
		})
	}
}

func volumes(p pod, spec corev1.PodSpec) []string {
	names := []string{}
	for _, v := range spec.Volumes {
		names = append(names, v.Name)
	}
	if strings.HasPrefix(p.owner, "StatefulSet/") {
		names = append(names, "data")
	}
	return names
}

// Whatever selects pods selects some, and what names a secret, a config map, a
// service or a scaled object names one that is rendered or documented.
func TestReferencesBetweenObjectsHold(t *testing.T) {
	for _, values := range valueSets(t) {
		t.Run(setName(values), func(t *testing.T) {
			objects := render(t, values)
			all := pods(objects)
			selects := func(who string, s labels.Selector) {
				t.Helper()
				if !slices.ContainsFunc(all, func(p pod) bool { return s.Matches(labels.Set(p.template.Labels)) }) {
					t.Errorf("%s selects no pod: %s", who, s)
				}
			}
			has := func(kind, name string) bool {
				return slices.ContainsFunc(objects, func(o object) bool { return o.gvk.Kind == kind && o.name == name })
			}
			for _, p := range all {
				s, err := metav1.LabelSelectorAsSelector(p.selector)
				if err != nil {
					t.Fatal(err)
				}
				if !s.Matches(labels.Set(p.template.Labels)) {
					t.Errorf("%s does not select its own pods", p.owner)
				}
				for _, other := range all {
					if other.owner != p.owner && s.Matches(labels.Set(other.template.Labels)) {
						t.Errorf("%s selects the pods of %s too", p.owner, other.owner)
					}
				}
				if !has("ServiceAccount", p.template.Spec.ServiceAccountName) {
					t.Errorf("%s: no service account %s", p.owner, p.template.Spec.ServiceAccountName)
				}
				for _, v := range p.template.Spec.Volumes {
					if v.ConfigMap != nil && !has("ConfigMap", v.ConfigMap.Name) {
						t.Errorf("%s: no config map %s", p.owner, v.ConfigMap.Name)
					}
				}
			}
			for _, o := range objects {
				who := o.gvk.Kind + "/" + o.name
				switch v := o.typed.(type) {
				case *corev1.Service:
					selects(who, labels.SelectorFromSet(v.Spec.Selector))
				case *policyv1.PodDisruptionBudget:
					s, err := metav1.LabelSelectorAsSelector(v.Spec.Selector)
					if err != nil {
						t.Fatal(err)
					}
					selects(who, s)
				case *networkingv1.NetworkPolicy:
					s, err := metav1.LabelSelectorAsSelector(&v.Spec.PodSelector)
					if err != nil {
						t.Fatal(err)
					}
					selects(who, s)
				case *autoscalingv2.HorizontalPodAutoscaler:
					if !has(v.Spec.ScaleTargetRef.Kind, v.Spec.ScaleTargetRef.Name) {
						t.Errorf("%s scales %s, which is not rendered", who, v.Spec.ScaleTargetRef.Name)
					}
				case *appsv1.StatefulSet:
					if !has("Service", v.Spec.ServiceName) {
						t.Errorf("%s: no service %s", who, v.Spec.ServiceName)
					}
				}
			}
		})
	}
}

func TestWorkersAreScaledByTheDepthOfTheirQueues(t *testing.T) {
	hpa := find[*autoscalingv2.HorizontalPodAutoscaler](t, render(t, ""), "toolbridge-worker")
	found := false
	for _, m := range hpa.Spec.Metrics {
		if m.External != nil && m.External.Metric.Name == "toolbridge_queue_depth" {
			found = m.External.Target.AverageValue != nil
		}
	}
	if !found {
		t.Error("no external metric toolbridge_queue_depth")
	}
	for _, o := range render(t, chartDir+"/ci/keda.yaml") {
		if o.gvk.Kind == "HorizontalPodAutoscaler" {
			t.Error("KEDA and a HorizontalPodAutoscaler scale the same workers")
		}
	}
}

// Secrets never stand in what is rendered, save where the chart is told to make them.
func TestPasswordsComeFromSecrets(t *testing.T) {
	for _, p := range pods(render(t, "")) {
		for _, c := range p.template.Spec.Containers {
			for _, e := range c.Env {
				if strings.Contains(e.Name, "PASSWORD") || strings.Contains(e.Name, "TOKEN") {
					if e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil {
						t.Errorf("%s: %s is not taken from a secret", p.owner, e.Name)
					}
				}
			}
		}
	}
	for _, o := range render(t, "") {
		if o.gvk.Kind == "Secret" {
			t.Errorf("the defaults render a secret, %s", o.name)
		}
	}
}
