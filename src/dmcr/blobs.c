/* GET, HEAD and DELETE of blobs: whole, by range, as recipe or as chunk frames. */
#include <string.h>

#include "dmcr/service.h"
#include "net/http_range.h"
#include "oci/media_types.h"
#include "storage/chunk_ahead.h"
#include "storage/repository_links.h"

/* Of a far store: frames on their way while one is sent. A client that is in a hurry opens several bodies at once. */
#define N_AHEAD 1

/* A body of decoded bytes. */
typedef struct {
  BlobReader *reader;
  guint64 left;
  Metric *sent;
  GrantUse *use; /* or NULL */
} BlobBody;

static gssize
blob_body_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  BlobBody *self = data;
  gssize n = blob_reader_read (ctx, self->reader, buffer, (gsize) MIN (size, self->left), error);
  if (n > 0)
    self->left -= (guint64) n;
  if (n > 0)
    {
      metric_add (self->sent, (double) n, "blob", NULL);
      grant_use_count (self->use, (guint64) n);
    }
  return n;
}

static void
blob_body_free (gpointer data)
{
  BlobBody *self = data;
  blob_reader_free (self->reader);
  grant_use_unref (self->use);
  g_free (self);
}

/* A body of chunk frames, as they are stored. */
typedef struct {
  Recipe *recipe;
  ChunkAhead *ahead;
  guint next, end; /* entries */
  Reader *chunk;
  guint64 offset_bytes;
  guint32 decoded_size; /* of the chunk */
  Metric *sent;
  GrantUse *use; /* or NULL */
} FrameBody;

static gssize
frame_body_read (Ctx *ctx, gpointer data, guint8 *buffer, gsize size, GError **error)
{
  FrameBody *self = data;
  if (self->chunk != NULL && self->offset_bytes == self->chunk->size_bytes)
    g_clear_pointer (&self->chunk, reader_free);
  if (self->chunk == NULL)
    {
      if (self->next == self->end)
        return 0;
      ChunkHeader header;
      self->chunk = chunk_ahead_open (ctx, self->ahead, self->next, &header, error);
      if (self->chunk == NULL)
        return -1;
      self->next++;
      self->offset_bytes = 0;
      self->decoded_size = header.decoded_size;
    }
  gsize n = (gsize) MIN (size, self->chunk->size_bytes - self->offset_bytes);
  if (!reader_read_at (ctx, self->chunk, self->offset_bytes, buffer, n, error))
    return -1;
  self->offset_bytes += n;
  metric_add (self->sent, (double) n, "chunks", NULL);
  if (self->offset_bytes == self->chunk->size_bytes)
    grant_use_count (self->use, self->decoded_size);
  return (gssize) n;
}

static void
frame_body_free (gpointer data)
{
  FrameBody *self = data;
  reader_free (self->chunk);
  chunk_ahead_free (self->ahead);
  recipe_free (self->recipe);
  grant_use_unref (self->use);
  g_free (self);
}

typedef gboolean (*FindLink) (Ctx *ctx, ObjectStore *objects, const char *repository, const Digest *digest,
                              gboolean *out_exists, GError **error);

/* Of a far store: a reader who comes back for the next piece of a blob is not looked up each time. */
static gboolean
is_member_lately (Dmcr *self, const char *name)
{
  g_autoptr (GBytes) known = object_store_is_far (blob_store_objects (self->blobs)) ? recent_get (self->members, name)
                                                                                    : NULL;
  return known != NULL;
}

static void
remember_member (Dmcr *self, const char *name)
{
  g_autoptr (GBytes) nothing = g_bytes_new (NULL, 0);
  recent_put (self->members, name, nothing);
}

/* A blob belongs to a repository by its layer link, which `find` asks for; manifests can be read as blobs too. */
static gboolean
require_membership (Ctx *ctx, Dmcr *self, const char *repository, const Digest *digest, FindLink find, GError **error)
{
  gboolean found = FALSE;
  char text[DIGEST_STRING_SIZE];
  ObjectStore *objects = blob_store_objects (self->blobs);
  g_autofree char *name = g_strconcat (repository, "@", digest_format (digest, text), NULL);
  if (find == layer_link_exists && is_member_lately (self, name))
    return TRUE;
  if (!find (ctx, objects, repository, digest, &found, error)
      || (!found && !manifest_link_exists (ctx, objects, repository, digest, &found, error)))
    return FALSE;
  if (found)
    remember_member (self, name);
  return found
         || am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "repository %s has no blob %s", repository, text);
}

static gboolean
accepts (HttpRequest *req, const char *media_type)
{
  const char *accept = http_request_header_joined (req, "Accept");
  return accept != NULL && strstr (accept, media_type) != NULL;
}

