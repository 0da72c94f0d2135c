// A candidate that runs client-go's leader election, for the test that lets it compete with kinformer's.
//
//	candidate KUBECONFIG LEASE IDENTITY
//
// While it leads it prints "act SECONDS", on CLOCK_BOOTTIME, and "lost" when it has ceased to.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func boot() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	return float64(now.Sec) + float64(now.Nsec)/1e9
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	var elector *leaderelection.LeaderElector
	lead := func(ctx context.Context) {
		for ctx.Err() == nil {
			if now := boot(); elector.IsLeader() {
				fmt.Printf("act %.6f\n", now)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for {
		elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: "default", Name: os.Args[2]},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: os.Args[3]},
			},
			LeaseDuration:   2 * time.Second,
			RenewDeadline:   1 * time.Second,
			RetryPeriod:     200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: lead,
				OnStoppedLeading: func() { fmt.Println("lost") },
			},
		})
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		elector.Run(context.Background())
	}
}
