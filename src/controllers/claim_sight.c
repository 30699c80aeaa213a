#include "controllers/claim_sight.h"

#include <string.h>

#include "controllers/event_sight.h"
#include "controllers/materialize_sight.h"

#define WAITS_FOR_POD "its Job has no Pod yet"
#define WAITS_FOR_START "its Pod does not begin"

void
claim_sight_clear (ClaimSight *self)
{
  char **texts[] = { &self->name, &self->model, &self->refusal, &self->job_message, &self->pod_uid };
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_clear_pointer (texts[i], g_free);
  g_clear_pointer (&self->claim, kube_object_unref);
  g_clear_pointer (&self->job, kube_object_unref);
}

static gboolean
is_shared (const KubeObject *claim)
{
  size_t index, n;
  yyjson_val *mode;
  yyjson_arr_foreach (json_get_array (kube_object_spec (claim), "accessModes"), index, n, mode)
  {
    if (yyjson_equals_str (mode, "ReadWriteMany"))
      return TRUE;
  }
  return FALSE;
}

static gboolean
is_ours (const KubeObject *claim, const ClaimSubject *subject)
{
  ClaimSubject said;
  return g_strcmp0 (kube_object_label (claim, SHARED_CLAIM_LABEL), "true") == 0 && claim_subject_read (claim, &said)
         && said.is_cluster_wide == subject->is_cluster_wide && strcmp (said.model, subject->model) == 0
         && strcmp (said.digest, subject->digest) == 0;
}

static gboolean
job_is_older (const ClaimSight *self)
{
  const char *uid = self->claim != NULL ? kube_object_uid (self->claim) : NULL;
  return self->job != NULL && g_strcmp0 (materialize_job_claim_uid (self->job), uid) != 0;
}

static void
view_claim (ClaimSight *self, const ClaimSubject *subject)
{
  const KubeObject *claim = self->claim;
  ClaimView *view = &self->view;
  view->phase = claim_phase (claim);
  view->is_deleting = kube_object_is_deleting (claim);
  view->is_ours = is_ours (claim, subject);
  view->is_shared = is_shared (claim);
  view->is_held = self->workload_uid != NULL && claim_is_held_by (claim, self->workload_uid);
  view->job_is_older = job_is_older (self);
  view->is_whole = g_strcmp0 (kube_object_annotation (claim, MATERIALIZED_ANNOTATION), subject->digest) == 0;
  view->storage_class = json_get_string (kube_object_spec (claim), "storageClassName");
  view->age_s = MAX (g_get_real_time () / G_USEC_PER_SEC - kube_object_created_s (claim), 0);
}

static void
set_job_message (ClaimSight *self, char *message)
{
  g_free (self->job_message);
  self->job_message = message;
  self->view.job_message = message;
}

static void
view_job (ClaimSight *self, const DeliveryCaches *caches)
{
  g_auto (MaterializeSight) sight = { 0 };
  g_autoptr (GPtrArray) pods = informer_find (caches->job_pods, kube_object_uid (self->job));
  ClaimView *view = &self->view;
  materialize_sight_read (self->job, pods, g_get_real_time () / G_USEC_PER_SEC, &sight);
  view->job = sight.state;
  view->job_ended_ago_s = sight.ended_ago_s;
  view->job_is_older = job_is_older (self);
  self->is_copying = sight.is_copying;
  self->is_mute = sight.is_mute;
  self->elapsed_s = sight.elapsed_s;
  self->pod_uid = sight.pod != NULL ? g_strdup (kube_object_uid (sight.pod)) : NULL;
  set_job_message (self, g_steal_pointer (&sight.message));
}

void
claim_sight_read (const DeliveryCaches *caches, const ClaimSubject *subject, const char *workload_uid,
                  ClaimSight *out_sight)
{
  ClaimSight sight = { .name = claim_name (subject),
                       .model = g_strdup (subject->model),
                       .workload_uid = workload_uid };
  g_autofree char *job = materialize_job_name (sight.name);
  sight.view.name = sight.name;
  sight.view.model = sight.model;
  sight.claim = informer_get (caches->claims, subject->namespace, sight.name);
  sight.job = informer_get (caches->jobs, subject->namespace, job);
  if (sight.claim != NULL)
    view_claim (&sight, subject);
  if (sight.job != NULL && !materialize_job_is_ours (caches->settings, sight.job))
    g_clear_pointer (&sight.job, kube_object_unref); /* in whose way it is, is told when one is to be made */
  if (sight.job != NULL)
    view_job (&sight, caches);
  *out_sight = sight;
}

