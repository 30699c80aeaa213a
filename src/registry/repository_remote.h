/* A repository of an OCI registry over HTTP as a Repository. A server that answers with X-Ai-Models-Chunks
 * gets and gives chunk frames, so only missing chunks move; any other gets plain OCI. */
#pragma once

#include "net/http_client.h"
#include "registry/push_notes.h"
#include "registry/repository.h"

typedef struct {
  const char *host; /* "registry.example:5000" */
  gboolean plain_http;
  const char *ca_file;
  gboolean insecure_skip_verify;
  const char *username, *password; /* both or none */
  guint n_parallel;                /* connections for read_chunks and pushing frames; 0: 4 */
  const char *resume_dir;          /* where sessions of interrupted pushes are remembered; NULL: not there */
  const PushNotes *notes;          /* where else; wins over the directory. Borrowed as long as the repository lives */
  gboolean plain_oci;              /* never use the chunk wire, even where it is offered */
  gint64 no_progress_timeout_ms;   /* 0: 120 s without a byte in either direction */
  gint64 retry_base_ms; /* 0: 250; the pause before a second attempt, doubled with each further one up to 10 s */
} RegistryConfig;

/* Follows `WWW-Authenticate` Basic and Bearer (token service) challenges; a token service must be on the
 * registry's own host or https on its registrable domain, and gets the credentials only then. */
Repository *repository_remote_new (const RegistryConfig *config, const char *name, GError **error);
