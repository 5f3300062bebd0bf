package kubeenv

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// rbacTimeout bounds how long the API server may take to notice a change of
// rights. It watches them, so this is usually a matter of milliseconds.
const rbacTimeout = 30 * time.Second

// Config returns a copy of the administrator's credentials. The administrator
// may do everything and, with rest.Config.Impersonate, be everybody.
func (s *APIServer) Config() *rest.Config { return rest.CopyConfig(s.admin) }

// User returns credentials, a client certificate, for a user in the given
// groups. A user without further rights may do next to nothing: see Allow.
func (s *APIServer) User(tb testing.TB, name string, groups ...string) *rest.Config {
	tb.Helper()
	user, err := s.plane.AddUser(envtest.User{Name: name, Groups: groups}, clientLimits())
	if err != nil {
		tb.Fatalf("make credentials for %s: %v", name, err)
	}
	return user.Config()
}

// Allow gives a user rights in a namespace and returns when the API server
// grants them. The returned function takes them away again, and returns when
// the API server refuses them; for that, nothing else may grant the same
// rights to this user.
func (s *APIServer) Allow(tb testing.TB, namespace, user string, rules ...rbacv1.PolicyRule) (revoke func()) {
	tb.Helper()
	rbac := s.client.RbacV1()
	meta := metav1.ObjectMeta{GenerateName: "test-", Namespace: namespace}
	role, err := rbac.Roles(namespace).Create(tb.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("make a role in %s: %v", namespace, err)
	}
	binding, err := rbac.RoleBindings(namespace).Create(tb.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("bind %s to a role in %s: %v", user, namespace, err)
	}
	s.waitForRights(tb, namespace, user, rules, true)
	return func() {
		tb.Helper()
		if err := rbac.RoleBindings(namespace).Delete(tb.Context(), binding.Name, metav1.DeleteOptions{}); err != nil {
			tb.Fatalf("take the rights of %s in %s away: %v", user, namespace, err)
		}
		s.waitForRights(tb, namespace, user, rules, false)
	}
}

// waitForRights asks the API server's authorizer until it gives the wanted
// answer for every right in rules.
func (s *APIServer) waitForRights(tb testing.TB, namespace, user string, rules []rbacv1.PolicyRule, want bool) {
	tb.Helper()
	for _, right := range rights(namespace, rules) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right}}
		testenv.Eventually(tb, rbacTimeout, func() error {
			answer, err := s.client.AuthorizationV1().SubjectAccessReviews().Create(tb.Context(), review, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			if answer.Status.Allowed != want {
				return fmt.Errorf("may %s %s %s %q in %s: %t, want %t", user, right.Verb, right.Resource, right.Name, namespace, answer.Status.Allowed, want)
			}
			return nil
		})
	}
}

// rights spells out what the rules allow, one right each.
func rights(namespace string, rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var all []authorizationv1.ResourceAttributes
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, path := range rule.Resources {
				resource, sub, _ := strings.Cut(path, "/")
				for _, verb := range rule.Verbs {
					for _, name := range names {
						all = append(all, authorizationv1.ResourceAttributes{
							Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: sub, Name: name,
						})
					}
				}
			}
		}
	}
	return all
}

// Namespace makes a namespace that no other test uses, and returns its name.
func (s *APIServer) Namespace(tb testing.TB) string {
	tb.Helper()
	created, err := s.client.CoreV1().Namespaces().Create(tb.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Annotations: map[string]string{"leaderbridge.io/test": tb.Name()}},
	}, metav1.CreateOptions{})
	if err != nil {
		tb.Fatalf("make a namespace: %v", err)
	}
	return created.Name
}

// Kubeconfig writes credentials to a file that child processes can use, with
// namespace as the default one, and returns its path. The file is gone when
// the test ends. It carries the address, certificates, token and impersonation
// of config.
func Kubeconfig(tb testing.TB, config *rest.Config, namespace string) string {
	tb.Helper()
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthorityData: config.CAData,
		InsecureSkipTLSVerify:    config.Insecure,
		TLSServerName:            config.ServerName,
	}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
		TokenFile:             config.BearerTokenFile,
		Impersonate:           config.Impersonate.UserName,
		ImpersonateGroups:     config.Impersonate.Groups,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	file.CurrentContext = name
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		tb.Fatalf("write a kubeconfig: %v", err)
	}
	return path
}
