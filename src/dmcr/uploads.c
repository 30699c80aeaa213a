/* Upload sessions over HTTP: POST, PATCH, PUT, GET, DELETE and the wire's question which chunks are known. */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "dmcr/service.h"
#include "net/http_range.h"
#include "oci/media_types.h"
#include "storage/repository_links.h"

#define TAKEOVER_WAIT_US (10 * G_USEC_PER_SEC)
#define SAVE_TIMEOUT_MS 30000

/* One request that moves bytes into a session. */
typedef struct {
  Dmcr *service;
  UploadSession *session;
  char *repository;
  gboolean frames; /* the body is chunk frames */
  gboolean closes; /* PUT or POST with digest: the blob is complete at the end */
  Digest digest;
  guint64 limit_bytes; /* of the body, where Content-Range says so */
  guint64 taken_bytes;
  gboolean settled; /* finished or refused for good: nothing to save */
} Upload;

/* Makes this request the only one in the process that holds the session. The newer request wins: an older
 * one is usually a connection whose client is gone. Other processes are fenced by the session's state. */
static gboolean
hold_session (Dmcr *self, const char *id, HttpRequest *req, GError **error)
{
  gint64 until = g_get_monotonic_time () + TAKEOVER_WAIT_US;
  gboolean free_now = TRUE;
  g_mutex_lock (&self->lock);
  for (HttpRequest *other = g_hash_table_lookup (self->held, id); other != NULL && free_now;
       other = g_hash_table_lookup (self->held, id))
    {
      http_request_abort (other);
      free_now = g_cond_wait_until (&self->released, &self->lock, until);
    }
  if (free_now)
    g_hash_table_insert (self->held, g_strdup (id), req);
  g_mutex_unlock (&self->lock);
  return free_now || am_fail (error, AM_ERROR_ABORTED, "BLOB_UPLOAD_INVALID", "upload %s is busy, try again", id);
}

static void
release_session (Dmcr *self, const char *id)
{
  g_mutex_lock (&self->lock);
  g_hash_table_remove (self->held, id);
  g_cond_broadcast (&self->released);
  g_mutex_unlock (&self->lock);
}

static void
upload_free (gpointer data)
{
  Upload *self = data;
  if (self == NULL)
    return;
  if (self->session != NULL && !self->settled)
    {
      /* The client vanished or was refused: what arrived is kept. Its own context may be over. */
      g_autoptr (Ctx) ctx = ctx_new_child (NULL, SAVE_TIMEOUT_MS);
      g_autoptr (GError) problem = NULL;
      if (!upload_session_save (ctx, self->session, &problem))
        am_log_warning (NULL, "upload state not saved", "upload", upload_session_id (self->session), "err",
                        problem->message, NULL);
    }
  if (self->session != NULL)
    release_session (self->service, upload_session_id (self->session));
  upload_session_free (self->session);
  g_free (self->repository);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Upload, upload_free)

static void
upload_headers (HttpResponse *res, const char *repository, const UploadSession *session)
{
  guint64 offset = upload_session_offset (session);
  dmcr_location (res, repository, "blobs/uploads", upload_session_id (session));
  http_response_header (res, "Docker-Upload-UUID", upload_session_id (session));
  http_response_headerf (res, "Range", "0-%" G_GUINT64_FORMAT, offset > 0 ? offset - 1 : 0);
  http_response_headerf (res, WIRE_OFFSET_HEADER, "%" G_GUINT64_FORMAT, offset);
}

static gboolean
upload_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Upload *self = data;
  if (size > self->limit_bytes - self->taken_bytes)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID", "the body is longer than Content-Range says");
  self->taken_bytes += size;
  metric_add (self->service->received, (double) size, self->frames ? "chunks" : "blob", NULL);
  return self->frames ? upload_session_frames (ctx, self->session, bytes, size, error)
                      : upload_session_write (ctx, self->session, bytes, size, error);
}

/* The link comes before the blob, so that no collection finds the blob without it. */
static gboolean
complete_blob (Ctx *ctx, Upload *self, GError **error)
{
  ObjectStore *objects = blob_store_objects (self->service->blobs);
  if (!layer_link_put (ctx, objects, self->repository, &self->digest, error))
    return FALSE;
  if (upload_session_finish (ctx, self->session, &self->digest, error))
    return TRUE;
  BlobInfo info;
  g_autoptr (GError) problem = NULL;
  if (!blob_store_stat (ctx, self->service->blobs, &self->digest, &info, &problem)
      && am_error_is (problem, AM_ERROR_NOT_FOUND))
    {
      g_clear_error (&problem);
      if (!layer_link_remove (ctx, objects, self->repository, &self->digest, &problem))
        am_ignore (&problem, "a link to nothing is harmless");
    }
  return FALSE;
}

