package election

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// requestError is one readable line about a failed request, and what it means
// to the election.
type requestError struct {
	text   string
	causes []error
}

func (e *requestError) Error() string   { return e.text }
func (e *requestError) Unwrap() []error { return e.causes }

// error words a failure: "update lease prod/scheduler: refused: why".
func (l *leaseLock) error(verb, why string, causes ...error) error {
	text := verb + " " + l.String() + ": "
	if errors.Is(causes[0], ErrRefused) || errors.Is(causes[0], ErrConflict) {
		text += causes[0].Error() + ": "
	}
	return &requestError{text: text + oneLine(why), causes: causes}
}

// fail classifies the error of a request that was sent so many times.
func (l *leaseLock) fail(verb string, err error, sent int) error {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return l.error(verb, withoutSource(err), err)
	}
	code := int(status.Status().Code)
	var why string
	var meaning error
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		why = fmt.Sprintf("namespace %q is being deleted", l.namespace)
	case code == http.StatusConflict:
		why, meaning = err.Error(), ErrConflict
	case code == http.StatusNotFound && verb == "update" && isAbsent(err):
		why, meaning = "it was deleted", ErrConflict
	case code == http.StatusNotFound && verb == "create" && isAbsent(err):
		why = fmt.Sprintf("namespace %q does not exist: create it, or name another one", l.namespace)
	case code == http.StatusNotFound:
		why = "the server knows no leases in coordination.k8s.io/v1: is the address that of a Kubernetes API server? " + err.Error()
	case code == http.StatusForbidden:
		why, meaning = l.forbidden(verb, err), ErrRefused
	case code == http.StatusUnauthorized:
		why, meaning = "the API server does not accept the credentials: check that the token or certificate is valid and not expired: "+err.Error(), ErrRefused
	case code == http.StatusBadRequest, code == http.StatusMethodNotAllowed,
		code == http.StatusRequestEntityTooLarge, code == http.StatusUnprocessableEntity:
		why, meaning = err.Error(), ErrRefused
	default:
		why = err.Error()
	}
	if sent > 1 && meaning != nil {
		// What the last one met is no word about the earlier ones.
		return l.error(verb, fmt.Sprintf("outcome unknown after %d tries: %s", sent, why), err)
	}
	if meaning != nil {
		return l.error(verb, why, meaning, err)
	}
	return l.error(verb, why, err)
}

// userInMessage finds the user in the API server's standard text for a missing
// permission. There is no other place in the answer that names him.
var userInMessage = regexp.MustCompile(`User "([^"]*)" cannot `)

// forbidden names the missing permission. A 403 can also come from admission;
// its text then says why, in words of its own.
func (l *leaseLock) forbidden(verb string, err error) string {
	m := userInMessage.FindStringSubmatch(err.Error())
	if m == nil {
		return fmt.Sprintf("%s leases.coordination.k8s.io in namespace %q: %v", verb, l.namespace, err)
	}
	return fmt.Sprintf("user %q lacks the permission for verb %q on leases.coordination.k8s.io %q in namespace %q: grant it with a Role and a RoleBinding",
		m[1], verb, l.name, l.namespace)
}

// withoutSource leaves out the local port of a connection, which is another
// one each time: a fault that lasts should read the same each time.
func withoutSource(err error) string {
	text := err.Error()
	var op *net.OpError
	if errors.As(err, &op) && op.Source != nil {
		text = strings.ReplaceAll(text, op.Source.String()+"->", "")
	}
	return text
}

// oneLine keeps a server's text from breaking a log line.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
