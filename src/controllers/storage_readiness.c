#include "controllers/storage_readiness.h"

#include <string.h>

#include "base/log.h"
#include "controllers/storage_class_sight.h"

#define METRIC "d8_ai_models_storage_prerequisites_satisfied"
#define PATIENCE_MS (10 * 1000) /* for the first list of StorageClasses */
#define INTERVAL_MS (15 * 1000)

struct StorageReadiness {
  Ctx *ctx;
  const DeliveryCaches *caches;
  GThread *thread;

  GMutex lock;        /* of what follows, and of a check: changes are logged in their order */
  const char *reason; /* of the last one, static; NULL: none yet */
};

static void
tell (StorageReadiness *self, const StorageVerdict *verdict, const StorageClassSight *sight)
{
  g_autofree char *message = storage_class_message (&sight->choice);
  const char *class = sight->choice.name != NULL ? sight->choice.name : "";
  am_log (self->ctx, verdict->is_satisfied ? AM_LOG_INFO : AM_LOG_WARNING, "storage-readiness", "satisfied",
          verdict->is_satisfied ? "yes" : "no", "delivery_type", verdict->delivery_type, "reason", verdict->reason,
          "storage_class", class, "remedy", message != NULL ? message : "", NULL);
}

static StorageVerdict
check (StorageReadiness *self)
{
  g_auto (StorageClassSight) sight = { 0 };
  gboolean is_known = informer_has_synced (self->caches->storage_classes);
  if (is_known)
    storage_class_sight_read (self->caches, &sight);
  const StorageView seen = { .is_known = is_known, .choice = sight.choice };
  StorageVerdict verdict = storage_verdict (DELIVERY_SHARED_PVC, &seen);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  if (g_strcmp0 (self->reason, verdict.reason) != 0)
    tell (self, &verdict, &sight);
  self->reason = verdict.reason;
  return verdict;
}

static gpointer
check_now_and_then (gpointer data)
{
  StorageReadiness *self = data;
  g_autoptr (Ctx) patient = ctx_new_child (self->ctx, PATIENCE_MS);
  g_autoptr (GError) error = NULL;
  if (!informer_wait (patient, self->caches->storage_classes, &error))
    am_ignore (&error, "that they are not known is what the check says");
  while (ctx_check (self->ctx, NULL))
    {
      check (self);
      ctx_sleep_ms (self->ctx, INTERVAL_MS, NULL);
    }
  return NULL;
}

StorageReadiness *
storage_readiness_start (Ctx *ctx, const DeliveryCaches *caches)
{
  StorageReadiness *self = g_new0 (StorageReadiness, 1);
  self->ctx = ctx_new_child (ctx, -1);
  self->caches = caches;
  g_mutex_init (&self->lock);
  self->thread = g_thread_new ("readiness", check_now_and_then, self);
  return self;
}

void
storage_readiness_free (StorageReadiness *self)
{
  if (self == NULL)
    return;
  ctx_cancel (self->ctx);
  g_thread_join (self->thread);
  g_mutex_clear (&self->lock);
  ctx_unref (self->ctx);
  g_free (self);
}

void
storage_readiness_append (gpointer data, GString *out)
{
  StorageVerdict verdict = check (data);
  g_string_append_printf (out,
                          "# HELP " METRIC " Whether the cluster has what the delivery of models needs.\n"
                          "# TYPE " METRIC " gauge\n" METRIC "{delivery_type=\"%s\",reason=\"%s\"} %d\n",
                          verdict.delivery_type, verdict.reason, verdict.is_satisfied);
}
