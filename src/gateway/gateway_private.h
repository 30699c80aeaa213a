/* What the calls of the gateway share. */
#pragma once

#include "cluster/ledger_store.h"
#include "cluster/model_upload.h"
#include "gateway/gateway.h"
#include "net/http_server.h"
#include "net/metrics.h"

struct Gateway {
  Ctx *ctx;
  char *namespace;
  guint64 limit_bytes;
  gint max_uploads, n_uploads; /* the latter atomic */
  KubeClient *kube;
  ObjectStore *staging;
  LedgerStore *ledger; /* NULL: nothing is booked */
  HttpServer *server;
  Metric *calls, *received, *active, *staged;
};

/* Reasons of what a client is told; each has its status in gateway.c. Any other error is the storage's or the API server's,
 * told to the log alone. */
#define REFUSED_REQUEST "BadRequest"
#define REFUSED_TOKEN "TokenRefused"
#define REFUSED_ADDRESS "NothingHere"
#define REFUSED_PHASE "PhaseConflict"
#define REFUSED_EXPIRED "SessionExpired"
#define REFUSED_LENGTH "LengthRequired"
#define REFUSED_CROWD "TooManyUploads"
#define refuse_request(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, REFUSED_REQUEST, __VA_ARGS__)
#define refuse_phase(error, ...) am_fail (error, AM_ERROR_FAILED_PRECONDITION, REFUSED_PHASE, __VA_ARGS__)

/* A request whose session was found and whose token fits. */
typedef struct {
  Gateway *gateway;
  ModelUpload *upload;
  KubeObject *secret; /* holds the texts of `owner` */
  ModelOwner owner;
} GatewayCall;

void gateway_call_free (GatewayCall *self);
/* Finds the session; NOT_FOUND (reason REFUSED_ADDRESS) when there is none of that id. */
gboolean gateway_call_open (Ctx *ctx, GatewayCall *self, const char *id, GError **error);

/* Changes a session that was settled; FALSE with an error: it is not written. May be called on what it has written before,
 * when the answer to that was lost. */
typedef gboolean (*GatewayEdit) (ModelUpload *upload, gint64 now_ms, gpointer data, GError **error);
/* Edits and writes back, again on a newer state when another request was faster or the API server failed; `*upload` becomes
 * what was seen last of it. Errors: the edit's; NOT_FOUND (reason REFUSED_ADDRESS) when the session is gone; the
 * client's. */
gboolean gateway_edit (Ctx *ctx, Gateway *self, ModelUpload **upload, GatewayEdit edit, gpointer data,
                       GError **error);
/* An expired session is told by its own reason. */
gboolean gateway_check_phase (const ModelUpload *upload, UploadCall call, gint64 now_ms, GError **error);
/* Ends a session without bytes in `phase`, and drops what was sent and set aside. */
gboolean gateway_end (Ctx *ctx, Gateway *self, ModelUpload **upload, UploadPhase phase, const char *failure,
                      GError **error);

/* Sizes are looked at where a limit holds. */
gboolean gateway_has_limit (const Gateway *self);
/* Sets `size_bytes` aside for the session `id`; nothing without a limit. */
gboolean gateway_reserve (Ctx *ctx, Gateway *self, const char *id, const ModelOwner *owner, guint64 size_bytes,
                          GError **error);
/* What cannot be released now is dropped by the controller's inventory. */
void gateway_release (Ctx *ctx, Gateway *self, const char *id);
/* The size a client tells against the one the session expects (0: not told). */
gboolean gateway_check_size (const ModelUpload *upload, guint64 size_bytes, GError **error);

gint64 gateway_now_ms (void);
/* The answer to an upload that is there whole. */
void gateway_answer_staged (Ctx *ctx, Gateway *self, const ModelUpload *upload, HttpResponse *res);
/* It has one of the reasons that clients are told. */
gboolean gateway_is_refusal (const GError *problem);
/* Hands on what a client may be told; the rest goes to the log and becomes INTERNAL. Takes `problem`. */
gboolean gateway_tell (Ctx *ctx, GError *problem, GError **error);

/* Calls: gateway_put.c, gateway_parts.c. */
gboolean gateway_put (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
gboolean gateway_info (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
gboolean gateway_probe (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
gboolean gateway_init (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
gboolean gateway_parts (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
gboolean gateway_complete (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
gboolean gateway_abort (Ctx *ctx, GatewayCall *call, HttpRequest *req, HttpResponse *res, GError **error);
