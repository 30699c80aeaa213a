#include "controllers/delivery_controller.h"

#include <string.h>

#include "controllers/claim_collector.h"
#include "controllers/delivery_trim.h"
#include "controllers/materialize_metrics.h"
#include "controllers/reconcile_loop.h"
#include "controllers/workload_work.h"

#define N_RECONCILERS 4
#define LOOK_TIMEOUT_MS (2 * 60 * 1000)
#define MAX_STEPS 8 /* in one look; the next look goes on */
#define COMPONENT "ai-models-controller"

/* Which workloads a change concerns */

static void
enqueue (DeliveryController *self, const WorkloadKind *kind, const char *namespace, const char *name)
{
  if (strcmp (namespace, self->caches->settings->namespace) == 0)
    return;
  g_autofree char *key = workload_key (kind, namespace, name);
  work_queue_add (self->queue, key);
}

/* `namespace` NULL: of all. */
static void
enqueue_found (DeliveryController *self, const WorkloadKind *kind, const char *value, const char *namespace)
{
  g_autoptr (GPtrArray) found = informer_find (self->caches->workloads[workload_kind_index (kind)], value);
  for (guint i = 0; i < found->len; i++)
    {
      const KubeObject *workload = g_ptr_array_index (found, i);
      if (namespace == NULL || strcmp (kube_object_namespace (workload), namespace) == 0)
        enqueue (self, kind, kube_object_namespace (workload), kube_object_name (workload));
    }
}

static void
enqueue_all_found (DeliveryController *self, const char *value)
{
  for (guint i = 0; i < WORKLOAD_N_KINDS; i++)
    enqueue_found (self, &workload_kinds[i], value, NULL);
}

/* What an entry of ownerReferences names, if that is a workload. */
static void
enqueue_owner (DeliveryController *self, const char *namespace, yyjson_val *owner)
{
  const WorkloadKind *kind = workload_kind_named (json_get_string (owner, "kind"));
  const char *name = json_get_string (owner, "name");
  if (kind != NULL && name != NULL)
    enqueue (self, kind, namespace, name);
}

static void
workload_changed (DeliveryController *self, DeliveryCache cache, const KubeObject *workload)
{
  if (kube_object_spec (workload) != NULL) /* it is ours */
    enqueue (self, &workload_kinds[cache], kube_object_namespace (workload), kube_object_name (workload));
}

static void
set_changed (DeliveryController *self, DeliveryCache cache, const KubeObject *set)
{
  if (json_get_object (kube_object_spec (set), "template") != NULL)
    enqueue_owner (self, kube_object_namespace (set), kube_object_controller (set));
}

static void
pod_changed (DeliveryController *self, DeliveryCache cache, const KubeObject *pod)
{
  yyjson_val *owner = kube_object_controller (pod);
  const char *namespace = kube_object_namespace (pod), *kind = json_get_string (owner, "kind");
  if (kube_object_spec (pod) == NULL || kind == NULL || pod_is_of_materializer (pod))
    return;
  if (strcmp (kind, replica_set_kind.kind) == 0)
    {
      g_autoptr (KubeObject) set = informer_get (self->caches->replica_sets, namespace,
                                                 json_get_string (owner, "name"));
      if (set != NULL)
        enqueue_owner (self, namespace, kube_object_controller (set));
    }
  else if (strcmp (kind, job_kind.kind) == 0)
    {
      g_autofree char *value = workloads_in (namespace);
      enqueue_found (self, &workload_kinds[WORKLOAD_CRON_JOB], value, namespace);
    }
  else
    enqueue_owner (self, namespace, owner);
}

static yyjson_val *
owners_of (const KubeObject *object)
{
  return json_get_array (json_get_object (kube_object_root (object), "metadata"), "ownerReferences");
}

static void
enqueue_holders (DeliveryController *self, const KubeObject *claim)
{
  size_t index, n;
  yyjson_val *owner;
  yyjson_arr_foreach (owners_of (claim), index, n, owner)
  {
    enqueue_owner (self, kube_object_namespace (claim), owner);
  }
}

