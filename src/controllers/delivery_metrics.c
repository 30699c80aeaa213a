#include "controllers/delivery_metrics.h"

#include "domain/delivery_names.h"
#include "domain/pod_template_plan.h"
#include "net/metrics.h"

#define PREFIX "d8_ai_models_workload_delivery_"

typedef enum { FAMILY_WORKLOADS, FAMILY_PODS, FAMILY_PODS_READY, FAMILY_UNRESOLVED, FAMILY_BLOCKED } FamilyId;

static const struct {
  const char *name, *help;
} families[] = {
  [FAMILY_WORKLOADS] = { "workloads_managed", "Workloads whose template has models." },
  [FAMILY_PODS] = { "pods_managed", "Pods of workloads whose template has models, but for CronJobs." },
  [FAMILY_PODS_READY] = { "pods_ready", "Those of them that are ready." },
  [FAMILY_UNRESOLVED] = { "unresolved_references", "References to models that are missing or not ready." },
  [FAMILY_BLOCKED] = { "blocked", "Workloads whose models are not delivered, by reason." },
};

/* Series of all families, while workloads are gone through. */
typedef struct {
  const DeliveryCaches *caches;
  const WorkloadKind *kind;
  GHashTable *series[G_N_ELEMENTS (families)]; /* labels -> number */
} Collection;

static void
add (Collection *self, FamilyId family, guint number, const char *const *labels)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; labels[i] != NULL; i += 2)
    {
      g_string_append_printf (text, "%s%s=\"", i > 0 ? "," : "", labels[i]);
      metrics_append_escaped (text, labels[i + 1]);
      g_string_append_c (text, '"');
    }
  guint before = GPOINTER_TO_UINT (g_hash_table_lookup (self->series[family], text->str));
  g_hash_table_replace (self->series[family], g_strdup (text->str), GUINT_TO_POINTER (before + number));
}

static guint
status_number (const KubeObject *workload, const char *name, const char *other)
{
  yyjson_val *status = kube_object_status (workload), *value = yyjson_obj_get (status, name);
  return (guint) yyjson_get_uint (value != NULL ? value : yyjson_obj_get (status, other));
}

static void
add_managed (Collection *self, const KubeObject *workload, const DeliveryAnnotations *state)
{
  const char *namespace = kube_object_namespace (workload), *mode = state->values[DELIVERED_MODE],
             *reason = state->values[DELIVERED_REASON];
  mode = mode != NULL ? mode : "";
  reason = reason != NULL ? reason : "";
  const char *const labels[] = { "namespace",       namespace, "kind", self->kind->kube.kind, "delivery_mode", mode,
                                 "delivery_reason", reason,    NULL };
  const char *const pods[] = { "namespace", namespace, "delivery_mode", mode, "delivery_reason", reason, NULL };
  add (self, FAMILY_WORKLOADS, 1, labels);
  if (workload_kind_index (self->kind) == WORKLOAD_CRON_JOB)
    return;
  add (self, FAMILY_PODS, status_number (workload, "replicas", "desiredNumberScheduled"), pods);
  add (self, FAMILY_PODS_READY, status_number (workload, "readyReplicas", "numberReady"), pods);
}

static void
add_references (Collection *self, const KubeObject *workload)
{
  const char *namespace = kube_object_namespace (workload);
  g_autoptr (GPtrArray) references = workload_references (workload, NULL);
  for (guint i = 0; references != NULL && i < references->len; i++)
    {
      const ModelReference *reference = g_ptr_array_index (references, i);
      g_auto (DeliveryModelFacts) facts = { 0 };
      delivery_model_read (self->caches, namespace, reference, &facts);
      const char *const labels[] = { "namespace",
                                     namespace,
                                     "kind",
                                     self->kind->kube.kind,
                                     "workload",
                                     kube_object_name (workload),
                                     "reference_kind",
                                     reference->is_cluster_wide ? cluster_model_kind.kind : model_kind.kind,
                                     "reference_name",
                                     reference->name,
                                     "reason",
                                     facts.exists ? "NotReady" : "NotFound",
                                     NULL };
      if (!facts.is_ready)
        add (self, FAMILY_UNRESOLVED, 1, labels);
    }
}

static void
add_workload (const KubeObject *workload, gpointer data)
{
  Collection *self = data;
  g_auto (DeliveryAnnotations) state = { 0 };
  if (kube_object_spec (workload) == NULL) /* nothing of ours */
    return;
  g_autoptr (yyjson_mut_doc) doc = kube_object_edit (workload);
  pod_template_annotations (workload_template (self->kind, yyjson_mut_doc_get_root (doc)), &state);
  if (delivery_annotations_are_present (&state))
    add_managed (self, workload, &state);
  add_references (self, workload);
  const char *reason = kube_object_annotation (workload, DELIVERY_BLOCKED_REASON_ANNOTATION);
  const char *const labels[] = { "namespace", kube_object_namespace (workload),
                                 "kind",      self->kind->kube.kind,
                                 "workload",  kube_object_name (workload),
                                 "reason",    reason != NULL ? reason : "",
                                 NULL };
  if (reason != NULL)
    add (self, FAMILY_BLOCKED, 1, labels);
}

static void
append_family (GString *out, FamilyId family, GHashTable *series)
{
  GHashTableIter iter;
  gpointer labels, number;
  g_string_append_printf (out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s gauge\n", families[family].name,
                          families[family].help, families[family].name);
  g_hash_table_iter_init (&iter, series);
  while (g_hash_table_iter_next (&iter, &labels, &number))
    g_string_append_printf (out, PREFIX "%s{%s} %u\n", families[family].name, (const char *) labels,
                            GPOINTER_TO_UINT (number));
}

void
delivery_metrics_append (gpointer caches, GString *out)
{
  Collection self = { .caches = caches };
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    self.series[i] = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < WORKLOAD_N_KINDS; i++)
    {
      self.kind = &workload_kinds[i];
      informer_each (self.caches->workloads[i], add_workload, &self);
    }
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    {
      append_family (out, (FamilyId) i, self.series[i]);
      g_hash_table_unref (self.series[i]);
    }
}
