#include "sources/ollama_registry.h"

#include <string.h>

#include "sources/endpoint.h"
#include "sources/ollama_session.h"
#include "sources/remote_reader.h"

#define WHO "the registry"
#define MAX_LICENSES 4u /* that are read */

/* One part of a model, as a remote file. */
typedef struct {
  OllamaRegistry *registry;
  char *repository; /* "library/name" */
  char *name;       /* for messages */
} Part;

OllamaRegistry *
ollama_registry_new (const OllamaConfiguration *configuration, GError **error)
{
  HttpClientConfig http = {
    .user_agent = configuration->user_agent,
    .ca_file = configuration->ca_file,
    .no_progress_timeout_ms = configuration->no_progress_timeout_ms,
    .retry_base_ms = configuration->retry_base_ms,
  };
  g_autoptr (OllamaRegistry) self = g_new0 (OllamaRegistry, 1);
  const char *endpoint = configuration->endpoint != NULL ? configuration->endpoint : OLLAMA_ENDPOINT;
  g_mutex_init (&self->lock);
  self->gate = fetch_gate_new ();
  if (!endpoint_parse (endpoint, "OLLAMA_REGISTRY", &self->endpoint, &self->origin, error))
    return NULL;
  self->retry_base_ms = configuration->retry_base_ms > 0 ? configuration->retry_base_ms : 250;
  self->api = http_client_new (&http, error);
  http.max_attempts = 1;
  self->data = self->api != NULL ? http_client_new (&http, error) : NULL;
  return self->data != NULL ? g_steal_pointer (&self) : NULL;
}

void
ollama_registry_free (OllamaRegistry *self)
{
  if (self == NULL)
    return;
  http_client_free (self->api);
  http_client_free (self->data);
  fetch_gate_free (self->gate);
  g_mutex_clear (&self->lock);
  g_free (self->endpoint);
  g_free (self->origin);
  g_free (self);
}

/* Asking where a part is: its body is not wanted, and a registry that sends it at once sends it all. */
typedef struct {
  guint status;
} Peek;

static gboolean
on_peek (Ctx *ctx, gpointer data, guint status, GHashTable *headers, GError **error)
{
  ((Peek *) data)->status = status;
  return status == 206 || am_fail (error, AM_ERROR_CANCELLED, "Enough", "enough was read");
}

static gboolean
on_peeked_bytes (Ctx *ctx, gpointer data, gconstpointer bytes, gsize size, GError **error)
{
  return size <= 1 || am_fail (error, AM_ERROR_CANCELLED, "Enough", "enough was read");
}

