#include "controllers/materialize_metrics.h"

#include "controllers/materialize_sight.h"
#include "net/metrics.h"

#define PREFIX "d8_ai_models_materialization_"

static void
append_head (GString *out, const char *name, const char *help)
{
  g_string_append_printf (out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s gauge\n", name, help, name);
}

static void
append_job (GString *out, const DeliveryCaches *caches, const KubeObject *job)
{
  ClaimSubject subject;
  if (!materialize_job_is_ours (caches->settings, job) || !materialize_job_is_unfinished (job))
    return;
  g_autoptr (KubeObject) claim = informer_get (caches->claims, kube_object_namespace (job),
                                               materialize_job_claim (job));
  if (claim == NULL || !claim_subject_read (claim, &subject))
    return;
  g_string_append (out, PREFIX "expected_bytes{namespace=\"");
  metrics_append_escaped (out, kube_object_namespace (job));
  g_string_append (out, "\",job=\"");
  metrics_append_escaped (out, kube_object_name (job));
  g_string_append (out, "\",digest=\"");
  metrics_append_escaped (out, subject.digest);
  g_string_append_printf (out, "\"} %" G_GUINT64_FORMAT "\n", materialize_job_bytes (job));
}

void
materialize_metrics_append (gpointer turns, GString *out)
{
  const DeliveryCaches *caches = materialize_turns_caches (turns);
  MaterializeCounts counts = materialize_turns_count (turns);
  const struct {
    const char *name, *help;
    guint number;
  } gauges[] = {
    { "jobs_running", "Jobs that copy a model to a volume.", counts.n_running },
    { "jobs_queued", "Volumes that wait for their turn.", counts.n_queued },
    { "jobs_limit", "Jobs that may run at once (delivery.maxConcurrentMaterializations).", counts.n_max },
  };
  g_autoptr (GPtrArray) jobs = informer_find (caches->jobs, NULL);
  append_head (out, "expected_bytes", "Size of the model that a Job copies to a volume.");
  for (guint i = 0; i < jobs->len; i++)
    append_job (out, caches, g_ptr_array_index (jobs, i));
  for (gsize i = 0; i < G_N_ELEMENTS (gauges); i++)
    {
      append_head (out, gauges[i].name, gauges[i].help);
      g_string_append_printf (out, PREFIX "%s %u\n", gauges[i].name, gauges[i].number);
    }
}
