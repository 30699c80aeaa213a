#include "cli/exit_status.h"

#include "cli/option.h"

#define GO_ON "run the same command again: transfers with a registry go on where they stopped"
#define MEND "publish the model again, or copy it from another place into the store that is damaged"

const ExitStatus exit_statuses[] = {
  { 0, "done" },
  { 1, "a fault in the program or the system" },
  { EXIT_STATUS_USAGE, "wrong use of the command line" },
  { 3, "the model, the archive, the artifact or the target directory is not acceptable" },
  { 4, "the model, the repository or a file was not found" },
  { 5, "not allowed: permissions, credentials, a read-only file system" },
  { 6, "no room: disk full, a limit or a quota reached" },
  { 7, "damaged data: bytes that do not match their digest" },
  { 8, "the registry or the hub cannot be reached or took too long; trying again may help" },
  { 130, "interrupted" },
};
const gsize n_exit_statuses = G_N_ELEMENTS (exit_statuses);

static const struct {
  const char *reason; /* NULL: any */
  AmErrorCode code;   /* 0: any */
  const char *remedy;
} remedies[] = {
  { "InsufficientStorage", 0, "free some space there, or choose a place with more of it" },
  { "ReadOnlyStorage", 0, "choose a place that can be written to" },
  { "ChunkMissing", 0, MEND },
  { "CHUNK_UNKNOWN", 0, MEND },
  { "ChunkCorrupt", 0, MEND "; `ai-models verify` lists the damage" },
  { "LfsPointer", 0, "fetch the real files first: git lfs pull" },
  { "MANIFEST_UNKNOWN", 0, "`ai-models list` shows what there is" },
  { "NAME_UNKNOWN", 0, "`ai-models list` shows what there is" },
  { "DirectoryInUse", 0, "choose another directory, or replace it with --force" },
  { "GrantExpired", 0, NULL },
  { "RegistryAway", 0, NULL },
  { "VolumeStale", 0, NULL },
  { "ProxyLogin", 0, NULL }, /* their messages say it */
  { "ProxyRefused", 0, NULL },
  { "HubUnauthorized", 0, NULL },
  { "HubGated", 0, NULL },
  { "HubRateLimited", 0, NULL },
  { "SourceCorrupt", 0, "the damage is at the source: tell its owner, or choose another revision" },
  { NULL, AM_ERROR_UNAUTHENTICATED,
    "give --username with --password-stdin or --password-file, or put the login into ~/.docker/config.json" },
  { NULL, AM_ERROR_UNAVAILABLE, GO_ON },
  { NULL, AM_ERROR_DEADLINE_EXCEEDED, GO_ON },
  { NULL, AM_ERROR_CANCELLED, GO_ON },
};

int
exit_status_of (const GError *error)
{
  if (error == NULL)
    return 0;
  if (am_error_has_reason (error, CLI_USAGE))
    return EXIT_STATUS_USAGE;
  return am_error_info_of (error)->exit_status;
}

const char *
exit_remedy_of (const GError *error)
{
  for (gsize i = 0; i < G_N_ELEMENTS (remedies); i++)
    {
      gboolean same_reason = remedies[i].reason == NULL || am_error_has_reason (error, remedies[i].reason);
      gboolean same_code = remedies[i].code == 0 || am_error_is (error, remedies[i].code);
      if (same_reason && same_code)
        return remedies[i].remedy;
    }
  return NULL;
}