/* By GET: HEAD tells nothing here (formats-ollama.md 2). */
static gboolean
ask (Ctx *ctx, gpointer data, const char *url, HttpReply *out_reply, GError **error)
{
  static const HttpDownload download = { on_peek, on_peeked_bytes, NULL };
  static const char *const one_byte[] = { "Range: bytes=0-0", NULL };
  const Part *self = data;
  Peek peek = { 0 };
  HttpCall call = { .method = "GET",
                    .url = url,
                    .headers = one_byte,
                    .download = &download,
                    .download_data = &peek,
                    .no_redirects = TRUE };
  OllamaAsked asked = { self->repository, self->name, TRUE };
  g_autoptr (GError) failure = NULL;
  if (ollama_session_call (ctx, self->registry, &asked, &call, out_reply, &failure))
    return TRUE;
  if (peek.status != 0 && am_error_has_reason (failure, "Enough"))
    {
      out_reply->status = peek.status;
      return TRUE;
    }
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

static void
part_free (gpointer data)
{
  Part *self = data;
  g_free (self->repository);
  g_free (self->name);
  g_free (self);
}

static RemoteFile *
remote_new (OllamaRegistry *registry, const OllamaModel *model, const OllamaLayer *layer)
{
  static const RemoteFileClass klass = { WHO, ask, part_free };
  char digest[DIGEST_STRING_SIZE];
  digest_format (&layer->digest, digest);
  g_autofree char *url = g_strdup_printf ("%s/v2/%s/blobs/%s", registry->endpoint, model->repository, digest);
  RemoteFileConfig config = { registry->data,          url,           registry->origin, digest, layer->size_bytes,
                              registry->retry_base_ms, registry->gate };
  Part *part = g_new0 (Part, 1);
  part->registry = registry;
  part->repository = g_strdup (model->repository);
  part->name = g_strdup (model->name);
  return remote_file_new (&klass, part, &config);
}

static GBytes *
read_verified (Ctx *ctx, RemoteFile *file, const OllamaLayer *layer, GError **error)
{
  gsize size = (gsize) layer->size_bytes;
  g_autofree guint8 *bytes = g_malloc (size + 1);
  Digest digest;
  if (size > 0 && !remote_file_read (ctx, file, 0, bytes, size, error))
    return NULL;
  digest_of (DIGEST_SHA256, bytes, size, &digest);
  if (!digest_equal (&digest, &layer->digest))
    return am_fail_null (error, AM_ERROR_DATA_LOSS, "SourceCorrupt",
                         "its bytes do not match the SHA-256 that its source states");
  return g_bytes_new_take (g_steal_pointer (&bytes), size);
}

/* All of a small part, verified; one that is damaged is read once more. */
static GBytes *
read_part (Ctx *ctx, OllamaRegistry *self, const OllamaModel *model, const OllamaLayer *layer, const char *what,
           gsize limit_bytes, GError **error)
{
  g_autoptr (RemoteFile) file = remote_new (self, model, layer);
  g_autoptr (GError) failure = NULL;
  if (layer->size_bytes > limit_bytes)
    return am_fail_null (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "its %s has more than %" G_GSIZE_FORMAT " bytes",
                         what, limit_bytes);
  GBytes *bytes = read_verified (ctx, file, layer, &failure);
  if (bytes == NULL && am_error_has_reason (failure, "SourceCorrupt"))
    {
      g_clear_error (&failure);
      bytes = read_verified (ctx, file, layer, &failure);
    }
  if (bytes == NULL)
    {
      if (!g_str_has_prefix (failure->message, model->name))
        g_prefix_error (&failure, "its %s: ", what);
      g_propagate_error (error, g_steal_pointer (&failure));
    }
  return bytes;
}

static OllamaManifest *
read_manifest (Ctx *ctx, OllamaRegistry *self, const OllamaModel *model, GError **error)
{
  static const char *const headers[] = { "Accept: application/vnd.docker.distribution.manifest.v2+json, "
                                         "application/vnd.oci.image.manifest.v1+json",
                                         NULL };
  g_autofree char *url = g_strdup_printf ("%s/v2/%s/manifests/%s", self->endpoint, model->repository, model->tag);
  OllamaAsked asked = { model->repository, model->name, FALSE };
  HttpCall call = {
    .method = "GET", .url = url, .headers = headers, .reply_limit_bytes = OLLAMA_MANIFEST_LIMIT_BYTES
  };
  g_auto (HttpReply) reply = { 0 };
  OllamaManifest *manifest = NULL;
  if (!ollama_session_call (ctx, self, &asked, &call, &reply, error))
    return NULL;
  if (strcmp (reply.scheme_host, self->origin) != 0)
    am_fail (error, AM_ERROR_FAILED_PRECONDITION, "HubAnswer", "the registry sends its callers to another host, %s",
             reply.scheme_host);
  else
    manifest = ollama_manifest_parse (reply.body, error);
  return manifest;
}

/* What the small parts say: the config, the first parameters, the first license whose text is known. */
static gboolean
read_facts (Ctx *ctx, OllamaRegistry *self, const OllamaManifest *manifest, OllamaModel *model, GError **error)
{
  g_autoptr (GBytes) config = read_part (ctx, self, model, &manifest->config, "config", OLLAMA_CONFIG_LIMIT_BYTES,
                                         error);
  if (config == NULL || !ollama_config_parse (config, &model->config, error))
    return FALSE;
  const OllamaLayer *params = ollama_manifest_find (manifest, OLLAMA_PARAMS, 0);
  if (params != NULL && params->size_bytes > 0)
    {
      g_autoptr (GBytes) text = read_part (ctx, self, model, params, "parameters", OLLAMA_TEXT_LIMIT_BYTES, error);
      if (text == NULL || !ollama_params_parse (text, &model->context_tokens, error))
        return FALSE;
    }
  for (guint i = 0; model->license == NULL && i < MAX_LICENSES; i++)
    {
      const OllamaLayer *license = ollama_manifest_find (manifest, OLLAMA_LICENSE, i);
      if (license == NULL)
        break;
      if (license->size_bytes > OLLAMA_TEXT_LIMIT_BYTES)
        continue; /* nothing depends on it */
      g_autoptr (GBytes) text = read_part (ctx, self, model, license, "license", OLLAMA_TEXT_LIMIT_BYTES, error);
      if (text == NULL)
        return FALSE;
      model->license = ollama_license_name (text);
    }
  return TRUE;
}

OllamaModel *
ollama_registry_find (Ctx *ctx, OllamaRegistry *self, const OllamaUrl *url, GError **error)
{
  g_autoptr (OllamaModel) model = g_new0 (OllamaModel, 1);
  model->repository = g_strdup_printf ("%s/%s", url->space, url->model);
  model->tag = g_strdup (url->tag);
  model->name = g_strdup_printf ("%s/%s:%s", self->endpoint, model->repository, url->tag);
  g_autoptr (GError) failure = NULL;
  g_autoptr (OllamaManifest) manifest = read_manifest (ctx, self, model, &failure);
  if (manifest != NULL && read_facts (ctx, self, manifest, model, &failure))
    model->files = ollama_files_new (url, manifest, &model->config, &failure);
  if (model->files != NULL)
    return g_steal_pointer (&model);
  if (!g_str_has_prefix (failure->message, model->name))
    g_prefix_error (&failure, "%s: ", model->name);
  g_propagate_error (error, g_steal_pointer (&failure));
  return NULL;
}

void
ollama_model_free (OllamaModel *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->files, g_array_unref);
  ollama_config_clear (&self->config);
  g_free (self->repository);
  g_free (self->name);
  g_free (self->tag);
  g_free (self);
}

Reader *
ollama_registry_open (OllamaRegistry *self, const OllamaModel *model, const OllamaFile *file)
{
  return remote_reader_new (remote_new (self, model, &file->layer), NULL);
}
