#include "main/delivery_part.h"

#include "controllers/delivery_controller.h"
#include "controllers/delivery_metrics.h"
#include "controllers/storage_readiness.h"
#include "controllers/workload_webhook.h"

struct DeliveryPart {
  DeliveryCaches *caches;
  StorageReadiness *readiness;
  DeliveryController *workloads;
  WorkloadWebhook *webhook; /* or NULL */
  MetricsSource metrics[3];
};

DeliveryPart *
delivery_part_start (Ctx *ctx, KubeClient *client, const ControllerOptions *options,
                     const ControllerSettings *settings, ModelController *models, GError **error)
{
  g_autoptr (DeliveryPart) self = g_new0 (DeliveryPart, 1);
  self->caches = delivery_caches_new (ctx, client, settings, models);
  self->readiness = storage_readiness_start (ctx, self->caches);
  self->workloads = delivery_controller_new (ctx, self->caches);
  self->metrics[0] = (MetricsSource){ storage_readiness_append, self->readiness, FALSE };
  self->metrics[1] = (MetricsSource){ delivery_metrics_append, self->caches, TRUE };
  self->metrics[2] = (MetricsSource){ delivery_controller_append_metrics, self->workloads, TRUE };
  const WebhookConfig webhook = { options->webhook_listen, options->tls_cert, options->tls_key };
  if (options->webhook_listen != NULL
      && (self->webhook = workload_webhook_start (ctx, self->caches, &webhook, error)) == NULL)
    return NULL;
  return g_steal_pointer (&self);
}

void
delivery_part_free (DeliveryPart *self)
{
  if (self == NULL)
    return;
  workload_webhook_free (self->webhook);
  delivery_controller_free (self->workloads);
  storage_readiness_free (self->readiness);
  delivery_caches_free (self->caches);
  g_free (self);
}

gboolean
delivery_part_is_ready (DeliveryPart *self, GError **error)
{
  return self == NULL || delivery_caches_are_ready (self->caches, error);
}

gboolean
delivery_part_lead (Ctx *term, gpointer data, GError **error)
{
  DeliveryPart *self = data;
  return delivery_controller_lead (term, self->workloads, error);
}

const MetricsSource *
delivery_part_metrics (DeliveryPart *self, gsize *out_n)
{
  *out_n = self != NULL ? G_N_ELEMENTS (self->metrics) : 0;
  return self != NULL ? self->metrics : NULL;
}
