// What a shared informer of client-go costs on the same server: a first list, or an event of a watch.
//
//	client_go -what sync -kubeconfig FILE -kind pods -encoding json -way list
//	client_go -what follow -kubeconfig FILE -kind pods -encoding protobuf -events 400
//	client_go -what mark -kubeconfig FILE    # prints data.mark of the ConfigMap default/mark whenever it changes
//
// Prints one line of JSON as benchmarks/real_client.py does: CPU microseconds (user and system, all threads) of an
// object or event, and of a sync the memory. client-go decodes every object whole, into a struct, before anybody asks.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const warm = 20 // events that do not count, as in real_client.py

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		fail(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// The line of /proc/self/status of that name, in bytes.
func memory(name string) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // not Linux
	}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, name+":") {
			kilobytes, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
			if err != nil {
				fail(err)
			}
			return kilobytes * 1024
		}
	}
	return 0
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func say(figures map[string]float64) {
	if err := json.NewEncoder(os.Stdout).Encode(figures); err != nil {
		fail(err)
	}
}

// Prints what the cache has of one object as it comes, until it is killed.
func mark(ctx context.Context, factory informers.SharedInformerFactory) {
	show := func(obj any) {
		if found, ok := obj.(*corev1.ConfigMap); ok && found.Name == "mark" && found.Namespace == "default" {
			fmt.Println(found.Data["mark"])
		}
	}
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    show,
		UpdateFunc: func(_, obj any) { show(obj) },
	})
	if err != nil {
		fail(err)
	}
	factory.Start(ctx.Done())
	select {}
}

func main() {
	what := flag.String("what", "sync", "sync, follow or mark")
	kubeconfig := flag.String("kubeconfig", "", "the file")
	kind := flag.String("kind", "pods", "pods or configmaps")
	encoding := flag.String("encoding", "json", "json or protobuf")
	way := flag.String("way", "list", "list or watch_list")
	events := flag.Int64("events", 0, "to follow")
	flag.Parse()
	// Read when the first reflector is made (client-go, features/envvar.go).
	if err := os.Setenv("KUBE_FEATURE_WatchListClient", strconv.FormatBool(*way == "watch_list")); err != nil {
		fail(err)
	}

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fail(err)
	}
	config.DisableCompression = true // as kinformer, for a server on the same machine
	// Protobuf is what its typed clients ask for where nobody says anything (client-go, gentype, PrefersProtobuf).
	config.ContentType = map[string]string{
		"json": "application/json", "protobuf": "application/vnd.kubernetes.protobuf",
	}[*encoding]
	config.AcceptContentTypes = config.ContentType
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fail(err)
	}
	ctx := context.Background()
	if _, err := client.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		fail(err)
	}

	factory := informers.NewSharedInformerFactory(client, 0)
	if *what == "mark" {
		mark(ctx, factory)
	}
	informer := factory.Core().V1().Pods().Informer()
	if *kind == "configmaps" {
		informer = factory.Core().V1().ConfigMaps().Informer()
	}
	var seen atomic.Int64
	began := 0.0
	done := make(chan float64, 1)
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) {},
		UpdateFunc: func(any, any) {
			switch seen.Add(1) {
			case warm:
				began = cpu()
			case warm + *events:
				done <- (cpu() - began) / float64(*events) * 1e6
			}
		},
	})
	if err != nil {
		fail(err)
	}

	start, base := cpu(), memory("VmRSS")
	factory.Start(ctx.Done())
	for !registration.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	if *what == "sync" {
		objects := float64(len(informer.GetStore().ListKeys()))
		us := (cpu() - start) / objects * 1e6
		peak := memory("VmHWM")
		say(map[string]float64{
			"us": us, "objects": objects, "peak": (peak - base) / objects, "process": peak / objects,
		})
		return
	}
	fmt.Println("ready")
	select {
	case us := <-done:
		say(map[string]float64{"us": us})
	case <-time.After(5 * time.Minute):
		fail(fmt.Errorf("%d events came", seen.Load()))
	}
}
