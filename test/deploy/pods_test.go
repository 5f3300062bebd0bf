package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// workload is a Deployment or a StatefulSet.
type workload struct {
	name     string
	replicas int32
	template corev1.PodTemplateSpec
}

func workloads(t *testing.T, all objects) []workload {
	t.Helper()
	var w []workload
	for _, o := range all.of("Deployment") {
		d := as[appsv1.Deployment](t, o)
		w = append(w, workload{"Deployment " + d.Name, *d.Spec.Replicas, d.Spec.Template})
	}
	for _, o := range all.of("StatefulSet") {
		s := as[appsv1.StatefulSet](t, o)
		// The claims become volumes of the pods.
		for _, c := range s.Spec.VolumeClaimTemplates {
			s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
			}})
		}
		w = append(w, workload{"StatefulSet " + s.Name, *s.Spec.Replicas, s.Spec.Template})
	}
	return w
}

func containers(p corev1.PodSpec) []corev1.Container {
	return append(slices.Clone(p.InitContainers), p.Containers...)
}

// checkPods holds what no admission of Kubernetes asks for by itself. That pods
// fit the restricted Pod Security Standard is asked of the API server.
func checkPods(t *testing.T, all objects) {
	t.Helper()
	for _, w := range workloads(t, all) {
		pod := w.template.Spec
		fault := func(format string, args ...any) { t.Errorf(w.name+": "+format, args...) }
		for _, c := range containers(pod) {
			if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				fault("container %s may write to its root", c.Name)
			}
			if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
				fault("container %s lacks a request for processor or memory, or a limit for memory", c.Name)
			}
			if i := strings.LastIndexByte(c.Image, ':'); i < 0 || c.Image[i:] == ":latest" {
				fault("container %s runs image %s, whatever version that is today", c.Name, c.Image)
			}
			if c.Name == "leaderbridge" && c.LivenessProbe == nil {
				fault("container %s has no liveness probe", c.Name)
			}
		}
		if c := pod.Containers[0]; c.ReadinessProbe == nil {
			fault("container %s has no readiness probe", c.Name)
		}
		if w.replicas < 2 {
			continue
		}
		if !slices.ContainsFunc(pod.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.TopologyKey == corev1.LabelHostname && matches(t, c.LabelSelector, w.template.Labels)
		}) {
			fault("replicas are not spread over nodes")
		}
		if !slices.ContainsFunc(all.of("PodDisruptionBudget"), func(o *unstructured.Unstructured) bool {
			b := as[policyv1.PodDisruptionBudget](t, o)
			return b.Spec.MaxUnavailable.IntValue() == 1 && matches(t, b.Spec.Selector, w.template.Labels)
		}) {
			fault("no disruption budget keeps all but one")
		}
	}
	checkServices(t, all)
	checkTokens(t, all)
}

func matches(t *testing.T, s *metav1.LabelSelector, set map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return !selector.Empty() && selector.Matches(labels.Set(set))
}

// checkServices finds Services that lead nowhere, or to more than one workload.
func checkServices(t *testing.T, all objects) {
	t.Helper()
	for _, o := range all.of("Service") {
		s := as[corev1.Service](t, o)
		var behind []string
		for _, w := range workloads(t, all) {
			if !labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.template.Labels)) {
				continue
			}
			behind = append(behind, w.name)
			for _, port := range s.Spec.Ports {
				if !slices.ContainsFunc(containers(w.template.Spec), func(c corev1.Container) bool {
					return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.TargetPort.String() })
				}) {
					t.Errorf("Service %s: %s has no port %s", s.Name, w.name, port.TargetPort.String())
				}
			}
		}
		if len(behind) != 1 {
			t.Errorf("Service %s leads to %v, want one workload", s.Name, behind)
		}
	}
}

// checkTokens holds that a pod gets a token if and only if its service account
// has rights, and that those rights are on the Lease it stands for.
func checkTokens(t *testing.T, all objects) {
	t.Helper()
	bound := map[string]bool{}
	for _, kind := range []string{"RoleBinding", "ClusterRoleBinding"} {
		for _, o := range all.of(kind) {
			for _, s := range as[rbacv1.RoleBinding](t, o).Subjects {
				if s.Kind != rbacv1.ServiceAccountKind {
					t.Errorf("%s %s gives rights to a %s", kind, o.GetName(), s.Kind)
				}
				bound[s.Name] = true
			}
		}
	}
	for _, o := range all.of("ServiceAccount") {
		if a := as[corev1.ServiceAccount](t, o); a.AutomountServiceAccountToken == nil || *a.AutomountServiceAccountToken {
			t.Errorf("service account %s: every pod with it gets a token", a.Name)
		}
	}
	for _, w := range workloads(t, all) {
		pod := w.template.Spec
		account := pod.ServiceAccountName
		whole := pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken
		alone := slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool { return p.ServiceAccountToken != nil })
		})
		if has := whole || alone; has != bound[account] {
			t.Errorf("%s: has a token: %t, its service account %q has rights: %t", w.name, has, account, bound[account])
		}
		if alone && whole {
			t.Errorf("%s: every container gets the token", w.name)
		}
	}
	for _, o := range all.of("Role") {
		role := as[rbacv1.Role](t, o)
		for _, w := range workloads(t, all) {
			for _, c := range containers(w.template.Spec) {
				if lease := valueOf(c, "LEADERBRIDGE_LEASE_LOCK_NAME"); lease != "" && !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
					return slices.Equal(r.ResourceNames, []string{lease})
				}) {
					t.Errorf("%s stands for the Lease %s, and Role %s names another", w.name, lease, role.Name)
				}
			}
		}
	}
}

func valueOf(c corev1.Container, name string) string {
	for _, e := range c.Env {
		if e.Name == name {
			return e.Value
		}
	}
	return ""
}

// command returns the arguments and the environment with which Kubernetes would
// start a container.
func command(t *testing.T, c corev1.Container, namespace string) (args, env []string) {
	t.Helper()
	var pairs []string
	for _, e := range c.Env {
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace":
			e.Value = namespace
		case e.ValueFrom.FieldRef != nil:
			e.Value = "of-the-pod"
		case e.ValueFrom.ResourceFieldRef != nil && e.ValueFrom.ResourceFieldRef.Resource == "limits.memory":
			e.Value = fmt.Sprint(c.Resources.Limits.Memory().Value())
		default:
			t.Fatalf("container %s: the variable %s comes from what this test does not know", c.Name, e.Name)
		}
		env = append(env, e.Name+"="+e.Value)
		pairs = append(pairs, "$("+e.Name+")", e.Value)
	}
	expand := strings.NewReplacer(pairs...)
	for _, a := range c.Args {
		args = append(args, expand.Replace(a))
	}
	return args, env
}
