package kubeenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/leaderbridge/leaderbridge/test/testenv"
)

// startTimeout bounds each server's start. It is generous: several test
// binaries share the machine.
const startTimeout = 2 * time.Minute

// shownLog is how much of a server's log a failure shows, in bytes.
const shownLog = 16 << 10

// APIServer is a Kubernetes API server and the etcd behind it. Kill, Restart,
// Pause and Resume must be called from the goroutine that runs the test; the
// other methods are safe for concurrent use.
type APIServer struct {
	plane     *envtest.ControlPlane
	api, etcd process
	logPath   string
	admin     *rest.Config
	client    kubernetes.Interface
	between   func(etcd string) string // nil for nothing
}

// start runs etcd and the API server. The caller must call stop, also after
// the API server was killed.
func start(options ...Option) (server *APIServer, stop func() error, err error) {
	assets, err := assets()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "kubeenv-")
	if err != nil {
		return nil, nil, err
	}
	s := &APIServer{logPath: filepath.Join(dir, "kube-apiserver.log")}
	for _, o := range options {
		o(s)
	}
	stop = func() error { return errors.Join(s.end(), os.RemoveAll(dir)) }
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, s.logTail())
			err = errors.Join(err, stop())
		}
	}()
	if s.api, err = newProcess(dir, assets, "kube-apiserver"); err != nil {
		return nil, nil, err
	}
	if s.etcd, err = newProcess(dir, assets, "etcd"); err != nil {
		return nil, nil, err
	}
	// The servers hold the file open themselves. A buffer here would need a
	// goroutine, which outlives a server whose companion still lives.
	log, err := os.Create(s.logPath)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }()
	if err := s.configure(dir, log); err != nil {
		return nil, nil, err
	}
	if err := s.plane.Start(); err != nil {
		return nil, nil, err
	}
	if err := s.connect(); err != nil {
		return nil, nil, err
	}
	return s, stop, nil
}

// configure describes the control plane to envtest. All folders are named, so
// that envtest makes none of its own, which it would lose at a restart.
func (s *APIServer) configure(dir string, log *os.File) error {
	certs, data := filepath.Join(dir, "certs"), filepath.Join(dir, "data")
	for _, d := range []string{certs, data} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	port, err := testenv.FreePort()
	if err != nil {
		return err
	}
	s.plane = &envtest.ControlPlane{
		Etcd: &envtest.Etcd{
			Path:         s.etcd.launcher,
			DataDir:      data,
			StartTimeout: startTimeout,
			Out:          log,
			Err:          log,
		},
		APIServer: &envtest.APIServer{
			Path:         s.api.launcher,
			CertDir:      certs,
			StartTimeout: startTimeout,
			Out:          log,
			Err:          log,
		},
	}
	s.plane.APIServer.SecureServing.ListenAddr = envtest.ListenAddr{Address: "127.0.0.1", Port: strconv.Itoa(port)}
	if s.between == nil {
		return nil
	}
	if port, err = testenv.FreePort(); err != nil {
		return err
	}
	s.plane.Etcd.URL = &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	s.plane.APIServer.Configure().Set("etcd-servers", "http://"+s.between(s.plane.Etcd.URL.Host))
	return nil
}

// connect makes the administrator's client and waits until the API server has
// made the namespaces that every cluster has.
func (s *APIServer) connect() error {
	user, err := s.plane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, clientLimits())
	if err != nil {
		return fmt.Errorf("make the administrator's certificate: %w", err)
	}
	s.admin = user.Config()
	if s.client, err = kubernetes.NewForConfig(s.admin); err != nil {
		return fmt.Errorf("make the administrator's client: %w", err)
	}
	err = wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the default namespace: %w", err)
	}
	return nil
}

// clientLimits returns a configuration whose request rate no test reaches.
// client-go's default of five requests a second would show in every timing.
func clientLimits() *rest.Config { return &rest.Config{QPS: 1000, Burst: 2000} }

// end kills both servers and waits until they are gone. Nothing in them is
// worth an orderly stop, which for an API server with open watches takes up to
// a minute.
func (s *APIServer) end() error {
	err := errors.Join(s.api.kill(), s.etcd.kill())
	if err != nil {
		return err
	}
	return wait.PollUntilContextTimeout(context.Background(), 5*time.Millisecond, startTimeout, true, func(context.Context) (bool, error) {
		return errors.Is(s.api.signal(0), syscall.ESRCH) && errors.Is(s.etcd.signal(0), syscall.ESRCH), nil
	})
}

// logTail returns the end of what the servers logged.
func (s *APIServer) logTail() string {
	text, err := os.ReadFile(s.logPath)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-shownLog):])
}
