#include "controllers/claim_work.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cluster/module_objects.h"

#define MAX_TRIES 5
#define MAX_CA_BYTES (256 * 1024)

static KubeTarget
target_of (const KubeKind *kind, const KubeObject *object)
{
  return (KubeTarget){ .kind = kind, .namespace = kube_object_namespace (object), .name = kube_object_name (object) };
}

/* Fine when it is there already: the next look tells what it is. */
static gboolean
create (Ctx *ctx, KubeClient *client, const KubeKind *kind, const char *namespace, yyjson_mut_doc *doc,
        gboolean *out_existed, GError **error)
{
  KubeTarget target = { .kind = kind, .namespace = namespace };
  return kube_client_ensure (ctx, client, &target, doc, out_existed, error);
}

static gboolean
patch_claim (Ctx *ctx, KubeClient *client, const KubeObject *claim, yyjson_mut_doc *patch, GError **error)
{
  KubeTarget target = target_of (&claim_kind, claim);
  g_autoptr (KubeObject) stored = kube_client_patch (ctx, client, &target, KUBE_PATCH_MERGE, NULL, patch, error);
  return stored != NULL;
}

/* Takes the problem. */
static gboolean
is_done_or_gone (gboolean is_done, GError *problem, GError **error)
{
  g_autoptr (GError) owned = problem;
  if (is_done || am_error_is (owned, AM_ERROR_NOT_FOUND))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&owned));
  return FALSE;
}

gboolean
claim_patch (Ctx *ctx, KubeClient *client, const KubeObject *claim, yyjson_mut_doc *patch, GError **error)
{
  GError *problem = NULL;
  gboolean is_done = patch_claim (ctx, client, claim, patch, &problem);
  return is_done_or_gone (is_done, problem, error);
}

gboolean
claim_delete (Ctx *ctx, KubeClient *client, const KubeObject *claim, GError **error)
{
  KubeTarget target = target_of (&claim_kind, claim);
  KubeDeleteOptions options = { .uid = kube_object_uid (claim),
                                .resource_version = kube_object_resource_version (claim),
                                .grace_period_s = -1 };
  return kube_client_delete (ctx, client, &target, &options, error);
}

gboolean
materialize_job_delete (Ctx *ctx, KubeClient *client, const KubeObject *job, GError **error)
{
  KubeTarget target = target_of (&job_kind, job);
  KubeDeleteOptions options = { .uid = kube_object_uid (job), .propagation = "Foreground", .grace_period_s = -1 };
  return kube_object_is_deleting (job) || kube_client_delete (ctx, client, &target, &options, error);
}

gboolean
materialize_secrets_delete (Ctx *ctx, KubeClient *client, const char *namespace, const char *claim, GError **error)
{
  g_autofree char *grant = materialize_grant_name (claim), *pull = materialize_pull_name (claim);
  KubeTarget first = { .kind = &secret_kind, .namespace = namespace, .name = grant };
  KubeTarget second = { .kind = &secret_kind, .namespace = namespace, .name = pull };
  return kube_client_delete (ctx, client, &first, NULL, error)
         && kube_client_delete (ctx, client, &second, NULL, error);
}

