package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leaderbridge/leaderbridge/pkg/election"
	"github.com/leaderbridge/leaderbridge/test/testenv/kubeenv"
)

// Elections that share a process renew rarely here, so that what they cost
// beside renewals can be seen.
var manyOptions = election.Options{LeaseDuration: 60 * time.Second, RenewDeadline: 40 * time.Second, RetryPeriod: 10 * time.Second}

// many measures a thousand elections in one process, each led by it, on clients
// and a watch that they share. The floor is a process whose bare client writes
// the same renewals.
func many(s *site) []row {
	n := s.pick(200, 1000)
	namespace := s.kube().Namespace(s)
	kubeconfig := kubeenv.Kubeconfig(s, s.config(), namespace)
	window := s.pick(10, 30)
	args := []string{kubeconfig, namespace, strconv.Itoa(n), strconv.Itoa(window)}
	ours := s.measuredRole("elections", args)
	floor := s.measuredRole("renewals", args)
	name := fmt.Sprintf("%d elections in a process, all leading: ", n)
	return []row{
		row{Name: name + "goroutines", Unit: "each", Ours: ours.goroutines / float64(n)}.
			against("≤ 3", func(r row) bool { return r.Ours <= 3 }),
		row{Name: name + "memory", Unit: "KB each", Ours: ours.memory / float64(n)}.
			against("≤ 60", func(r row) bool { return r.Ours <= 60 }),
		row{Name: name + "processor time", Unit: "% of one", Ours: ours.cpu, Floor: floor.cpu}.
			against("near that of the renewals", func(r row) bool { return r.Ratio <= 2 }),
	}
}

// cost is what a role says that it has used.
type cost struct{ goroutines, memory, cpu float64 }

// measuredRole runs a role of this program to its end and reads what it says.
func (s *site) measuredRole(role string, args []string) cost {
	p := s.play(role, args...)
	select {
	case <-p.done:
	case <-s.ctx.Done():
		s.Fatal(context.Cause(s.ctx))
	}
	var c cost
	if _, err := fmt.Sscanf(p.out.tail(), "cost %g %g %g", &c.goroutines, &c.memory, &c.cpu); err != nil {
		s.Fatalf("%s said: %s", role, p.out.tail())
	}
	return c
}

func init() {
	roles["elections"] = elections
	roles["renewals"] = renewalsOnly
}

// elections leads all elections, waits until they are calm, and measures.
func elections() error {
	client, namespace, n, window, err := manyArguments()
	if err != nil {
		return err
	}
	goroutines, memory := runtime.NumGoroutine(), inUse()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running errgroup.Group
	shared := election.NewLeaseWatch(client, namespace)
	all := make([]*election.Elector, n)
	for i := range all {
		lock, err := election.NewLeaseLock(client, namespace, manyName("ours", i), election.WithLeaseWatch(shared))
		if err != nil {
			return err
		}
		o := manyOptions
		o.Identity = "ours"
		if all[i], err = election.New(lock, o); err != nil {
			return err
		}
		running.Go(func() error { return all[i].Run(ctx) })
	}
	for deadline := time.Now().Add(2 * ready); ; {
		leading := 0
		for _, e := range all {
			if e.Term() != nil {
				leading++
			}
		}
		if leading == n {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("only %d of %d lead", leading, n)
		}
		wait(ctx, 20*time.Millisecond)
	}
	wait(ctx, manyOptions.RetryPeriod) // until each has renewed
	g, m := runtime.NumGoroutine()-goroutines, inUse()-memory
	before := processorTime()
	wait(ctx, window)
	fmt.Printf("cost %d %d %g\n", g, m/1000, 100*(processorTime()-before).Seconds()/window.Seconds())
	stop()
	return running.Wait()
}

// renewalsOnly writes the renewals that the elections write.
func renewalsOnly() error {
	client, namespace, n, window, err := manyArguments()
	if err != nil {
		return err
	}
	leases := client.Leases(namespace)
	all := make([]*coordinationv1.Lease, n)
	ctx := context.Background()
	var making errgroup.Group
	making.SetLimit(32)
	for i := range all {
		making.Go(func() (err error) {
			all[i], err = leases.Create(ctx, &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: manyName("bare", i), Namespace: namespace},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("bare"), LeaseDurationSeconds: new(int32(60)), RenewTime: new(metav1.NowMicro())},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := making.Wait(); err != nil {
		return err
	}
	runtime.GC()
	before, began := processorTime(), time.Now()
	gap := manyOptions.RetryPeriod / time.Duration(n)
	for k := 0; time.Since(began) < window; k++ {
		wait(ctx, time.Until(began.Add(time.Duration(k)*gap)))
		lease := all[k%n]
		lease.Spec.RenewTime = new(metav1.NowMicro())
		if all[k%n], err = leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	fmt.Printf("cost 0 0 %g\n", 100*(processorTime()-before).Seconds()/window.Seconds())
	return nil
}
