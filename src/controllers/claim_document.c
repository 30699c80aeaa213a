#include "controllers/claim_document.h"

#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "cluster/module_objects.h"
#include "controllers/object_draft.h"
#include "domain/delivery_names.h"

#define CLAIM_APP "ai-models-shared-pvc"
#define MODEL_KIND_ANNOTATION MODEL_ANNOTATION "owner-kind-full"
#define MODEL_NAME_ANNOTATION MODEL_ANNOTATION "owner-name-full"
#define DIGEST_ANNOTATION MODEL_ANNOTATION "artifact-digest"
#define ALGORITHM "sha256:"

char *
claim_name (const ClaimSubject *subject)
{
  return delivery_object_name (DELIVERY_CLAIM_PREFIX, subject->namespace, subject->is_cluster_wide, subject->model,
                               subject->digest);
}

gboolean
claim_subject_read (const KubeObject *claim, ClaimSubject *out_subject)
{
  Digest digest;
  const char *kind = kube_object_annotation (claim, MODEL_KIND_ANNOTATION);
  ClaimSubject subject = {
    .namespace = kube_object_namespace (claim),
    .is_cluster_wide = g_strcmp0 (kind, cluster_model_kind.kind) == 0,
    .model = kube_object_annotation (claim, MODEL_NAME_ANNOTATION),
    .digest = kube_object_annotation (claim, DIGEST_ANNOTATION),
  };
  if (subject.model == NULL || subject.digest == NULL || !digest_parse (subject.digest, &digest, NULL))
    return FALSE;
  g_autofree char *name = claim_name (&subject);
  if (strcmp (name, kube_object_name (claim)) != 0)
    return FALSE;
  *out_subject = subject;
  return TRUE;
}

void
claim_labels (yyjson_mut_doc *doc, yyjson_mut_val *metadata, const char *app, const ClaimSubject *subject)
{
  yyjson_mut_val *labels = metadata_map (doc, metadata, "labels");
  const char *hex = g_str_has_prefix (subject->digest, ALGORITHM) ? subject->digest + strlen (ALGORITHM)
                                                                  : subject->digest;
  metadata_label (doc, labels, APP_LABEL, app);
  metadata_label (doc, labels, "app.kubernetes.io/part-of", "ai-models");
  metadata_label (doc, labels, ARTIFACT_DIGEST_LABEL, hex);
  metadata_label (doc, labels, MODEL_ANNOTATION "owner-name", subject->model);
}

static void
add_holder (const ObjectDraft *draft, const KubeKind *kind, const KubeObject *holder)
{
  g_autofree char *version = kube_kind_api_version (kind);
  draft_owner (draft, version, kind->kind, kube_object_name (holder), kube_object_uid (holder));
}

static void
add_spec (const ObjectDraft *draft, const ClaimSubject *subject, const char *storage_class)
{
  g_autofree char *bytes = g_strdup_printf ("%" G_GUINT64_FORMAT,
                                            delivery_claim_bytes (subject->size_bytes, subject->size_bytes));
  yyjson_mut_val *spec = draft_object (draft, draft->root, "spec");
  draft_word (draft, yyjson_mut_obj_add_arr (draft->doc, spec, "accessModes"), "ReadWriteMany");
  draft_text (draft, spec, "volumeMode", "Filesystem");
  draft_text (draft, spec, "storageClassName", storage_class);
  draft_text (draft, draft_object (draft, draft_object (draft, spec, "resources"), "requests"), "storage", bytes);
}

yyjson_mut_doc *
claim_document (const ClaimSubject *subject, const KubeKind *holder_kind, const KubeObject *holder,
                const char *storage_class)
{
  g_autofree char *name = claim_name (subject);
  ObjectDraft draft = object_draft_new (name);
  claim_labels (draft.doc, draft.metadata, CLAIM_APP, subject);
  draft_text (&draft, metadata_map (draft.doc, draft.metadata, "labels"), SHARED_CLAIM_LABEL, "true");
  yyjson_mut_val *annotations = metadata_map (draft.doc, draft.metadata, "annotations");
  draft_text (&draft, annotations, MODEL_KIND_ANNOTATION,
              subject->is_cluster_wide ? cluster_model_kind.kind : model_kind.kind);
  draft_text (&draft, annotations, MODEL_NAME_ANNOTATION, subject->model);
  draft_text (&draft, annotations, DIGEST_ANNOTATION, subject->digest);
  add_holder (&draft, holder_kind, holder);
  add_spec (&draft, subject, storage_class);
  return draft.doc;
}

