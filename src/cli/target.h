/* What a person types to name an artifact, resolved to a repository: a reference, in front of which
 * http:// or https:// may stand. Not thread-safe. */
#pragma once

#include "cli/cli.h"
#include "oci/reference.h"

typedef struct {
  Reference *reference;
  gboolean plain_http; /* asked for by the scheme, or usual for a loopback host */
  char *selector;      /* digest or tag, for the port's functions */
} Target;

/* INVALID_ARGUMENT as reference_parse gives it. */
Target *target_parse (const char *text, GError **error);
void target_free (Target *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Target, target_free)
/* TRUE for localhost, 127.0.0.0/8 and [::1], with or without a port. */
gboolean host_is_loopback (const char *host);
/* TRUE when both lie in the same place: the local store or one registry. */
gboolean target_same_place (const Target *a, const Target *b);

/* Opens the repository: the local store (made when `create` is set) or a registry, reached as `options` and
 * the stored logins say. Caller frees before the Cli ends. */
Repository *target_open (Cli *cli, const Target *self, const RegistryOptions *options, gboolean create,
                         GError **error);
/* Parses `text` and opens what should be there already, with the common options. Caller frees both; NULL with the
 * error of whichever failed. */
Target *target_find (Cli *cli, const char *text, Repository **out_repository, GError **error);
