package kubeconn

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options say which cluster to talk to. The zero value is what kubectl would
// use, and the pod's own cluster in a pod.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file.
	Kubeconfig string
	// Context is the name of a context in it; the current one when empty.
	Context string
}

// AddFlags defines the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig `file`; default: $KUBECONFIG, ~/.kube/config, or the pod's own cluster")
	flags.StringVar(&o.Context, "kube-context", o.Context, "`name` of the context in the kubeconfig; default: the current one")
}

func (o *Options) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
}

// Config returns how to reach the cluster. It does not connect: an error is
// bad input.
func (o *Options) Config() (*rest.Config, error) {
	cfg, err := o.loader().ClientConfig()
	switch {
	case err == nil:
		return cfg, nil
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no Kubernetes cluster is configured: give --kubeconfig, or run in a pod")
	default:
		return nil, fmt.Errorf("read the kubeconfig (--kubeconfig): %s", oneLine(err))
	}
}

// serviceAccountNamespace is where Kubernetes tells a pod its namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns the namespace of this pod, or else the one that the
// kubeconfig's context names, or else nothing. POD_NAMESPACE wins over both:
// it is set by deployments whose pods have no service account token.
func (o *Options) Namespace() string {
	if ns := os.Getenv("POD_NAMESPACE"); ns != "" {
		return ns
	}
	if o.Kubeconfig == "" {
		if ns, err := os.ReadFile(serviceAccountNamespace); err == nil {
			return strings.TrimSpace(string(ns))
		}
	}
	raw, err := o.loader().RawConfig()
	if err != nil {
		return ""
	}
	name := o.Context
	if name == "" {
		name = raw.CurrentContext
	}
	if c := raw.Contexts[name]; c != nil {
		return c.Namespace
	}
	return ""
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}
