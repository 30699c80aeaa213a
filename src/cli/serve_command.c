#include "cli/commands.h"

#include <malloc.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "cli/program.h"
#include "cli/target.h"
#include "dmcr/dmcr.h"

#define DEFAULT_MAX_CONNECTIONS 1024
#define OTHER_FILES 128 /* open files beside those of the connections that are allowed */

typedef struct {
  const char *listen, *tls_cert, *tls_key, *htpasswd, *plain_users, *writers, *grant_salt, *port_file, *log_level;
  gboolean anonymous_read, allow_anonymous_write, accept_sparse;
  guint64 max_connections, max_connections_per_peer;
} Settings;

#define SERVE(member, name, letter, type, argument, choices, help) \
  OPTION (Settings, member, name, letter, type, argument, choices, help)
static const Option options[] = {
  SERVE (listen, "listen", 'l', OPTION_TEXT, "ADDRESS", NULL,
         "where to listen (default 127.0.0.1:5000; port 0: any)"),
  SERVE (tls_cert, "tls-cert", '\0', OPTION_TEXT, "FILE", NULL,
         "serve TLS with this certificate; taken over anew when it changes"),
  SERVE (tls_key, "tls-key", '\0', OPTION_TEXT, "FILE", NULL, "its private key"),
  SERVE (htpasswd, "htpasswd", '\0', OPTION_TEXT, "FILE", NULL, "users and bcrypt hashes (htpasswd -B)"),
  SERVE (plain_users, "plain-users", '\0', OPTION_TEXT, "FILE", NULL, "users and passwords, user:password a line"),
  SERVE (writers, "writer", '\0', OPTION_TEXT, "USERS", NULL,
         "who may push and delete, separated by commas (default ai-models)"),
  SERVE (grant_salt, "grant-salt-file", '\0', OPTION_TEXT, "FILE", NULL,
         "take read grants that are signed with the secret in FILE"),
  SERVE (anonymous_read, "anonymous-read", '\0', OPTION_FLAG, NULL, NULL, "everybody may pull"),
  SERVE (allow_anonymous_write, "allow-anonymous-write", '\0', OPTION_FLAG, NULL, NULL,
         "everybody may do everything, on an address that others can reach"),
  SERVE (accept_sparse, "accept-sparse-manifests", '\0', OPTION_FLAG, NULL, NULL,
         "take manifests whose blobs are not here"),
  SERVE (max_connections, "max-connections", '\0', OPTION_NUMBER, "N", NULL,
         "at most so many connections (default 1024)"),
  SERVE (max_connections_per_peer, "max-connections-per-peer", '\0', OPTION_NUMBER, "N", NULL,
         "at most so many from one address (default 256)"),
  SERVE (port_file, "port-file", '\0', OPTION_TEXT, "FILE", NULL, "write the port there once listening"),
  SERVE (log_level, "log-level", '\0', OPTION_TEXT, "LEVEL", program_log_levels,
         "least level that is logged (default info)"),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

/* Without users everybody may do everything: fine for the machine itself, and otherwise only when said so. */
static gboolean
check_access (const Settings *settings, const char *address, GError **error)
{
  gboolean has_users = settings->htpasswd != NULL || settings->plain_users != NULL;
  if (settings->tls_cert != NULL ? settings->tls_key == NULL : settings->tls_key != NULL)
    return cli_usage_fail (error, "--tls-cert and --tls-key go together");
  if (has_users && settings->allow_anonymous_write)
    return cli_usage_fail (error, "--allow-anonymous-write makes the users file pointless: give one of them");
  if (has_users || settings->allow_anonymous_write || settings->anonymous_read || host_is_loopback (address))
    return TRUE;
  return cli_usage_fail (error,
                         "others can reach %s: give --htpasswd or --plain-users, --anonymous-read for pulls "
                         "only, or --allow-anonymous-write",
                         address);
}

/* As many connections as wanted, or as this process may have open files for: a socket each, and for each a file of the
 * store. The soft limit of most systems is made for programs that use select(). */
static guint
max_connections_within_files (const Settings *settings)
{
  struct rlimit files = { 0 };
  guint64 wanted = settings->max_connections > 0 ? settings->max_connections : DEFAULT_MAX_CONNECTIONS;
  if (getrlimit (RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max)
    {
      files.rlim_cur = files.rlim_max;
      setrlimit (RLIMIT_NOFILE, &files);
    }
  if (getrlimit (RLIMIT_NOFILE, &files) != 0)
    return (guint) MIN (wanted, G_MAXUINT);
  guint64 fit = files.rlim_cur > OTHER_FILES + 2 ? (files.rlim_cur - OTHER_FILES) / 2 : 1;
  if (fit < wanted)
    am_log_warning (NULL, "fewer connections, because few files may be open", "connections", AM_U64 (fit), "files",
                    AM_U64 (files.rlim_cur), NULL);
  return (guint) MIN (MIN (wanted, fit), G_MAXUINT);
}

/* Serves until the context is cancelled by a signal, then lets what runs come to its end. */
static gboolean
serve (Ctx *ctx, const Settings *settings, const DmcrConfig *config, BlobStore *blobs, GError **error)
{
  g_autoptr (Ctx) serving = ctx_new (); /* outlives the signal: running requests end by themselves */
  g_autoptr (Dmcr) dmcr = dmcr_start (serving, config, blobs, error);
  if (dmcr == NULL || !program_write_port (settings->port_file, dmcr_port (dmcr), error))
    return FALSE;
  const char *colon = strrchr (config->listen_address, ':');
  g_autofree char *host = g_strndup (config->listen_address, (gsize) (colon - config->listen_address));
  g_autofree char *address = g_strdup_printf ("%s:%u", host, dmcr_port (dmcr));
  am_log_info (ctx, "listening", "address", address, "tls", config->tls_key_file != NULL ? "yes" : "no", NULL);
  program_wait (ctx);
  am_log_info (NULL, "stopping", NULL);
  dmcr_drain (dmcr);
  return TRUE;
}

static gboolean
run (Ctx *ctx, Cli *cli, gconstpointer data, const char *const *arguments, GError **error)
{
  const Settings *settings = data;
  const char *address = settings->listen != NULL ? settings->listen : "127.0.0.1:5000";
  gboolean has_users = settings->htpasswd != NULL || settings->plain_users != NULL;
  if (strrchr (address, ':') == NULL)
    return cli_usage_fail (error, "--listen takes ADDRESS:PORT, not \"%s\"", address);
  if (!check_access (settings, address, error))
    return FALSE;
  program_start_log (cli, settings->log_level, "dmcr");
  /* Few arenas: a thread a connection would otherwise keep one each. */
  mallopt (M_ARENA_MAX, 2);
  BlobStore *blobs = cli_store (cli, TRUE, error);
  if (blobs == NULL)
    return FALSE;
  g_auto (GStrv) writers = settings->writers != NULL ? g_strsplit (settings->writers, ",", -1) : NULL;
  DmcrConfig config = {
    .listen_address = address,
    .tls_certificate_file = settings->tls_cert,
    .tls_key_file = settings->tls_key,
    .htpasswd_file = settings->htpasswd,
    .plain_users_file = settings->plain_users,
    .writers = (const char *const *) writers,
    .grant_salt_file = settings->grant_salt,
    .anonymous_read = settings->anonymous_read,
    .anonymous_write = !has_users && (settings->allow_anonymous_write || !settings->anonymous_read),
    .accept_sparse_manifests = settings->accept_sparse,
    .max_connections = max_connections_within_files (settings),
    .max_connections_per_peer = (guint) MIN (settings->max_connections_per_peer, G_MAXUINT),
  };
  return serve (ctx, settings, &config, blobs, error);
}

static const Example examples[] = {
  { "serve", "The local store as a registry for this machine, on 127.0.0.1:5000." },
  { "serve --listen :5000 --htpasswd users --tls-cert tls.crt --tls-key tls.key --anonymous-read",
    "For a team: everybody pulls, user ai-models pushes." },
};

const Command serve_command = {
  .name = "serve",
  .summary = "Serve the local store as an OCI registry",
  .usage = "",
  .about = "Any OCI client (ORAS, skopeo, curl, containerd) can push to it and pull from it; our own\n"
           "commands move only the chunks that the other side lacks. Several processes may serve\n"
           "one store. /healthz, /readyz and /metrics tell how it is. SIGTERM lets running requests\n"
           "end and keeps the state of uploads that do not.",
  .options = &group,
  .uses_store = TRUE,
  .settings_size = sizeof (Settings),
  .examples = examples,
  .n_examples = G_N_ELEMENTS (examples),
  .run = run,
};
