package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/leaderbridge/leaderbridge/pkg/events"
	"github.com/leaderbridge/leaderbridge/test/testenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/natsenv"
	"github.com/leaderbridge/leaderbridge/test/testenv/procenv"
)

// install is an overlay on the API server: its service accounts and its rights,
// and what its containers run.
type install struct {
	t         *testing.T
	all       objects
	namespace string
	admin     kubernetes.Interface
	nats      *natsenv.Server
	users     map[string]user
}

// installRights creates what an overlay ships of service accounts and rights.
// change may alter the rules before.
func installRights(t *testing.T, all objects, namespace string, change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) *install {
	t.Helper()
	i := &install{t: t, all: all, namespace: namespace, admin: kubernetes.NewForConfigOrDie(kubeenv.Shared(t).Config()), users: map[string]user{}}
	if change == nil {
		change = func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule { return rules }
	}
	ctx, made := t.Context(), metav1.CreateOptions{}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	rbac := i.admin.RbacV1()
	for _, o := range all.of("ServiceAccount") {
		must(i.admin.CoreV1().ServiceAccounts(namespace).Create(ctx, as[corev1.ServiceAccount](t, o), made))
	}
	for _, o := range all.of("Role") {
		role := as[rbacv1.Role](t, o)
		role.Rules = change(role.Rules)
		must(rbac.Roles(namespace).Create(ctx, role, made))
	}
	for _, o := range all.of("RoleBinding") {
		must(rbac.RoleBindings(namespace).Create(ctx, as[rbacv1.RoleBinding](t, o), made))
	}
	// What is the whole cluster's is told apart from that of other tests.
	for _, o := range all.of("ClusterRole") {
		role := as[rbacv1.ClusterRole](t, o)
		role.Name += "-" + namespace
		role.Rules = change(role.Rules)
		must(rbac.ClusterRoles().Create(ctx, role, made))
	}
	for _, o := range all.of("ClusterRoleBinding") {
		binding := as[rbacv1.ClusterRoleBinding](t, o)
		binding.Name += "-" + namespace
		binding.RoleRef.Name += "-" + namespace
		must(rbac.ClusterRoleBindings().Create(ctx, binding, made))
	}
	i.awaitRights(change)
	for _, role := range []string{"bridge", "watcher", "worker", "reader", "operator", "admin"} {
		i.users[role] = newUser(t, role)
	}
	t.Setenv("POD_NAME", "leaderbridge-nats-0")
	i.nats = serve(t, "cluster.conf", func(o *server.Options) {
		// Beside the users that are shipped, one of the test who may do everything.
		for _, account := range o.Accounts {
			if account.Name == "LEADERBRIDGE" {
				o.Nkeys = append(o.Nkeys, &server.NkeyUser{Nkey: i.users["admin"].public, Account: account})
			}
		}
	})
	return i
}

// awaitRights waits until the API server, which watches its own rights, gives
// what was created.
func (i *install) awaitRights(change func([]rbacv1.PolicyRule) []rbacv1.PolicyRule) {
	i.t.Helper()
	for _, kind := range []string{"Role", "ClusterRole"} {
		for _, o := range i.all.of(kind) {
			role := as[rbacv1.Role](i.t, o)
			for _, rule := range change(role.Rules) {
				right := authorizationv1.ResourceAttributes{
					Namespace: i.namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
				}
				if len(rule.ResourceNames) > 0 {
					right.Name = rule.ResourceNames[0]
				}
				testenv.Eventually(i.t, 30*time.Second, func() error {
					allowed, err := may(i.t, i.admin, i.namespace, role.Name, right)
					if err == nil && !allowed {
						err = fmt.Errorf("%s may not %s yet", role.Name, right.Verb)
					}
					return err
				})
			}
		}
	}
}

// may asks the authorizer about a service account.
func may(t *testing.T, admin kubernetes.Interface, namespace, account string, right authorizationv1.ResourceAttributes) (bool, error) {
	t.Helper()
	answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + namespace + ":" + account, ResourceAttributes: &right},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// credentials are those of a pod: a token of its service account.
func (i *install) credentials(account string) *rest.Config {
	i.t.Helper()
	token, err := i.admin.CoreV1().ServiceAccounts(i.namespace).CreateToken(i.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		i.t.Fatalf("make a token for %s: %v", account, err)
	}
	config := kubeenv.Shared(i.t).Config()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	return config
}

