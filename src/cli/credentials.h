/* Logins for registries from files that other clients write too: the `auths` of ~/.docker/config.json
 * (containers-auth.json(5)). Credential helpers are not run. Values; thread-safe. */
#pragma once

#include <glib.h>

#include "base/error.h"

typedef struct {
  char *username, *password; /* both NULL: none */
} Credentials;

void credentials_clear (Credentials *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Credentials, credentials_clear)

/* The login that `config_json` has for `host` ("registry.example:5000"), if any: an entry of the host itself
 * wins over one that also names a path below it. INVALID_ARGUMENT when it is not such a file. */
gboolean credentials_parse (GBytes *config_json, const char *host, Credentials *out_credentials, GError **error);
/* From $REGISTRY_AUTH_FILE, else $DOCKER_CONFIG/config.json, else ~/.docker/config.json. No file, or none for
 * the host: no credentials, no error. */
gboolean credentials_find (const char *host, Credentials *out_credentials, GError **error);
/* First line of a file, or of standard input for "-"; at most 4 KiB, not empty. Caller frees. */
char *credentials_read_password (const char *path, GError **error);
