// What a shared informer of client-go costs on the same server: a first list, or an event of a watch.
//
//	client_go -what sync -kubeconfig FILE -kind pods -encoding json -way list
//	client_go -what follow -kubeconfig FILE -kind pods -encoding protobuf -events 400
//	client_go -what arrivals -kubeconfig FILE -encoding protobuf -events 400 -beside pods
//	client_go -what mark -kubeconfig FILE    # prints data.mark of the ConfigMap default/mark whenever it changes
//
// `arrivals` prints for each event of a configmap when it was written and when the handler had it, in seconds since
// 1970; with -beside, pods are listed meanwhile. The others print one line of JSON as benchmarks/real_client.py does: CPU
// microseconds (user and system, all threads) of an object or event, and of a sync the memory. client-go decodes every object whole, into a struct, before anybody asks.
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

// Follows configmaps, and prints the times of so many events once they have come.
func arrivals(ctx context.Context, client kubernetes.Interface, events int, beside bool) {
	type figures struct {
		Arrivals [][2]float64 `json:"arrivals"`
		Listing  []float64    `json:"listing"`
	}
	now := func() float64 { return float64(time.Now().UnixNano()) / 1e9 }
	pairs := make(chan [2]float64, events+warm)
	factory := informers.NewSharedInformerFactory(client, 0)
	registration, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) {
			arrived := now()
			at, err := strconv.ParseFloat(obj.(*corev1.ConfigMap).Annotations["bench.example.com/at"], 64)
			if err == nil && len(pairs) < cap(pairs) {
				pairs <- [2]float64{at, arrived}
			}
		},
	})
	if err != nil {
		fail(err)
	}
	factory.Start(ctx.Done())
	for !registration.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	found := figures{}
	list := func() {
		began := now()
		pods := informers.NewSharedInformerFactory(client, 0)
		synced := pods.Core().V1().Pods().Informer().HasSynced
		pods.Start(ctx.Done())
		for !synced() {
			time.Sleep(time.Millisecond)
		}
		found.Listing = []float64{began, now()}
	}
	listed := make(chan struct{})
	deadline := time.After(5 * time.Minute)
	for len(found.Arrivals) < events {
		select {
		case pair := <-pairs:
			found.Arrivals = append(found.Arrivals, pair)
			if beside && len(found.Arrivals) == warm {
				go func() { list(); close(listed) }()
			}
		case <-deadline:
			fail(fmt.Errorf("%d events came", len(found.Arrivals)))
		}
	}
	if beside {
		<-listed
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

func main() {
	what := flag.String("what", "sync", "sync, follow, arrivals or mark")
	kubeconfig := flag.String("kubeconfig", "", "the file")
	kind := flag.String("kind", "pods", "pods or configmaps")
	encoding := flag.String("encoding", "json", "json or protobuf")
	way := flag.String("way", "list", "list or watch_list")
	events := flag.Int64("events", 0, "to follow")
	beside := flag.String("beside", "", "pods, to list them while events arrive")
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
	if *what == "arrivals" {
		arrivals(ctx, client, int(*events), *beside != "")
		return
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
