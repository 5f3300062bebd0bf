// Package kubeenv runs a real Kubernetes API server with etcd for tests, on
// loopback and on free ports. There is no kubelet and no controller: Leases,
// RBAC and watches behave as in any cluster, but nothing cleans up a namespace
// that was deleted.
//
// A package that uses it hands its TestMain to Main, and each test takes the
// server that all tests of the binary share, with a namespace of its own:
//
//	func TestMain(m *testing.M) { kubeenv.Main(m) }
//
//	func TestElection(t *testing.T) {
//		api := kubeenv.Shared(t)
//		namespace := api.Namespace(t)
//		client := kubernetes.NewForConfigOrDie(api.Config())
//		…
//	}
//
// A test that stops, kills or pauses the server takes one of its own from
// Start instead.
//
// The binaries come from KUBEBUILDER_ASSETS, or from the user cache folder
// where "make controlplane" puts them.
package kubeenv
