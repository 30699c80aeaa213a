// A minimal controller-runtime program with the watches and caches of `ai-models controller`: the peer of its benchmarks.
//
// It caches Models and ClusterModels of the whole cluster, the Pods and Secrets of the module's namespace that carry the module's label,
// and the ledger ConfigMap; leads by a Lease; serves metrics; and looks at each model, its worker Pod and its cleanup state when one of
// them changes. With --create it makes the worker Pod of every model that has none and is not Ready. With
// --delivery it follows workloads, too (delivery.go); with --webhook it is but a webhook (webhook.go).
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	prefix = "ai.deckhouse.io/"
	ledger = "ai-models-storage-accounting"
)

type reconciler struct {
	client    client.Client
	namespace string
	create    bool
	newObject func() client.Object
	status    func(client.Object) *ModelStatus
	kind      string
}

func (self *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	model := self.newObject()
	if err := self.client.Get(ctx, request.NamespacedName, model); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	uid := string(model.GetUID())
	var pod corev1.Pod
	podMissing := apierrors.IsNotFound(self.client.Get(ctx, types.NamespacedName{Namespace: self.namespace, Name: "ai-model-publish-" + uid}, &pod))
	var cleanup corev1.Secret
	err := self.client.Get(ctx, types.NamespacedName{Namespace: self.namespace, Name: "ai-model-cleanup-state-" + uid}, &cleanup)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if !self.create || !podMissing || self.status(model).Phase == "Ready" {
		return ctrl.Result{}, nil
	}
	err = self.client.Create(ctx, self.workerPod(model))
	if apierrors.IsAlreadyExists(err) {
		err = nil
	}
	return ctrl.Result{}, err
}

func (self *reconciler) workerPod(model client.Object) *corev1.Pod {
	uid, no, yes := string(model.GetUID()), false, true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "ai-model-publish-" + uid, Namespace: self.namespace,
			Labels: map[string]string{"app.kubernetes.io/name": "ai-models-publication", "app.kubernetes.io/part-of": "ai-models",
				prefix + "owner-kind": self.kind, prefix + "owner-name": model.GetName(), prefix + "owner-uid": uid},
			Annotations: map[string]string{prefix + "owner-kind-full": self.kind, prefix + "owner-name-full": model.GetName(),
				prefix + "owner-namespace-full": model.GetNamespace(), prefix + "owner-uid-full": uid},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			ServiceAccountName:           "ai-models-publication-worker",
			AutomountServiceAccountToken: &yes,
			SecurityContext:              &corev1.PodSecurityContext{RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}},
			Containers: []corev1.Container{{
				Name: "publish", Image: "ai-models:bench", Args: []string{"publish", "--owner-uid", uid},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}},
			}},
		},
	}
}

// The model a Pod or Secret of the module belongs to.
func ownerOf(kind string) handler.MapFunc {
	return func(_ context.Context, object client.Object) []reconcile.Request {
		has := object.GetAnnotations()
		if has[prefix+"owner-kind-full"] != kind {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: has[prefix+"owner-namespace-full"], Name: has[prefix+"owner-name-full"]}}}
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func newManager(namespace, metrics string, qps float64, resync time.Duration, delivers bool) (ctrl.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(err)
	config.QPS, config.Burst = 20, 30 // what ctrl.GetConfig sets
	if qps != 0 {
		config.QPS, config.Burst = float32(qps), 2*int(qps)
	}
	scheme := clientgoscheme.Scheme
	must(addToScheme(scheme))
	ours := labels.SelectorFromSet(labels.Set{"app.kubernetes.io/part-of": "ai-models"})
	here := func(selector cache.ByObject) cache.ByObject {
		selector.Namespaces = map[string]cache.Config{namespace: {}}
		return selector
	}
	lease, renew, retry := 15*time.Second, 10*time.Second, 2*time.Second
	options := ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: metrics}, HealthProbeBindAddress: "0",
		LeaderElection: true, LeaderElectionID: "peer.ai-models", LeaderElectionNamespace: namespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:       here(cache.ByObject{Label: ours}),
			&corev1.Secret{}:    here(cache.ByObject{Label: ours}),
			&corev1.ConfigMap{}: here(cache.ByObject{Field: fields.OneTermEqualSelector("metadata.name", ledger)}),
		}},
	}
	if resync > 0 {
		options.Cache.SyncPeriod = &resync
	}
	if delivers { // the same watches as the controller's
		by := options.Cache.ByObject
		waiting := fields.OneTermEqualSelector("status.phase", "Pending")
		by[&corev1.Pod{}] = cache.ByObject{Namespaces: map[string]cache.Config{namespace: {LabelSelector: ours}, cache.AllNamespaces: {FieldSelector: waiting}}}
		by[&corev1.PersistentVolumeClaim{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{prefix + "shared-pvc": "true"})}
		by[&batchv1.Job{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{"app.kubernetes.io/name": "ai-models-materializer"})}
	}
	return ctrl.NewManager(config, options)
}

func main() {
	namespace := flag.String("namespace", "d8-ai-models", "the module's")
	metrics := flag.String("metrics", "127.0.0.1:0", "address")
	create := flag.Bool("create", false, "make worker Pods")
	qps := flag.Float64("qps", 0, "requests a second; 0: controller-runtime's own 20, negative: without limit")
	resync := flag.Duration("resync", 0, "how often all is looked at anew; 0: controller-runtime's own 10 hours")
	webhook := flag.String("webhook", "", "address of a webhook of workloads, instead of all else")
	certificate, key := flag.String("tls-cert", "", "its certificate"), flag.String("tls-key", "", "and key")
	delivers := flag.Bool("delivery", false, "follow workloads, too")
	flag.Parse()
	if *webhook != "" {
		serveWebhook(*webhook, *certificate, *key)
	}
	ctrl.SetLogger(zap.New())
	manager, err := newManager(*namespace, *metrics, *qps, *resync, *delivers)
	must(err)
	for _, one := range []*reconciler{
		{kind: "Model", newObject: func() client.Object { return &Model{} }, status: func(o client.Object) *ModelStatus { return &o.(*Model).Status }},
		{kind: "ClusterModel", newObject: func() client.Object { return &ClusterModel{} }, status: func(o client.Object) *ModelStatus { return &o.(*ClusterModel).Status }},
	} {
		one.client, one.namespace, one.create = manager.GetClient(), *namespace, *create
		must(ctrl.NewControllerManagedBy(manager).For(one.newObject()).
			Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerOf(one.kind))).
			Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ownerOf(one.kind))).
			Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(ownerOf(one.kind))).
			Complete(one))
	}
	if *delivers {
		must(addDelivery(manager))
	}
	must(manager.Start(ctrl.SetupSignalHandler()))
}
