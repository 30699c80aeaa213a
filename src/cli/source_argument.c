#include "cli/source_argument.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/credentials.h"
#include "cli/target.h"
#include "net/http_client.h"
#include "publish/hub_source.h"
#include "publish/ollama_source.h"
#include "publish/source.h"

#define TOKEN_FILE_LIMIT_BYTES 4096
#define MAX_TIMEOUT_S 3600u

/* NULL when not set or empty. */
static const char *
env (const char *name)
{
  const char *value = g_getenv (name);
  return value != NULL && *value != '\0' ? value : NULL;
}

static gboolean
env_is_true (const char *name)
{
  static const char *const yes[] = { "1", "on", "yes", "true", NULL };
  g_autofree char *value = g_ascii_strdown (env (name) != NULL ? env (name) : "", -1);
  return g_strv_contains (yes, value);
}

/* A hub's address without slashes at its end; NULL: the usual one. Caller frees. */
static char *
endpoint (const char *name)
{
  char *text = g_strdup (env (name));
  for (gsize size = text != NULL ? strlen (text) : 0; size > 0 && text[size - 1] == '/'; size--)
    text[size - 1] = '\0';
  return text;
}

static gboolean
names_ollama (const char *argument)
{
  g_autofree char *registry = endpoint ("OLLAMA_REGISTRY");
  return ollama_url_is (argument, registry);
}

static gboolean
names_hub (const char *argument)
{
  g_autofree char *hub = endpoint ("HF_ENDPOINT");
  return hf_url_is (argument, hub);
}

gboolean
source_argument_is_url (const char *argument)
{
  return strstr (argument, "://") != NULL
         || ((names_hub (argument) || names_ollama (argument)) && !g_file_test (argument, G_FILE_TEST_EXISTS));
}

/* Without what the address may hold of secrets. */
static gpointer
fail_elsewhere (const char *argument, GError **error)
{
  g_autofree char *origin = http_origin (argument);
  return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "UnsupportedSource",
                       "models are not read from %s; an address is that of the Hugging Face hub "
                       "(https://huggingface.co/OWNER/NAME), of its mirror in HF_ENDPOINT, or of Ollama's registry "
                       "(https://ollama.com/library/NAME:TAG)",
                       origin != NULL ? origin : "there");
}

/* Where `hf auth login` keeps its token. Caller frees. */
static char *
login_path (void)
{
  if (env ("HF_TOKEN_PATH") != NULL)
    return g_strdup (env ("HF_TOKEN_PATH"));
  if (env ("HF_HOME") != NULL)
    return g_build_filename (env ("HF_HOME"), "token", NULL);
  return g_build_filename (g_get_user_cache_dir (), "huggingface", "token", NULL);
}

/* NULL without an error when there is none. */
static char *
find_token (const char *token_file, GError **error)
{
  const char *value = env ("HF_TOKEN") != NULL ? env ("HF_TOKEN") : env ("HUGGING_FACE_HUB_TOKEN");
  g_autofree char *path = login_path ();
  if (token_file != NULL)
    {
      char *token = credentials_read_password (token_file, error);
      g_prefix_error (error, "the hub's token: ");
      return token;
    }
  if (value != NULL)
    return g_strstrip (g_strdup (value));
  if (env_is_true ("HF_HUB_DISABLE_IMPLICIT_TOKEN") || !g_file_test (path, G_FILE_TEST_EXISTS))
    return NULL;
  g_autoptr (GBytes) bytes = file_read (path, TOKEN_FILE_LIMIT_BYTES, error);
  if (bytes == NULL)
    return NULL;
  g_autofree char *token = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  return *g_strstrip (token) != '\0' ? g_steal_pointer (&token) : NULL;
}

static gint64
timeout_ms (const char *name)
{
  guint64 seconds;
  const char *text = env (name);
  return text != NULL && text_parse_u64 (text, &seconds) ? (gint64) MIN (seconds, MAX_TIMEOUT_S) * 1000 : 0;
}

static gboolean
travels_openly (const char *hub)
{
  return hub != NULL && g_str_has_prefix (hub, "http://") && !host_is_loopback (hub + strlen ("http://"));
}

static ModelSource *
open_hub (Ctx *ctx, Cli *cli, const char *argument, const char *token_file, GError **error)
{
  g_autofree char *hub = endpoint ("HF_ENDPOINT");
  g_autoptr (GError) problem = NULL;
  if (env_is_true ("HF_HUB_OFFLINE"))
    return am_fail_null (error, AM_ERROR_FAILED_PRECONDITION, NULL, "HF_HUB_OFFLINE forbids to ask the hub");
  g_autofree char *token = find_token (token_file, &problem);
  if (problem != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return NULL;
    }
  if (token != NULL && travels_openly (hub))
    cli_remark (cli, "the token for %s travels without TLS", hub);
  HfHubConfig config = { .endpoint = hub,
                         .token = token,
                         .ca_file = env ("SSL_CERT_FILE"),
                         .no_progress_timeout_ms = timeout_ms ("HF_HUB_DOWNLOAD_TIMEOUT") };
  return hub_source_open (ctx, &config, argument, error);
}

static ModelSource *
open_ollama (Ctx *ctx, const char *argument, GError **error)
{
  g_autofree char *registry = endpoint ("OLLAMA_REGISTRY");
  OllamaConfiguration configuration = { .endpoint = registry,
                                        .user_agent = env ("OLLAMA_USER_AGENT"),
                                        .ca_file = env ("SSL_CERT_FILE"),
                                        .no_progress_timeout_ms = timeout_ms ("OLLAMA_DOWNLOAD_TIMEOUT") };
  return ollama_source_open (ctx, &configuration, argument, error);
}

ModelSource *
source_argument_open (Ctx *ctx, Cli *cli, const char *argument, const char *token_file, GError **error)
{
  gboolean is_url = source_argument_is_url (argument), is_ollama = is_url && names_ollama (argument);
  if (token_file != NULL && (is_ollama || !is_url))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, CLI_USAGE, "--token-file is for an address of %s",
                         is_ollama ? "the Hugging Face hub: Ollama's registry is read without a token" : "a hub");
  if (is_ollama)
    return open_ollama (ctx, argument, error);
  if (is_url && !names_hub (argument))
    return fail_elsewhere (argument, error);
  return is_url ? open_hub (ctx, cli, argument, token_file, error) : local_source_open (ctx, argument, error);
}
