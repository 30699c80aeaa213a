#include "controllers/delivery_trim.h"

#include <string.h>

#include "cluster/module_objects.h"
#include "controllers/delivery_caches.h"
#include "domain/delivery_names.h"
#include "domain/pod_template_plan.h"

#define REVISION_ANNOTATION "deployment.kubernetes.io/revision"
#define AI_ENV "AI_MODELS_"

/* Members that stay; ended by NULL. */
static const char *const workload_metadata[]
  = { "name",       "namespace",   "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
      "finalizers", "annotations", NULL },
  *const bare_metadata[] = { "name", "namespace", "uid", "resourceVersion", NULL },
         *const part_metadata[] = { "name",
                                    "namespace",
                                    "uid",
                                    "resourceVersion",
                                    "creationTimestamp",
                                    "deletionTimestamp",
                                    "ownerReferences",
                                    "annotations",
                                    NULL },
         *const workload_spec[] = { "replicas",       "template", "jobTemplate", "volumeClaimTemplates",
                                    "updateStrategy", "ordinals", NULL },
         *const workload_status[] = { "observedGeneration",     "replicas",    "readyReplicas",
                                      "desiredNumberScheduled", "numberReady", NULL },
         *const set_spec[] = { "replicas", "template", NULL }, *const set_status[] = { "readyReplicas", NULL },
         *const claim_template[] = { "metadata", NULL },
         *const template_spec[] = { "initContainers", "containers", "volumes", "schedulingGates", NULL },
         *const pod_spec[] = { "schedulingGates", "volumes", NULL },
         *const container_members[] = { "name", "volumeMounts", "volumeDevices", "env", NULL },
         *const volume_members[] = { "name", "persistentVolumeClaim", "csi", NULL };

static gboolean
is_among (const char *name, const char *const *names)
{
  return name != NULL && g_strv_contains (names, name);
}

static void
keep_members (yyjson_mut_val *object, const char *const *names)
{
  yyjson_mut_obj_iter iter;
  yyjson_mut_val *key;
  yyjson_mut_obj_iter_init (object, &iter);
  while ((key = yyjson_mut_obj_iter_next (&iter)) != NULL)
    if (!is_among (yyjson_mut_get_str (key), names))
      yyjson_mut_obj_iter_remove (&iter);
}

static void
keep_members_of_items (yyjson_mut_val *list, const char *const *names)
{
  size_t index, n;
  yyjson_mut_val *item;
  yyjson_mut_arr_foreach (list, index, n, item)
  {
    keep_members (item, names);
  }
}

/* Annotations of ours, and the revision of a ReplicaSet. */
static void
keep_annotations (yyjson_mut_val *metadata)
{
  yyjson_mut_obj_iter iter;
  yyjson_mut_val *key;
  yyjson_mut_obj_iter_init (yyjson_mut_obj_get (metadata, "annotations"), &iter);
  while ((key = yyjson_mut_obj_iter_next (&iter)) != NULL)
    {
      const char *name = yyjson_mut_get_str (key);
      if (!g_str_has_prefix (name, DELIVERY_WORD) && strcmp (name, REVISION_ANNOTATION) != 0)
        yyjson_mut_obj_iter_remove (&iter);
    }
}

/* Variables of ours; pod_template_deliver looks at no others. */
static void
keep_env (yyjson_mut_val *container)
{
  yyjson_mut_arr_iter iter;
  yyjson_mut_val *variable;
  yyjson_mut_arr_iter_init (yyjson_mut_obj_get (container, "env"), &iter);
  while ((variable = yyjson_mut_arr_iter_next (&iter)) != NULL)
    {
      const char *name = yyjson_mut_get_str (yyjson_mut_obj_get (variable, "name"));
      if (name == NULL || !g_str_has_prefix (name, AI_ENV))
        yyjson_mut_arr_iter_remove (&iter);
    }
}

/* All that pod_template_check and pod_template_deliver look at. */
static void
trim_template (yyjson_mut_val *template)
{
  static const char *const lists[] = { "initContainers", "containers" };
  static const char *const metadata[] = { "annotations", NULL };
  yyjson_mut_val *spec = yyjson_mut_obj_get (template, "spec");
  keep_members (yyjson_mut_obj_get (template, "metadata"), metadata);
  keep_annotations (yyjson_mut_obj_get (template, "metadata"));
  keep_members (spec, template_spec);
  keep_members_of_items (yyjson_mut_obj_get (spec, "volumes"), volume_members);
  for (gsize i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      size_t index, n;
      yyjson_mut_val *container;
      yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec, lists[i]), index, n, container)
      {
        keep_members (container, container_members);
        keep_env (container);
      }
    }
}

