/* Fetching a blob's chunks as frames from a server that speaks the wire: several runs of neighbouring chunks at
 * once, each chunk verified before it is handed on. The server is not trusted: a frame that is not the one the
 * recipe names ends the transfer. */
#include "registry/remote.h"

#include <string.h>

#include "base/blake3.h"
#include "base/workers.h"
#include "oci/media_types.h"
#include "storage/chunk_frame.h"

/* One request's worth: large enough that its round trip does not matter, small enough that all connections stay busy
 * and that the bytes come nearly in order; smaller towards the end, so that all connections end together. */
#define FIRST_RUN_BYTES (4u << 20) /* of several connections: the blob's beginning is soon whole */
#define RUN_MIN_BYTES (16u << 20)
#define RUN_MAX_BYTES (32u << 20)

typedef struct {
  Remote *remote;
  char digest[DIGEST_STRING_SIZE];
  const Recipe *recipe;
  const guint8 *wanted;
  ChunkSink sink;
  TransferProgress progress;
  gpointer data;
  guint n_workers, n_runs; /* runs so far, under the lock */
  GMutex lock;
  guint next;         /* first chunk no run has taken yet */
  guint64 left_bytes; /* wanted ones from there on, decoded */
} Fetch;

/* Chunks [next, end) of the recipe, on their way over one connection. */
typedef struct {
  Fetch *fetch;
  Ctx *ctx;
  guint next, end; /* delivered before `next` */
  GError *final;   /* a failure that no other attempt mends */
  ChunkParser *parser;
  guint8 *chunk;
  gsize fill;
  guint32 encoded_size;
  Blake3 hash;
} Run;

/* The reply is what it claims to be, for what is a recipe or frames. */
static gboolean
has_type (GHashTable *headers, const char *type)
{
  const char *header = g_hash_table_lookup (headers, "content-type");
  gsize size = strlen (type);
  return header != NULL && g_ascii_strncasecmp (header, type, size) == 0
         && (header[size] == '\0' || header[size] == ';' || header[size] == ' ');
}

typedef struct {
  GByteArray *bytes;
  gboolean is_foreign; /* the server answered with something else */
} RecipeReply;

static gboolean
recipe_start (Ctx *ctx, gpointer data, guint status, GHashTable *headers, GError **error)
{
  RecipeReply *self = data;
  self->is_foreign = !has_type (headers, WIRE_RECIPE);
  return !self->is_foreign || am_fail (error, AM_ERROR_CANCELLED, NULL, "no recipe is offered");
}

static gboolean
recipe_write_some (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  RecipeReply *self = data;
  if (size > RECIPE_MAX_BYTES - self->bytes->len)
    return am_fail (error, AM_ERROR_DATA_LOSS, "RecipeCorrupt", "the recipe is larger than any may be");
  g_byte_array_append (self->bytes, bytes, (guint) size);
  return TRUE;
}

static gboolean
recipe_restart (gpointer data, GError **error)
{
  g_byte_array_set_size (((RecipeReply *) data)->bytes, 0);
  return TRUE;
}

Recipe *
remote_get_recipe (Ctx *ctx, Repository *base, const Digest *digest, GError **error)
{
  static const HttpDownload download = { recipe_start, recipe_write_some, recipe_restart };
  static const char *const headers[] = { "Accept: " WIRE_RECIPE, NULL };
  Remote *self = (Remote *) base;
  char text[DIGEST_STRING_SIZE];
  if (registry_client_wire (self->client) == WIRE_NOT_SPOKEN)
    return NULL;
  g_autofree char *url = registry_client_url (self->client, "blobs/%s", digest_format (digest, text));
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  RecipeReply answer = { .bytes = bytes };
  HttpCall call = {
    .method = "GET", .url = url, .headers = headers, .download = &download, .download_data = &answer
  };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  if (!registry_client_call (ctx, self->client, REGISTRY_PULL, &call, &reply, &failure))
    {
      if (am_error_is (failure, AM_ERROR_NOT_FOUND))
        am_fail (error, AM_ERROR_NOT_FOUND, "BLOB_UNKNOWN", "%s has no blob %s", base->display, text);
      else if (!answer.is_foreign)
        g_propagate_error (error, g_steal_pointer (&failure));
      return NULL;
    }
  g_autoptr (GBytes) whole = g_byte_array_free_to_bytes (g_steal_pointer (&bytes));
  Recipe *recipe = recipe_read (whole, digest, error);
  if (recipe == NULL)
    g_prefix_error (error, "%s: blob %s: ", base->display, text);
  return recipe;
}

