#include "controllers/claim_collector.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cluster/module_objects.h"
#include "controllers/claim_work.h"
#include "controllers/materialize_sight.h"
#include "controllers/pod_sight.h"
#include "domain/delivery_names.h"

#define ROUND_MS (15 * 1000)
#define RENEW_S (MATERIALIZE_DEADLINE_S - 3600) /* age at which a Job gets another grant */
#define USE_PAUSE_S (5 * 60) /* before a claim that somebody uses without holding it is looked at again */

struct ClaimCollector {
  DeliveryCaches *caches;
  MaterializeTurns *turns;
  GHashTable *clean;   /* uids of claims without a Job, whose Secrets are gone */
  GHashTable *used;    /* uid of a claim -> when (Unix time, as gint64 *) its use is asked for again */
  GHashTable *renewed; /* uids of Jobs that got another grant */

  /* Of one round: */
  gint64 now_s;
  GHashTable *pods; /* namespace -> set of names of claims that Pods use */
};

static void
forget_round (ClaimCollector *self)
{
  g_hash_table_remove_all (self->pods);
}

ClaimCollector *
claim_collector_new (DeliveryCaches *caches, MaterializeTurns *turns)
{
  ClaimCollector *self = g_new0 (ClaimCollector, 1);
  self->caches = caches;
  self->turns = turns;
  self->clean = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->used = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->renewed = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->pods = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_hash_table_unref);
  return self;
}

void
claim_collector_free (ClaimCollector *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->clean);
  g_hash_table_unref (self->used);
  g_hash_table_unref (self->renewed);
  g_hash_table_unref (self->pods);
  g_free (self);
}

/* Claims of ours that a Pod uses; not those of materializers, which are there for the claim. */
static gboolean
note_claims (KubeObject *pod, gpointer data, GError **error)
{
  GHashTable *claims = data;
  size_t index, n;
  yyjson_val *volume;
  if (pod_is_over (pod) || g_strcmp0 (kube_object_label (pod, APP_LABEL), MATERIALIZER_APP) == 0)
    return TRUE;
  yyjson_arr_foreach (json_get_array (kube_object_spec (pod), "volumes"), index, n, volume)
  {
    const char *name = json_get_string (json_get_object (volume, "persistentVolumeClaim"), "claimName");
    if (name != NULL && g_str_has_prefix (name, DELIVERY_CLAIM_PREFIX))
      g_hash_table_add (claims, g_strdup (name));
  }
  return TRUE;
}

/* Asks for a namespace's Pods once in a round. */
static gboolean
is_in_use (Ctx *ctx, ClaimCollector *self, const KubeObject *claim, gboolean *out_is_in_use, GError **error)
{
  const char *namespace = kube_object_namespace (claim);
  KubeTarget target = { .kind = &pod_kind, .namespace = namespace };
  KubeListOptions options = { .may_lag = TRUE };
  GHashTable *claims = g_hash_table_lookup (self->pods, namespace);
  if (claims == NULL)
    {
      g_autoptr (GHashTable) found = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      if (!kube_client_list (ctx, self->caches->client, &target, &options, note_claims, found, NULL, error))
        return FALSE;
      claims = g_steal_pointer (&found);
      g_hash_table_insert (self->pods, g_strdup (namespace), claims);
    }
  *out_is_in_use = g_hash_table_contains (claims, kube_object_name (claim));
  return TRUE;
}

static ClaimUse
use_of (const KubeObject *claim)
{
  return (ClaimUse){
    .phase = claim_phase (claim),
    .is_deleting = kube_object_is_deleting (claim),
    .n_holders = claim_n_holders (claim),
    .released_s = claim_released_s (claim),
  };
}

