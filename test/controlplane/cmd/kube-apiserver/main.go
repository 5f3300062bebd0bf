// Command kube-apiserver is the upstream API server, built from its Go module
// because tests need a real one and no binary can be downloaded.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