/* One that the cache does not have: it is very new, or not ours. NULL without an error: there is none. */
static gboolean
look_for (Ctx *ctx, KubeClient *client, const KubeKind *kind, const char *namespace, const char *name,
          KubeObject **out_object, GError **error)
{
  KubeTarget target = { .kind = kind, .namespace = namespace, .name = name };
  return kube_client_find (ctx, client, &target, out_object, error);
}

static gboolean
ask_provisioner (Ctx *ctx, const DeliveryCaches *caches, ClaimSight *self, GError **error)
{
  static const char *const reasons[] = { "ProvisioningFailed", NULL };
  const char *namespace = kube_object_namespace (self->claim), *name = self->view.storage_class;
  g_autoptr (KubeObject) class = name != NULL ? informer_get (caches->storage_classes, NULL, name) : NULL;
  const char *provisioner = class != NULL ? json_get_string (kube_object_root (class), "provisioner") : NULL;
  const char *const reporters[] = { "persistentvolume-controller", provisioner, NULL };
  EventWanted wanted = { claim_kind.kind, kube_object_uid (self->claim), reasons, reporters };
  if (!event_sight_ask (ctx, caches->client, namespace, &wanted, &self->refusal, error))
    return FALSE;
  self->view.refusal = self->refusal;
  return TRUE;
}

/* Of the Job when it makes no Pod, of its Pod when that does not begin. */
static gboolean
ask_mute (Ctx *ctx, const DeliveryCaches *caches, ClaimSight *self, GError **error)
{
  static const char *const reporters[] = { "kubelet", "attachdetach-controller", "job-controller",
                                           "default-scheduler", NULL };
  const char *namespace = kube_object_namespace (self->job);
  g_autofree char *said = NULL;
  EventWanted wanted = { .kind = self->pod_uid != NULL ? "Pod" : job_kind.kind,
                         .uid = self->pod_uid != NULL ? self->pod_uid : kube_object_uid (self->job),
                         .reporters = reporters };
  if (!event_sight_ask (ctx, caches->client, namespace, &wanted, &said, error))
    return FALSE;
  set_job_message (self, g_strdup_printf ("%s%s%s", self->pod_uid != NULL ? WAITS_FOR_START : WAITS_FOR_POD,
                                          said != NULL ? ": " : "", said != NULL ? said : ""));
  return TRUE;
}

static void
ask_progress (Ctx *ctx, MaterializeTurns *turns, const ClaimSubject *subject, ClaimSight *self)
{
  guint64 read_bytes = 0;
  if (materialize_turns_read (ctx, turns, self->job, &read_bytes))
    set_job_message (self, claim_copy_progress (read_bytes, subject->size_bytes, self->elapsed_s));
}

/* A Job that is not ours has the name: nothing can be done before that is gone. */
static gboolean
ask_turn (Ctx *ctx, const DeliveryCaches *caches, MaterializeTurns *turns, const char *key, ClaimSight *self,
          GError **error)
{
  g_autofree char *name = materialize_job_name (self->name);
  g_autoptr (KubeObject) job = NULL;
  self->view.has_slot = materialize_turns_ask (turns, self->claim, key);
  if (!self->view.has_slot)
    return TRUE;
  if (!look_for (ctx, caches->client, &job_kind, kube_object_namespace (self->claim), name, &job, error))
    return FALSE;
  if (job == NULL)
    return TRUE;
  self->view.has_slot = FALSE;
  if (materialize_job_is_ours (caches->settings, job)) /* the cache will have it */
    return TRUE;
  materialize_turns_give_back (turns, self->claim);
  self->view.job = MATERIALIZER_FAILED;
  set_job_message (self, g_strdup_printf ("Job %s was not made by this module: remove it", name));
  return TRUE;
}

gboolean
claim_sight_ask (Ctx *ctx, const DeliveryCaches *caches, MaterializeTurns *turns, const ClaimSubject *subject,
                 const char *key, ClaimSight *self, GError **error)
{
  const ClaimView *view = &self->view;
  if (self->claim == NULL)
    {
      if (!look_for (ctx, caches->client, &claim_kind, subject->namespace, self->name, &self->claim, error))
        return FALSE;
      if (self->claim != NULL)
        view_claim (self, subject);
    }
  if (view->phase == CLAIM_ABSENT || !view->is_ours || !view->is_shared || view->is_deleting)
    return TRUE;
  if (view->phase == CLAIM_PENDING)
    return ask_provisioner (ctx, caches, self, error);
  if (view->phase != CLAIM_BOUND || view->is_whole || (self->job != NULL && view->job_is_older))
    return TRUE;
  if (view->job == MATERIALIZER_ABSENT && view->is_held)
    return ask_turn (ctx, caches, turns, key, self, error);
  if (self->is_mute)
    return ask_mute (ctx, caches, self, error);
  if (self->is_copying)
    ask_progress (ctx, turns, subject, self);
  return TRUE;
}