// run starts the container as it is shipped. Only where things are differs:
// the API server, NATS and the key are those of the test.
func (i *install) run(pod corev1.PodSpec, replica string, more ...string) *procenv.Process {
	i.t.Helper()
	for _, c := range containers(pod) {
		if c.Name != "leaderbridge" {
			continue
		}
		args, env := command(i.t, c, i.namespace)
		role := strings.TrimPrefix(valueOf(c, "LEADERBRIDGE_NATS_INBOX_PREFIX"), "_INBOX_")
		args = append(args, "--kubeconfig", kubeenv.Kubeconfig(i.t, i.credentials(pod.ServiceAccountName), ""), "--id", replica,
			"--nats-url", i.nats.URL(), "--nats-nkey", i.users[role].file(i.t), "--http-addr", "")
		return procenv.Start(i.t, replica, env, append(args, more...)...)
	}
	i.t.Fatal("no container is leaderbridge")
	return nil
}

// short are durations for tests.
var short = []string{"--lease-duration", "3s", "--renew-deadline", "2s", "--retry-period", "500ms"}

// await waits for an event of an election.
func (i *install) await(e events.Election, what string, is func(events.Event) bool) events.Event {
	i.t.Helper()
	nc := i.users["reader"].enter(i.t, i.nats)
	defer nc.Close()
	log, err := events.Open(i.t.Context(), nc, events.Options{ReadOnly: true})
	if err != nil {
		i.t.Fatal(err)
	}
	var found events.Event
	testenv.Eventually(i.t, 30*time.Second, func() error {
		tail, err := log.Tail(i.t.Context(), e)
		if err == nil && !is(tail.Last) {
			err = fmt.Errorf("no %s, the last event is %s of epoch %d", what, tail.Last.Transition, tail.Last.Epoch)
		}
		found = tail.Last
		return err
	})
	return found
}

func leads(epoch uint64) func(events.Event) bool {
	return func(e events.Event) bool { return e.Transition == events.NewLeader && e.Epoch == epoch }
}

// without takes one verb away.
func without(verb string) func([]rbacv1.PolicyRule) []rbacv1.PolicyRule {
	return func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		rules = slices.Clone(rules)
		for i := range rules {
			rules[i].Verbs = slices.DeleteFunc(slices.Clone(rules[i].Verbs), func(v string) bool { return v == verb })
		}
		return slices.DeleteFunc(rules, func(r rbacv1.PolicyRule) bool { return len(r.Verbs) == 0 })
	}
}

// podOf returns the pod that holds the bridge.
func podOf(t *testing.T, all objects, deployment string) corev1.PodSpec {
	t.Helper()
	return the[appsv1.Deployment](t, all, "Deployment", deployment).Spec.Template.Spec
}

// refusals are the lines in which a process tells of a missing right.
func refusals(p *procenv.Process) []string {
	var lines []string
	for line := range strings.Lines(p.Stderr()) {
		if low := strings.ToLower(line); strings.Contains(low, "forbidden") || strings.Contains(low, "permission") {
			lines = append(lines, line)
		}
	}
	return lines
}