/* The reader tells the size, so a recipe is read once for a request. */
static gboolean
send_decoded (Ctx *ctx, Dmcr *self, HttpRequest *req, HttpResponse *res, const Digest *digest, GError **error)
{
  static const HttpBodySource source = { blob_body_read, blob_body_free };
  guint64 first = 0, length;
  g_autoptr (BlobReader) reader = blob_store_open (ctx, self->blobs, digest, 0, error);
  if (reader == NULL)
    return FALSE;
  guint64 size_bytes = length = blob_reader_size (reader);
  HttpRangeVerdict verdict = http_range_parse (http_request_header (req, "Range"), size_bytes, &first, &length);
  http_response_header (res, "Accept-Ranges", "bytes");
  if (verdict == HTTP_RANGE_UNSATISFIABLE)
    {
      http_response_headerf (res, "Content-Range", "bytes */%" G_GUINT64_FORMAT, size_bytes);
      return am_fail (error, AM_ERROR_OUT_OF_RANGE, "SIZE_INVALID",
                      "the range is not within the blob's %" G_GUINT64_FORMAT " bytes", size_bytes);
    }
  if (first > 0 && !blob_reader_seek (ctx, reader, first, error))
    return FALSE;
  if (verdict == HTTP_RANGE_PART)
    {
      http_response_status (res, 206);
      http_response_headerf (res, "Content-Range",
                             "bytes %" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT "/%" G_GUINT64_FORMAT, first,
                             first + length - 1, size_bytes);
    }
  BlobBody *body = g_new0 (BlobBody, 1);
  *body = (BlobBody){ g_steal_pointer (&reader), length, self->sent, grants_use (req) };
  http_response_stream (res, OCTET_STREAM, length, &source, body);
  return TRUE;
}

static gboolean
send_frames (Dmcr *self, HttpRequest *req, HttpResponse *res, Recipe *taken, GError **error)
{
  static const HttpBodySource source = { frame_body_read, frame_body_free };
  g_autoptr (Recipe) recipe = taken;
  guint64 first, length;
  HttpRangeVerdict verdict = http_range_parse (http_request_header (req, "Range"), recipe->blob_size, &first,
                                               &length);
  if (verdict == HTTP_RANGE_UNSATISFIABLE)
    return am_fail (error, AM_ERROR_OUT_OF_RANGE, "SIZE_INVALID", "the range is not within the blob");
  if (verdict == HTTP_RANGE_NONE)
    {
      first = 0;
      length = recipe->blob_size;
    }
  FrameBody *body = g_new0 (FrameBody, 1);
  body->next = recipe_find (recipe, first);
  body->end = recipe_find (recipe, first + length - 1) + 1;
  body->ahead = chunk_ahead_new (self->blobs, recipe, body->next, body->end, N_AHEAD);
  body->sent = self->sent;
  body->use = grants_use (req);
  http_response_headerf (res, WIRE_RANGE_HEADER, "%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT,
                         recipe->starts[body->next], recipe->starts[body->end] - 1);
  body->recipe = g_steal_pointer (&recipe);
  http_response_stream_chunked (res, WIRE_CHUNKS, &source, body);
  return TRUE;
}

gboolean
dmcr_get_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  Digest digest;
  g_autoptr (GError) problem = NULL;
  const char *repository = dmcr_repository (req, error);
  /* Who asks by HEAD is about to push what is missing, and a manifest that names the rest. */
  FindLink find = g_str_equal (http_request_method (req), "HEAD") ? layer_link_claim : layer_link_exists;
  if (repository == NULL || !dmcr_digest_param (req, &digest, error)
      || !require_membership (ctx, self, repository, &digest, find, error))
    return FALSE;
  dmcr_digest_header (res, &digest);
  http_response_headerf (res, "ETag", "\"%s\"", http_request_param (req, "digest"));
  http_response_header (res, "Vary", "Accept");
  gboolean wants_recipe = accepts (req, WIRE_RECIPE);
  gboolean wants_frames = !wants_recipe && accepts (req, WIRE_CHUNKS);
  if (!wants_recipe && !wants_frames)
    return send_decoded (ctx, self, req, res, &digest, error);
  Recipe *recipe = blob_store_recipe (ctx, self->blobs, &digest, &problem);
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  if (recipe == NULL)
    return send_decoded (ctx, self, req, res, &digest, error); /* kept whole */
  if (wants_frames)
    return send_frames (self, req, res, recipe, error);
  g_autoptr (GBytes) bytes = recipe_write (recipe);
  http_response_bytes (res, WIRE_RECIPE, bytes);
  recipe_free (recipe);
  return TRUE;
}

gboolean
dmcr_delete_blob (Ctx *ctx, HttpRequest *req, HttpResponse *res, GError **error)
{
  Dmcr *self = http_request_service (req);
  Digest digest;
  const char *repository = dmcr_repository (req, error);
  if (repository == NULL || !dmcr_digest_param (req, &digest, error)
      || !require_membership (ctx, self, repository, &digest, layer_link_exists, error)
      || !layer_link_remove (ctx, blob_store_objects (self->blobs), repository, &digest, error))
    return FALSE;
  recent_clear (self->members);
  http_response_status (res, 202);
  return TRUE;
}
