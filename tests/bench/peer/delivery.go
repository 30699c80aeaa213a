package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Delivery of models to workloads, as far as it reads: one reconciler for each kind, woken by what the workload owns, by its models
// and by the claims that name it as a holder. Nothing is written: what is measured is a cluster where all is as it should be.

const referenceIndex = "references"

type workload struct {
	kind     string
	object   client.Object
	list     client.ObjectList
	template func(client.Object) *corev1.PodTemplateSpec
}

func workloads() []workload {
	return []workload{
		{"Deployment", &appsv1.Deployment{}, &appsv1.DeploymentList{}, func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template }},
		{"StatefulSet", &appsv1.StatefulSet{}, &appsv1.StatefulSetList{}, func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.StatefulSet).Spec.Template }},
		{"DaemonSet", &appsv1.DaemonSet{}, &appsv1.DaemonSetList{}, func(o client.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.DaemonSet).Spec.Template }},
		{"CronJob", &batchv1.CronJob{}, &batchv1.CronJobList{}, func(o client.Object) *corev1.PodTemplateSpec {
			return &o.(*batchv1.CronJob).Spec.JobTemplate.Spec.Template
		}},
	}
}

// "Model/NAMESPACE/NAME", "ClusterModel//NAME".
func references(object client.Object) []string {
	var found []string
	for _, one := range []struct{ annotation, beginning string }{
		{prefix + "model", "Model/" + object.GetNamespace() + "/"},
		{prefix + "clustermodel", "ClusterModel//"},
	} {
		for _, name := range strings.Split(object.GetAnnotations()[one.annotation], ",") {
			if name = strings.TrimSpace(name); name != "" {
				found = append(found, one.beginning+name)
			}
		}
	}
	return found
}

func claimName(namespace, kind, model, digest string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{namespace, kind, model, digest}, "\n")))
	return "ai-models-cache-" + hex.EncodeToString(sum[:8])
}

type deliverer struct {
	client client.Client
	workload
}

func (self *deliverer) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := self.object.DeepCopyObject().(client.Object)
	if err := self.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	said := self.template(object).Annotations[prefix+"resolved-digest"]
	for _, reference := range references(object) {
		part := strings.SplitN(reference, "/", 3)
		var status *ModelStatus
		var model client.Object
		if part[0] == "Model" {
			one := &Model{}
			model, status = one, &one.Status
		} else {
			one := &ClusterModel{}
			model, status = one, &one.Status
		}
		if err := self.client.Get(ctx, types.NamespacedName{Namespace: part[1], Name: part[2]}, model); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if status.Artifact == nil || status.Artifact.Digest != said {
			continue
		}
		var claim corev1.PersistentVolumeClaim
		name := types.NamespacedName{Namespace: request.Namespace, Name: claimName(request.Namespace, part[0], part[2], said)}
		if err := client.IgnoreNotFound(self.client.Get(ctx, name, &claim)); err != nil {
			return ctrl.Result{}, err
		}
		var job batchv1.Job
		name.Name = strings.Replace(name.Name, "-cache-", "-materialize-", 1)
		if err := client.IgnoreNotFound(self.client.Get(ctx, name, &job)); err != nil {
			return ctrl.Result{}, err
		}
	}
	var classes storagev1.StorageClassList
	return ctrl.Result{}, self.client.List(ctx, &classes)
}

// The workloads of this kind that refer to a model.
func (self *deliverer) usersOf(kind string) handler.MapFunc {
	return func(ctx context.Context, model client.Object) []reconcile.Request {
		list := self.list.DeepCopyObject().(client.ObjectList)
		key := kind + "/" + model.GetNamespace() + "/" + model.GetName()
		if err := self.client.List(ctx, list, client.MatchingFields{referenceIndex: key}); err != nil {
			return nil
		}
		var requests []reconcile.Request
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object.(client.Object))})
			return nil
		})
		return requests
	}
}

// The holders of a claim, and the owner of a ReplicaSet, Job or Pod.
func (self *deliverer) ownersOf(_ context.Context, owned client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, owner := range owned.GetOwnerReferences() {
		if owner.Kind == self.kind {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: owned.GetNamespace(), Name: owner.Name}})
		}
	}
	return requests
}

func addDelivery(manager ctrl.Manager) error {
	for _, one := range workloads() {
		self := &deliverer{manager.GetClient(), one}
		err := manager.GetFieldIndexer().IndexField(context.Background(), one.object, referenceIndex, references)
		if err != nil {
			return err
		}
		err = ctrl.NewControllerManagedBy(manager).For(one.object).
			Watches(&Model{}, handler.EnqueueRequestsFromMapFunc(self.usersOf("Model"))).
			Watches(&ClusterModel{}, handler.EnqueueRequestsFromMapFunc(self.usersOf("ClusterModel"))).
			Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(self.ownersOf)).
			Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(self.ownersOf)).
			Watches(&appsv1.ReplicaSet{}, handler.EnqueueRequestsFromMapFunc(self.ownersOf)).
			Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(self.ownersOf)).
			Complete(self)
		if err != nil {
			return err
		}
	}
	return nil
}
