#include "publish/remote_source.h"

#include <string.h>

#include "base/text.h"
#include "net/http_client.h"
#include "publish/hub_source.h"
#include "publish/ollama_source.h"

#define MAX_TIMEOUT_S 3600u

const char *
remote_source_env (const char *name)
{
  const char *value = g_getenv (name);
  return value != NULL && *value != '\0' ? value : NULL;
}

gboolean
remote_source_env_is_true (const char *name)
{
  static const char *const yes[] = { "1", "on", "yes", "true", NULL };
  const char *text = remote_source_env (name);
  g_autofree char *value = g_ascii_strdown (text != NULL ? text : "", -1);
  return g_strv_contains (yes, value);
}

/* A hub's address without slashes at its end; NULL: the usual one. Caller frees. */
static char *
endpoint (const char *name)
{
  char *text = g_strdup (remote_source_env (name));
  for (gsize size = text != NULL ? strlen (text) : 0; size > 0 && text[size - 1] == '/'; size--)
    text[size - 1] = '\0';
  return text;
}

RemoteSourceKind
remote_source_kind (const char *text)
{
  g_autofree char *hub = endpoint ("HF_ENDPOINT"), *registry = endpoint ("OLLAMA_REGISTRY");
  return ollama_url_is (text, registry) ? REMOTE_SOURCE_OLLAMA
         : hf_url_is (text, hub)        ? REMOTE_SOURCE_HUB
                                        : REMOTE_SOURCE_NONE;
}

static gint64
timeout_ms (const char *name)
{
  guint64 seconds;
  const char *text = remote_source_env (name);
  return text != NULL && text_parse_u64 (text, &seconds) ? (gint64) MIN (seconds, MAX_TIMEOUT_S) * 1000 : 0;
}

static ModelSource *
open_hub (Ctx *ctx, const char *url, const char *token, const char *revision, GError **error)
{
  g_autofree char *hub = endpoint ("HF_ENDPOINT");
  if (remote_source_env_is_true ("HF_HUB_OFFLINE"))
    return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, NULL, "HF_HUB_OFFLINE forbids to ask the hub");
  HfHubConfig config = { .endpoint = hub,
                         .token = token,
                         .ca_file = remote_source_env ("SSL_CERT_FILE"),
                         .no_progress_timeout_ms = timeout_ms ("HF_HUB_DOWNLOAD_TIMEOUT") };
  return hub_source_open (ctx, &config, url, revision, error);
}

static ModelSource *
open_ollama (Ctx *ctx, const char *url, const char *revision, GError **error)
{
  g_autofree char *registry = endpoint ("OLLAMA_REGISTRY");
  OllamaConfiguration configuration = { .endpoint = registry,
                                        .user_agent = remote_source_env ("OLLAMA_USER_AGENT"),
                                        .ca_file = remote_source_env ("SSL_CERT_FILE"),
                                        .no_progress_timeout_ms = timeout_ms ("OLLAMA_DOWNLOAD_TIMEOUT") };
  return ollama_source_open (ctx, &configuration, url, revision, error);
}

/* Without what the address may hold of secrets. */
static gpointer
fail_elsewhere (const char *url, GError **error)
{
  g_autofree char *origin = http_origin (url);
  return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedSource",
                       "models are not read from %s; an address is that of the Hugging Face hub "
                       "(https://huggingface.co/OWNER/NAME), of its mirror in HF_ENDPOINT, or of Ollama's registry "
                       "(https://ollama.com/library/NAME:TAG)",
                       origin != NULL ? origin : "there");
}

ModelSource *
remote_source_open (Ctx *ctx, const char *url, const char *token, const char *revision, GError **error)
{
  switch (remote_source_kind (url))
    {
    case REMOTE_SOURCE_HUB: return open_hub (ctx, url, token, revision, error);
    case REMOTE_SOURCE_OLLAMA: return open_ollama (ctx, url, revision, error);
    case REMOTE_SOURCE_NONE: break;
    }
  return fail_elsewhere (url, error);
}