static gboolean
upload_finish (Ctx *ctx, gpointer data, HttpRequest *req, HttpResponse *res, GError **error)
{
  Upload *self = data;
  char text[DIGEST_STRING_SIZE];
  if (self->limit_bytes != G_MAXUINT64 && self->taken_bytes != self->limit_bytes)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID", "the body is shorter than Content-Range says");
  if (self->frames && !upload_session_frames_end (self->session, error))
    return FALSE;
  if (!self->closes)
    {
      if (!upload_session_save (ctx, self->session, error))
        return FALSE;
      self->settled = TRUE;
      http_response_status (res, 202);
      upload_headers (res, self->repository, self->session);
      return TRUE;
    }
  if (!complete_blob (ctx, self, error))
    {
      self->settled = error != NULL && am_error_has_reason (*error, "DIGEST_INVALID");
      return FALSE;
    }
  self->settled = TRUE;
  http_response_status (res, 201);
  dmcr_location (res, self->repository, "blobs", digest_format (&self->digest, text));
  dmcr_digest_header (res, &self->digest);
  return TRUE;
}

static const HttpBodySink upload_sink = { upload_write, upload_finish, upload_free };

static Upload *
upload_new (Dmcr *service, HttpRequest *req, const char *repository)
{
  const char *type = http_request_header (req, "Content-Type");
  Upload *self = g_new0 (Upload, 1);
  self->service = service;
  self->repository = g_strdup (repository);
  self->frames = type != NULL && g_ascii_strcasecmp (type, WIRE_CHUNKS) == 0;
  self->limit_bytes = G_MAXUINT64;
  return self;
}

/* Another repository's blob becomes this one's without moving bytes. Rights are the registry's, not a
 * repository's, so whoever may write here may read there. */
static gboolean
try_mount (Ctx *ctx, Dmcr *self, HttpRequest *req, const char *repository, const Digest *digest,
           gboolean *out_mounted, GError **error)
{
  ObjectStore *objects = blob_store_objects (self->blobs);
  const char *from = http_request_query (req, "from");
  gboolean found = from == NULL;
  BlobInfo info;
  g_autoptr (GError) problem = NULL;
  *out_mounted = FALSE;
  if (from != NULL && *from != '\0' && !layer_link_exists (ctx, objects, from, digest, &found, &problem))
    am_ignore (&problem, "a source that cannot be asked is a source without the blob");
  if (!found)
    return TRUE;
  /* Linked first and looked at afterwards, so that collection cannot come in between. */
  if (!layer_link_put (ctx, objects, repository, digest, error))
    return FALSE;
  if (blob_store_stat (ctx, self->blobs, digest, &info, &problem))
    {
      *out_mounted = TRUE;
      return TRUE;
    }
  if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    return layer_link_remove (ctx, objects, repository, digest, error);
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
check_algorithm (HttpRequest *req, GError **error)
{
  const char *name = http_request_query (req, "digest-algorithm");
  return name == NULL || strcmp (name, "sha256") == 0 || strcmp (name, "sha512") == 0
         || am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID",
                     "digest algorithm %.32s is not supported: use sha256 or sha512", name);
}

/* POST /v2/<name>/blobs/uploads/ */
gboolean
dmcr_start_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  Digest digest;
  const char *repository = dmcr_repository (req, error);
  const char *mount = http_request_query (req, "mount");
  const char *whole = http_request_query (req, "digest");
  if (repository == NULL || !check_algorithm (req, error))
    return FALSE;
  if (mount != NULL)
    {
      gboolean mounted;
      if (!digest_parse (mount, &digest, error) || !try_mount (ctx, self, req, repository, &digest, &mounted, error))
        return FALSE;
      if (mounted)
        {
          http_response_status (res, 201);
          dmcr_location (res, repository, "blobs", mount);
          dmcr_digest_header (res, &digest);
          return TRUE;
        }
    }
  if (whole != NULL && !digest_parse (whole, &digest, error))
    return FALSE;
  g_autoptr (UploadSession) session = upload_session_new (self->blobs, repository);
  if (whole == NULL || mount != NULL)
    {
      if (!upload_session_save (ctx, session, error))
        return FALSE;
      http_response_status (res, 202);
      upload_headers (res, repository, session);
      return TRUE;
    }
  g_autoptr (Upload) upload = upload_new (self, req, repository);
  if (!hold_session (self, upload_session_id (session), req, error))
    return FALSE;
  upload->session = g_steal_pointer (&session);
  upload->closes = TRUE;
  upload->digest = digest;
  http_request_set_sink (req, &upload_sink, g_steal_pointer (&upload));
  return TRUE;
}

