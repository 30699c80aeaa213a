/* The upload gateway: takes the bytes of a user's model into the staging store, by one request of any size or by parts that
 * go to the bucket past it; upload-gateway.md. It has no state but in the sessions' Secrets (cluster/model_upload.h): any
 * replica serves any call. Used by main/. Thread-safe. */
#pragma once

#include "kube/kube_client.h"
#include "storage/object_store.h"

typedef struct Gateway Gateway;

typedef struct {
  const char *listen_address; /* as http_server_start takes it */
  const char *namespace;      /* of the sessions and the books */
  const char *accounting;     /* ConfigMap with the books; NULL: nothing is booked, and no limit holds */
  guint64 limit_bytes;        /* of everything that is stored; 0: none */
  guint max_uploads;          /* files that come through this process at once; 0: 24 */
  KubeClient *kube;           /* borrowed, as is `staging` */
  ObjectStore *staging;       /* keys "<uid>/<file>" */
} GatewayConfig;

/* Copies the texts. Errors of http_server_start. */
Gateway *gateway_start (Ctx *ctx, const GatewayConfig *config, GError **error);
guint16 gateway_port (Gateway *self);
/* Running uploads may end, up to the server's drain time; the others can be sent again. */
void gateway_drain (Gateway *self);
void gateway_free (Gateway *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Gateway, gateway_free)
