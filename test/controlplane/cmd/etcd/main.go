// Command etcd is the upstream etcd server, built from its Go module because
// the API server under test needs one and no binary can be downloaded.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