static yyjson_val *
holders_of (const KubeObject *claim)
{
  return json_get_array (json_get_object (kube_object_root (claim), "metadata"), "ownerReferences");
}

ClaimPhase
claim_phase (const KubeObject *claim)
{
  const char *phase = json_get_string (kube_object_status (claim), "phase");
  if (g_strcmp0 (phase, "Bound") == 0)
    return CLAIM_BOUND;
  return g_strcmp0 (phase, "Lost") == 0 ? CLAIM_LOST : CLAIM_PENDING;
}

gboolean
claim_is_held_by (const KubeObject *claim, const char *uid)
{
  size_t index, n;
  yyjson_val *holder;
  yyjson_arr_foreach (holders_of (claim), index, n, holder)
  {
    if (g_strcmp0 (json_get_string (holder, "uid"), uid) == 0)
      return TRUE;
  }
  return FALSE;
}

guint
claim_n_holders (const KubeObject *claim)
{
  return (guint) yyjson_arr_size (holders_of (claim));
}

gint64
claim_released_s (const KubeObject *claim)
{
  return time_text_parse (kube_object_annotation (claim, RELEASED_ANNOTATION));
}

/* An empty change of just this version. */
static ObjectDraft
patch_new (const KubeObject *claim)
{
  ObjectDraft draft = object_draft_new (kube_object_name (claim));
  draft_text (&draft, draft.metadata, "resourceVersion", kube_object_resource_version (claim));
  return draft;
}

/* `value` NULL: takes it away. */
static void
patch_annotation (const ObjectDraft *patch, const char *name, const char *value)
{
  yyjson_mut_val *annotations = metadata_map (patch->doc, patch->metadata, "annotations");
  if (value != NULL)
    draft_text (patch, annotations, name, value);
  else
    yyjson_mut_obj_add_null (patch->doc, annotations, name);
}

/* All holders but one (NULL: all); a merge patch replaces the whole list. */
static void
copy_holders (const ObjectDraft *patch, const KubeObject *claim, const char *except_uid)
{
  size_t index, n;
  yyjson_val *holder;
  yyjson_mut_val *owners = yyjson_mut_obj_add_arr (patch->doc, patch->metadata, "ownerReferences");
  yyjson_arr_foreach (holders_of (claim), index, n, holder)
  {
    if (except_uid == NULL || g_strcmp0 (json_get_string (holder, "uid"), except_uid) != 0)
      yyjson_mut_arr_append (owners, yyjson_val_mut_copy (patch->doc, holder));
  }
}

yyjson_mut_doc *
claim_hold_patch (const KubeObject *claim, const KubeKind *holder_kind, const KubeObject *holder)
{
  ObjectDraft patch = patch_new (claim);
  copy_holders (&patch, claim, kube_object_uid (holder));
  add_holder (&patch, holder_kind, holder);
  if (kube_object_annotation (claim, RELEASED_ANNOTATION) != NULL)
    patch_annotation (&patch, RELEASED_ANNOTATION, NULL);
  return patch.doc;
}

yyjson_mut_doc *
claim_leave_patch (const KubeObject *claim, const char *holder_uid, gint64 now_s)
{
  ObjectDraft patch = patch_new (claim);
  g_autofree char *now = time_text (now_s);
  copy_holders (&patch, claim, holder_uid);
  if (yyjson_mut_arr_size (yyjson_mut_obj_get (patch.metadata, "ownerReferences")) == 0)
    patch_annotation (&patch, RELEASED_ANNOTATION, now);
  return patch.doc;
}

yyjson_mut_doc *
claim_released_patch (const KubeObject *claim, gint64 released_s)
{
  ObjectDraft patch = patch_new (claim);
  g_autofree char *text = released_s > 0 ? time_text (released_s) : NULL;
  patch_annotation (&patch, RELEASED_ANNOTATION, text);
  return patch.doc;
}

yyjson_mut_doc *
claim_mark_patch (const KubeObject *claim, const char *digest)
{
  ObjectDraft patch = patch_new (claim);
  patch_annotation (&patch, MATERIALIZED_ANNOTATION, digest);
  return patch.doc;
}
