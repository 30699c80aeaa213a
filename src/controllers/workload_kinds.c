#include "controllers/workload_kinds.h"

#include "domain/delivery_names.h"

const KubeKind replica_set_kind = { "apps", "v1", "replicasets", "ReplicaSet", TRUE };
const KubeKind job_kind = { "batch", "v1", "jobs", "Job", TRUE };
const KubeKind claim_kind = { "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", TRUE };
const KubeKind storage_class_kind = { "storage.k8s.io", "v1", "storageclasses", "StorageClass", FALSE };

const WorkloadKind workload_kinds[WORKLOAD_N_KINDS] = {
  [WORKLOAD_DEPLOYMENT] = { { "apps", "v1", "deployments", "Deployment", TRUE }, { "spec", "template" }, FALSE },
  [WORKLOAD_STATEFUL_SET] = { { "apps", "v1", "statefulsets", "StatefulSet", TRUE }, { "spec", "template" }, TRUE },
  [WORKLOAD_DAEMON_SET] = { { "apps", "v1", "daemonsets", "DaemonSet", TRUE }, { "spec", "template" }, FALSE },
  [WORKLOAD_CRON_JOB] = { { "batch", "v1", "cronjobs", "CronJob", TRUE },
                          { "spec", "jobTemplate", "spec", "template" },
                          FALSE },
};

const WorkloadKind *
workload_kind_named (const char *kind)
{
  for (guint i = 0; i < WORKLOAD_N_KINDS; i++)
    if (g_strcmp0 (kind, workload_kinds[i].kube.kind) == 0)
      return &workload_kinds[i];
  return NULL;
}

WorkloadKindIndex
workload_kind_index (const WorkloadKind *self)
{
  return (WorkloadKindIndex) (self - workload_kinds);
}

yyjson_mut_val *
workload_template (const WorkloadKind *self, yyjson_mut_val *root)
{
  yyjson_mut_val *at = root;
  for (guint i = 0; self->template_path[i] != NULL; i++)
    at = yyjson_mut_obj_get (at, self->template_path[i]);
  return yyjson_mut_is_obj (at) ? at : NULL;
}

const char **
workload_claim_templates (const WorkloadKind *self, const KubeObject *workload)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  size_t index, n;
  yyjson_val *each;
  yyjson_arr_foreach (json_get_array (kube_object_spec (workload), "volumeClaimTemplates"), index, n, each)
  {
    const char *name = json_get_string (json_get_object (each, "metadata"), "name");
    if (self->has_claim_templates && name != NULL)
      g_ptr_array_add (names, (char *) name);
  }
  g_ptr_array_add (names, NULL);
  return (const char **) g_ptr_array_free (g_steal_pointer (&names), FALSE);
}

GPtrArray *
workload_references (const KubeObject *workload, GError **error)
{
  return model_references_parse (kube_object_annotation (workload, MODEL_REFERENCE_ANNOTATION),
                                 kube_object_annotation (workload, CLUSTER_MODEL_REFERENCE_ANNOTATION), error);
}

char *
workload_key (const WorkloadKind *self, const char *namespace, const char *name)
{
  return g_strdup_printf ("%s/%s/%s", self->kube.kind, namespace, name);
}
