/* The admission webhook of workloads, delivery-sharedpvc.md "Admission webhook": holds Pods back until their models are there,
 * or delivers them at once. On every replica; used by main/. */
#pragma once

#include "controllers/delivery_caches.h"

#define WORKLOAD_WEBHOOK_PATH "/mutate-ai-deckhouse-io-workload-delivery"

typedef struct WorkloadWebhook WorkloadWebhook;

typedef struct {
  const char *listen_address;
  const char *tls_certificate_file, *tls_key_file; /* taken over anew when they change */
} WebhookConfig;

/* Serves until it is freed, which waits for the answers under way. Borrows `caches`. Errors of http_server_start. */
WorkloadWebhook *workload_webhook_start (Ctx *ctx, const DeliveryCaches *caches, const WebhookConfig *config,
                                         GError **error);
void workload_webhook_free (WorkloadWebhook *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (WorkloadWebhook, workload_webhook_free)
