#include <string.h>

#include "controllers/delivery_trim.h"
#include "controllers/workload_work.h"
#include "domain/delivery_names.h"

#define REVISION_ANNOTATION "deployment.kubernetes.io/revision"
#define MAX_JOBS 100 /* of one CronJob, in one look */

typedef enum { PART_FINE, PART_OPEN, PART_HELD } PartState;

/* Whether it mounts claims of ours that are not all whole. */
static gboolean
waits_for_models (const DeliveryCaches *caches, const char *namespace, yyjson_mut_val *template)
{
  size_t index, n;
  yyjson_mut_val *volume;
  yyjson_mut_arr_foreach (yyjson_mut_obj_get (yyjson_mut_obj_get (template, "spec"), "volumes"), index, n, volume)
  {
    const char *name = volume_model_claim (volume);
    g_autoptr (KubeObject) claim = name != NULL ? informer_get (caches->claims, namespace, name) : NULL;
    if (name != NULL && (claim == NULL || kube_object_annotation (claim, MATERIALIZED_ANNOTATION) == NULL))
      return TRUE;
  }
  return FALSE;
}

/* Who is held now is held for good, as soon as the workload's controller makes others in their place. */
static gboolean
template_is_open (const DeliveryView *view)
{
  return view->is_current || view->template == DELIVERY_TEMPLATE_SERVING || view->template == DELIVERY_TEMPLATE_PLAIN;
}

/* Of a Pod, or the template of a revision. */
static PartState
judge (const WorkloadWork *work, yyjson_mut_val *template)
{
  g_auto (DeliveryAnnotations) annotations = { 0 };
  if (!pod_template_has_gate (template))
    return waits_for_models (work->controller->caches, kube_object_namespace (work->object), template) ? PART_OPEN
                                                                                                       : PART_FINE;
  pod_template_annotations (template, &annotations);
  return delivery_annotations_are_present (&annotations) ? PART_FINE : PART_HELD;
}

static void
add_removal (WorkloadWork *work, const KubeKind *kind, const KubeObject *object, gboolean is_open)
{
  WorkloadRemoval removal = { kind, g_strdup (kube_object_name (object)), g_strdup (kube_object_uid (object)),
                              is_open };
  g_array_append_val (work->removals, removal);
  if (is_open)
    work->view.has_open_pods = TRUE;
  else
    work->view.has_obsolete = TRUE;
}

/* Deployments */

static gint64
revision_of (const KubeObject *set)
{
  const char *text = kube_object_annotation (set, REVISION_ANNOTATION);
  return text != NULL ? g_ascii_strtoll (text, NULL, 10) : 0;
}

static gint64
newest_revision (const GPtrArray *sets)
{
  gint64 newest = 0;
  for (guint i = 0; i < sets->len; i++)
    newest = MAX (newest, revision_of (g_ptr_array_index (sets, i)));
  return newest;
}

/* Obsolete: delivery-sharedpvc.md, "Second ReplicaSet". */
static void
view_set (WorkloadWork *work, const KubeObject *set, gint64 newest)
{
  yyjson_val *spec = kube_object_spec (set), *status = kube_object_status (set);
  if (json_get_object (spec, "template") == NULL || kube_object_is_deleting (set))
    return;
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (set);
  yyjson_mut_val *root = yyjson_mut_doc_get_root (doc);
  PartState state = judge (work, workload_template (&workload_kinds[WORKLOAD_DEPLOYMENT], root));
  gboolean makes_pods = yyjson_get_sint (yyjson_obj_get (spec, "replicas")) > 0;
  gboolean has_started = yyjson_get_sint (yyjson_obj_get (status, "readyReplicas")) > 0;
  if (state == PART_OPEN && makes_pods && !has_started)
    add_removal (work, &replica_set_kind, set, TRUE);
  else if (state == PART_HELD && template_is_open (&work->view) && revision_of (set) != newest)
    add_removal (work, &replica_set_kind, set, FALSE);
}

static void
view_sets (WorkloadWork *work)
{
  g_autoptr (GPtrArray) sets = informer_find (work->controller->caches->replica_sets, kube_object_uid (work->object));
  gint64 newest = newest_revision (sets);
  for (guint i = 0; i < sets->len; i++)
    view_set (work, g_ptr_array_index (sets, i), newest);
}

/* StatefulSets and DaemonSets */

static PartState
judge_pod (const WorkloadWork *work, const KubeObject *pod)
{
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (pod);
  return kube_object_is_deleting (pod) ? PART_FINE : judge (work, yyjson_mut_doc_get_root (doc));
}

/* The first ordinal whose Pod is made of the new revision; those before it are made of the old one again. */
static gint64
first_updated_ordinal (const KubeObject *workload)
{
  yyjson_val *spec = kube_object_spec (workload), *strategy = json_get_object (spec, "updateStrategy");
  gint64 start = yyjson_get_sint (yyjson_obj_get (json_get_object (spec, "ordinals"), "start"));
  return start + yyjson_get_sint (yyjson_obj_get (json_get_object (strategy, "rollingUpdate"), "partition"));
}

static gint64
ordinal_of (const KubeObject *pod)
{
  const char *dash = strrchr (kube_object_name (pod), '-');
  return dash != NULL ? g_ascii_strtoll (dash + 1, NULL, 10) : 0;
}