static const RecipeEntry *
entry_at (const Run *self, guint index)
{
  return &g_array_index (self->fetch->recipe->entries, RecipeEntry, index);
}

/* The cause is kept as it is; what the HTTP client makes of it on the way out is not shown. */
static gboolean
fail_finally (Run *self, GError **error)
{
  g_propagate_error (error, g_error_copy (self->final));
  return FALSE;
}

static gboolean
fail_lie (Run *self, GError **error, const char *what)
{
  am_fail (&self->final, AM_ERROR_DATA_LOSS, "ChunkCorrupt", "%s: blob %s: chunk %u: %s",
           self->fetch->remote->base.display, self->fetch->digest, self->next, what);
  return fail_finally (self, error);
}

static gboolean
on_header (gpointer data, const ChunkHeader *header, GError **error)
{
  Run *self = data;
  if (self->next >= self->end)
    return fail_lie (self, error, "the registry sends more chunks than were asked for");
  const RecipeEntry *entry = entry_at (self, self->next);
  if (header->encoding == CHUNK_ENCODING_REF || header->decoded_size != entry->decoded_size
      || memcmp (header->digest.bytes, entry->digest, sizeof entry->digest) != 0)
    return fail_lie (self, error, "the registry sends another chunk than the recipe names");
  blake3_init (&self->hash);
  self->fill = 0;
  self->encoded_size = header->encoded_size;
  chunk_parser_decode_into (self->parser, self->chunk);
  return TRUE;
}

static gboolean
on_stripe (gpointer data, const guint8 *stored, gsize stored_size, const guint8 *decoded, gsize decoded_size,
           GError **error)
{
  Run *self = data;
  g_assert (decoded == self->chunk + self->fill);
  blake3_update (&self->hash, decoded, decoded_size);
  self->fill += decoded_size;
  return TRUE;
}

static gboolean
on_end (gpointer data, GError **error)
{
  Run *self = data;
  Fetch *fetch = self->fetch;
  const RecipeEntry *entry = entry_at (self, self->next);
  guint8 actual[CHUNK_DIGEST_SIZE];
  blake3_peek (&self->hash, actual);
  if (self->fill != entry->decoded_size || memcmp (actual, entry->digest, sizeof actual) != 0)
    return fail_lie (self, error, "its bytes have another digest");
  if (!fetch->sink (self->ctx, fetch->data, fetch->recipe->starts[self->next], self->chunk, self->fill, &self->final))
    return fail_finally (self, error);
  self->next++; /* from here on it is never delivered again */
  if (fetch->progress != NULL)
    fetch->progress (self->fill, self->encoded_size + CHUNK_HEADER_SIZE, fetch->data);
  return TRUE;
}

static guint64
run_first (const Run *self)
{
  return self->fetch->recipe->starts[self->next];
}

static guint64
run_last (const Run *self)
{
  return self->fetch->recipe->starts[self->end] - 1;
}

static gboolean
frames_start (Ctx *ctx, gpointer data, guint status, GHashTable *headers, GError **error)
{
  Run *self = data;
  g_autofree char *range = g_strdup_printf ("%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, run_first (self),
                                            run_last (self));
  if (!has_type (headers, WIRE_CHUNKS))
    return fail_lie (self, error, "the registry gave a recipe but sends no chunk frames");
  if (g_strcmp0 (g_hash_table_lookup (headers, "x-ai-models-decoded-range"), range) != 0)
    return fail_lie (self, error, "the registry answers with another range than was asked for");
  return TRUE;
}

static gboolean
frames_write (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  Run *self = data;
  GError *failure = NULL;
  self->ctx = ctx;
  if (chunk_parser_feed (self->parser, bytes, size, &failure))
    return TRUE;
  if (self->final == NULL)
    fail_lie (self, NULL, failure->message); /* the parser's own complaint about the form of the frames */
  g_error_free (failure);
  return fail_finally (self, error);
}

