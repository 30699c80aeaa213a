#include "publish/worker_private.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "oci/manifest.h"
#include "publish/remote_source.h"
#include "publish/staged_source.h"

#define TAG "published"
#define SMALL_FILE_LIMIT_BYTES 4096
#define FIRST_PAUSE_MS 50
#define LAST_PAUSE_MS 1600
/* publication-pipeline.md, "Storage reservation": a margin, and what a tar of the files would add. */
#define SPARE_BYTES (64ull << 20)
#define TAR_BLOCK_BYTES 512u
#define TAR_END_BYTES 1024u

/* The controller makes state and rights when it sees the Pod: nothing of them is there in the first moments. */
gboolean
worker_begin (Ctx *ctx, Worker *self, GError **error)
{
  for (gint64 pause_ms = FIRST_PAUSE_MS;; pause_ms *= 2)
    {
      g_autoptr (GError) problem = NULL;
      if (worker_report_begin (ctx, self->report, &problem))
        return TRUE;
      gboolean is_absent = am_error_is (problem, AM_ERROR_NOT_FOUND);
      if ((is_absent || am_error_is (problem, AM_ERROR_PERMISSION_DENIED)) && pause_ms <= LAST_PAUSE_MS)
        {
          if (!ctx_sleep_ms (ctx, pause_ms, error))
            return FALSE;
          continue;
        }
      if (is_absent)
        return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "%s", problem->message);
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
}

const char *
worker_source_type (const Worker *self)
{
  if (self->order->staged_file != NULL)
    return "Upload";
  return remote_source_kind (self->order->source_url) == REMOTE_SOURCE_OLLAMA ? "Ollama" : "HuggingFace";
}

/* The first line of a file that a Secret is mounted as. Caller frees. */
static char *
read_secret (const char *path, const char *what, GError **error)
{
  g_autoptr (GBytes) bytes = file_read (path, SMALL_FILE_LIMIT_BYTES, error);
  if (bytes == NULL)
    {
      g_prefix_error (error, "%s: ", what);
      return NULL;
    }
  g_autofree char *text = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  text[strcspn (text, "\r\n")] = '\0';
  return *text != '\0' ? g_steal_pointer (&text)
                       : am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s is empty", what);
}

/* The revision that was asked for, else the one that was begun with. Caller frees. */
static char *
pinned_revision (const Worker *self)
{
  char *begun_with = worker_report_revision (self->report);
  return begun_with != NULL ? begun_with : g_strdup (self->order->revision);
}

static ModelSource *
open_remote (Ctx *ctx, Worker *self, GError **error)
{
  g_autofree char *token = NULL, *revision = pinned_revision (self);
  const WorkerOrder *order = self->order;
  if (order->token_file != NULL
      && (token = read_secret (order->token_file, "the Secret that spec.source.authSecretRef names", error)) == NULL)
    return NULL;
  am_log_info (ctx, "asking the source", "type", worker_source_type (self), "revision", revision, NULL);
  ModelSource *source = remote_source_open (ctx, order->source_url, token, revision, error);
  if (source == NULL)
    return NULL;
  am_log_info (ctx, "the source answered", "revision", source->revision, "files", AM_U64 (source->files->len), NULL);
  worker_report_set_revision (self->report, source->revision);
  return source;
}

static ModelSource *
open_staged (Ctx *ctx, Worker *self, GError **error)
{
  const WorkerOrder *order = self->order;
  const char *slash = strrchr (order->staged_file, '/'), *name = slash != NULL ? slash + 1 : order->staged_file;
  ObjectInfo info = { 0 };
  if (!path_is_safe (self->staging_key))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the uploaded file has no usable name");
  if (self->staging == NULL)
    self->staging = self->places->open_store (ctx, order->staging_store, error);
  am_log_info (ctx, "reading the uploaded file", "file", name, NULL);
  ModelSource *source = self->staging != NULL
                          ? staged_source_open (ctx, self->staging, self->staging_key, name, error)
                          : NULL;
  if (source == NULL)
    return NULL;
  if (object_store_stat (ctx, self->staging, self->staging_key, &info, NULL))
    self->staged_bytes = info.size_bytes;
  am_log_info (ctx, "the uploaded file was read", "bytes", AM_U64 (self->staged_bytes), "files",
               AM_U64 (source->files->len), NULL);
  return source;
}

gboolean
worker_make_plan (Ctx *ctx, Worker *self, GError **error)
{
  ModelSource *source = self->order->staged_file != NULL ? open_staged (ctx, self, error)
                                                         : open_remote (ctx, self, error);
  self->plan = source != NULL ? publish_plan_new (ctx, source, NULL, error) : NULL;
  if (self->plan == NULL)
    return FALSE;
  am_log_info (ctx, "files chosen and checked", "format", model_format_name (self->plan->profile->format), "files",
               AM_U64 (self->plan->n_files), "bytes", AM_U64 (self->plan->total_bytes), NULL);
  worker_report_set_plan (self->report, self->plan->n_files, self->plan->total_bytes);
  return TRUE;
}