/* Opens the session of the request and holds it; NULL with an error. */
static Upload *
open_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  const char *repository = dmcr_repository (req, error);
  const char *id = http_request_param (req, "upload");
  if (repository == NULL || !hold_session (self, id, req, error))
    return NULL;
  UploadSession *session = upload_session_open (ctx, self->blobs, repository, id, error);
  if (session == NULL)
    {
      release_session (self, id);
      return NULL;
    }
  Upload *upload = upload_new (self, req, repository);
  upload->session = session;
  return upload;
}

/* Content-Range must go on where the session stands: 416, and nothing is taken otherwise. */
static gboolean
check_range (Upload *upload, HttpRequest *req, HttpResponse *res, GError **error)
{
  guint64 first, last;
  guint64 offset = upload_session_offset (upload->session);
  const char *header = http_request_header (req, "Content-Range");
  gint64 length = http_request_content_length (req);
  if (header == NULL || upload->frames)
    return TRUE;
  if (!http_upload_range_parse (header, &first, &last, error))
    return FALSE;
  if (first != offset)
    {
      upload_headers (res, upload->repository, upload->session);
      return am_fail (error, AM_ERROR_OUT_OF_RANGE, "BLOB_UPLOAD_INVALID",
                      "the upload stands at byte %" G_GUINT64_FORMAT ", the body begins at %" G_GUINT64_FORMAT,
                      offset, first);
    }
  if (length >= 0 && (guint64) length != last - first + 1)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID", "Content-Range and Content-Length disagree");
  upload->limit_bytes = last - first + 1;
  return TRUE;
}

/* An open upload that is refused before its body still holds what it held. */
static gboolean
refuse (Upload *upload)
{
  upload->settled = TRUE;
  return FALSE;
}

gboolean
dmcr_patch_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_autoptr (Upload) upload = open_upload (ctx, req, res, error);
  if (upload == NULL)
    return FALSE;
  if (!check_range (upload, req, res, error))
    return refuse (upload);
  http_request_set_sink (req, &upload_sink, g_steal_pointer (&upload));
  return TRUE;
}

gboolean
dmcr_put_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  const char *digest = http_request_query (req, "digest");
  if (digest == NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "DIGEST_INVALID", "the query lacks the blob's digest");
  g_autoptr (Upload) upload = open_upload (ctx, req, res, error);
  if (upload == NULL)
    return FALSE;
  upload->closes = TRUE;
  if (!digest_parse (digest, &upload->digest, error) || !check_range (upload, req, res, error))
    return refuse (upload);
  http_request_set_sink (req, &upload_sink, g_steal_pointer (&upload));
  return TRUE;
}

gboolean
dmcr_get_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_autoptr (Upload) upload = open_upload (ctx, req, res, error);
  if (upload == NULL)
    return FALSE;
  upload->settled = TRUE;
  http_response_status (res, 204);
  upload_headers (res, upload->repository, upload->session);
  return TRUE;
}

gboolean
dmcr_delete_upload (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  g_autoptr (Upload) upload = open_upload (ctx, req, res, error);
  if (upload == NULL)
    return FALSE;
  upload->settled = TRUE;
  http_response_status (res, 204);
  return upload_session_cancel (ctx, upload->session, error);
}

/* POST /v2/<name>/blobs/uploads/<id>/known: which of these chunks need not be sent. It may run beside the
 * request that fills the session. */
gboolean
dmcr_post_known (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  const char *repository = dmcr_repository (req, error);
  GBytes *body = http_request_body (req);
  gsize size;
  const guint8 *digests = g_bytes_get_data (body, &size);
  if (repository == NULL)
    return FALSE;
  if (size == 0 || size % 32 != 0)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "SIZE_INVALID",
                    "the body must be digests of chunks, 32 bytes each");
  g_autoptr (GString) answers = g_string_sized_new (size / 32 + 1);
  if (!upload_session_known (ctx, self->blobs, repository, http_request_param (req, "upload"), digests, size / 32,
                             answers, error))
    return FALSE;
  http_response_text (res, "text/plain", answers->str);
  return TRUE;
}
