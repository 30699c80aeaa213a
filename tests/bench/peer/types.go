package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The kinds as a generator would write them: every member of crds/model.yaml.

type CatalogSource struct {
	Name       string `json:"name"`
	SourceName string `json:"sourceName,omitempty"`
	Version    string `json:"version,omitempty"`
}

type AuthSecretRef struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
}

type Source struct {
	URL           string         `json:"url,omitempty"`
	Upload        *struct{}      `json:"upload,omitempty"`
	Catalog       *CatalogSource `json:"catalog,omitempty"`
	AuthSecretRef *AuthSecretRef `json:"authSecretRef,omitempty"`
}

type ModelSpec struct {
	Source Source `json:"source"`
}

type CatalogStatus struct {
	SourceName      string `json:"sourceName,omitempty"`
	Name            string `json:"name,omitempty"`
	Version         string `json:"version,omitempty"`
	CatalogRevision string `json:"catalogRevision,omitempty"`
	RemoteDigest    string `json:"remoteDigest,omitempty"`
}

type SourceStatus struct {
	ResolvedType     string         `json:"resolvedType,omitempty"`
	ResolvedRevision string         `json:"resolvedRevision,omitempty"`
	Catalog          *CatalogStatus `json:"catalog,omitempty"`
}

type UploadStatus struct {
	SecretName string       `json:"secretName,omitempty"`
	ExpiresAt  *metav1.Time `json:"expiresAt,omitempty"`
}

type ArtifactStatus struct {
	Kind      string `json:"kind,omitempty"`
	Digest    string `json:"digest,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	SizeBytes int64  `json:"sizeBytes,omitempty"`
}

type SourceCapabilities struct {
	Provider string   `json:"provider,omitempty"`
	Tasks    []string `json:"tasks,omitempty"`
	Features []string `json:"features,omitempty"`
}

type ResolvedStatus struct {
	Format                 string              `json:"format,omitempty"`
	Family                 string              `json:"family,omitempty"`
	Architecture           string              `json:"architecture,omitempty"`
	ParameterCount         int64               `json:"parameterCount,omitempty"`
	Quantization           string              `json:"quantization,omitempty"`
	ContextWindowTokens    int64               `json:"contextWindowTokens,omitempty"`
	SupportedEndpointTypes []string            `json:"supportedEndpointTypes,omitempty"`
	SupportedFeatures      []string            `json:"supportedFeatures,omitempty"`
	SourceCapabilities     *SourceCapabilities `json:"sourceCapabilities,omitempty"`
}

type ModelStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Phase              string             `json:"phase,omitempty"`
	Progress           string             `json:"progress,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	Source             *SourceStatus      `json:"source,omitempty"`
	Upload             *UploadStatus      `json:"upload,omitempty"`
	Artifact           *ArtifactStatus    `json:"artifact,omitempty"`
	Resolved           *ResolvedStatus    `json:"resolved,omitempty"`
}

func copied[T any](in *T) *T {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}

func (in *ModelSpec) deepCopy() ModelSpec {
	out := *in
	out.Source.Upload = copied(in.Source.Upload)
	out.Source.Catalog = copied(in.Source.Catalog)
	out.Source.AuthSecretRef = copied(in.Source.AuthSecretRef)
	return out
}

func (in *ResolvedStatus) deepCopy() *ResolvedStatus {
	out := copied(in)
	if out == nil {
		return nil
	}
	out.SupportedEndpointTypes = append([]string(nil), in.SupportedEndpointTypes...)
	out.SupportedFeatures = append([]string(nil), in.SupportedFeatures...)
	if out.SourceCapabilities = copied(in.SourceCapabilities); out.SourceCapabilities != nil {
		out.SourceCapabilities.Tasks = append([]string(nil), in.SourceCapabilities.Tasks...)
		out.SourceCapabilities.Features = append([]string(nil), in.SourceCapabilities.Features...)
	}
	return out
}

func (in *ModelStatus) deepCopy() ModelStatus {
	out := *in
	out.Conditions = nil
	for i := range in.Conditions {
		out.Conditions = append(out.Conditions, *in.Conditions[i].DeepCopy())
	}
	if out.Source = copied(in.Source); out.Source != nil {
		out.Source.Catalog = copied(in.Source.Catalog)
	}
	if out.Upload = copied(in.Upload); out.Upload != nil {
		out.Upload.ExpiresAt = in.Upload.ExpiresAt.DeepCopy()
	}
	out.Artifact = copied(in.Artifact)
	out.Resolved = in.Resolved.deepCopy()
	return out
}

type Model struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ModelSpec   `json:"spec"`
	Status            ModelStatus `json:"status,omitempty"`
}

type ModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Model `json:"items"`
}

type ClusterModel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ModelSpec   `json:"spec"`
	Status            ModelStatus `json:"status,omitempty"`
}

type ClusterModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterModel `json:"items"`
}

func (in *Model) DeepCopyObject() runtime.Object {
	out := &Model{TypeMeta: in.TypeMeta, Spec: in.Spec.deepCopy(), Status: in.Status.deepCopy()}
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

func (in *ModelList) DeepCopyObject() runtime.Object {
	out := &ModelList{TypeMeta: in.TypeMeta, ListMeta: *in.ListMeta.DeepCopy(), Items: make([]Model, 0, len(in.Items))}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopyObject().(*Model))
	}
	return out
}

func (in *ClusterModel) DeepCopyObject() runtime.Object {
	out := &ClusterModel{TypeMeta: in.TypeMeta, Spec: in.Spec.deepCopy(), Status: in.Status.deepCopy()}
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

func (in *ClusterModelList) DeepCopyObject() runtime.Object {
	out := &ClusterModelList{TypeMeta: in.TypeMeta, ListMeta: *in.ListMeta.DeepCopy(), Items: make([]ClusterModel, 0, len(in.Items))}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopyObject().(*ClusterModel))
	}
	return out
}

var groupVersion = schema.GroupVersion{Group: "ai.deckhouse.io", Version: "v1alpha1"}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Model{}, &ModelList{}, &ClusterModel{}, &ClusterModelList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}