/* Who asks for the model that a claim is of: they wait for it, and hold it only once it is there. */
static void
enqueue_users (DeliveryController *self, const KubeObject *claim)
{
  ClaimSubject subject;
  const char *namespace = kube_object_namespace (claim);
  if (!claim_subject_read (claim, &subject))
    return;
  ModelOwner owner = {
    .kind = subject.is_cluster_wide ? cluster_model_kind.kind : model_kind.kind,
    .namespace = subject.is_cluster_wide ? NULL : namespace,
    .name = subject.model,
  };
  g_autofree char *value = model_key (&owner);
  for (guint i = 0; i < WORKLOAD_N_KINDS; i++)
    enqueue_found (self, &workload_kinds[i], value, namespace);
}

/* Whether a holder sees a difference; that another one came or went is none: a claim may have hundreds of them. */
static gboolean
claim_differs (const KubeObject *before, const KubeObject *now)
{
  return before == NULL || now == NULL || strcmp (kube_object_uid (before), kube_object_uid (now)) != 0
         || kube_object_is_deleting (before) != kube_object_is_deleting (now)
         || g_strcmp0 (kube_object_annotation (before, MATERIALIZED_ANNOTATION),
                       kube_object_annotation (now, MATERIALIZED_ANNOTATION))
              != 0
         || g_strcmp0 (kube_object_label (before, SHARED_CLAIM_LABEL), kube_object_label (now, SHARED_CLAIM_LABEL))
              != 0
         || g_strcmp0 (json_get_string (kube_object_status (before), "phase"),
                       json_get_string (kube_object_status (now), "phase"))
              != 0;
}

/* Those of `one` that the other does not have. */
static void
enqueue_other_holders (DeliveryController *self, const KubeObject *one, const KubeObject *other)
{
  g_autoptr (GHashTable) known = g_hash_table_new (g_str_hash, g_str_equal);
  size_t index, n;
  yyjson_val *owner;
  yyjson_arr_foreach (owners_of (other), index, n, owner)
  {
    const char *uid = json_get_string (owner, "uid");
    if (uid != NULL)
      g_hash_table_add (known, (char *) uid);
  }
  yyjson_arr_foreach (owners_of (one), index, n, owner)
  {
    const char *uid = json_get_string (owner, "uid");
    if (uid != NULL && !g_hash_table_contains (known, uid))
      enqueue_owner (self, kube_object_namespace (one), owner);
  }
}

static void
claim_changed (DeliveryController *self, const KubeObject *before, const KubeObject *now)
{
  const KubeObject *states[] = { before, now };
  if (!claim_differs (before, now))
    {
      enqueue_other_holders (self, before, now);
      enqueue_other_holders (self, now, before);
      return;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (states); i++)
    if (states[i] != NULL)
      enqueue_holders (self, states[i]);
  const KubeObject *any = now != NULL ? now : before;
  g_autofree char *value = g_strconcat (kube_object_namespace (any), "/", kube_object_name (any), NULL);
  enqueue_users (self, any);
  enqueue_all_found (self, value);
}

/* A Job that copies a model, or a Pod of one. */
static void
job_changed (DeliveryController *self, DeliveryCache cache, const KubeObject *object)
{
  const char *name = kube_object_label (object, CLAIM_NAME_LABEL);
  g_autoptr (KubeObject) claim = name != NULL
                                   ? informer_get (self->caches->claims, kube_object_namespace (object), name)
                                   : NULL;
  if (claim != NULL)
    enqueue_holders (self, claim);
}

static void
class_changed (DeliveryController *self, DeliveryCache cache, const KubeObject *class)
{
  enqueue_all_found (self, WORKLOADS_BLOCKED);
}

