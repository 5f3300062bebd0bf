package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leaderbridge/leaderbridge/pkg/election"
)

// manyArguments reads what many gives to its roles.
func manyArguments() (client coordinationclient.CoordinationV1Interface, namespace string, n int, window time.Duration, err error) {
	if len(os.Args) != 5 {
		return nil, "", 0, 0, fmt.Errorf("want 4 arguments, not %d", len(os.Args)-1)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		return nil, "", 0, 0, err
	}
	if client, err = election.NewLeaseClient(cfg); err != nil {
		return nil, "", 0, 0, err
	}
	if n, err = strconv.Atoi(os.Args[3]); err != nil {
		return nil, "", 0, 0, err
	}
	seconds, err := strconv.Atoi(os.Args[4])
	return client, os.Args[2], n, time.Duration(seconds) * time.Second, err
}

func manyName(kind string, i int) string { return kind + "-" + strconv.Itoa(i) }

// inUse is the heap and the stacks in use, in bytes.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) // #nosec G115 -- less than the machine has
}

// processorTime is what this process has used so far; zero where the system
// does not tell.
func processorTime() time.Duration {
	self, err := procfs.Self()
	if err != nil {
		return 0
	}
	stat, err := self.Stat()
	if err != nil {
		return 0
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}