const char *
volume_model_claim (yyjson_mut_val *volume)
{
  yyjson_mut_val *source = yyjson_mut_obj_get (volume, "persistentVolumeClaim");
  const char *name = yyjson_mut_get_str (yyjson_mut_obj_get (source, "claimName"));
  return name != NULL && g_str_has_prefix (name, DELIVERY_CLAIM_PREFIX) ? name : NULL;
}

static gboolean
mounts_models (yyjson_mut_val *spec)
{
  size_t index, n;
  yyjson_mut_val *volume;
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec, "volumes"), index, n, volume)
  {
    if (volume_model_claim (volume) != NULL)
      return TRUE;
  }
  return FALSE;
}

static gboolean
template_is_ours (yyjson_mut_val *template)
{
  return template != NULL
         && (pod_template_is_managed (template) || mounts_models (yyjson_mut_obj_get (template, "spec")));
}

/* Of whatever kind it is. */
static yyjson_mut_val *
any_template (yyjson_mut_val *root)
{
  gboolean is_cron_job = yyjson_mut_obj_get (yyjson_mut_obj_get (root, "spec"), "jobTemplate") != NULL;
  return workload_template (&workload_kinds[is_cron_job ? WORKLOAD_CRON_JOB : WORKLOAD_DEPLOYMENT], root);
}

static gboolean
has_item (yyjson_mut_val *list, const char *text)
{
  size_t index, n;
  yyjson_mut_val *item;
  yyjson_mut_arr_foreach (list, index, n, item)
  {
    if (yyjson_mut_equals_str (item, text))
      return TRUE;
  }
  return FALSE;
}

static gboolean
root_is_ours (yyjson_mut_val *root)
{
  static const char *const names[] = { MODEL_REFERENCE_ANNOTATION, CLUSTER_MODEL_REFERENCE_ANNOTATION,
                                       DELIVERY_BLOCKED_REASON_ANNOTATION, DELIVERY_BLOCKED_MESSAGE_ANNOTATION };
  yyjson_mut_val *metadata = yyjson_mut_obj_get (root, "metadata");
  yyjson_mut_val *annotations = yyjson_mut_obj_get (metadata, "annotations");
  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    if (yyjson_mut_obj_get (annotations, names[i]) != NULL)
      return TRUE;
  return has_item (yyjson_mut_obj_get (metadata, "finalizers"), DELIVERY_FINALIZER)
         || template_is_ours (any_template (root));
}

gboolean
workload_is_ours (const KubeObject *workload)
{
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (workload);
  return root_is_ours (yyjson_mut_doc_get_root (doc));
}

static void
make_bare (yyjson_mut_val *root)
{
  static const char *const members[] = { "metadata", NULL };
  keep_members (root, members);
  keep_members (yyjson_mut_obj_get (root, "metadata"), bare_metadata);
}

void
workload_trim (yyjson_mut_val *root)
{
  yyjson_mut_val *metadata = yyjson_mut_obj_get (root, "metadata"), *spec = yyjson_mut_obj_get (root, "spec");
  if (!root_is_ours (root))
    {
      make_bare (root);
      return;
    }
  trim_template (any_template (root));
  keep_members (metadata, workload_metadata);
  keep_annotations (metadata);
  keep_members (spec, workload_spec);
  keep_members_of_items (yyjson_mut_obj_get (spec, "volumeClaimTemplates"), claim_template);
  keep_members (yyjson_mut_obj_get (root, "status"), workload_status);
}

void
replica_set_trim (yyjson_mut_val *root)
{
  yyjson_mut_val *spec = yyjson_mut_obj_get (root, "spec"), *template = yyjson_mut_obj_get (spec, "template");
  keep_members (yyjson_mut_obj_get (root, "metadata"), part_metadata);
  keep_annotations (yyjson_mut_obj_get (root, "metadata"));
  keep_members (spec, set_spec);
  keep_members (yyjson_mut_obj_get (root, "status"), set_status);
  if (!template_is_ours (template))
    {
      yyjson_mut_obj_remove_key (spec, "template");
      return;
    }
  trim_template (template);
  yyjson_mut_obj_remove_key (yyjson_mut_obj_get (template, "spec"), "containers");
  yyjson_mut_obj_remove_key (yyjson_mut_obj_get (template, "spec"), "initContainers");
}

void
pending_pod_trim (yyjson_mut_val *root)
{
  yyjson_mut_val *spec = yyjson_mut_obj_get (root, "spec");
  if (!template_is_ours (root)) /* a Pod has metadata and spec as a template has */
    {
      make_bare (root);
      return;
    }
  yyjson_mut_obj_remove_key (root, "status");
  keep_members (yyjson_mut_obj_get (root, "metadata"), part_metadata);
  keep_annotations (yyjson_mut_obj_get (root, "metadata"));
  keep_members (spec, pod_spec);
  keep_members_of_items (yyjson_mut_obj_get (spec, "volumes"), volume_members);
}

