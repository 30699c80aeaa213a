/* What DMCR's handlers share. Private to dmcr/. */
#pragma once

#include "base/digest.h"
#include "base/recent.h"
#include "dmcr/auth.h"
#include "dmcr/dmcr.h"
#include "dmcr/grants.h"
#include "net/http_server.h"
#include "net/metrics.h"
#include "storage/upload_session.h"

struct Dmcr {
  Ctx *ctx;
  BlobStore *blobs;
  Auth *auth;
  Grants *grants; /* NULL: none are taken */
  HttpServer *server;
  /* Upload sessions that a request of this process holds: id -> HttpRequest. */
  GMutex lock;
  GCond released;
  GHashTable *held;
  /* "repository@digest" of blobs that a repository was found to have; forgotten after some seconds, and with whatever
   * is removed here. */
  Recent *members;
  gboolean accept_sparse;
  Metric *received, *sent;
};

extern const HttpRoute dmcr_routes[];
extern const gsize dmcr_n_routes;

/* Blobs (blobs.c), uploads (uploads.c), manifests, tags and referrers (manifests.c). */
gboolean dmcr_get_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_delete_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_start_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_patch_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_put_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_get_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_delete_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_post_known (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_get_manifest (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_put_manifest (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_delete_manifest (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_list_tags (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);
gboolean dmcr_list_referrers (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error);

/* The {name+} of the request, validated: INVALID_ARGUMENT (reason NAME_INVALID). Owned by the request. */
const char *dmcr_repository (HttpRequest *req, GError **error);
/* The {digest} of the request. */
gboolean dmcr_digest_param (HttpRequest *req, Digest *out_digest, GError **error);
void dmcr_digest_header (HttpResponse *res, const Digest *digest);
/* "Location: /v2/<name>/<kind>/<reference>" */
void dmcr_location (HttpResponse *res, const char *repository, const char *kind, const char *reference);
