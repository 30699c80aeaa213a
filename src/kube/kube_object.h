/* One object of the API server as it was answered: immutable, with all its members, those nobody here knows included.
 * Reference-counted; thread-safe. */
#pragma once

#include "base/error.h"
#include "base/json.h"

typedef struct KubeObject KubeObject;

/* Takes the document. INVALID_ARGUMENT (and the document is freed) unless it is an object with metadata. */
KubeObject *kube_object_new (yyjson_doc *doc, GError **error);
/* Text of at most `limit_bytes`; errors of json_parse and kube_object_new. */
KubeObject *kube_object_parse (gconstpointer text, gsize size, gsize limit_bytes, GError **error);
/* The same for a text of at most JSON_MAX_DEPTH levels. */
KubeObject *kube_object_parse_shallow (gconstpointer text, gsize size, GError **error);
/* A copy of one that is a part of a larger document: an item of a list, what an event is about. Errors of kube_object_new. */
KubeObject *kube_object_new_from (yyjson_val *value, GError **error);
KubeObject *kube_object_ref (KubeObject *self);
void kube_object_unref (KubeObject *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (KubeObject, kube_object_unref)

yyjson_val *kube_object_root (const KubeObject *self);
yyjson_val *kube_object_spec (const KubeObject *self);   /* NULL when absent */
yyjson_val *kube_object_status (const KubeObject *self); /* NULL when absent */
/* Texts of metadata: "" when absent, owned by the object. */
const char *kube_object_name (const KubeObject *self);
const char *kube_object_namespace (const KubeObject *self);
const char *kube_object_uid (const KubeObject *self);
const char *kube_object_resource_version (const KubeObject *self);
gint64 kube_object_generation (const KubeObject *self); /* 0 when absent */
gint64 kube_object_created_s (const KubeObject *self);  /* Unix time; 0 when absent */
/* Unix time at which it is to be gone, its grace included; 0: it stays, or the text is no time. */
gint64 kube_object_deleted_s (const KubeObject *self);
gboolean kube_object_is_deleting (const KubeObject *self);
gboolean kube_object_has_finalizer (const KubeObject *self, const char *finalizer);
/* NULL when absent. */
const char *kube_object_label (const KubeObject *self, const char *name);
const char *kube_object_annotation (const KubeObject *self, const char *name);

/* The entry of metadata.ownerReferences that is its controller; NULL: none. */
yyjson_val *kube_object_controller (const KubeObject *self);

/* A copy to change and send back. Free with yyjson_mut_doc_free. */
yyjson_mut_doc *kube_object_edit (const KubeObject *self);
/* Takes members out of a copy of an object, but not its metadata, nor name, namespace, uid and resourceVersion there. */
typedef void (*KubeTrim) (yyjson_mut_val *root);
/* The object without what only the API server reads (metadata.managedFields, kubectl's last-applied annotation) and what
 * `trim` (may be NULL) takes out, for a cache; and its compact text. Caller frees both. */
KubeObject *kube_object_trimmed (const KubeObject *self, KubeTrim trim, char **out_text, gsize *out_size);