static void
view_own_pods (WorkloadWork *work)
{
  g_autoptr (GPtrArray) pods = informer_find (work->controller->caches->pending_pods, kube_object_uid (work->object));
  gboolean has_ordinals = workload_kind_index (work->kind) == WORKLOAD_STATEFUL_SET;
  gint64 first = has_ordinals ? first_updated_ordinal (work->object) : 0;
  for (guint i = 0; i < pods->len; i++)
    {
      const KubeObject *pod = g_ptr_array_index (pods, i);
      PartState state = judge_pod (work, pod);
      if (has_ordinals && ordinal_of (pod) < first)
        continue;
      if (state == PART_OPEN)
        add_removal (work, &pod_kind, pod, TRUE);
      else if (state == PART_HELD && template_is_open (&work->view) && work->view.is_observed)
        add_removal (work, &pod_kind, pod, FALSE);
    }
}

/* CronJobs */

static gboolean
view_job (WorkloadWork *work, const char *name, gboolean is_open, GError **error)
{
  const DeliveryCaches *caches = work->controller->caches;
  KubeTarget target = { .kind = &job_kind, .namespace = kube_object_namespace (work->object), .name = name };
  g_autoptr (KubeObject) job = NULL;
  if (!kube_client_find (work->ctx, caches->client, &target, &job, error))
    return FALSE;
  if (job == NULL)
    return TRUE;
  const char *owner = json_get_string (kube_object_controller (job), "uid");
  if (g_strcmp0 (owner, kube_object_uid (work->object)) == 0 && !kube_object_is_deleting (job))
    add_removal (work, &job_kind, job, is_open);
  return TRUE;
}

/* Jobs are not cached: which of them is whose is asked, once for each. */
static gboolean
view_jobs (WorkloadWork *work, GError **error)
{
  g_autofree char *value = workloads_in (kube_object_namespace (work->object));
  g_autoptr (GPtrArray) pods = informer_find (work->controller->caches->pending_pods, value);
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < pods->len && g_hash_table_size (seen) < MAX_JOBS; i++)
    {
      const KubeObject *pod = g_ptr_array_index (pods, i);
      PartState state = judge_pod (work, pod);
      const char *job = json_get_string (kube_object_controller (pod), "name");
      gboolean counts = state == PART_OPEN || (state == PART_HELD && template_is_open (&work->view));
      if (!counts || job == NULL || !g_hash_table_add (seen, (char *) job))
        continue;
      if (!view_job (work, job, state == PART_OPEN, error))
        return FALSE;
    }
  return TRUE;
}

/* A CronJob's controller does not say. */
static gboolean
is_observed (const KubeObject *workload)
{
  gint64 observed = yyjson_get_sint (yyjson_obj_get (kube_object_status (workload), "observedGeneration"));
  return observed >= kube_object_generation (workload);
}

gboolean
workload_view_pods (WorkloadWork *work, GError **error)
{
  WorkloadKindIndex kind = workload_kind_index (work->kind);
  work->view.is_observed = kind == WORKLOAD_CRON_JOB || is_observed (work->object);
  if (kind == WORKLOAD_CRON_JOB)
    return view_jobs (work, error);
  if (kind == WORKLOAD_DEPLOYMENT)
    view_sets (work);
  else
    view_own_pods (work);
  return TRUE;
}

/* Users of a claim */

static gboolean
workload_opens (const WorkloadKind *kind, const KubeObject *workload, const char *but_uid)
{
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (workload);
  yyjson_mut_val *template = workload_template (kind, yyjson_mut_doc_get_root (doc));
  return strcmp (kube_object_uid (workload), but_uid) != 0 && !kube_object_is_deleting (workload)
         && !pod_template_has_gate (template);
}

static gboolean
is_controlled_by (const KubeObject *object, const char *uid)
{
  return object != NULL && g_strcmp0 (json_get_string (kube_object_controller (object), "uid"), uid) == 0;
}

static gboolean
pod_opens (const DeliveryCaches *caches, const KubeObject *pod, const char *but_uid)
{
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (pod);
  const char *owner = json_get_string (kube_object_controller (pod), "name");
  g_autoptr (KubeObject) set = owner != NULL ? informer_get (caches->replica_sets, kube_object_namespace (pod), owner)
                                             : NULL;
  return !pod_template_has_gate (yyjson_mut_doc_get_root (doc)) && !pod_is_of_materializer (pod)
         && !is_controlled_by (pod, but_uid) && !is_controlled_by (set, but_uid);
}

gboolean
claim_has_open_users (const DeliveryCaches *caches, const char *namespace, const char *claim,
                      const char *workload_uid)
{
  g_autofree char *value = g_strconcat (namespace, "/", claim, NULL);
  for (guint kind = 0; kind < WORKLOAD_N_KINDS; kind++)
    {
      g_autoptr (GPtrArray) workloads = informer_find (caches->workloads[kind], value);
      for (guint i = 0; i < workloads->len; i++)
        if (workload_opens (&workload_kinds[kind], g_ptr_array_index (workloads, i), workload_uid))
          return TRUE;
    }
  g_autoptr (GPtrArray) sets = informer_find (caches->replica_sets, value);
  for (guint i = 0; i < sets->len; i++)
    if (!is_controlled_by (g_ptr_array_index (sets, i), workload_uid))
      return TRUE;
  g_autoptr (GPtrArray) pods = informer_find (caches->pending_pods, value);
  for (guint i = 0; i < pods->len; i++)
    if (pod_opens (caches, g_ptr_array_index (pods, i), workload_uid))
      return TRUE;
  return FALSE;
}