/* With just this content. One that is there is written over; one that cannot be (immutable, of another type) goes first. */
static gboolean
put_secret (Ctx *ctx, KubeClient *client, const char *namespace, yyjson_mut_doc *doc, GError **error)
{
  gboolean existed = FALSE;
  g_autoptr (GError) problem = NULL;
  yyjson_mut_val *metadata = yyjson_mut_obj_get (yyjson_mut_doc_get_root (doc), "metadata");
  KubeTarget target = { .kind = &secret_kind,
                        .namespace = namespace,
                        .name = yyjson_mut_get_str (yyjson_mut_obj_get (metadata, "name")) };
  if (!create (ctx, client, &secret_kind, namespace, doc, &existed, error))
    return FALSE;
  if (!existed)
    return TRUE;
  g_autoptr (KubeObject) stored = kube_client_patch (ctx, client, &target, KUBE_PATCH_MERGE, NULL, doc, &problem);
  if (stored != NULL)
    return TRUE;
  if (am_error_is (problem, AM_ERROR_INVALID_ARGUMENT))
    return kube_client_delete (ctx, client, &target, NULL, error)
           && create (ctx, client, &secret_kind, namespace, doc, &existed, error);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

gboolean
materialize_grant_write (Ctx *ctx, const DeliveryCaches *caches, const ClaimSubject *subject, const KubeObject *claim,
                         const char *grant_id, GError **error)
{
  const ControllerSettings *settings = caches->settings;
  g_autofree char *authority = NULL;
  if (settings->registry_ca_file != NULL)
    {
      g_autoptr (GBytes) bytes = file_read (settings->registry_ca_file, MAX_CA_BYTES, error);
      if (bytes == NULL)
        return FALSE;
      authority = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
    }
  g_autoptr (yyjson_mut_doc) doc = materialize_grant_document (settings, subject, claim, grant_id, authority,
                                                               g_get_real_time () / G_USEC_PER_SEC);
  return put_secret (ctx, caches->client, subject->namespace, doc, error);
}

static gboolean
write_pull_secret (Ctx *ctx, const ClaimWork *work, GError **error)
{
  const ControllerSettings *settings = work->caches->settings;
  KubeTarget target = { .kind = &secret_kind,
                        .namespace = settings->namespace,
                        .name = settings->delivery.materializer_pull_secret };
  if (target.name == NULL)
    return TRUE;
  g_autoptr (KubeObject) own = kube_client_get (ctx, work->caches->client, &target, error);
  if (own == NULL)
    return FALSE;
  g_autoptr (yyjson_mut_doc) doc = materialize_pull_document (work->subject, work->seen->claim, own);
  return put_secret (ctx, work->caches->client, work->subject->namespace, doc, error);
}

static gboolean
create_claim (Ctx *ctx, const ClaimWork *work, GError **error)
{
  gboolean existed = FALSE;
  g_autoptr (yyjson_mut_doc) doc = claim_document (work->subject, &work->kind->kube, work->workload,
                                                   work->storage_class);
  return create (ctx, work->caches->client, &claim_kind, work->subject->namespace, doc, &existed, error);
}

/* How a claim's holders are changed. */
typedef struct {
  yyjson_mut_doc *(*make) (const KubeObject *claim, gconstpointer data); /* NULL when they are as they shall be */
  gconstpointer data;
  gboolean needs_it; /* ABORTED for one that is being deleted by then */
} HoldersChange;

/* Many may want to hold a claim at once, and of those who change it at the same time one comes first: the others look at what it
 * made of it. NOT_FOUND when it is gone. */
static gboolean
change_holders (Ctx *ctx, KubeClient *client, const KubeObject *seen, const HoldersChange *change, GError **error)
{
  g_autoptr (KubeObject) newer = NULL;
  KubeTarget target = target_of (&claim_kind, seen);
  for (guint i = 0;; i++)
    {
      g_autoptr (GError) problem = NULL;
      const KubeObject *claim = newer != NULL ? newer : seen;
      g_autoptr (yyjson_mut_doc) patch = change->make (claim, change->data);
      if (patch == NULL || patch_claim (ctx, client, claim, patch, &problem))
        return TRUE;
      g_clear_pointer (&newer, kube_object_unref);
      if (am_error_is (problem, AM_ERROR_ABORTED) && i < MAX_TRIES)
        {
          newer = kube_client_get (ctx, client, &target, NULL);
          gboolean goes = newer != NULL && change->needs_it && kube_object_is_deleting (newer);
          if (newer != NULL && !goes && strcmp (kube_object_uid (newer), kube_object_uid (seen)) == 0)
            continue;
        }
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
}

static yyjson_mut_doc *
make_hold_patch (const KubeObject *claim, gconstpointer data)
{
  const ClaimWork *work = data;
  gboolean is_held = claim_is_held_by (claim, kube_object_uid (work->workload));
  return is_held ? NULL : claim_hold_patch (claim, &work->kind->kube, work->workload);
}

/* What is delivered counts on it: one that is gone, or going, is looked at again. */
static gboolean
hold_claim (Ctx *ctx, const ClaimWork *work, GError **error)
{
  g_autoptr (GError) problem = NULL;
  HoldersChange change = { make_hold_patch, work, TRUE };
  if (change_holders (ctx, work->caches->client, work->seen->claim, &change, &problem))
    return TRUE;
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    return am_fail (error, AM_ERROR_ABORTED, NULL, "claim %s is gone", work->seen->name);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
remove_claim (Ctx *ctx, const ClaimWork *work, GError **error)
{
  return claim_delete (ctx, work->caches->client, work->seen->claim, error);
}

static gboolean
make_job (Ctx *ctx, const ClaimWork *work, GError **error)
{
  char grant_id[37];
  gboolean existed = FALSE;
  text_uuid (grant_id);
  if (!materialize_grant_write (ctx, work->caches, work->subject, work->seen->claim, grant_id, error)
      || !write_pull_secret (ctx, work, error))
    return FALSE;
  g_autoptr (yyjson_mut_doc) doc = materialize_job_document (work->caches->settings, work->subject, work->seen->claim,
                                                             grant_id, g_get_real_time () / G_USEC_PER_SEC);
  if (!create (ctx, work->caches->client, &job_kind, work->subject->namespace, doc, &existed, error))
    return FALSE;
  if (existed) /* whose it is, is looked at again */
    return am_fail (error, AM_ERROR_ABORTED, NULL, "there is a Job of the name for claim %s already",
                    work->seen->name);
  am_log_info (ctx, "materializer started", "claim", work->seen->name, "model", work->subject->model, "digest",
               work->subject->digest, NULL);
  return TRUE;
}

/* When it is this claim's turn: otherwise it waits on. */
static gboolean
start_job (Ctx *ctx, const ClaimWork *work, GError **error)
{
  if (!materialize_turns_take (work->turns, work->seen->claim))
    return TRUE;
  if (make_job (ctx, work, error))
    return TRUE;
  materialize_turns_give_back (work->turns, work->seen->claim);
  return FALSE;
}

static gboolean
remove_job (Ctx *ctx, const ClaimWork *work, GError **error)
{
  KubeClient *client = work->caches->client;
  if (work->seen->job == NULL || kube_object_is_deleting (work->seen->job))
    return TRUE;
  return materialize_job_delete (ctx, client, work->seen->job, error)
         && materialize_secrets_delete (ctx, client, work->subject->namespace, work->seen->name, error);
}

/* Secrets go first: who sees that the claim is whole need not look for them. */
static gboolean
mark_claim (Ctx *ctx, const ClaimWork *work, GError **error)
{
  g_autoptr (yyjson_mut_doc) patch = claim_mark_patch (work->seen->claim, work->subject->digest);
  if (!materialize_secrets_delete (ctx, work->caches->client, work->subject->namespace, work->seen->name, error)
      || !claim_patch (ctx, work->caches->client, work->seen->claim, patch, error))
    return FALSE;
  am_log_info (ctx, "model materialized", "claim", work->seen->name, "model", work->subject->model, "digest",
               work->subject->digest, NULL);
  return TRUE;
}

gboolean
claim_act (Ctx *ctx, const ClaimWork *work, ClaimStep step, GError **error)
{
  static gboolean (*const acts[]) (Ctx * ctx, const ClaimWork *work, GError **error) = {
    [CLAIM_STEP_CREATE] = create_claim, [CLAIM_STEP_HOLD] = hold_claim,       [CLAIM_STEP_REMOVE] = remove_claim,
    [CLAIM_STEP_START_JOB] = start_job, [CLAIM_STEP_REMOVE_JOB] = remove_job, [CLAIM_STEP_MARK] = mark_claim,
  };
  gboolean is_some = step < (ClaimStep) G_N_ELEMENTS (acts) && acts[step] != NULL;
  return !is_some || acts[step](ctx, work, error);
}

static yyjson_mut_doc *
make_leave_patch (const KubeObject *claim, gconstpointer data)
{
  gint64 now_s = g_get_real_time () / G_USEC_PER_SEC;
  return claim_is_held_by (claim, data) ? claim_leave_patch (claim, data, now_s) : NULL;
}

gboolean
claim_release (Ctx *ctx, DeliveryCaches *caches, const KubeObject *claim, const char *workload_uid, GError **error)
{
  if (!claim_is_held_by (claim, workload_uid))
    return TRUE;
  if (claim_phase (claim) == CLAIM_PENDING && claim_n_holders (claim) == 1)
    return kube_object_is_deleting (claim) || claim_delete (ctx, caches->client, claim, error);
  GError *problem = NULL;
  HoldersChange change = { make_leave_patch, workload_uid, FALSE };
  gboolean is_done = change_holders (ctx, caches->client, claim, &change, &problem);
  return is_done_or_gone (is_done, problem, error);
}

GPtrArray *
claims_held_by (const DeliveryCaches *caches, const char *namespace, const char *workload_uid)
{
  GPtrArray *held = informer_find (caches->claims, workload_uid);
  for (guint i = held->len; i-- > 0;)
    if (strcmp (kube_object_namespace (g_ptr_array_index (held, i)), namespace) != 0)
      g_ptr_array_remove_index_fast (held, i);
  return held;
}
