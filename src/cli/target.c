#include "cli/target.h"

#include <string.h>

#include "cli/credentials.h"

static const struct {
  const char *prefix;
  gboolean plain_http;
} schemes[] = { { "http://", TRUE }, { "https://", FALSE } };

gboolean
host_is_loopback (const char *host)
{
  guint a, b, c, d;
  char end;
  gsize size = host[0] == '[' ? strcspn (host, "]") + 1 : strcspn (host, ":");
  g_autofree char *name = g_strndup (host, size);
  if (g_ascii_strcasecmp (name, "localhost") == 0 || strcmp (name, "[::1]") == 0)
    return TRUE;
  return sscanf (name, "%3u.%3u.%3u.%3u%c", &a, &b, &c, &d, &end) == 4 && a == 127 && b < 256 && c < 256 && d < 256;
}

void
target_free (Target *self)
{
  if (self == NULL)
    return;
  reference_free (self->reference);
  g_free (self->selector);
  g_free (self);
}

Target *
target_parse (const char *text, GError **error)
{
  const char *rest = text;
  gboolean plain_http = FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (schemes); i++)
    if (g_str_has_prefix (text, schemes[i].prefix))
      {
        rest = text + strlen (schemes[i].prefix);
        plain_http = schemes[i].plain_http;
      }
  Reference *reference = reference_parse (rest, error);
  if (reference == NULL)
    return NULL;
  Target *self = g_new0 (Target, 1);
  self->reference = reference;
  self->selector = reference_selector (reference);
  gboolean loopback = reference->host != NULL && host_is_loopback (reference->host);
  self->plain_http = rest != text ? plain_http : loopback;
  if (rest == text || reference->host != NULL)
    return self;
  am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID", "\"%.200s\" names no registry after its scheme", text);
  target_free (self);
  return NULL;
}

gboolean
target_same_place (const Target *a, const Target *b)
{
  return g_strcmp0 (a->reference->host, b->reference->host) == 0;
}

/* From the options when they name a user, else from the stored logins. */
static gboolean
find_login (const RegistryOptions *options, const char *host, Credentials *out_login, GError **error)
{
  gboolean has_password = options->password_stdin || options->password_file != NULL;
  if (options->password_stdin && options->password_file != NULL)
    return cli_usage_fail (error, "--password-stdin and --password-file exclude one another");
  if (has_password != (options->username != NULL))
    return cli_usage_fail (error, has_password ? "a password needs --username too"
                                               : "--username needs --password-stdin or --password-file too");
  if (!has_password)
    return credentials_find (host, out_login, error);
  out_login->password = credentials_read_password (options->password_stdin ? "-" : options->password_file, error);
  if (out_login->password == NULL)
    return FALSE;
  out_login->username = g_strdup (options->username);
  return TRUE;
}

static Repository *
open_remote (Cli *cli, const Target *self, const RegistryOptions *options, GError **error)
{
  g_auto (Credentials) login = { NULL, NULL };
  const char *host = self->reference->host;
  if (!find_login (options, host, &login, error))
    return NULL;
  g_autofree char *resume_dir = g_build_filename (g_get_user_cache_dir (), "ai-models", "uploads", NULL);
  RegistryAccess access = {
    .host = host,
    .plain_http = self->plain_http || options->plain_http,
    .insecure_skip_verify = options->insecure,
    .ca_file = options->ca_file,
    .username = login.username,
    .password = login.password,
    .resume_dir = resume_dir,
  };
  if (access.plain_http && access.username != NULL && !host_is_loopback (host))
    cli_remark (cli, "the password for %s travels without TLS", host);
  return cli->places->open_remote (&access, self->reference->name, error);
}

Repository *
target_open (Cli *cli, const Target *self, const RegistryOptions *options, gboolean create, GError **error)
{
  if (self->reference->host != NULL)
    return open_remote (cli, self, options, error);
  BlobStore *blobs = cli_store (cli, create, error);
  return blobs != NULL ? cli->places->open_local (blobs, self->reference->name, error) : NULL;
}

Target *
target_find (Cli *cli, const char *text, Repository **out_repository, GError **error)
{
  g_autoptr (Target) self = target_parse (text, error);
  Repository *repository = self != NULL ? target_open (cli, self, &cli->common.registry, FALSE, error) : NULL;
  if (repository == NULL)
    return NULL;
  *out_repository = repository;
  return g_steal_pointer (&self);
}