static void
cache_changed (DeliveryCache cache, const KubeObject *before, const KubeObject *now, gpointer data)
{
  static void (*const changed[DELIVERY_N_CACHES]) (DeliveryController *, DeliveryCache, const KubeObject *) = {
    [WORKLOAD_DEPLOYMENT] = workload_changed,
    [WORKLOAD_STATEFUL_SET] = workload_changed,
    [WORKLOAD_DAEMON_SET] = workload_changed,
    [WORKLOAD_CRON_JOB] = workload_changed,
    [DELIVERY_CACHE_REPLICA_SETS] = set_changed,
    [DELIVERY_CACHE_PENDING_PODS] = pod_changed,
    [DELIVERY_CACHE_JOBS] = job_changed,
    [DELIVERY_CACHE_JOB_PODS] = job_changed,
    [DELIVERY_CACHE_STORAGE_CLASSES] = class_changed,
  };
  DeliveryController *self = data;
  if (!g_atomic_int_get (&self->is_leading))
    return;
  if (cache == DELIVERY_CACHE_CLAIMS)
    {
      claim_changed (self, before, now);
      return;
    }
  if (before != NULL)
    changed[cache](self, cache, before);
  if (now != NULL)
    changed[cache](self, cache, now);
}

/* Whether a workload that asks for the model sees a difference; a publication's progress is none. */
static gboolean
model_differs (const KubeObject *before, const KubeObject *now)
{
  static const char *const members[] = { "phase", "artifact", "resolved" };
  if (before == NULL || now == NULL || kube_object_is_deleting (before) != kube_object_is_deleting (now))
    return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (members); i++)
    {
      yyjson_val *old = yyjson_obj_get (kube_object_status (before), members[i]);
      yyjson_val *new = yyjson_obj_get (kube_object_status (now), members[i]);
      if (old != new && !yyjson_equals (old, new))
        return TRUE;
    }
  return FALSE;
}

static void
model_changed (const KubeObject *before, const KubeObject *now, gboolean is_cluster_wide, gpointer data)
{
  DeliveryController *self = data;
  ModelOwner owner = model_owner_of (now != NULL ? now : before, is_cluster_wide);
  if (!g_atomic_int_get (&self->is_leading) || !model_differs (before, now))
    return;
  g_autofree char *value = model_key (&owner);
  enqueue_all_found (self, value);
}

/* One look */

/* Takes the newest state of the object; `*out_is_gone`: there is none. */
static gboolean
fetch (WorkloadWork *work, gboolean *out_is_gone, GError **error)
{
  KubeObject *object = NULL;
  KubeTarget target = { .kind = &work->kind->kube,
                        .namespace = kube_object_namespace (work->object),
                        .name = kube_object_name (work->object) };
  if (!kube_client_find (work->ctx, work->controller->caches->client, &target, &object, error))
    return FALSE;
  *out_is_gone = object == NULL;
  if (object != NULL)
    workload_work_replace (work, object);
  return TRUE;
}

/* A look at what is cached is enough to see that nothing is to be done; whatever is done is decided by the newest state. */
static gboolean
step (WorkloadWork *work, gboolean *out_again, GError **error)
{
  g_auto (DeliveryDecision) decision = { 0 };
  gboolean is_gone = FALSE;
  *out_again = FALSE;
  if (kube_object_spec (work->object) == NULL && (!fetch (work, &is_gone, error) || is_gone))
    return is_gone;
  if (!workload_observe (work, error))
    return FALSE;
  delivery_decide (&work->view, &decision);
  work->again_ms = (gint64) decision.recheck_s * 1000;
  if (workload_is_idle (work, &decision))
    return TRUE;
  if (work->is_live && !workload_must_renew (work, &decision))
    return workload_act (work, &decision, out_again, error);
  *out_again = TRUE;
  if (work->is_live)
    return workload_renew_claims (work, error);
  if (!fetch (work, &is_gone, error))
    return FALSE;
  *out_again = !is_gone;
  return TRUE;
}

static gboolean
step_on (WorkloadWork *work, GError **error)
{
  GError *problem = NULL;
  gboolean again = TRUE;
  for (guint i = 0; i < MAX_STEPS && again && problem == NULL; i++)
    if (!step (work, &again, &problem))
      workload_say_failed (work, problem);
  if (problem != NULL)
    {
      g_propagate_error (error, problem);
      return FALSE;
    }
  if (again)
    work->again_ms = 1;
  return TRUE;
}

/* Nothing of ours is in it, and nothing is held for it. */
static gboolean
is_strange (const DeliveryController *self, const KubeObject *workload)
{
  if (kube_object_spec (workload) != NULL)
    return FALSE;
  g_autoptr (GPtrArray) held = claims_held_by (self->caches, kube_object_namespace (workload),
                                               kube_object_uid (workload));
  return held->len == 0;
}

