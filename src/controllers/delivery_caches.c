#include "controllers/delivery_caches.h"

#include <string.h>

#include "controllers/delivery_trim.h"

#define MATERIALIZERS APP_LABEL "=" MATERIALIZER_APP
#define SHARED_CLAIMS SHARED_CLAIM_LABEL "=true"

typedef struct {
  DeliveryChanged changed;
  gpointer data;
} Listener;

typedef struct {
  DeliveryCaches *caches;
  DeliveryCache cache;
} Ear;

typedef struct {
  GRWLock lock;
  GArray *all; /* of Listener */
  Ear ears[DELIVERY_N_CACHES];
} Listeners;

static void
tell (const KubeObject *before, const KubeObject *now, gpointer data)
{
  const Ear *ear = data;
  Listeners *listeners = ear->caches->listeners;
  g_autoptr (GRWLockReaderLocker) locker G_GNUC_UNUSED = g_rw_lock_reader_locker_new (&listeners->lock);
  for (guint i = 0; i < listeners->all->len; i++)
    {
      const Listener *listener = &g_array_index (listeners->all, Listener, i);
      listener->changed (ear->cache, before, now, listener->data);
    }
}

void
delivery_caches_listen (DeliveryCaches *self, DeliveryChanged changed, gpointer data)
{
  Listeners *listeners = self->listeners;
  Listener listener = { changed, data };
  g_autoptr (GRWLockWriterLocker) locker G_GNUC_UNUSED = g_rw_lock_writer_locker_new (&listeners->lock);
  if (changed != NULL)
    g_array_append_val (listeners->all, listener);
  for (guint i = listeners->all->len; changed == NULL && i > 0; i--)
    if (g_array_index (listeners->all, Listener, i - 1).data == data)
      g_array_remove_index (listeners->all, i - 1);
}

static Informer *
start (DeliveryCaches *self, DeliveryCache cache, InformerConfig config)
{
  Listeners *listeners = self->listeners;
  listeners->ears[cache] = (Ear){ self, cache };
  config.changed = tell;
  config.data = &listeners->ears[cache];
  return informer_start (self->ctx, self->client, &config);
}

DeliveryCaches *
delivery_caches_new (Ctx *ctx, KubeClient *client, const ControllerSettings *settings, ModelController *models)
{
  DeliveryCaches *self = g_new0 (DeliveryCaches, 1);
  Listeners *listeners = g_new0 (Listeners, 1);
  self->ctx = ctx_new_child (ctx, -1);
  self->client = client;
  self->settings = settings;
  self->models = models;
  self->listeners = listeners;
  g_rw_lock_init (&listeners->lock);
  listeners->all = g_array_new (FALSE, FALSE, sizeof (Listener));
  for (DeliveryCache i = 0; i < WORKLOAD_N_KINDS; i++)
    self->workloads[i] = start (
      self, i, (InformerConfig){ .kind = &workload_kinds[i].kube, .index = workload_index, .trim = workload_trim });
  self->replica_sets = start (
    self, DELIVERY_CACHE_REPLICA_SETS,
    (InformerConfig){ .kind = &replica_set_kind, .index = replica_set_index, .trim = replica_set_trim });
  self->pending_pods = start (self, DELIVERY_CACHE_PENDING_PODS,
                              (InformerConfig){ .kind = &pod_kind,
                                                .field_selector = "status.phase=Pending",
                                                .index = pending_pod_index,
                                                .trim = pending_pod_trim });
  self->claims = start (
    self, DELIVERY_CACHE_CLAIMS,
    (InformerConfig){ .kind = &claim_kind, .label_selector = SHARED_CLAIMS, .index = claim_index });
  self->jobs = start (self, DELIVERY_CACHE_JOBS,
                      (InformerConfig){ .kind = &job_kind, .label_selector = MATERIALIZERS });
  self->job_pods = start (
    self, DELIVERY_CACHE_JOB_PODS,
    (InformerConfig){ .kind = &pod_kind, .label_selector = MATERIALIZERS, .index = owners_index });
  self->storage_classes = start (self, DELIVERY_CACHE_STORAGE_CLASSES,
                                 (InformerConfig){ .kind = &storage_class_kind });
  return self;
}