/* Pods are asked for only where they matter, and not in each round. */
static gboolean
fate_of (Ctx *ctx, ClaimCollector *self, const KubeObject *claim, ClaimFate *out_fate, GError **error)
{
  ClaimUse use = use_of (claim);
  const char *uid = kube_object_uid (claim);
  const gint64 *again_s = g_hash_table_lookup (self->used, uid);
  *out_fate = claim_fate (&use, self->now_s);
  if (*out_fate != CLAIM_WRITE_RELEASED && *out_fate != CLAIM_DELETE)
    return TRUE;
  if (again_s != NULL && *again_s > self->now_s)
    use.is_in_use = TRUE;
  else if (!is_in_use (ctx, self, claim, &use.is_in_use, error))
    return FALSE;
  else if (use.is_in_use)
    {
      gint64 *then_s = g_new (gint64, 1);
      *then_s = self->now_s + USE_PAUSE_S;
      g_hash_table_replace (self->used, g_strdup (uid), then_s);
    }
  else
    g_hash_table_remove (self->used, uid);
  *out_fate = claim_fate (&use, self->now_s);
  return TRUE;
}

static gboolean
write_released (Ctx *ctx, ClaimCollector *self, const KubeObject *claim, gint64 released_s, GError **error)
{
  g_autoptr (yyjson_mut_doc) patch = claim_released_patch (claim, released_s);
  return claim_patch (ctx, self->caches->client, claim, patch, error);
}

/* Its Job, which would keep it, first. */
static gboolean
delete_claim (Ctx *ctx, ClaimCollector *self, const KubeObject *claim, const KubeObject *job, GError **error)
{
  KubeClient *client = self->caches->client;
  if ((job != NULL && !materialize_job_delete (ctx, client, job, error)) || !claim_delete (ctx, client, claim, error))
    return FALSE;
  am_log_info (ctx, "a claim that nobody holds is removed", "namespace", kube_object_namespace (claim), "claim",
               kube_object_name (claim), NULL);
  return TRUE;
}

static gboolean
seal_fate (Ctx *ctx, ClaimCollector *self, const KubeObject *claim, const KubeObject *job, GError **error)
{
  ClaimFate fate = CLAIM_KEEP;
  if (!fate_of (ctx, self, claim, &fate, error))
    return FALSE;
  switch (fate)
    {
    case CLAIM_WRITE_RELEASED: return write_released (ctx, self, claim, self->now_s, error);
    case CLAIM_CLEAR_RELEASED: return write_released (ctx, self, claim, 0, error);
    case CLAIM_DELETE: return delete_claim (ctx, self, claim, job, error);
    case CLAIM_KEEP:
    default: return TRUE;
    }
}

/* Those of a Job that is gone. Whole claims have none: they went before the mark. */
static gboolean
clean_up (Ctx *ctx, ClaimCollector *self, const KubeObject *claim, GError **error)
{
  const char *namespace = kube_object_namespace (claim), *name = kube_object_name (claim);
  const char *uid = kube_object_uid (claim);
  if (kube_object_annotation (claim, MATERIALIZED_ANNOTATION) != NULL || g_hash_table_contains (self->clean, uid)
      || !materialize_turns_close (self->turns, namespace, name))
    return TRUE;
  gboolean done = materialize_secrets_delete (ctx, self->caches->client, namespace, name, error);
  materialize_turns_open (self->turns, namespace, name);
  if (done)
    g_hash_table_add (self->clean, g_strdup (uid));
  return done;
}

/* A claim of which there is something left to do, whatever that is. */
static gboolean
settle (Ctx *ctx, ClaimCollector *self, const KubeObject *claim, GError **error)
{
  g_autofree char *name = materialize_job_name (kube_object_name (claim));
  g_autoptr (KubeObject) job = informer_get (self->caches->jobs, kube_object_namespace (claim), name);
  if (kube_object_is_deleting (claim))
    return job == NULL || materialize_job_delete (ctx, self->caches->client, job, error);
  if (job != NULL)
    g_hash_table_remove (self->clean, kube_object_uid (claim));
  else if (!clean_up (ctx, self, claim, error))
    return FALSE;
  return seal_fate (ctx, self, claim, job, error);
}

