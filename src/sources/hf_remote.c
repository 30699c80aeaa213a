#include "sources/hf_remote.h"

#include <string.h>

#include "base/text.h"

/* Of an answer to GET that says what HEAD would; a hub that does not know ranges sends the file. */
#define REPLY_LIMIT_BYTES (64u << 20)

#define WHO "the hub"

/* What is known of a file of the hub. */
typedef struct {
  HfHub *hub;
  char *repository, *commit, *path;
  char *hash; /* LFS or blob id; NULL: not stated */
  guint64 size_bytes;
} Listed;

static void
listed_free (gpointer data)
{
  Listed *self = data;
  g_free (self->repository);
  g_free (self->commit);
  g_free (self->path);
  g_free (self->hash);
  g_free (self);
}

/* `W/"abc"` -> `abc`; caller frees. */
static char *
bare_etag (const char *etag)
{
  g_autofree char *text = g_strdup (g_str_has_prefix (etag, "W/") ? etag + 2 : etag);
  gsize size = strlen (text);
  return size >= 2 && text[0] == '"' && text[size - 1] == '"' ? g_strndup (text + 1, size - 2)
                                                              : g_steal_pointer (&text);
}

static gboolean
is_hash (const char *text)
{
  gsize size = strlen (text);
  return (size == 40 || size == 64) && strspn (text, "0123456789abcdef") == size;
}

/* What the hub itself says about the file must be what it listed. A redirect's own length and a compressed answer's
 * length say nothing about the file. */
static gboolean
check_metadata (const Listed *self, const HttpReply *reply, GError **error)
{
  const char *commit = http_reply_header (reply, "x-repo-commit");
  const char *size_text = http_reply_header (reply, "x-linked-size");
  const char *etag = http_reply_header (reply, "x-linked-etag");
  guint64 size;
  gboolean is_file = reply->status >= 200 && reply->status < 300;
  if (size_text == NULL && is_file && http_reply_header (reply, "content-encoding") == NULL)
    size_text = http_reply_header (reply, "content-length");
  if (etag == NULL && is_file)
    etag = http_reply_header (reply, "etag");
  if (commit != NULL && strcmp (commit, self->commit) != 0)
    return remote_file_fail_changed (WHO, "commit", commit, error);
  if (size_text != NULL && text_parse_u64 (size_text, &size) && size != self->size_bytes)
    return is_file && remote_file_is_page (http_reply_header (reply, "content-type"))
             ? remote_file_fail_page (error)
             : remote_file_fail_changed (WHO, "size", size_text, error);
  g_autofree char *hash = etag != NULL ? bare_etag (etag) : NULL;
  if (hash != NULL && self->hash != NULL && is_hash (hash) && strlen (hash) == strlen (self->hash)
      && strcmp (hash, self->hash) != 0)
    return remote_file_fail_changed (WHO, "hash", hash, error);
  return TRUE;
}

/* Not every mirror answers HEAD. */
static gboolean
ask_metadata (Ctx *ctx, const Listed *self, const char *url, HttpReply *out_reply, GError **error)
{
  static const char *const one_byte[] = { "Range: bytes=0-0", NULL };
  HttpCall call = { .method = "HEAD", .url = url, .no_redirects = TRUE };
  g_autoptr (GError) failure = NULL;
  if (http_client_call (ctx, self->hub->api, &call, out_reply, &failure))
    return TRUE;
  if (out_reply->status != 405 && out_reply->status != 501)
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  http_reply_clear (out_reply);
  call.method = "GET";
  call.headers = one_byte;
  call.reply_limit_bytes = REPLY_LIMIT_BYTES;
  return http_client_call (ctx, self->hub->api, &call, out_reply, error);
}

static gboolean
ask (Ctx *ctx, gpointer data, const char *url, HttpReply *out_reply, GError **error)
{
  const Listed *self = data;
  HfAsked asked = { self->repository, self->commit, self->path };
  if (!ask_metadata (ctx, self, url, out_reply, error))
    return hf_explain (self->hub, &asked, out_reply, error);
  return out_reply->status == 206 || check_metadata (self, out_reply, error);
}

RemoteFile *
hf_remote_new (HfHub *hub, const HfInfo *info, const HfFile *file)
{
  static const RemoteFileClass klass = { WHO, ask, listed_free };
  g_autofree char *revision = hf_escape (info->commit, FALSE), *path = hf_escape (file->path, TRUE);
  g_autofree char *url = g_strdup_printf ("%s/%s/resolve/%s/%s", hub->endpoint, info->id, revision, path);
  RemoteFileConfig config = {
    hub->data, url, hub->origin, file->path, file->size_bytes, hub->retry_base_ms, hub->gate
  };
  Listed *listed = g_new0 (Listed, 1);
  listed->hub = hub;
  listed->repository = g_strdup (info->id);
  listed->commit = g_strdup (info->commit);
  listed->path = g_strdup (file->path);
  listed->hash = g_strdup (file->sha256 != NULL ? file->sha256 : file->blob_id);
  listed->size_bytes = file->size_bytes;
  return remote_file_new (&klass, listed, &config);
}
