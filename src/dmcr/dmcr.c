#include "dmcr/service.h"

#include <string.h>

#include "oci/manifest.h"
#include "oci/reference.h"

/* How long a removal by another process may go unnoticed by readers. */
#define MEMBERS_MAX_AGE_MS 10000
#define MEMBERS_MAX_BYTES (1u << 20)
#define API "/v2/{name+}"
#define READY_TIMEOUT_MS 5000
#define KNOWN_LIMIT_BYTES (WIRE_KNOWN_MAX * 32)

/* How much was read under a grant: for the registry's own users, of whom the controller is one; a grant tells nothing. */
static gboolean
get_grant (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  if (http_request_identity (req) == NULL)
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED", "credentials are needed");
  if (self->grants == NULL)
    return am_fail (error, AM_ERROR_NOT_FOUND, NULL, "this registry takes no grants");
  guint64 read_bytes = grants_read_bytes (self->grants, http_request_param (req, "grant"));
  g_autofree char *body = g_strdup_printf ("{\"readBytes\":%" G_GUINT64_FORMAT "}", read_bytes);
  http_response_header (res, "Cache-Control", "no-store");
  http_response_text (res, "application/json", body);
  return TRUE;
}

/* GET and HEAD /v2/: is this a registry, and do my credentials fit. */
static gboolean
get_base (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  http_response_text (res, "application/json", "{}");
  return TRUE;
}

const HttpRoute dmcr_routes[] = {
  { "GET", "/v2/", get_base, 0, FALSE },
  { "GET", "/v2", get_base, 0, FALSE },
  { "GET", "/_ai_models/grants/{grant}", get_grant, 0, FALSE },
  { "POST", API "/blobs/uploads/", dmcr_start_upload, 0, TRUE },
  { "POST", API "/blobs/uploads", dmcr_start_upload, 0, TRUE },
  { "POST", API "/blobs/uploads/{upload}/known", dmcr_post_known, KNOWN_LIMIT_BYTES, FALSE },
  { "GET", API "/blobs/uploads/{upload}", dmcr_get_upload, 0, FALSE },
  { "PATCH", API "/blobs/uploads/{upload}", dmcr_patch_upload, 0, TRUE },
  { "PUT", API "/blobs/uploads/{upload}", dmcr_put_upload, 0, TRUE },
  { "DELETE", API "/blobs/uploads/{upload}", dmcr_delete_upload, 0, FALSE },
  { "GET", API "/blobs/{digest}", dmcr_get_blob, 0, FALSE },
  { "DELETE", API "/blobs/{digest}", dmcr_delete_blob, 0, FALSE },
  { "GET", API "/manifests/{reference}", dmcr_get_manifest, 0, FALSE },
  { "PUT", API "/manifests/{reference}", dmcr_put_manifest, MANIFEST_MAX_BYTES, FALSE },
  { "DELETE", API "/manifests/{reference}", dmcr_delete_manifest, 0, FALSE },
  { "GET", API "/tags/list", dmcr_list_tags, 0, FALSE },
  { "GET", API "/referrers/{digest}", dmcr_list_referrers, 0, FALSE },
};
const gsize dmcr_n_routes = G_N_ELEMENTS (dmcr_routes);

const char *
dmcr_repository (HttpRequest *req, GError **error)
{
  const char *name = http_request_param (req, "name");
  return repository_name_check (name, error) ? name : NULL;
}

gboolean
dmcr_digest_param (HttpRequest *req, Digest *out_digest, GError **error)
{
  return digest_parse (http_request_param (req, "digest"), out_digest, error);
}

void
dmcr_digest_header (HttpResponse *res, const Digest *digest)
{
  char text[DIGEST_STRING_SIZE];
  http_response_header (res, "Docker-Content-Digest", digest_format (digest, text));
}

void
dmcr_location (HttpResponse *res, const char *repository, const char *kind, const char *reference)
{
  http_response_headerf (res, "Location", "/v2/%s/%s/%s", repository, kind, reference);
}

/* Which status an error's reason asks for where its code alone says another (distribution-spec 1.1,
 * "Error Codes"; RFC 4918 for 507), and which OCI code a word of ours stands for. */
static const struct {
  const char *reason;
  guint status;
  const char *code;
} reasons[] = {
  { "InsufficientStorage", 507, "TOOMANYREQUESTS" },
  { "ReadOnlyStorage", 503, "DENIED" },
  { "StorageDenied", 503, "UNAVAILABLE" }, /* the store refuses us, not the client */
  { "BucketMissing", 503, "UNAVAILABLE" },
  { "ClockSkewed", 503, "UNAVAILABLE" },
  { "WrongRegion", 503, "UNAVAILABLE" },
  { "SIZE_INVALID", 0, "SIZE_INVALID" },
  { HTTP_REASON_BODY_TOO_LARGE, 413, "SIZE_INVALID" },
  { "CHUNK_UNKNOWN", 409, "CHUNK_UNKNOWN" },
  { "MANIFEST_BLOB_UNKNOWN", 404, "MANIFEST_BLOB_UNKNOWN" },
  { "TAG_INVALID", 400, "NAME_INVALID" },
  { "ChunkCorrupt", 500, "DATA_LOSS" },
  { "ChunkMissing", 500, "DATA_LOSS" },
  { "RecipeCorrupt", 500, "DATA_LOSS" },
  { "BlobCorrupt", 500, "DATA_LOSS" },
};

