#include "cli/source_argument.h"

#include <string.h>

#include "base/file.h"
#include "cli/credentials.h"
#include "cli/target.h"
#include "publish/remote_source.h"
#include "publish/source.h"

#define TOKEN_FILE_LIMIT_BYTES 4096

gboolean
source_argument_is_url (const char *argument)
{
  return strstr (argument, "://") != NULL
         || (remote_source_kind (argument) != REMOTE_SOURCE_NONE && !g_file_test (argument, G_FILE_TEST_EXISTS));
}

/* Where `hf auth login` keeps its token. Caller frees. */
static char *
login_path (void)
{
  if (remote_source_env ("HF_TOKEN_PATH") != NULL)
    return g_strdup (remote_source_env ("HF_TOKEN_PATH"));
  if (remote_source_env ("HF_HOME") != NULL)
    return g_build_filename (remote_source_env ("HF_HOME"), "token", NULL);
  return g_build_filename (g_get_user_cache_dir (), "huggingface", "token", NULL);
}

/* FALSE with an error; `*out_token` is NULL when there is none. */
static gboolean
find_token (const char *token_file, char **out_token, GError **error)
{
  const char *value = remote_source_env ("HF_TOKEN") != NULL ? remote_source_env ("HF_TOKEN")
                                                             : remote_source_env ("HUGGING_FACE_HUB_TOKEN");
  g_autofree char *path = login_path ();
  if (token_file != NULL)
    {
      *out_token = credentials_read_password (token_file, error);
      g_prefix_error (error, "the hub's token: ");
      return *out_token != NULL;
    }
  if (value != NULL)
    {
      *out_token = g_strstrip (g_strdup (value));
      return TRUE;
    }
  if (remote_source_env_is_true ("HF_HUB_DISABLE_IMPLICIT_TOKEN") || !g_file_test (path, G_FILE_TEST_EXISTS))
    return TRUE;
  g_autoptr (GBytes) bytes = file_read (path, TOKEN_FILE_LIMIT_BYTES, error);
  if (bytes == NULL)
    return FALSE;
  g_autofree char *token = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  *out_token = *g_strstrip (token) != '\0' ? g_steal_pointer (&token) : NULL;
  return TRUE;
}

/* What goes to the hub goes over the network for everybody to read. */
static gboolean
hub_is_open (void)
{
  const char *hub = remote_source_env ("HF_ENDPOINT");
  return hub != NULL && g_str_has_prefix (hub, "http://") && !host_is_loopback (hub + strlen ("http://"));
}

ModelSource *
source_argument_open (Ctx *ctx, Cli *cli, const char *argument, const char *token_file, GError **error)
{
  gboolean is_url = source_argument_is_url (argument);
  RemoteSourceKind kind = is_url ? remote_source_kind (argument) : REMOTE_SOURCE_NONE;
  g_autofree char *token = NULL;
  if (token_file != NULL && (kind == REMOTE_SOURCE_OLLAMA || !is_url))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, CLI_USAGE, "--token-file is for an address of %s",
                         is_url ? "the Hugging Face hub: Ollama's registry is read without a token" : "a hub");
  if (!is_url)
    return local_source_open (ctx, argument, error);
  if (kind == REMOTE_SOURCE_HUB && !find_token (token_file, &token, error))
    return NULL;
  if (token != NULL && hub_is_open ())
    cli_remark (cli, "the token for %s travels without TLS", remote_source_env ("HF_ENDPOINT"));
  return remote_source_open (ctx, argument, token, NULL, error);
}