static void
add_claims (yyjson_mut_val *template, const char *namespace, GPtrArray *out_values)
{
  size_t index, n;
  yyjson_mut_val *volume;
  yyjson_mut_val *spec = yyjson_mut_obj_get (template, "spec");
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (spec, "volumes"), index, n, volume)
  {
    const char *claim = volume_model_claim (volume);
    if (claim != NULL)
      g_ptr_array_add (out_values, g_strconcat (namespace, "/", claim, NULL));
  }
}

char *
workloads_in (const char *namespace)
{
  return g_strconcat ("//", namespace, NULL);
}

static void
add_references (const KubeObject *workload, GPtrArray *out_values)
{
  g_autoptr (GPtrArray) references = workload_references (workload, NULL);
  for (guint i = 0; references != NULL && i < references->len; i++)
    {
      const ModelReference *reference = g_ptr_array_index (references, i);
      ModelOwner owner = {
        .kind = reference->is_cluster_wide ? cluster_model_kind.kind : model_kind.kind,
        .namespace = reference->is_cluster_wide ? NULL : kube_object_namespace (workload),
        .name = reference->name,
      };
      g_ptr_array_add (out_values, model_key (&owner));
    }
}

void
workload_index (const KubeObject *workload, GPtrArray *out_values)
{
  if (kube_object_spec (workload) == NULL) /* nothing of ours */
    return;
  const char *namespace = kube_object_namespace (workload);
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (workload);
  yyjson_mut_val *template = any_template (yyjson_mut_doc_get_root (doc));
  add_references (workload, out_values);
  g_ptr_array_add (out_values, workloads_in (namespace));
  if (kube_object_annotation (workload, DELIVERY_BLOCKED_REASON_ANNOTATION) != NULL)
    g_ptr_array_add (out_values, g_strdup (WORKLOADS_BLOCKED));
  add_claims (template, namespace, out_values);
}

static void
add_controller (const KubeObject *object, GPtrArray *out_values)
{
  const char *uid = json_get_string (kube_object_controller (object), "uid");
  if (uid != NULL)
    g_ptr_array_add (out_values, g_strdup (uid));
}

void
replica_set_index (const KubeObject *set, GPtrArray *out_values)
{
  yyjson_val *spec = kube_object_spec (set);
  add_controller (set, out_values);
  if (json_get_object (spec, "template") == NULL || yyjson_get_sint (yyjson_obj_get (spec, "replicas")) == 0)
    return;
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (set);
  yyjson_mut_val *template = any_template (yyjson_mut_doc_get_root (doc));
  if (!pod_template_has_gate (template))
    add_claims (template, kube_object_namespace (set), out_values);
}

gboolean
pod_is_of_materializer (const KubeObject *pod)
{
  yyjson_val *controller = kube_object_controller (pod);
  const char *kind = json_get_string (controller, "kind"), *name = json_get_string (controller, "name");
  return g_strcmp0 (kind, job_kind.kind) == 0 && name != NULL && g_str_has_prefix (name, DELIVERY_JOB_PREFIX);
}

void
pending_pod_index (const KubeObject *pod, GPtrArray *out_values)
{
  if (kube_object_spec (pod) == NULL)
    return;
  const char *namespace = kube_object_namespace (pod);
  const char *owner = json_get_string (kube_object_controller (pod), "kind");
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (pod);
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  add_controller (pod, out_values);
  add_claims (root, namespace, out_values);
  if (g_strcmp0 (owner, job_kind.kind) == 0 && !pod_is_of_materializer (pod))
    g_ptr_array_add (out_values, workloads_in (namespace));
}

void
claim_index (const KubeObject *claim, GPtrArray *out_values)
{
  guint n_before = out_values->len;
  ClaimSubject subject;
  if (!claim_subject_read (claim, &subject)) /* the label is easily given: it may be anybody's data */
    return;
  owners_index (claim, out_values);
  if (out_values->len == n_before || kube_object_is_deleting (claim)
      || kube_object_annotation (claim, MATERIALIZED_ANNOTATION) == NULL
      || kube_object_annotation (claim, RELEASED_ANNOTATION) != NULL)
    g_ptr_array_add (out_values, g_strdup (CLAIMS_UNSETTLED));
}

void
owners_index (const KubeObject *object, GPtrArray *out_values)
{
  size_t index, n;
  yyjson_val *each;
  yyjson_val *metadata = json_get_object (kube_object_root (object), "metadata");
  yyjson_arr_foreach (json_get_array (metadata, "ownerReferences"), index, n, each)
  {
    const char *uid = json_get_string (each, "uid");
    if (uid != NULL)
      g_ptr_array_add (out_values, g_strdup (uid));
  }
}
