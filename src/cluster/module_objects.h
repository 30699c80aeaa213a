/* What the parts of the module call each other's objects: kinds, names by an owner's uid, labels and annotations that lead
 * from an object back to its Model or ClusterModel (names-and-delivery-contract.md, "Model-level names"). Used by
 * controllers/, gateway/ and publish/. Pure. */
#pragma once

#include "domain/storage_ledger.h"
#include "kube/kube_kind.h"
#include "kube/kube_object.h"

extern const KubeKind model_kind, cluster_model_kind;
extern const KubeKind pod_kind, secret_kind, config_map_kind, role_kind, role_binding_kind;

#define MODEL_ANNOTATION "ai.deckhouse.io/" /* what labels, annotations and finalizers of ours begin with */
#define MODEL_FINALIZER MODEL_ANNOTATION "model-cleanup"
#define ACCOUNTING_CONFIG_MAP "ai-models-storage-accounting"

/* Beginnings of names; model_object_name adds the owner's. A worker's Pod, Role and RoleBinding have the same. */
#define WORKER_PREFIX "ai-model-publish-"
#define WORKER_AUTH_PREFIX "ai-model-publish-auth-"
#define WORKER_STATE_PREFIX "ai-model-publish-state-"
#define UPLOAD_SESSION_PREFIX "ai-model-upload-auth-"
#define UPLOAD_TOKEN_PREFIX "ai-model-upload-token-"
#define CLEANUP_STATE_PREFIX "ai-model-cleanup-state-"
#define GC_REQUEST_PREFIX "dmcr-gc-"

/* Values of app.kubernetes.io/name. */
#define APP_LABEL "app.kubernetes.io/name"
#define WORKER_APP "ai-models-publication"
#define WORKER_STATE_APP "ai-models-publication-state"
#define UPLOAD_SESSION_APP "ai-models-upload-session"
#define UPLOAD_TOKEN_APP "ai-models-upload-token"
#define CLEANUP_STATE_APP "ai-models-cleanup-state"
#define GC_REQUEST_APP "ai-models-dmcr-gc-request"
#define ACCOUNTING_APP "ai-models-storage-accounting"

/* A Model or ClusterModel; namespace NULL for the latter. Texts are borrowed. */
typedef LedgerOwner ModelOwner;

ModelOwner model_owner_of (const KubeObject *model, gboolean is_cluster_wide);
/* The prefix and what stands for the uid: in lower case, '-' for '_', '.' and ':', at most 40 characters. Caller frees. */
char *model_object_name (const char *prefix, const char *uid);
/* Of the Role that lets its holders read the upload's Secret; caller frees. */
char *model_upload_reader_name (const char *model_name);
/* "ai-models/catalog/namespaced/NS/NAME/UID", "ai-models/catalog/cluster/NAME/UID"; caller frees. */
char *model_repository (const ModelOwner *owner);

/* Writes labels and annotations into the metadata of a new object; `app` is its app.kubernetes.io/name. The texts are
 * copied. */
void model_owner_mark (yyjson_mut_doc *doc, yyjson_mut_val *metadata, const ModelOwner *owner, const char *app);
/* Reads them back, borrowed from the object; FALSE for one without. */
gboolean model_owner_read (const KubeObject *object, ModelOwner *out_owner);
/* A label whose value is cut to what the API server takes. */
void metadata_label (yyjson_mut_doc *doc, yyjson_mut_val *labels, const char *name, const char *value);
/* The map `name` ("labels", "annotations") of a metadata, made when it is missing. */
yyjson_mut_val *metadata_map (yyjson_mut_doc *doc, yyjson_mut_val *metadata, const char *name);