static gboolean
reconcile (Ctx *ctx, gpointer data, const char *key, gint64 *out_again_ms, GError **error)
{
  DeliveryController *self = data;
  g_auto (GStrv) parts = g_strsplit (key, "/", 3);
  const WorkloadKind *kind = workload_kind_named (parts[0]);
  if (kind == NULL || g_strv_length (parts) != 3)
    return TRUE;
  KubeObject *object = informer_get (self->caches->workloads[workload_kind_index (kind)], parts[1], parts[2]);
  WorkloadWork work = { .ctx = ctx, .controller = self, .key = key, .kind = kind, .object = object };
  gboolean done = object == NULL || is_strange (self, object) || step_on (&work, error);
  *out_again_ms = work.again_ms;
  workload_work_clear (&work);
  return done;
}

/* Leading */

typedef struct {
  DeliveryController *controller;
  const WorkloadKind *kind;
} Listing;

static void
enqueue_listed (const KubeObject *workload, gpointer data)
{
  const Listing *listing = data;
  if (kube_object_spec (workload) != NULL)
    enqueue (listing->controller, listing->kind, kube_object_namespace (workload), kube_object_name (workload));
}

static void
enqueue_holders_listed (const KubeObject *claim, gpointer data)
{
  enqueue_holders (data, claim);
}

static void
enqueue_everything (DeliveryController *self)
{
  for (guint i = 0; i < WORKLOAD_N_KINDS; i++)
    {
      Listing listing = { self, &workload_kinds[i] };
      informer_each (self->caches->workloads[i], enqueue_listed, &listing);
    }
  informer_each (self->caches->claims, enqueue_holders_listed, self);
}

typedef struct {
  DeliveryController *controller;
  Ctx *term;
} Reign;

static gpointer
collect_claims (gpointer data)
{
  const Reign *reign = data;
  claim_collector_run (reign->term, reign->controller->caches, reign->controller->turns);
  return NULL;
}

gboolean
delivery_controller_lead (Ctx *term, gpointer data, GError **error)
{
  DeliveryController *self = data;
  ReconcileLoop loop = { self->queue, N_RECONCILERS, reconcile, NULL, self, LOOK_TIMEOUT_MS };
  if (!model_controller_wait (term, self->caches->models, error) || !delivery_caches_wait (term, self->caches, error)
      || !materialize_turns_begin (term, self->turns, error))
    return FALSE;
  g_atomic_int_set (&self->is_leading, TRUE);
  enqueue_everything (self);
  Reign reign = { self, term };
  GThread *collector = g_thread_new ("claims", collect_claims, &reign);
  reconcile_loop_run (term, &loop);
  g_thread_join (collector);
  g_atomic_int_set (&self->is_leading, FALSE);
  return TRUE;
}

static void
turn_came (const char *key, gpointer data)
{
  DeliveryController *self = data;
  if (g_atomic_int_get (&self->is_leading))
    work_queue_add (self->queue, key);
}

DeliveryController *
delivery_controller_new (Ctx *ctx, DeliveryCaches *caches)
{
  DeliveryController *self = g_new0 (DeliveryController, 1);
  self->ctx = ctx_new_child (ctx, -1);
  self->caches = caches;
  self->events = event_recorder_new (caches->client, COMPONENT, caches->settings->identity);
  self->queue = work_queue_new (NULL);
  self->turns = materialize_turns_new (caches, turn_came, self);
  delivery_caches_listen (caches, cache_changed, self);
  model_controller_listen (caches->models, model_changed, self);
  return self;
}

void
delivery_controller_free (DeliveryController *self)
{
  if (self == NULL)
    return;
  ctx_cancel (self->ctx);
  model_controller_listen (self->caches->models, NULL, NULL);
  delivery_caches_listen (self->caches, NULL, self);
  materialize_turns_free (self->turns);
  work_queue_free (self->queue);
  event_recorder_free (self->events);
  ctx_unref (self->ctx);
  g_free (self);
}

void
delivery_controller_append_metrics (gpointer data, GString *out)
{
  DeliveryController *self = data;
  materialize_metrics_append (self->turns, out);
}
