package kubeenv_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

func TestMain(m *testing.M) { kubeenv.Main(m) }

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}
}

func TestSharedServerEnforcesResourceVersions(t *testing.T) {
	api := kubeenv.Shared(t)
	if kubeenv.Shared(t) != api {
		t.Error("a second call returned another server")
	}
	leases := client(t, api.Config()).CoordinationV1().Leases(api.Namespace(t))
	first, err := leases.Create(t.Context(), lease(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	holder := "a"
	changed := first.DeepCopy()
	changed.Spec.HolderIdentity = &holder
	if _, err := leases.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Update(t.Context(), changed, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("update with a stale resourceVersion: %v, want a conflict", err)
	}
}

func TestServerIsStampedWithItsVersion(t *testing.T) {
	v, err := client(t, kubeenv.Shared(t).Config()).Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	// An unstamped server says v0.0.0-master and hides features by version.
	if v.Major != "1" || strings.HasPrefix(v.GitVersion, "v0.") {
		t.Errorf("version %s.%s, %s: want a released one", v.Major, v.Minor, v.GitVersion)
	}
}

func TestRightsComeAndGo(t *testing.T) {
	api := kubeenv.Shared(t)
	namespace := api.Namespace(t)
	user := client(t, api.User(t, "eve", "outsiders"))
	list := func() error {
		_, err := user.CoordinationV1().Leases(namespace).List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := list(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"eve"`) {
		t.Errorf("list without the right: %v, want forbidden, naming the user", err)
	}
	revoke := api.Allow(t, namespace, "eve", rbacv1.PolicyRule{
		APIGroups: []string{coordinationv1.GroupName}, Resources: []string{"leases"}, Verbs: []string{"list"},
	})
	if err := list(); err != nil {
		t.Errorf("list with the right: %v", err)
	}
	revoke()
	if err := list(); !apierrors.IsForbidden(err) {
		t.Errorf("list after the right was taken away: %v, want forbidden", err)
	}
}

func TestKubeconfigCarriesCredentials(t *testing.T) {
	api := kubeenv.Shared(t)
	as := api.Config()
	as.Impersonate = rest.ImpersonationConfig{UserName: "mallory", Groups: []string{"guests"}}
	for name, config := range map[string]*rest.Config{
		"admin":   api.Config(),
		"eve":     api.User(t, "eve"),
		"mallory": as,
	} {
		path := kubeenv.Kubeconfig(t, config, "there")
		loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, nil)
		if namespace, _, err := loader.Namespace(); err != nil || namespace != "there" {
			t.Errorf("%s: namespace %q, %v, want there", name, namespace, err)
		}
		loaded, err := loader.ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		_, err = client(t, loaded).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if name == "admin" {
			if err != nil {
				t.Errorf("admin: %v", err)
			}
			continue
		}
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("%s: %v, want forbidden, naming the user", name, err)
		}
	}
}

func TestOwnServerKeepsItsDataAcrossAKill(t *testing.T) {
	t.Parallel()
	api := kubeenv.Start(t)
	namespace := api.Namespace(t)
	leases := client(t, api.Config()).CoordinationV1().Leases(namespace)
	if _, err := leases.Create(t.Context(), lease(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := leases.Get(ctx, "l", metav1.GetOptions{})
		return err
	}
	api.Kill(t)
	api.Kill(t) // A second kill changes nothing.
	if err := read(); err == nil {
		t.Error("read from a dead server: no error")
	}
	api.Restart(t)
	// The client and its credentials are from before the restart.
	testenv.Eventually(t, 30*time.Second, read)
	// Credentials made afterwards are valid too.
	if _, err := client(t, api.User(t, "late", "system:masters")).CoordinationV1().Leases(namespace).Get(t.Context(), "l", metav1.GetOptions{}); err != nil {
		t.Errorf("read with new credentials: %v", err)
	}

	api.Pause(t)
	if err := read(); err == nil {
		t.Error("read from a paused server: no error")
	}
	api.Resume(t)
	testenv.Eventually(t, 30*time.Second, read)
	// The clean-up ends a paused server too.
	api.Pause(t)
}

func TestMissingBinariesAreNamed(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", filepath.Join(t.TempDir(), "none"))
	_, err := kubeenv.Assets()
	if err == nil || !strings.Contains(err.Error(), "make controlplane") || !strings.Contains(err.Error(), os.Getenv("KUBEBUILDER_ASSETS")) {
		t.Errorf("error %v, want one that names the folder and the way out", err)
	}
}

func TestAssetsAreFoundWithoutTheVariable(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	dir, err := kubeenv.Assets()
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(dir) {
		t.Errorf("folder %q, want an absolute one", dir)
	}
}
