#include "publish/worker.h"

#include <string.h>

#include "base/log.h"
#include "cluster/termination_message.h"
#include "publish/worker_private.h"

#define RELEASE_TIMEOUT_MS 3000
#define INTERRUPTED "told to end before the model was stored; it goes on where it stopped"

static const struct {
  PublicationParty party;
  WorkerStep step;
} steps[] = {
  { PUBLICATION_MODULE, worker_begin },
  { PUBLICATION_SOURCE, worker_make_plan },
  { PUBLICATION_MODULE, worker_reserve },
  { PUBLICATION_MODULE, worker_publish },
};

/* "bucket/" of s3://bucket/prefix?..., or a directory. Caller frees. */
static char *
staging_place_of (const char *url)
{
  if (url == NULL || !g_str_has_prefix (url, "s3://"))
    return g_strdup (url);
  const char *bucket = url + strlen ("s3://");
  return g_strdup_printf ("%.*s/", (int) strcspn (bucket, "/?"), bucket);
}

/* What the parts below log is about our registry and bucket as they know them. */
static char *
veil_value (const char *value, gpointer data)
{
  return publication_words (value, ((const Worker *) data)->veils, WORKER_N_VEILS);
}

static void
worker_init (Worker *self, const WorkerOrder *order, KubeClient *client, const WorkerPlaces *places)
{
  g_autofree char *secret = model_object_name (WORKER_STATE_PREFIX, order->owner.uid);
  *self = (Worker){ .order = order, .client = client, .places = places };
  if (order->staged_file != NULL)
    self->staging_key = g_strdup_printf ("%s/%s", order->owner.uid, order->staged_file);
  self->report = worker_report_new (client, order->namespace, secret, order->owner_generation);
  if (order->accounting != NULL)
    self->ledger = ledger_store_new (client, order->namespace, order->accounting, FALSE);
  self->staging_place = staging_place_of (order->staging_store);
  self->veils[0] = (PublicationVeil){ order->registry_host, "the module's registry" };
  self->veils[1] = (PublicationVeil){ order->repository, "the module's registry" };
  self->veils[2] = (PublicationVeil){ self->staging_place, "the module's bucket" };
  self->veils[3] = (PublicationVeil){ self->staging_key, "the uploaded file" };
  am_log_set_veil (veil_value, self);
}

static void
worker_clear (Worker *self)
{
  am_log_set_veil (NULL, NULL);
  publish_plan_free (self->plan);
  object_store_free (self->staging);
  worker_report_free (self->report);
  ledger_store_free (self->ledger);
  worker_result_clear (&self->result);
  g_free (self->staging_place);
  g_free (self->staging_key);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Worker, worker_clear)

/* What was uploaded lies in a bucket of ours. */
static PublicationParty
party_of (const WorkerOrder *order, PublicationParty usual)
{
  return order->staged_file != NULL ? PUBLICATION_MODULE : usual;
}

static gboolean
write_message (const char *path, const WorkerResult *result, GError **error)
{
  g_autofree char *text = worker_result_format (result);
  return termination_message_write (path, text, error);
}

static void
fill_result (Worker *self)
{
  const ModelProfile *profile = self->plan->profile;
  self->result.end = WORKER_HAS_RESULT;
  self->result.source_type = g_strdup (worker_source_type (self));
  self->result.source_revision = worker_report_revision (self->report);
  self->result.metadata_complete = !profile->is_partial;
  resolved_model_of_profile (profile, self->result.source_type, &self->result.resolved);
}

/* What was set aside for a model that will not come; otherwise the inventory finds it. */
static void
release_room (Ctx *ctx, const Worker *self)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (Ctx) bounded = ctx_new_child (ctx, RELEASE_TIMEOUT_MS);
  if (self->ledger != NULL && !ledger_store_release (bounded, self->ledger, self->order->owner.uid, &problem))
    am_ignore (&problem, "the controller's next inventory releases it");
}

/* What the controller reads of the end: `problem` NULL for a result. */
static gboolean
tell_end (Worker *self, const GError *problem, const char *reason, GError **error)
{
  gboolean is_failure = problem != NULL && reason != NULL;
  g_auto (WorkerResult) end = { .end = is_failure ? WORKER_HAS_FAILED : WORKER_WAS_INTERRUPTED,
                                .reason = g_strdup (reason),
                                .message = g_strdup (problem == NULL ? NULL
                                                     : am_error_is (problem, AM_ERROR_CANCELLED)
                                                       ? INTERRUPTED
                                                       : problem->message) };
  worker_report_end (self->report, problem == NULL ? WORKER_COMPLETED : is_failure ? WORKER_FAILED : WORKER_RUNNING);
  return write_message (self->order->termination_file, problem == NULL ? &self->result : &end, error);
}

gboolean
worker_run (Ctx *parent, const WorkerOrder *order, KubeClient *client, const WorkerPlaces *places, GError **error)
{
  g_autoptr (GError) problem = NULL;
  const char *reason = NULL;
  g_auto (Worker) self = { 0 };
  g_autoptr (Ctx) ctx = ctx_new_child (parent, -1);
  ctx_set_field (ctx, "kind", order->owner.kind);
  if (order->owner.namespace != NULL)
    ctx_set_field (ctx, "namespace", order->owner.namespace);
  ctx_set_field (ctx, "name", order->owner.name);
  worker_init (&self, order, client, places);
  for (guint i = 0; i < G_N_ELEMENTS (steps) && problem == NULL; i++)
    worker_persist (ctx, &self, party_of (order, steps[i].party), steps[i].step, &reason, &problem);
  if (problem == NULL)
    fill_result (&self);
  else if (reason != NULL)
    release_room (ctx, &self);
  if (problem != NULL)
    am_log_error (ctx, reason != NULL ? "the publication failed" : "interrupted", "reason", reason, "err",
                  problem->message, NULL);
  if (!tell_end (&self, problem, reason, error))
    return FALSE;
  if (problem == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}