/* What the model needs beside what is set aside for it already. */
static guint64
needed_bytes (const Worker *self)
{
  guint64 sum = self->plan->total_bytes;
  if (self->order->staged_file != NULL) /* the gateway set aside what was uploaded */
    return sum > self->staged_bytes ? sum - self->staged_bytes : 0;
  if (remote_source_kind (self->order->source_url) == REMOTE_SOURCE_OLLAMA)
    return sum;
  sum += SPARE_BYTES + TAR_END_BYTES;
  for (guint i = 0; i < self->plan->selection->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->plan->selection->files, SelectedFile, i);
      if (selected_file_is_kept (file))
        sum += TAR_BLOCK_BYTES + (TAR_BLOCK_BYTES - file->size_bytes % TAR_BLOCK_BYTES) % TAR_BLOCK_BYTES;
    }
  return sum;
}

gboolean
worker_reserve (Ctx *ctx, Worker *self, GError **error)
{
  guint64 size_bytes = needed_bytes (self);
  const WorkerOrder *order = self->order;
  if (self->ledger == NULL || size_bytes == 0)
    return TRUE;
  if (!ledger_store_reserve (ctx, self->ledger, order->owner.uid, &order->owner, size_bytes,
                             order->capacity_limit_bytes, error))
    return FALSE;
  am_log_info (ctx, "room is set aside", "bytes", AM_U64 (size_bytes), NULL);
  return TRUE;
}

static Repository *
open_registry (const Worker *self, GError **error)
{
  const WorkerOrder *order = self->order;
  g_autofree char *username = NULL, *password = NULL;
  if (order->registry_login_dir != NULL)
    {
      g_autofree char *username_path = g_build_filename (order->registry_login_dir, "username", NULL);
      g_autofree char *password_path = g_build_filename (order->registry_login_dir, "password", NULL);
      username = read_secret (username_path, "the login of the module's registry", error);
      password = username != NULL ? read_secret (password_path, "the login of the module's registry", error) : NULL;
      if (password == NULL)
        return NULL;
    }
  WorkerRegistry registry = { .host = order->registry_host,
                              .plain_http = order->registry_plain_http,
                              .ca_file = order->registry_ca_file,
                              .username = username,
                              .password = password,
                              .notes = worker_report_notes (self->report) };
  return self->places->open_registry (&registry, order->repository, error);
}

static void
on_file (const char *path, gpointer data)
{
  am_log_info (((gpointer *) data)[1], "layer begins", "file", path, NULL);
}

static void
on_file_done (const char *path, gpointer data)
{
  am_log_info (((gpointer *) data)[1], "layer is stored", "file", path, NULL);
}

static void
on_bytes (guint64 done_bytes, guint64 moved_bytes, gpointer data)
{
  const Worker *self = ((gpointer *) data)[0];
  worker_report_transferred (self->report, done_bytes);
}

/* Config and layers; 0 for what is no manifest of a model. */
static guint64
content_bytes (const Manifest *manifest)
{
  guint64 sum = manifest->config != NULL ? manifest->config->size_bytes : 0;
  for (guint i = 0; i < manifest->layers->len; i++)
    sum += ((const Descriptor *) g_ptr_array_index (manifest->layers, i))->size_bytes;
  return sum;
}

/* What the registry has under the tag is what was put there, or nothing is told. */
static gboolean
read_back (Ctx *ctx, Worker *self, Repository *repository, const Digest *digest, GError **error)
{
  Digest stored;
  g_autofree char *media_type = NULL;
  g_autoptr (GBytes) bytes = repository_get_manifest (ctx, repository, TAG, &media_type, &stored, error);
  g_autoptr (Manifest) manifest = bytes != NULL ? manifest_parse (bytes, media_type, error) : NULL;
  if (manifest == NULL)
    return FALSE;
  if (!digest_equal (&stored, digest) || content_bytes (manifest) == 0)
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL,
                    "the module's registry gives out another artifact than it was given");
  WorkerResult *result = &self->result;
  result->digest = digest_to_string (digest);
  result->media_type = g_strdup (manifest->artifact_type != NULL ? manifest->artifact_type
                                                                 : manifest->config->media_type);
  result->repository = g_strdup (self->order->repository);
  result->size_bytes = content_bytes (manifest);
  return TRUE;
}

gboolean
worker_publish (Ctx *ctx, Worker *self, GError **error)
{
  gpointer event_data[] = { self, ctx };
  TransferEvents events = { .file = on_file, .file_done = on_file_done, .bytes = on_bytes, .data = event_data };
  g_auto (PublishResult) published = { 0 };
  g_autoptr (Repository) repository = open_registry (self, error);
  if (repository == NULL)
    return FALSE;
  worker_report_restart_transfer (self->report);
  worker_report_set_stage (self->report, WORKER_STAGE_UPLOADING);
  if (!publish_run (ctx, self->plan, repository, TAG, &events, &published, error))
    return FALSE;
  worker_report_set_stage (self->report, WORKER_STAGE_SEALING);
  if (!read_back (ctx, self, repository, &published.digest, error))
    return FALSE;
  am_log_info (ctx, "published", "digest", self->result.digest, "bytes", AM_U64 (self->result.size_bytes),
               "moved_bytes", AM_U64 (published.moved_bytes), NULL);
  return TRUE;
}