/* In the order of DeliveryCache. */
static void
list_caches (DeliveryCaches *self, Informer *out_all[DELIVERY_N_CACHES])
{
  Informer *others[] = { self->replica_sets, self->pending_pods, self->claims,
                         self->jobs,         self->job_pods,     self->storage_classes };
  G_STATIC_ASSERT (WORKLOAD_N_KINDS + G_N_ELEMENTS (others) == DELIVERY_N_CACHES);
  for (guint i = 0; i < DELIVERY_N_CACHES; i++)
    out_all[i] = i < WORKLOAD_N_KINDS ? self->workloads[i] : others[i - WORKLOAD_N_KINDS];
}

void
delivery_caches_free (DeliveryCaches *self)
{
  Informer *all[DELIVERY_N_CACHES];
  if (self == NULL)
    return;
  Listeners *listeners = self->listeners;
  list_caches (self, all);
  ctx_cancel (self->ctx);
  g_rw_lock_writer_lock (&listeners->lock);
  g_array_set_size (listeners->all, 0);
  g_rw_lock_writer_unlock (&listeners->lock);
  for (guint i = 0; i < DELIVERY_N_CACHES; i++)
    informer_free (all[i]);
  g_array_unref (listeners->all);
  g_rw_lock_clear (&listeners->lock);
  g_free (listeners);
  ctx_unref (self->ctx);
  g_free (self);
}

gboolean
delivery_caches_are_ready (DeliveryCaches *self, GError **error)
{
  static const char *const names[] = {
    "Deployments", "StatefulSets", "DaemonSets", "CronJobs",     "ReplicaSets",
    "Pods",        "claims",       "Jobs",       "Pods of Jobs", "StorageClasses"
  };
  Informer *all[DELIVERY_N_CACHES];
  G_STATIC_ASSERT (G_N_ELEMENTS (names) == DELIVERY_N_CACHES);
  list_caches (self, all);
  for (guint i = 0; i < DELIVERY_N_CACHES; i++)
    if (!informer_has_synced (all[i]))
      return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "%s are not listed yet", names[i]);
  return TRUE;
}

gboolean
delivery_caches_wait (Ctx *ctx, DeliveryCaches *self, GError **error)
{
  Informer *all[DELIVERY_N_CACHES];
  list_caches (self, all);
  for (guint i = 0; i < DELIVERY_N_CACHES; i++)
    if (!informer_wait (ctx, all[i], error))
      return FALSE;
  return TRUE;
}

void
delivery_model_facts_clear (DeliveryModelFacts *self)
{
  char **texts[] = { &self->phase, &self->digest, &self->repository, &self->family, &self->uri };
  for (gsize i = 0; i < G_N_ELEMENTS (texts); i++)
    g_clear_pointer (texts[i], g_free);
}

static void
read_artifact (const DeliveryCaches *self, const KubeObject *model, const ModelOwner *owner, DeliveryModelFacts *out)
{
  yyjson_val *status = kube_object_status (model), *artifact = json_get_object (status, "artifact");
  const char *family = json_get_string (json_get_object (status, "resolved"), "family");
  out->digest = g_strdup (json_get_string (artifact, "digest"));
  out->repository = model_repository (owner);
  out->uri = g_strdup_printf ("%s/%s@%s", self->settings->registry, out->repository, out->digest);
  out->family = family != NULL && family[0] != '\0' ? g_strdup (family) : NULL;
  out->size_bytes = (guint64) MAX (yyjson_get_sint (yyjson_obj_get (artifact, "sizeBytes")), 0);
}

gboolean
delivery_model_read (const DeliveryCaches *self, const char *namespace, const ModelReference *reference,
                     DeliveryModelFacts *out_facts)
{
  ModelOwner named = { .namespace = reference->is_cluster_wide ? NULL : namespace, .name = reference->name };
  g_autoptr (KubeObject) model = model_controller_find (self->models, &named);
  *out_facts = (DeliveryModelFacts){ .exists = model != NULL };
  if (model == NULL)
    return FALSE;
  yyjson_val *status = kube_object_status (model);
  const char *phase = kube_object_is_deleting (model) ? "Deleting" : json_get_string (status, "phase");
  ModelOwner owner = model_owner_of (model, reference->is_cluster_wide);
  out_facts->phase = g_strdup (phase);
  out_facts->is_ready = g_strcmp0 (phase, "Ready") == 0
                        && json_get_string (json_get_object (status, "artifact"), "digest") != NULL;
  if (out_facts->is_ready)
    read_artifact (self, model, &owner, out_facts);
  return TRUE;
}