/* By what the Model itself says, since claim and Job are their namespace's. FALSE: there is nothing to be read any more. */
static gboolean
read_subject (ClaimCollector *self, const KubeObject *claim, DeliveryModelFacts *facts, ClaimSubject *out_subject)
{
  if (!claim_subject_read (claim, out_subject))
    return FALSE;
  ModelReference reference = { .is_cluster_wide = out_subject->is_cluster_wide, .name = (char *) out_subject->model };
  delivery_model_read (self->caches, out_subject->namespace, &reference, facts);
  if (!facts->is_ready || g_strcmp0 (facts->digest, out_subject->digest) != 0)
    return FALSE;
  out_subject->repository = facts->repository;
  out_subject->size_bytes = facts->size_bytes;
  return TRUE;
}

/* A Job that is about to outlive its grant. */
static gboolean
renew (Ctx *ctx, ClaimCollector *self, const KubeObject *job, GError **error)
{
  g_auto (DeliveryModelFacts) facts = { 0 };
  ClaimSubject subject;
  const char *name = materialize_job_claim (job), *id = materialize_job_grant (job), *uid = kube_object_uid (job);
  if (self->now_s - kube_object_created_s (job) < RENEW_S || !materialize_job_is_unfinished (job) || name == NULL
      || id == NULL || !text_is_uuid (id) || g_hash_table_contains (self->renewed, uid))
    return TRUE;
  g_autoptr (KubeObject) claim = informer_get (self->caches->claims, kube_object_namespace (job), name);
  if (claim == NULL || !read_subject (self, claim, &facts, &subject))
    return TRUE;
  if (!materialize_grant_write (ctx, self->caches, &subject, claim, id, error))
    return FALSE;
  g_hash_table_add (self->renewed, g_strdup (uid));
  return TRUE;
}

static void
tell (Ctx *term, const KubeObject *object, GError *error)
{
  if (am_error_is (error, AM_ERROR_ABORTED) || !ctx_check (term, NULL))
    am_ignore (&error, "looked at again in the next round");
  else
    am_log_warning (term, "a claim or its Job is not tidied up yet", "namespace", kube_object_namespace (object),
                    "name", kube_object_name (object), "err", error->message, NULL);
  g_clear_error (&error);
}

/* What is remembered of claims and Jobs that are gone. */
static void
forget_gone (ClaimCollector *self, GPtrArray *claims, GPtrArray *jobs)
{
  g_autoptr (GHashTable) uids = g_hash_table_new (g_str_hash, g_str_equal);
  GHashTable *tables[] = { self->clean, self->used, self->renewed };
  for (guint i = 0; i < claims->len; i++)
    g_hash_table_add (uids, (char *) kube_object_uid (g_ptr_array_index (claims, i)));
  for (guint i = 0; i < jobs->len; i++)
    g_hash_table_add (uids, (char *) kube_object_uid (g_ptr_array_index (jobs, i)));
  for (gsize i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      GHashTableIter iter;
      gpointer uid;
      g_hash_table_iter_init (&iter, tables[i]);
      while (g_hash_table_iter_next (&iter, &uid, NULL))
        if (!g_hash_table_contains (uids, uid))
          g_hash_table_iter_remove (&iter);
    }
}

void
claim_collector_round (Ctx *term, ClaimCollector *self, gint64 now_s)
{
  g_autoptr (GPtrArray) claims = informer_find (self->caches->claims, CLAIMS_UNSETTLED);
  g_autoptr (GPtrArray) jobs = informer_find (self->caches->jobs, NULL);
  self->now_s = now_s;
  forget_gone (self, claims, jobs);
  for (guint i = 0; i < claims->len + jobs->len && ctx_check (term, NULL); i++)
    {
      GError *error = NULL;
      gboolean is_claim = i < claims->len;
      const KubeObject *object = is_claim ? g_ptr_array_index (claims, i) : g_ptr_array_index (jobs, i - claims->len);
      if (!(is_claim ? settle (term, self, object, &error) : renew (term, self, object, &error)))
        tell (term, object, error);
    }
  materialize_turns_check (term, self->turns);
  forget_round (self);
}

void
claim_collector_run (Ctx *term, DeliveryCaches *caches, MaterializeTurns *turns)
{
  g_autoptr (ClaimCollector) self = claim_collector_new (caches, turns);
  do
    claim_collector_round (term, self, g_get_real_time () / G_USEC_PER_SEC);
  while (ctx_sleep_ms (term, ROUND_MS, NULL));
}