// Two replicas under the shipped rights stand, lead, renew, hand over and
// release, and miss no right on the way.
func TestBridgeUnderItsRights(t *testing.T) {
	for overlay, deployment := range map[string]string{"bridge": "leaderbridge", "sidecar": "app"} {
		t.Run(overlay, func(t *testing.T) {
			namespace := kubeenv.Shared(t).Namespace(t)
			all := kustomize(t, overlay, namespace)
			i := installRights(t, all, namespace, nil)
			pod := podOf(t, all, deployment)
			e := events.Election{Cluster: "default", Namespace: namespace, Lease: "leaderbridge"}
			replicas := map[string]*procenv.Process{"a": i.run(pod, "a", short...), "b": i.run(pod, "b", short...)}
			first := i.await(e, "first leader", leads(1))
			testenv.Eventually(t, 20*time.Second, func() error {
				for id, p := range replicas {
					if id != first.Leader && !strings.Contains(p.Stderr(), "holder="+first.Leader) {
						return errors.New("the standby has not seen the leader")
					}
				}
				return nil
			})
			replicas[first.Leader].Signal(syscall.SIGTERM)
			if code := replicas[first.Leader].Wait(20 * time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
			second := i.await(e, "second leader", leads(2))
			replicas[second.Leader].Signal(syscall.SIGTERM)
			if code := replicas[second.Leader].Wait(20 * time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
			i.await(e, "end", func(e events.Event) bool { return e.Transition == events.StoppedLeading && e.Epoch == 2 })
			for _, p := range replicas {
				for _, line := range refusals(p) {
					t.Errorf("%s misses a right: %s", p.Name(), line)
				}
			}
			mayNot(t, i.admin, namespace, "leaderbridge", []authorizationv1.ResourceAttributes{
				{Verb: "get", Name: "other"}, {Verb: "watch", Name: "other"}, {Verb: "update", Name: "other"}, {Verb: "list"}, {Verb: "watch"},
				{Verb: "patch", Name: "leaderbridge"}, {Verb: "delete", Name: "leaderbridge"}, {Verb: "deletecollection"},
				{Verb: "get", Name: "leaderbridge", Namespace: "kube-system"}, {Verb: "create", Namespace: "kube-system"},
			})
		})
	}
}

// mayNot asks the authorizer. Where nothing else is said it is about Leases in
// the namespace.
func mayNot(t *testing.T, admin kubernetes.Interface, namespace, account string, rights []authorizationv1.ResourceAttributes) {
	t.Helper()
	rights = append(rights, authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets"}, authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"})
	for _, right := range rights {
		if right.Namespace == "" {
			right.Namespace = namespace
		}
		if right.Resource == "" {
			right.Group, right.Resource = coordinationv1.GroupName, "leases"
		}
		allowed, err := may(t, admin, namespace, account, right)
		if err != nil {
			t.Fatal(err)
		}
		if allowed {
			t.Errorf("%s may %s %s %q in %s", account, right.Verb, right.Resource, right.Name, right.Namespace)
		}
	}
}

// Each verb is needed: without it the bridge says at once which one it misses.
func TestNoRightOfTheBridgeIsSuperfluous(t *testing.T) {
	for _, verb := range []string{"get", "watch", "update", "create"} {
		t.Run(verb, func(t *testing.T) {
			namespace := kubeenv.Shared(t).Namespace(t)
			all := kustomize(t, "bridge", namespace)
			i := installRights(t, all, namespace, without(verb))
			if verb == "update" {
				// Somebody else made the Lease, so that it is there to be taken.
				if _, err := i.admin.CoordinationV1().Leases(namespace).Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "leaderbridge"}}, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			p := i.run(podOf(t, all, "leaderbridge"), "a", short...)
			testenv.Eventually(t, 30*time.Second, func() error {
				if !slices.ContainsFunc(refusals(p), func(line string) bool { return strings.Contains(line, verb) }) {
					return fmt.Errorf("no line names the verb %s", verb)
				}
				return nil
			})
		})
	}
}

// A watcher under the shipped rights reports what others do, in its namespace
// or in all, and can change nothing.
func TestWatcherUnderItsRights(t *testing.T) {
	for overlay, everywhere := range map[string]bool{"watch-namespace": false, "watch-cluster": true} {
		t.Run(overlay, func(t *testing.T) {
			api := kubeenv.Shared(t)
			namespace, other := api.Namespace(t), api.Namespace(t)
			all := kustomize(t, overlay, namespace)
			i := installRights(t, all, namespace, nil)
			p := i.run(podOf(t, all, "leaderbridge-watch"), "w")
			held := namespace
			if everywhere {
				held = other
			}
			leases := i.admin.CoordinationV1().Leases(held)
			holder, seconds, now := "someone", int32(3600), metav1.NowMicro()
			lease, err := leases.Create(t.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "theirs"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			e := events.Election{Cluster: "default", Namespace: held, Lease: "theirs"}
			i.await(e, "first holder", leads(1))
			next := "another"
			lease.Spec.HolderIdentity = &next
			if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			i.await(e, "second holder", leads(2)) // by the watch
			gone := holder
			if _, err := leases.Create(t.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "left"},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &gone, LeaseDurationSeconds: new(int32(1)), RenewTime: &now},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			// An expiry is told only after a look at the Lease itself.
			i.await(events.Election{Cluster: "default", Namespace: held, Lease: "left"}, "expiry", func(last events.Event) bool {
				return last.Transition == events.StoppedLeading && last.Reason == events.Expired
			})
			for _, line := range refusals(p) {
				t.Errorf("the watcher misses a right: %s", line)
			}
			rights := []authorizationv1.ResourceAttributes{{Verb: "create"}, {Verb: "update"}, {Verb: "patch"}, {Verb: "delete"}}
			if !everywhere {
				rights = append(rights, authorizationv1.ResourceAttributes{Verb: "list", Namespace: other})
			}
			mayNot(t, i.admin, namespace, "leaderbridge-watch", rights)
		})
	}
}