static void
write_error (HttpRequest *req, HttpResponse *res, const GError *error)
{
  const AmErrorInfo *info = am_error_info_of (error);
  const char *reason = am_error_reason (error);
  guint status = http_error_status (error);
  const char *code = reason != NULL ? reason : info->name;
  if (am_error_has_reason (error, "SIZE_INVALID") && am_error_is (error, AM_ERROR_RESOURCE_EXHAUSTED))
    status = 413;
  for (gsize i = 0; reason != NULL && i < G_N_ELEMENTS (reasons); i++)
    if (strcmp (reasons[i].reason, reason) == 0)
      {
        status = reasons[i].status != 0 ? reasons[i].status : status;
        code = reasons[i].code;
      }
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_val *item = yyjson_mut_arr_add_obj (doc, yyjson_mut_obj_add_arr (doc, root, "errors"));
  g_autofree char *message = g_utf8_make_valid (error->message, -1);
  yyjson_mut_obj_add_str (doc, item, "code", code);
  yyjson_mut_obj_add_str (doc, item, "message", message);
  g_autofree char *body = json_write (doc, NULL);
  http_response_status (res, status);
  if (status == 401)
    http_response_header (res, "WWW-Authenticate", "Basic realm=\"ai-models registry\", charset=\"UTF-8\"");
  http_response_text (res, "application/json", body);
}

static gboolean
authorize (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  const char *method = http_request_method (req);
  gboolean writes = strcmp (method, "GET") != 0 && strcmp (method, "HEAD") != 0;
  g_autofree char *user = NULL;
  http_response_header (res, "Docker-Distribution-API-Version", "registry/2.0");
  http_response_header (res, WIRE_HEADER, "1");
  const char *authorization = http_request_header (req, "Authorization");
  g_autofree char *token = self->grants != NULL ? grants_token (authorization) : NULL;
  if (token != NULL)
    return grants_admit (ctx, self->grants, req, token, error);
  if (!auth_check (self->auth, authorization, writes, &user, error))
    return FALSE;
  if (user != NULL)
    http_request_set_identity (req, user);
  return TRUE;
}

/* Ready means: the store answers. */
static gboolean
is_ready (Ctx *ctx, gpointer service, GError **error)
{
  Dmcr *self = service;
  g_autoptr (Ctx) hurried = ctx_new_child (ctx, READY_TIMEOUT_MS);
  g_autoptr (GPtrArray) page = object_store_list (hurried, blob_store_objects (self->blobs), "docker/", NULL, 1,
                                                  error);
  return page != NULL;
}

Dmcr *
dmcr_start (Ctx *ctx, const DmcrConfig *config, BlobStore *blobs, GError **error)
{
  static const char *const kinds[] = { "kind", NULL };
  AuthConfig auth = { config->htpasswd_file, config->plain_users_file, config->writers, config->anonymous_read,
                      config->anonymous_write };
  g_autoptr (Dmcr) self = g_new0 (Dmcr, 1);
  g_mutex_init (&self->lock);
  g_cond_init (&self->released);
  self->held = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->members = recent_new (MEMBERS_MAX_BYTES, MEMBERS_MAX_AGE_MS);
  self->ctx = ctx_ref (ctx);
  self->blobs = blobs;
  self->accept_sparse = config->accept_sparse_manifests;
  self->received = metric_declare ("dmcr_received_bytes_total", METRIC_COUNTER,
                                   "Bytes of upload bodies, decoded blobs or chunk frames.", kinds);
  self->sent = metric_declare ("dmcr_sent_bytes_total", METRIC_COUNTER,
                               "Bytes of blob bodies, decoded blobs or chunk frames.", kinds);
  self->auth = auth_new (&auth, error);
  if (self->auth == NULL)
    return NULL;
  if (config->grant_salt_file != NULL && (self->grants = grants_new (config->grant_salt_file, blobs, error)) == NULL)
    return NULL;
  HttpServerConfig server = {
    .listen_address = config->listen_address,
    .tls_certificate_file = config->tls_certificate_file,
    .tls_key_file = config->tls_key_file,
    .max_connections = config->max_connections,
    .max_connections_per_peer = config->max_connections_per_peer,
    .routes = dmcr_routes,
    .n_routes = dmcr_n_routes,
    .service = self,
    .authorize = authorize,
    .write_error = write_error,
    .ready = is_ready,
  };
  self->server = http_server_start (ctx, &server, error);
  return self->server != NULL ? g_steal_pointer (&self) : NULL;
}

guint16
dmcr_port (Dmcr *self)
{
  return http_server_port (self->server);
}

void
dmcr_drain (Dmcr *self)
{
  http_server_drain (self->server);
}

void
dmcr_free (Dmcr *self)
{
  if (self == NULL)
    return;
  http_server_free (self->server);
  auth_free (self->auth);
  grants_free (self->grants);
  g_clear_pointer (&self->held, g_hash_table_unref);
  g_clear_pointer (&self->members, recent_free);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->released);
  ctx_unref (self->ctx);
  g_free (self);
}