static gboolean
run_attempt (Ctx *ctx, Run *self, GError **error)
{
  static const HttpDownload download = { frames_start, frames_write, NULL };
  static const ChunkParserEvents events = { on_header, on_stripe, on_end };
  Fetch *fetch = self->fetch;
  g_autofree char *url = registry_client_url (fetch->remote->client, "blobs/%s", fetch->digest);
  g_autofree char *range = g_strdup_printf ("Range: bytes=%" G_GUINT64_FORMAT "-%" G_GUINT64_FORMAT, run_first (self),
                                            run_last (self));
  const char *headers[] = { "Accept: " WIRE_CHUNKS, range, NULL };
  HttpCall call = { .method = "GET", .url = url, .headers = headers, .download = &download, .download_data = self };
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (ChunkParser) parser = chunk_parser_new (&events, self);
  self->parser = parser;
  if (!registry_client_call (ctx, fetch->remote->client, REGISTRY_PULL, &call, &reply, error))
    return FALSE;
  return self->next == self->end
         || am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "%s: blob %s: the answer ended before chunk %u",
                     fetch->remote->base.display, fetch->digest, self->next);
}

static gboolean
run_all (Ctx *ctx, Run *self, GError **error)
{
  Retry retry = { .base_ms = self->fetch->remote->retry_base_ms, .furthest_bytes = run_first (self) };
  while (self->next < self->end)
    {
      g_autoptr (GError) failure = NULL;
      if (run_attempt (ctx, self, &failure))
        return TRUE;
      retry_reached (&retry, run_first (self));
      if (self->final != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&self->final));
          return FALSE;
        }
      if (self->next < self->end && !retry_wait (ctx, &retry, failure, error))
        return FALSE;
    }
  return TRUE;
}

/* Each round of runs up to twice as large as the one before, until the end comes near. */
static guint64
next_run_bytes (Fetch *self)
{
  guint64 bytes = CLAMP (self->left_bytes / (2 * self->n_workers), RUN_MIN_BYTES, RUN_MAX_BYTES);
  guint round = MIN (self->n_runs++ / self->n_workers, 8);
  return self->n_workers > 1 ? MIN (bytes, (guint64) FIRST_RUN_BYTES << round) : bytes;
}

/* Takes the next run of wanted neighbours; FALSE when there is none. */
static gboolean
take_run (Fetch *self, Run *run)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  guint64 run_bytes = next_run_bytes (self);
  guint n = self->recipe->entries->len;
  guint at = self->next;
  while (at < n && self->wanted[at] == 0)
    at++;
  run->next = at;
  while (at < n && self->wanted[at] != 0
         && (at == run->next || self->recipe->starts[at + 1] - self->recipe->starts[run->next] <= run_bytes))
    at++;
  run->end = at;
  self->next = at;
  self->left_bytes -= self->recipe->starts[run->end] - self->recipe->starts[run->next];
  return run->next < run->end;
}

static gboolean
fetch_worker (Ctx *ctx, gpointer data, GError **error)
{
  Run run = { .fetch = data };
  g_autofree guint8 *chunk = g_malloc (CHUNK_MAX_BYTES);
  run.chunk = chunk;
  while (take_run (data, &run))
    if (!ctx_check (ctx, error) || !run_all (ctx, &run, error))
      return FALSE;
  return TRUE;
}

gboolean
remote_read_chunks (Ctx *ctx, Repository *base, const Recipe *recipe, const guint8 *wanted, ChunkSink sink,
                    TransferProgress progress, gpointer data, GError **error)
{
  Fetch fetch = {
    .remote = (Remote *) base, .recipe = recipe, .wanted = wanted, .sink = sink, .progress = progress, .data = data
  };
  digest_format (&recipe->blob_digest, fetch.digest);
  for (guint i = 0; i < recipe->entries->len; i++)
    fetch.left_bytes += wanted[i] != 0 ? recipe->starts[i + 1] - recipe->starts[i] : 0;
  fetch.n_workers = (guint) MIN (fetch.left_bytes / RUN_MIN_BYTES + 1, fetch.remote->n_parallel);
  g_mutex_init (&fetch.lock);
  gboolean done = workers_run (ctx, fetch.n_workers, fetch_worker, &fetch, error);
  g_mutex_clear (&fetch.lock);
  return done;
}
