package deploy

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"

	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

// warnings collects what the API server says beside its answers: fields that
// are deprecated or doubled, and pods that the namespace's security standard
// would not admit.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// strictNamespace makes a namespace in which only pods of the restricted
// standard may run.
func strictNamespace(t *testing.T) string {
	t.Helper()
	api := kubeenv.Shared(t)
	name := api.Namespace(t)
	namespaces := kubernetes.NewForConfigOrDie(api.Config()).CoreV1().Namespaces()
	n, err := namespaces.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Labels["pod-security.kubernetes.io/enforce"] = "restricted"
	n.Labels["pod-security.kubernetes.io/warn"] = "restricted"
	if _, err := namespaces.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

// admit asks the API server for a dry run of every object, and of every pod
// that would come from them.
func admit(t *testing.T, all objects, namespace string) {
	t.Helper()
	config := kubeenv.Shared(t).Config()
	said := &warnings{}
	config.WarningHandler = said
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config)))
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
	for _, o := range all {
		what := o.GetKind() + " " + o.GetName()
		kind := o.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		resource := dynamic.ResourceInterface(client.Resource(mapping.Resource))
		if mapping.Scope.Name() == "namespace" {
			if o.GetNamespace() != namespace {
				t.Errorf("%s is for the namespace %q", what, o.GetNamespace())
			}
			resource = client.Resource(mapping.Resource).Namespace(namespace)
		}
		if _, err := resource.Create(t.Context(), o, dryRun); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, w := range said.take() {
			t.Errorf("%s: %s", what, w)
		}
	}
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(namespace)
	for i, w := range workloads(t, all) {
		pod := &corev1.Pod{ObjectMeta: w.template.ObjectMeta, Spec: w.template.Spec}
		pod.Name = fmt.Sprintf("pod-%d", i)
		// The service account is made in the dry run only.
		pod.Spec.ServiceAccountName = "default"
		if _, err := pods.Create(t.Context(), pod, dryRun); err != nil {
			t.Errorf("pod of %s: %v", w.name, err)
		}
	}
}

// Every overlay is what the API server takes in without a warning, its pods fit
// the restricted Pod Security Standard, and everything belongs together.
func TestOverlays(t *testing.T) {
	for _, overlay := range overlays {
		t.Run(overlay, func(t *testing.T) {
			namespace := strictNamespace(t)
			all := kustomize(t, overlay, namespace)
			admit(t, all, namespace)
			checkPods(t, all)
		})
	}
}
